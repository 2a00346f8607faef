//! Thirty-seven servers that each take a long time to start: all come up, and each is started once.
//!
//! `cargo xtask slow-starts` runs it with 12 s each; otherwise each takes one second.

use std::time::{Duration, Instant};

use crate::gateway::Home;
use crate::yard;

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

fn active(url: &str) -> usize {
    let all = yard(url, "upstreams");
    let all = all["upstreams"].as_array().unwrap().iter();
    all.filter(|about| about["id"].as_str().unwrap().starts_with("slow") && about["state"] == "active")
        .count()
}
