//! Claude Code, Codex, Gemini CLI and OpenCode as agents of the gateway, in front of a model on this machine.
//! `cargo xtask agents` installs them and runs these tests.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]
#![expect(clippy::print_stdout, reason = "it prints how long a cancel took")]

mod scene;
#[expect(dead_code, reason = "shared with the tests of the command line, which use all of it")]
#[path = "../cli/http.rs"]
mod http;
#[expect(dead_code, reason = "shared with other tests, which use all of it")]
#[path = "../life/yard.rs"]
mod yard;

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use scene::{PROGRAMS, Scene};
use yard::{none, within};

/// A program starts slowly on a machine that is busy.
const PATIENCE: Duration = Duration::from_mins(3);

#[test]
#[ignore = "needs the agents that `cargo xtask agents` installs"]
fn every_program_runs_shows_its_progress_and_leaves_its_session() {
    let scene = Scene::new();
    let gateway = scene.yard.start();
    let runs: Vec<(&str, String)> = PROGRAMS
        .iter()
        .map(|program| (*program, scene.spawn(&gateway, program, "PLEASE-TAKE-STEPS")))
        .collect();
    for (program, id) in &runs {
        within(PATIENCE, "live progress", || {
            let progress = scene.call(&gateway, "agent_progress", &json!({ "task_id": id }));
            let lines = progress["structuredContent"]["lines"].to_string();
            assert!(!lines.contains("hello from the model"), "{program}: {progress}");
            let is_live =
                lines.contains("working on it") && progress["structuredContent"]["status"] == "running";
            is_live.then_some(()).ok_or_else(|| format!("{program}: {progress}"))
        });
    }
    scene.go();
    for (program, id) in &runs {
        let run = scene.ended(&gateway, id);
        assert_eq!(run["status"], "completed", "{program}: {run}");
        assert!(run["result"].as_str().unwrap().contains("hello from the model"), "{program}: {run}");
    }
    // What the programs have written is found in their own formats.
    for program in ["claude", "codex", "gemini"] {
        let listed = scene.session_call(&gateway, "session_list", &json!({ "limit": 50 }));
        assert!(listed.to_string().contains(&format!("\"{program}\"")), "{program}: {listed}");
    }
    let found =
        scene.session_call(&gateway, "session_search", &json!({ "query": "PLEASE-TAKE-STEPS", "limit": 50 }));
    for program in ["claude", "codex", "gemini"] {
        assert!(found.to_string().contains(&format!("\"{program}\"")), "{program}: {found}");
    }
}

#[test]
#[ignore = "needs the agents that `cargo xtask agents` installs"]
fn the_parent_answers_the_questions_of_programs_that_ask() {
    let scene = Scene::new();
    let gateway = scene.yard.start();
    for (program, is_allowed) in [("gemini", true), ("opencode", true), ("gemini", false)] {
        let _ = std::fs::remove_file(scene.touched());
        let id = scene.spawn(&gateway, program, "PLEASE-TOUCH");
        within(PATIENCE, "a question", || {
            let progress = scene.call(&gateway, "agent_progress", &json!({ "task_id": id }));
            progress.to_string().contains("[asks]").then_some(()).ok_or_else(|| progress.to_string())
        });
        assert!(!scene.touched().exists(), "{program} waits for the answer");
        scene.answer(&gateway, &id, is_allowed);
        let run = scene.ended(&gateway, &id);
        assert_eq!(scene.touched().exists(), is_allowed, "{program}: {run}");
    }
}

#[test]
#[ignore = "needs the agents that `cargo xtask agents` installs"]
fn the_parent_answers_the_questions_of_programs_behind_adapters() {
    let scene = Scene::new();
    let gateway = scene.yard.start();
    for (kind, is_allowed) in
        [("claude-acp", true), ("codex-acp", true), ("claude-acp", false), ("codex-acp", false)]
    {
        let _ = std::fs::remove_file(scene.touched());
        let id = scene.spawn(&gateway, kind, "PLEASE-TOUCH");
        within(PATIENCE, "a question", || {
            let progress = scene.call(&gateway, "agent_progress", &json!({ "task_id": id }));
            progress.to_string().contains("[asks]").then_some(()).ok_or_else(|| progress.to_string())
        });
        assert!(!scene.touched().exists(), "{kind} waits for the answer");
        scene.answer(&gateway, &id, is_allowed);
        let run = scene.ended(&gateway, &id);
        assert_eq!(scene.touched().exists(), is_allowed, "{kind}: {run}");
    }
}

#[test]
#[ignore = "needs the agents that `cargo xtask agents` installs"]
fn every_program_calls_a_tool_of_this_gateway_and_gets_its_result() {
    let scene = Scene::new();
    let gateway = scene.yard.start();
    // The SHA-256 checksum of `abc`, which no program knows without the tool.
    let digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    for program in PROGRAMS {
        let id = scene.spawn(&gateway, &format!("{program}-with-tools"), "PLEASE-HASH");
        let questions = scene.answer_until_ended(&gateway, &id, true);
        let run = scene.ended(&gateway, &id);
        assert_eq!(run["status"], "completed", "{program}: {run}");
        let expected = format!("the tool returned {digest}");
        assert!(run["result"].as_str().unwrap().contains(&expected), "{program}: {run}");
        println!("{program}: {questions} questions before the tool ran");
    }
}

#[test]
#[ignore = "needs the agents that `cargo xtask agents` installs"]
fn a_cancel_ends_the_commands_that_a_program_runs() {
    let scene = Scene::new();
    let gateway = scene.yard.start();
    for program in PROGRAMS {
        let before: Vec<i32> = scene.yard.processes().iter().map(|process| process.id).collect();
        let id = scene.spawn(&gateway, program, "PLEASE-SLEEP");
        std::thread::scope(|threads| {
            threads.spawn(|| scene.answer_until_ended(&gateway, &id, true));
            let started = within(PATIENCE, "the command of the agent", || {
                let mut started = scene.yard.processes();
                started.retain(|process| !before.contains(&process.id));
                let words = |id: i32| std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
                let is_there = started.iter().any(|process| words(process.id) == b"sleep\x00600\x00");
                if is_there { Ok(started) } else { Err(format!("{program}: {} processes", started.len())) }
            });
            assert!(started.len() >= 2, "{program} and its command");
            let begun = Instant::now();
            scene.call(&gateway, "agent_cancel", &json!({ "task_id": id }));
            within(Duration::from_secs(5), "the end of all processes", || {
                none(&scene.yard.left_of(&started))
            });
            let took = begun.elapsed();
            assert!(took < Duration::from_secs(1), "{program}: {took:?} for {} processes", started.len());
            println!("{program}: {} processes, with `sleep 600`, ended in {took:?}", started.len());
        });
    }
}

#[test]
#[ignore = "needs the agents that `cargo xtask agents` installs"]
fn a_cancel_ends_all_processes_within_a_second_and_a_retry_starts_again() {
    let scene = Scene::new();
    let gateway = scene.yard.start();
    for program in PROGRAMS {
        let before: Vec<i32> = scene.yard.processes().iter().map(|process| process.id).collect();
        let id = scene.spawn(&gateway, program, "PLEASE-WAIT");
        scene.wait_for_request();
        let started = scene.yard.processes();
        let started: Vec<_> = started.into_iter().filter(|process| !before.contains(&process.id)).collect();
        assert!(!started.is_empty(), "{program} runs");
        let begun = Instant::now();
        let run = scene.call(&gateway, "agent_cancel", &json!({ "task_id": id }));
        within(Duration::from_secs(5), "the end of all processes", || none(&scene.yard.left_of(&started)));
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(1), "{program}: {took:?} for {} processes", started.len());
        assert_eq!(run["structuredContent"]["status"], "cancelled", "{program}: {run}");
        println!("{program}: {} processes ended in {took:?}", started.len());
    }
    scene.go();
    let listed = scene.call(&gateway, "agent_list", &json!({}));
    let runs = listed["structuredContent"]["result"].as_array().unwrap().clone();
    assert_eq!(runs.len(), PROGRAMS.len());
    for run in &runs {
        let again = scene.call(&gateway, "agent_retry", &json!({ "task_id": run["id"] }));
        let id = again["structuredContent"]["id"].as_str().unwrap_or_else(|| panic!("{again}"));
        let ended = scene.ended(&gateway, id);
        assert_eq!(ended["status"], "completed", "{}: {ended}", run["agent_type"]);
    }
}

#[test]
#[ignore = "needs the agents that `cargo xtask agents` installs"]
fn a_killed_gateway_leaves_no_process_and_its_successor_has_every_run() {
    let scene = Scene::new();
    let gateway = scene.yard.start();
    let done = scene.spawn(&gateway, "codex", "Say hello");
    assert_eq!(scene.ended(&gateway, &done)["status"], "completed");
    let running = scene.spawn(&gateway, "claude", "PLEASE-WAIT");
    scene.wait_for_request();
    let asking = scene.spawn(&gateway, "gemini", "PLEASE-TOUCH");
    within(PATIENCE, "a question", || {
        let progress = scene.call(&gateway, "agent_progress", &json!({ "task_id": asking }));
        progress.to_string().contains("[asks]").then_some(()).ok_or_else(|| progress.to_string())
    });
    let cancelled = scene.spawn(&gateway, "codex", "PLEASE-WAIT");
    scene.call(&gateway, "agent_cancel", &json!({ "task_id": cancelled }));
    let writing = scene.spawn(&gateway, "writer", "PLEASE-WAIT");
    scene.wait_for_request();
    let all = scene.yard.processes();
    gateway.signal(Signal::SIGKILL);
    within(Duration::from_secs(20), "the end of all processes", || none(&scene.yard.left_of(&all)));
    drop(gateway);

    let gateway = scene.yard.start();
    let run = |id: &str| {
        scene.call(&gateway, "agent_output", &json!({ "task_id": id }))["structuredContent"].clone()
    };
    assert_eq!(run(&done)["status"], "completed");
    assert_eq!(run(&cancelled)["status"], "cancelled");
    for id in [&running, &asking, &writing] {
        let run = run(id);
        assert_eq!(run["status"], "failed", "{run}");
        assert!(run["error"].as_str().unwrap().contains("gateway"), "{run}");
    }
    assert!(!scene.touched().exists(), "what was asked for is not done");
    within(PATIENCE, "the end of the worktree", || {
        let count = scene.worktrees();
        if count == 1 { Ok(()) } else { Err(format!("{count} worktrees")) }
    });
    assert_eq!(scene.changes(), "", "the project is as it was");
    // A run that has failed is run again.
    scene.go();
    let again = scene.call(&gateway, "agent_retry", &json!({ "task_id": running }));
    let id = again["structuredContent"]["id"].as_str().unwrap_or_else(|| panic!("{again}"));
    assert_eq!(scene.ended(&gateway, id)["status"], "completed");
}

#[test]
#[ignore = "needs the agents that `cargo xtask agents` installs"]
fn a_writer_works_in_a_worktree_that_is_gone_if_nothing_was_changed() {
    let scene = Scene::new();
    let gateway = scene.yard.start();
    let id = scene.spawn(&gateway, "writer", "Say hello");
    let run: Value = scene.ended(&gateway, &id);
    assert_eq!(run["status"], "completed", "{run}");
    assert_eq!(run.get("worktree").filter(|path| !path.is_null()), None, "{run}");
    assert_eq!(scene.worktrees(), 1, "only the project itself");
    assert_eq!(scene.changes(), "", "the project is as it was");
}

#[test]
#[ignore = "needs the agents that `cargo xtask agents` installs"]
fn what_programs_wrote_is_read_and_blamed_in_their_own_formats_also_of_a_sub_agent() {
    let scene = Scene::new();
    let gateway = scene.yard.start();
    for (kind, prompt, program, writer) in [
        ("claude-here", "PLEASE-WRITE", "claude", "claude"),
        ("codex-here", "PLEASE-WRITE", "codex", "codex"),
        ("gemini", "PLEASE-WRITE", "gemini", "gemini"),
        ("claude-here", "PLEASE-DELEGATE", "claude", "sub-agent"),
    ] {
        let id = scene.spawn(&gateway, kind, prompt);
        scene.answer_until_ended(&gateway, &id, true);
        let run = scene.ended(&gateway, &id);
        assert_eq!(run["status"], "completed", "{writer}: {run}");
        let file = scene.in_project(&format!("by-{writer}.txt"));
        let line = format!("a whole line by {writer}\n");
        assert_eq!(std::fs::read_to_string(&file).ok(), Some(line), "{writer}: {run}");
        let blamed = scene.session_call(&gateway, "session_blame", &json!({ "path": file }));
        let writers = blamed["structuredContent"]["result"].as_array().unwrap();
        assert_eq!(writers.len(), 1, "{writer}: {blamed}");
        assert_eq!((&writers[0]["session"]["program"], &writers[0]["lines"]), (&json!(program), &json!([1])));
        let session = &writers[0]["session"]["id"];
        let read = scene.session_call(&gateway, "session_read", &json!({ "session_id": session }));
        let read = &read["structuredContent"];
        let messages: Vec<(&str, &str)> = read["messages"]
            .as_array()
            .unwrap()
            .iter()
            .map(|message| (message["role"].as_str().unwrap(), message["text"].as_str().unwrap()))
            .collect();
        let is_there = |words: &str| messages.iter().any(|(_, text)| text.contains(words));
        assert!(is_there(prompt) && is_there("working on it"), "{writer}: {messages:?}");
        assert!(messages.last().unwrap().1.contains("hello from the model"), "{writer}: {messages:?}");
        println!("{writer}: {} messages, {} lines not understood", messages.len(), read["skipped"]);
    }
    let query = json!({ "query": "PLEASE-WRITE as a sub-agent" });
    let found = scene.session_call(&gateway, "session_search", &query);
    let hits = found["structuredContent"]["result"].as_array().unwrap();
    assert!(hits.iter().any(|hit| hit["agent"].is_string()), "{found}");
}

#[test]
#[ignore = "needs the agents that `cargo xtask agents` installs"]
fn a_program_starts_an_agent_with_its_own_token_and_that_one_may_start_none() {
    let scene = Scene::new();
    let gateway = scene.yard.start();
    let id = scene.spawn(&gateway, "lead", "PLEASE-SPAWN an agent");
    let run = scene.ended(&gateway, &id);
    assert_eq!(run["status"], "completed", "{run}");
    // The gateway reported it to the agent of the agent, whose answer was reported to the first one.
    let expected = "reported: reported: agents are nested 2 deep, which is the limit";
    assert!(run["result"].as_str().unwrap().contains(expected), "{run}");
}
