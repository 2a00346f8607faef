//! What a client sees while a provider sends nothing. The gateway ends a call that makes no progress.

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use toolyard_tool::{Server, ToolSet};

use super::*;
use crate::tools::ask::ask_model;

/// Calls `ask_model` over the protocol; returns the times at which messages came, the answer last, and the answer.
async fn ask_over_the_protocol(bench: Bench) -> (Vec<Duration>, Vec<String>, Value) {
    let begun = Instant::now();
    let models = Arc::into_inner(bench.models).unwrap();
    let set = ToolSet::new("test", "1").state(models).with::<ask_model>();
    let server = Server::start(set, []).await.unwrap();
    let (client, far_end) = tokio::io::duplex(1 << 16);
    let (read, write) = tokio::io::split(far_end);
    let (answers, mut requests) = tokio::io::split(client);
    let asking = async {
        let about = json!({ "name": "test", "version": "1" });
        let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": about });
        let call = json!({
            "name": "ask_model",
            "arguments": { "prompt": "the prompt", "model": "gemini-3-flash" },
            "_meta": { "progressToken": "p" },
        });
        for (id, method, params) in [(1, "initialize", hello), (2, "tools/call", call)] {
            let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
            requests.write_all(format!("{request}\n").as_bytes()).await.unwrap();
        }
        let (mut times, mut notes) = (Vec::new(), Vec::new());
        let mut lines = BufReader::new(answers).lines();
        loop {
            let line = lines.next_line().await.unwrap().unwrap();
            let message: Value = serde_json::from_str(&line).unwrap();
            times.push(begun.elapsed());
            notes.extend(message["params"]["message"].as_str().map(str::to_owned));
            if message["id"] == 2 {
                return (times, notes, message["result"].clone());
            }
        }
    };
    tokio::select! {
        () = server.serve_stream(read, write) => panic!("the server ended before it answered"),
        seen = asking => seen,
    }
}

fn longest_silence(times: &[Duration]) -> Duration {
    times.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).max().unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn a_provider_may_be_silent_for_as_long_as_the_config_allows_since_the_call_shows_that_it_waits() {
    let keys = config(json!({ "timeout": 900 }));
    let late = Does::Say("late", Duration::from_mins(14));
    let bench = Bench::with(keys, [late], |_, input| Verdict::Continue(input));
    let (times, notes, answer) = ask_over_the_protocol(bench).await;
    assert_eq!(answer["structuredContent"]["text"], "late", "{answer}");
    assert!(*times.last().unwrap() >= Duration::from_mins(14));
    assert!(longest_silence(&times) < crate::IDLE / 2, "{times:?}");
    assert_eq!(notes[0], "waiting for `gemini-3-flash`: nothing received for 30 s");
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_stops_in_the_middle_is_given_up_after_the_configured_time_and_not_before() {
    let keys = config(json!({ "timeout": 600 }));
    let bench =
        Bench::with(keys, [Does::Hang(gemini_events("half of"))], |_, input| Verdict::Continue(input));
    let (times, _, answer) = ask_over_the_protocol(bench).await;
    assert_eq!(answer["isError"], true, "{answer}");
    assert!(*times.last().unwrap() >= Duration::from_mins(10), "{times:?}");
    assert!(longest_silence(&times) < crate::IDLE / 2, "{times:?}");
}
