//! Five hundred reloads while clients call: no call is lost, and nothing piles up.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::json;

use crate::gateway::Home;
use crate::{http, program, yard};

const RELOADS: usize = 500;
/// After so many, memory has settled.
const WARM: usize = 150;
/// Kilobytes that may come and go.
const SLACK: u64 = 20_000;

/// One upstream that stays as it is, and one whose definition is another each time.
fn config(round: usize) -> String {
    let run =
        format!("command = {:?}\nargs = [\"good\", \"legacy\", \"stdio\"]\nera = \"legacy\"\n", program());
    format!("[upstreams.steady]\n{run}[upstreams.moving]\n{run}env = {{ ROUND = \"{round}\" }}\n")
}

fn go(url: &str, upstream: &str) -> Result<(), String> {
    let call = json!({ "name": format!("{upstream}__go"), "arguments": {} });
    let message = http::read(http::modern(url, "tools/call", call)).message();
    let is_well = message["result"]["content"][0]["text"] == "well" && message["result"]["isError"] != true;
    if is_well { Ok(()) } else { Err(format!("{upstream}: {message}")) }
}

/// Resident kilobytes, and children.
fn usage(process: u32) -> (u64, usize) {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).unwrap().flatten();
    let children = tasks.flat_map(|task| std::fs::read_to_string(task.path().join("children")));
    let children = children.map(|ids| ids.split_whitespace().count()).sum();
    (memory.trim().trim_end_matches(" kB").parse().unwrap(), children)
}

#[test]
fn five_hundred_reloads_under_load_lose_no_call_and_leave_nothing() {
    let home = Home::new();
    home.write("config.toml", &config(0));
    let mut gateway = home.start(&["-v", "--config", "config.toml"]);
    let url = gateway.url.clone();
    for upstream in ["steady", "moving"] {
        go(&url, upstream).unwrap();
    }
    let (done, calls) = (AtomicBool::new(false), AtomicUsize::new(0));
    let mut warm = (0, 0);
    let lost = thread::scope(|scope| {
        let callers: Vec<_> = ["steady", "moving"]
            .map(|upstream| {
                let (url, done, calls) = (&url, &done, &calls);
                scope.spawn(move || {
                    while !done.load(Ordering::Relaxed) {
                        go(url, upstream)?;
                        calls.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok::<(), String>(())
                })
            })
            .into();
        for round in 1..=RELOADS {
            home.write("config.toml", &config(round));
            gateway.signal(Signal::SIGUSR1);
            gateway.wait_for_words("the changed config is applied");
            if round == WARM {
                warm = usage(gateway.id());
            }
        }
        done.store(true, Ordering::Relaxed);
        callers.into_iter().filter_map(|caller| caller.join().unwrap().err()).collect::<Vec<_>>()
    });
    assert_eq!(lost, [] as [&str; 0]);
    go(&url, "moving").unwrap();
    let begun = Instant::now();
    let (mut memory, mut children) = usage(gateway.id());
    while (children > 2 || memory > warm.0 + SLACK) && begun.elapsed() < Duration::from_secs(20) {
        thread::sleep(Duration::from_millis(50));
        (memory, children) = usage(gateway.id());
    }
    println!("{} calls; {} kB after {WARM} reloads, {memory} kB after {RELOADS}", calls.into_inner(), warm.0);
    println!("{}", yard(&url, "status"));
    assert_eq!(children, 2, "the guards of two upstreams");
    assert!(memory <= warm.0 + SLACK, "{memory} kB, and {} kB before", warm.0);
}
