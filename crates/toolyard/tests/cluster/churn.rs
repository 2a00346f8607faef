//! Apps, instances and nodes that are killed and started again at random, while clients call through all nodes: every
//! request has one answer, no call is carried out twice, and a program has one owner at any time.
//!
//! `TOOLYARD_CHURN_SECONDS=120` makes it longer.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::json;

use super::apps::Mortal;
use super::attempt::attempt;
use super::nats::free_port;
use super::tenures::{Kills, check_acts, check_tenures, now, tenures};
use super::world::{Setup, World, eventually};

const NODES: [&str; 3] = ["a", "b", "c"];
const CALLERS: u64 = 4;
/// The churn goes on until so many nodes were killed.
const FEWEST_KILLS: usize = 3;

/// Numbers without a pattern, the same for the same seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// An app or an instance, with every process that ever had its name.
struct Role {
    name: String,
    node: usize,
    is_app: bool,
    living: Option<Mortal>,
    pids: BTreeSet<u32>,
}

/// What callers and chaos share.
struct Stage {
    ports: [u16; 3],
    roles: Mutex<Vec<Role>>,
    next: AtomicU64,
    is_over: AtomicBool,
}

#[derive(Debug, Default)]
struct Tally {
    answered: usize,
    refused: usize,
    unanswered: usize,
    /// The numbers that were answered as carried out.
    added: BTreeSet<u64>,
}

#[test]
fn churn_with_killed_nodes_leaves_one_answer_per_call_and_one_owner_per_id() {
    let seconds =
        std::env::var("TOOLYARD_CHURN_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(12);
    churn(World::new(), "", seconds);
}

/// Nodes with more keys of `[cluster]`, over NATS servers of which one at a time may be away if there are three.
pub(crate) fn churn(mut world: World, cluster: &'static str, seconds: u64) {
    let app_ports = [free_port(), free_port(), free_port()];
    let ports = [free_port(), free_port(), free_port()];
    let setup = |at: usize| Setup {
        upstreams: &["both"],
        apps: Some(app_ports[at]),
        port: ports[at],
        cluster,
        ..Setup::default()
    };
    for (at, node) in NODES.into_iter().enumerate() {
        world.start_with(node, setup(at));
    }
    let role = |at: usize| {
        let name = if at < 6 { format!("App{at}") } else { format!("Inst{at}") };
        Role { name, node: at % 3, is_app: at < 6, living: None, pids: BTreeSet::new() }
    };
    let roles = Mutex::new((0..9).map(role).collect());
    let stage = Arc::new(Stage { ports, roles, next: AtomicU64::new(1), is_over: AtomicBool::new(false) });
    stage.all_live(&world, app_ports);
    stage.wait_until_complete(&world);
    let callers: Vec<_> = (1..=CALLERS).map(|seed| stage.caller(seed)).collect();
    let mut chance = Chance(u64::from(std::process::id()) | 1);
    let (until, mut kills) = (Instant::now() + Duration::from_secs(seconds), Kills::new());
    while Instant::now() < until || kills.len() < FEWEST_KILLS {
        std::thread::sleep(Duration::from_millis(chance.below(500)));
        stage.something_happens(&world, app_ports, &mut chance);
        if chance.below(8) == 0 {
            let at = usize::try_from(chance.below(3)).unwrap();
            kills.push((NODES[at], now()));
            world.kill(NODES[at]);
            let has_more_nats = world.nats.count() > 1;
            if has_more_nats {
                world.nats.kill(at);
            }
            std::thread::sleep(Duration::from_millis(chance.below(1500)));
            if has_more_nats {
                world.nats.start(at);
            }
            world.start_with(NODES[at], setup(at));
        }
    }
    stage.is_over.store(true, Ordering::SeqCst);
    let tallies: Vec<Tally> = callers.into_iter().map(|caller| caller.join().unwrap()).collect();
    stage.all_live(&world, app_ports);
    let start = Instant::now();
    stage.wait_until_complete(&world);
    for tally in &tallies {
        let Tally { answered, refused, unanswered, added } = tally;
        println!(
            "{answered} answered, {refused} refused, {unanswered} lost with their node, {} added",
            added.len()
        );
    }
    println!("{} nodes killed; complete again {:?} after the end", kills.len(), start.elapsed());
    assert!(tallies.iter().map(|tally| tally.answered).sum::<usize>() > 50, "{tallies:?}");
    check_calls(&world, &tallies);
    let all = tenures(&world, &NODES, &kills);
    check_tenures(&all);
    check_acts(&all["both"], &world.acts("both"));
    let owned =
        |prefix: &str| all.iter().filter(|(id, _)| id.starts_with(prefix)).flat_map(|(_, own)| own).count();
    let (programs, apps, instances) = (owned("both"), owned("App"), owned("Inst"));
    println!(
        "tenures one after the other: {programs} of the program, {apps} of apps, {instances} of instances"
    );
    assert!(apps > 6 && instances > 3, "no app or instance had a second owner: {all:?}");
}

/// No number was added twice, none that was answered is missing, and no process that was replaced served again.
fn check_calls(world: &World, tallies: &[Tally]) {
    let (mut seen, mut processes) = (BTreeSet::new(), Vec::new());
    for (process, arguments) in world.calls("both") {
        let number = arguments["number"].as_u64().unwrap();
        assert!(seen.insert(number), "{number} was added twice");
        if processes.last() != Some(&process) {
            assert!(!processes.contains(&process), "{process} served after it was replaced: {processes:?}");
            processes.push(process);
        }
    }
    let answered: BTreeSet<u64> = tallies.iter().flat_map(|tally| tally.added.iter().copied()).collect();
    assert!(answered.is_subset(&seen), "answered and not carried out: {:?}", answered.difference(&seen));
    println!("{} numbers added, by {} processes one after the other", seen.len(), processes.len());
}

impl Stage {
    fn all_live(&self, world: &World, app_ports: [u16; 3]) {
        for role in self.roles.lock().iter_mut().filter(|role| role.living.is_none()) {
            role.start(world, app_ports);
        }
    }

    fn something_happens(&self, world: &World, app_ports: [u16; 3], chance: &mut Chance) {
        let mut roles = self.roles.lock();
        let count = roles.len() as u64;
        let role = &mut roles[usize::try_from(chance.below(count)).unwrap()];
        if role.living.take().is_none() || chance.below(2) == 0 {
            role.start(world, app_ports);
        }
    }

    /// Once every name leads to the process that has it now, at every node.
    fn wait_until_complete(&self, world: &World) {
        let roles = self.roles.lock();
        for node in NODES {
            for role in roles.iter() {
                let expected = format!("{} {} hi", role.name, role.living.as_ref().unwrap().pid());
                let mut last = None;
                eventually(&format!("{expected} at {node}"), || {
                    let answer =
                        world.node(node).call(&format!("{}__who", role.name), &json!({ "word": "hi" }));
                    let is_right = answer.as_ref() == Ok(&expected);
                    last = Some(answer);
                    is_right.then_some(())
                });
            }
        }
    }

    fn caller(self: &Arc<Self>, seed: u64) -> std::thread::JoinHandle<Tally> {
        let stage = self.clone();
        std::thread::spawn(move || {
            let (mut chance, mut tally) = (Chance(seed * 7919), Tally::default());
            while !stage.is_over.load(Ordering::SeqCst) {
                stage.one_call(&mut chance, &mut tally);
            }
            tally
        })
    }

    fn one_call(&self, chance: &mut Chance, tally: &mut Tally) {
        let port = self.ports[usize::try_from(chance.below(3)).unwrap()];
        let number = self.next.fetch_add(1, Ordering::SeqCst);
        let target = usize::try_from(chance.below(12)).unwrap();
        let name = self.roles.lock().get(target).map(|role| role.name.clone());
        let (tool, arguments) = match &name {
            Some(name) => (format!("{name}__who"), json!({ "word": number.to_string() })),
            None => ("both__add".to_owned(), json!({ "number": number })),
        };
        match attempt(port, &tool, &arguments) {
            None => tally.unanswered += 1,
            Some(Err(_)) => tally.refused += 1,
            Some(Ok(text)) => {
                tally.answered += 1;
                let Some(name) = name else {
                    tally.added.insert(number);
                    return;
                };
                let pid = text
                    .strip_prefix(&format!("{name} "))
                    .and_then(|rest| rest.strip_suffix(&format!(" {number}")));
                let pid = pid
                    .unwrap_or_else(|| panic!("{name} was asked for {number}, got {text}"))
                    .parse()
                    .unwrap();
                let roles = self.roles.lock();
                assert!(roles[target].pids.contains(&pid), "{text} is of another process");
            }
        }
    }
}

impl Role {
    fn start(&mut self, world: &World, app_ports: [u16; 3]) {
        let born = if self.is_app {
            Mortal::app(app_ports[self.node], &self.name)
        } else {
            Mortal::instance(&world.path(NODES[self.node]), &self.name)
        };
        self.pids.insert(born.pid());
        self.living = Some(born);
    }
}
