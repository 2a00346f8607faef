//! Thirty-seven servers that each take a long time to start: all come up, and each is started once. And one that is
//! started only when it is needed.
//!
//! `cargo xtask slow-starts` runs it with 12 s each; otherwise each takes one second.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::gateway::{Home, eventually};
use crate::{http, program, yard};

const SERVERS: usize = 37;
/// Seconds that each server needs before it answers its first message.
const VARIABLE: &str = "TOOLYARD_START_SECONDS";
/// At least so many start at a time.
const AT_A_TIME: u32 = 2;

/// A legacy server on stdio that notes each of its starts in a file, and is slow before its first answer.
const SERVER: &str = r#"
echo start >> "starts-$1"
sleep "$2"
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$1" "$2"; }
while read -r line; do
  id=${line##*\"id\":}; id=${id%%[,\}]*}
  case "$line" in
    *'"initialize"'*)
      answer "$id" '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"slow","version":"1"}}' ;;
    *'"tools/list"'*)
      answer "$id" '{"tools":[{"name":"go","inputSchema":{"type":"object"}}]}' ;;
    *'"id"'*)
      printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}\n' "$id" ;;
  esac
done
"#;

#[test]
fn all_of_many_slow_servers_come_up_and_each_is_started_once() {
    let seconds: u32 = std::env::var(VARIABLE).map_or(1, |text| text.parse().unwrap());
    let home = Home::new();
    home.write("slow.sh", SERVER);
    let section = |at| {
        format!("[upstreams.slow{at}]\ncommand = \"sh\"\nargs = [\"slow.sh\", \"{at}\", \"{seconds}\"]\n")
    };
    home.write("config.toml", &(0..SERVERS).map(section).collect::<String>());
    let begun = Instant::now();
    let gateway = home.start(&["--config", "config.toml"]);
    let turns = u32::try_from(SERVERS).unwrap().div_ceil(AT_A_TIME);
    let deadline = begun + Duration::from_secs(30) + turns * Duration::from_secs(seconds.into());
    while active(&gateway.url) < SERVERS {
        assert!(
            Instant::now() < deadline,
            "{} of {SERVERS} after {:?}",
            active(&gateway.url),
            begun.elapsed()
        );
        std::thread::sleep(Duration::from_millis(200));
    }
    println!("{SERVERS} servers that take {seconds} s each were up after {:?}", begun.elapsed());
    for at in 0..SERVERS {
        let starts = std::fs::read_to_string(home.path(&format!("starts-{at}"))).unwrap();
        assert_eq!(starts.lines().count(), 1, "server {at} was started more than once");
    }
}

#[test]
fn a_lazy_server_is_started_by_its_first_call_and_stopped_when_it_is_not_used() {
    let home = Home::new();
    let run = format!("echo $$ >> starts; exec {} good legacy stdio", program());
    home.write(
        "config.toml",
        &format!(
            "[upstreams.slow]\ncommand = \"sh\"\nargs = [\"-c\", {run:?}]\nera = \"legacy\"\nlazy = true\n\
             stop_when_idle = \"1s\"\n"
        ),
    );
    let starts = || -> Vec<String> {
        let starts = std::fs::read_to_string(home.path("starts")).unwrap_or_default();
        starts.lines().map(str::to_owned).collect()
    };
    let is_running = |pid: &str| std::path::Path::new("/proc").join(pid).exists();
    let first = home.start(&["--config", "config.toml"]);
    eventually("its definitions", || (state(&first.url) == "idle").then_some(()));
    assert_eq!(starts().len(), 1, "its tools are not known yet, so it is started at once");
    drop(first);
    let second = home.start(&["--config", "config.toml"]);
    eventually("the state", || (state(&second.url) == "idle").then_some(()));
    assert_eq!(starts().len(), 1, "its tools are known");
    for started in 2..=3 {
        let call = json!({ "name": "slow__go", "arguments": {} });
        let answer = http::read(http::modern(&second.url, "tools/call", call)).message();
        assert_eq!(answer["result"]["content"][0]["text"], "well", "{answer}");
        let all = starts();
        assert_eq!(all.len(), started, "a call starts it");
        eventually("its end", || (!is_running(&all[started - 1])).then_some(()));
        eventually("the state", || (state(&second.url) == "idle").then_some(()));
    }
}

fn state(url: &str) -> String {
    let all = yard(url, "upstreams");
    let mut all = all["upstreams"].as_array().unwrap().iter();
    all.find(|about| about["id"] == "slow").unwrap()["state"].as_str().unwrap().to_owned()
}

fn active(url: &str) -> usize {
    let all = yard(url, "upstreams");
    let all = all["upstreams"].as_array().unwrap().iter();
    all.filter(|about| about["id"].as_str().unwrap().starts_with("slow") && about["state"] == "active")
        .count()
}
