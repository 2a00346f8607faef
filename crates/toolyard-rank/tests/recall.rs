//! How often the right tool is found: tasks in plain words over the definitions of real servers. All tasks were
//! labelled before the ranking was tuned with those of `tasks.tsv`. Those of `held_out.tsv` are only counted: which of
//! them fail is not printed.

#![expect(clippy::unwrap_used, reason = "in a test, to fail is to say so")]

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Deserialize;
use toolyard_rank::tools::{ToolIndex, ToolText};

const DEFINITIONS: &str = include_str!("recall/definitions.json");
const TASKS: &str = include_str!("recall/tasks.tsv");
const GUIDE: &str = include_str!("../../../docs/guide/lean.md");
const HELD_OUT: &str = include_str!("recall/held_out.tsv");

#[derive(Deserialize)]
struct Server {
    #[serde(rename = "server")]
    id: String,
    licence: String,
    tools: Vec<Tool>,
}

#[derive(Deserialize)]
struct Tool {
    name: String,
    #[serde(default)]
    title: String,
    description: String,
    parameters: BTreeMap<String, String>,
    /// The length of the whole definition as the server sends it, with its schemas.
    bytes: u64,
}

/// What is to be done, and the tools that can do it.
struct Task {
    query: &'static str,
    right: Vec<&'static str>,
}

fn servers() -> Vec<Server> {
    serde_json::from_str(DEFINITIONS).unwrap()
}

fn tasks(lines: &'static str) -> Vec<Task> {
    let task = |line: &'static str| {
        let (query, right) = line.split_once('\t').unwrap();
        Task { query, right: right.split(' ').collect() }
    };
    lines.lines().map(task).collect()
}

fn texts() -> Vec<ToolText> {
    let of_server = |server: Server| {
        let id = server.id;
        server.tools.into_iter().map(move |tool| ToolText {
            id: format!("{id}:{}", tool.name),
            title: tool.title,
            description: tool.description,
            parameters: tool.parameters.into_iter().collect(),
        })
    };
    servers().into_iter().flat_map(of_server).collect()
}

#[derive(Default)]
struct Recall {
    tasks: usize,
    first: usize,
    in_five: usize,
    missed: String,
}

impl Recall {
    fn at_1(&self) -> f64 {
        share(self.first, self.tasks)
    }

    fn at_5(&self) -> f64 {
        share(self.in_five, self.tasks)
    }
}

fn share(part: usize, all: usize) -> f64 {
    f64::from(u32::try_from(part).unwrap()) / f64::from(u32::try_from(all).unwrap())
}

fn measured(lines: &'static str) -> Recall {
    let texts = texts();
    let ids: Vec<String> = texts.iter().map(|text| text.id.clone()).collect();
    let index = ToolIndex::new(texts);
    let mut recall = Recall::default();
    for task in tasks(lines) {
        let ranked = index.ranked(task.query);
        let best: Vec<&str> = ranked.iter().take(5).map(|place| ids[*place].as_str()).collect();
        let rank = best.iter().position(|id| task.right.contains(id));
        recall.tasks += 1;
        recall.first += usize::from(rank == Some(0));
        recall.in_five += usize::from(rank.is_some());
        if rank != Some(0) {
            let _ = writeln!(recall.missed, "{:?} wants {:?}, found {best:?}", task.query, task.right);
        }
    }
    recall
}

fn check(recall: &Recall, missed: &str) {
    let (at_1, at_5) = (recall.at_1(), recall.at_5());
    let figures = format!("{} tasks: recall@1 {at_1:.3}, recall@5 {at_5:.3}", recall.tasks);
    assert!(at_5 >= 0.90 && at_1 >= 0.70, "{figures}\n{missed}");
    print(&format!("{figures}\n{missed}"));
}

#[expect(clippy::print_stdout, reason = "figures for people")]
fn print(text: &str) {
    println!("{text}");
}

#[test]
fn the_right_tool_is_found_for_tasks_that_were_never_tuned_for() {
    check(&measured(HELD_OUT), "");
}

#[test]
fn the_right_tool_is_found_for_the_tasks_of_the_tuning() {
    let recall = measured(TASKS);
    check(&recall, &recall.missed);
}

#[test]
fn the_guide_has_the_measured_sizes_and_shares() {
    let servers = servers();
    let bytes: Vec<u64> = servers.iter().flat_map(|server| &server.tools).map(|tool| tool.bytes).collect();
    let (all, tools) = (bytes.iter().sum::<u64>(), u64::try_from(bytes.len()).unwrap());
    let kilobytes = |bytes: u64| (bytes + 500) / 1_000;
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let mut lines = vec![
        format!("{} published servers with {tools} tools", servers.len()),
        format!("| `tools/list` | {} KB |", kilobytes(all)),
        format!("| one search: five definitions of average size | – | {} KB |", kilobytes(all * 5 / tools)),
    ];
    for (tasks, is_tuned) in [(TASKS, "yes"), (HELD_OUT, "no")] {
        let recall = measured(tasks);
        let (first, in_five) = (percent(recall.at_1()), percent(recall.at_5()));
        lines.push(format!("| {} | {is_tuned} | {first} | {in_five} |", recall.tasks));
    }
    for line in lines {
        assert!(GUIDE.contains(&line), "docs/guide/lean.md has no {line:?}");
    }
}

#[test]
fn there_are_enough_tasks_and_servers_and_every_label_is_a_tool() {
    let (servers, mut tasks) = (servers(), tasks(TASKS));
    tasks.extend(self::tasks(HELD_OUT));
    let ids: Vec<String> = texts().into_iter().map(|text| text.id).collect();
    assert!(servers.len() >= 20 && tasks.len() >= 120);
    assert!(servers.iter().all(|server| !server.licence.is_empty()));
    for task in &tasks {
        assert!(task.right.iter().all(|id| ids.iter().any(|known| known == id)), "{:?}", task.right);
    }
}
