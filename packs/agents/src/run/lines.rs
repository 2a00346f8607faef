//! Agents that read their prompt from stdin and write lines: text, or JSON as Claude Code, Codex, Gemini and OpenCode
//! stream it.

use parking_lot::Mutex;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};

use super::{Job, Report, write};
use crate::store::Output;

/// Longer lines are cut.
const MOST_LINE: usize = 4 << 20;
pub(super) const MOST_TEXT: usize = 4 << 20;

pub(super) async fn talk(
    job: &Job,
    mut stdin: impl AsyncWrite + Unpin,
    stdout: impl AsyncRead + Unpin,
    output: &Mutex<Output>,
    report: &Mutex<Report>,
) {
    let prompt = job.prompt();
    let send = async {
        // A program that does not read its prompt reports that itself, or not at all.
        let _ = stdin.write_all(prompt.as_bytes()).await;
        let _ = stdin.shutdown().await;
        drop(stdin);
    };
    let receive = async {
        let mut reader = BufReader::new(stdout);
        let mut line = Vec::new();
        while let Ok(1..) = read_line(&mut reader, &mut line).await {
            let text = String::from_utf8_lossy(&line);
            let shown = take(text.trim_end(), &mut report.lock());
            if let Some(shown) = shown {
                write(output, &shown);
            }
        }
    };
    tokio::join!(send, receive);
}

/// The next line, up to a length; the rest of a longer one is dropped.
pub(super) async fn read_line(
    reader: &mut (impl tokio::io::AsyncBufRead + Unpin),
    line: &mut Vec<u8>,
) -> std::io::Result<usize> {
    line.clear();
    let mut taken = 0;
    loop {
        let available = reader.fill_buf().await?;
        if available.is_empty() {
            return Ok(taken);
        }
        let end = available.iter().position(|byte| *byte == b'\n');
        let count = end.map_or(available.len(), |end| end + 1);
        let room = MOST_LINE.saturating_sub(line.len()).min(count);
        line.extend_from_slice(&available[..room]);
        reader.consume(count);
        taken += count;
        if end.is_some() {
            return Ok(taken);
        }
    }
}

/// Takes a line into the report: what to show of it.
fn take(line: &str, report: &mut Report) -> Option<String> {
    let event = serde_json::from_str::<Value>(line)
        .ok()
        .filter(|event| event.get("type").is_some_and(Value::is_string));
    let Some(event) = event else {
        add(&mut report.text, line);
        return Some(line.to_owned());
    };
    let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).map(ToOwned::to_owned);
    match event["type"].as_str().unwrap_or_default() {
        // Claude Code.
        "assistant" => {
            report.add_message(text("/message/id"), event.pointer("/message/usage"));
            Some(blocks(event.pointer("/message/content")?))
        }
        "result" => {
            let result = text("/result").or_else(|| text("/response"));
            report.cost = event.get("total_cost_usd").and_then(Value::as_f64).or(report.cost);
            if event.get("is_error") == Some(&Value::Bool(true)) {
                report.error = Some(result.clone().unwrap_or_else(|| "the agent reported an error".into()));
            }
            if let Some(result) = result {
                report.text = result;
            }
            None
        }
        // Codex.
        "turn.completed" => {
            report.add_tokens(event.pointer("/usage"), "cached_input_tokens");
            None
        }
        "item.completed" => {
            let words = text("/item/text").or_else(|| text("/item/command"))?;
            if event.pointer("/item/type").and_then(Value::as_str) == Some("agent_message") {
                report.text.clone_from(&words);
            }
            Some(words)
        }
        "turn.failed" | "error" => {
            let message = text("/error/message").or_else(|| text("/message"));
            report.error = Some(message.unwrap_or_else(|| "the agent reported an error".into()));
            report.error.clone()
        }
        // Gemini and OpenCode.
        "message" if event["role"] != "user" => {
            let words = text("/content")?;
            if report.text.len() + words.len() <= MOST_TEXT {
                report.text.push_str(&words);
            }
            Some(words)
        }
        "text" => {
            let words = text("/part/text")?;
            add(&mut report.text, &words);
            Some(words)
        }
        _ => None,
    }
}

/// Text and calls of tools of a message.
fn blocks(content: &Value) -> String {
    let blocks = content.as_array().map(Vec::as_slice).unwrap_or_default();
    let lines = blocks.iter().filter_map(|block| match block["type"].as_str()? {
        "text" => block["text"].as_str().map(ToOwned::to_owned),
        "tool_use" => Some(format!("[{}] {}", block["name"].as_str()?, block["input"])),
        _ => None,
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn add(text: &mut String, line: &str) {
    if text.len() + line.len() < MOST_TEXT {
        text.push_str(line);
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(lines: &[&str]) -> Report {
        let mut report = Report::default();
        for line in lines {
            take(line, &mut report);
        }
        report
    }

    #[test]
    fn the_result_is_read_from_the_stream_of_each_program() {
        let claude = report(&[
            r#"{"type":"system","subtype":"init"}"#,
            r#"{"type":"assistant","message":{"content":[{"type":"text","text":"On it."}]}}"#,
            r#"{"type":"result","is_error":false,"result":"Done.","total_cost_usd":0.25}"#,
        ]);
        assert_eq!((claude.text.as_str(), claude.error, claude.cost), ("Done.", None, Some(0.25)));
        let codex = report(&[
            r#"{"type":"thread.started","thread_id":"x"}"#,
            r#"{"type":"item.completed","item":{"type":"agent_message","text":"Done."}}"#,
            r#"{"type":"turn.completed","usage":{"input_tokens":100,"cached_input_tokens":40,"output_tokens":7}}"#,
        ]);
        assert_eq!(codex.text, "Done.");
        let tokens = crate::config::Tokens { input: 100.0, cached: 40.0, output: 7.0 };
        assert_eq!((codex.cost, codex.tokens), (None, Some(tokens)));
        let plain = report(&["one", "{\"two\": 2}"]);
        assert_eq!(plain.text, "one\n{\"two\": 2}\n");
    }

    #[test]
    fn the_tokens_of_each_message_of_claude_count_once() {
        let block = |id: &str| {
            format!(
                r#"{{"type":"assistant","message":{{"id":"{id}","content":[],
                "usage":{{"input_tokens":10,"cache_read_input_tokens":5,"output_tokens":2}}}}}}"#
            )
        };
        let claude = report(
            &[&block("a"), &block("a"), &block("b")]
                .map(|line| line.replace('\n', ""))
                .each_ref()
                .map(String::as_str),
        );
        assert_eq!(claude.tokens, Some(crate::config::Tokens { input: 30.0, cached: 10.0, output: 4.0 }));
    }

    #[test]
    fn an_error_that_the_program_reports_fails_the_run() {
        let claude = report(&[r#"{"type":"result","is_error":true,"result":"no credit"}"#]);
        assert_eq!(claude.error.as_deref(), Some("no credit"));
        let codex = report(&[r#"{"type":"turn.failed","error":{"message":"no model"}}"#]);
        assert_eq!(codex.error.as_deref(), Some("no model"));
    }

    #[tokio::test]
    async fn a_line_without_end_takes_bounded_memory_and_the_next_line_is_whole() {
        let long = vec![b'x'; MOST_LINE + 5_000_000];
        let text = [&long[..], b"\nnext\n"].concat();
        let (mut reader, mut line) = (BufReader::new(&text[..]), Vec::new());
        assert_eq!(read_line(&mut reader, &mut line).await.unwrap(), long.len() + 1);
        assert_eq!(line.len(), MOST_LINE);
        read_line(&mut reader, &mut line).await.unwrap();
        assert_eq!(line, b"next\n");
        let mut text = String::new();
        for _ in 0..3 {
            add(&mut text, &"y".repeat(MOST_TEXT / 2 + 1));
        }
        assert!(text.len() <= MOST_TEXT + 2, "{}", text.len());
    }
}
