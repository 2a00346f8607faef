//! How long the pack `sessions` needs for a transcript of 100 MB, and how much memory.
//!
//! The example `serve_sessions` of the pack is a server that does nothing else, so its memory is that of the search. A
//! shared machine is slow at times, so the limit is for the CPU time; nothing in it waits.

use std::fs;
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::usage;
use crate::process::run;
use crate::workspace;

const BYTES: u64 = 100_000_000;
const MOST_TIME: Duration = Duration::from_secs(2);
const MOST_MEMORY: u64 = 50_000_000;

pub(super) fn measure() -> Result<()> {
    let mut cargo = workspace::cargo();
    cargo.args(["build", "--release", "--package", "toolyard-pack-sessions", "--example", "serve_sessions"]);
    run(&mut cargo)?;
    let program = workspace::target_directory()?.join("release/examples/serve_sessions");
    let home = tempfile::tempdir().context("make a folder for the transcript")?;
    let lines = transcript(home.path())?;
    println!("\na transcript of {} MB in {lines} lines", BYTES / 1_000_000);
    println!("  {:<44} {:>8} {:>8} {:>8}", "", "time", "CPU", "memory");
    let mut excesses = Vec::new();
    for (name, tool, arguments, expected) in [
        ("search: a word at the end", "session_search", json!({ "query": "needle" }), "the needle"),
        ("search: a word that is nowhere", "session_search", json!({ "query": "absent" }), "No message"),
        (
            "search: a word of every line, and one that is nowhere",
            "session_search",
            json!({ "query": "assistant absent" }),
            "No message",
        ),
        ("search: letters that JSON escapes", "session_search", json!({ "query": "größe" }), "No message"),
        ("read: the last messages", "session_read", json!({ "session_id": "1a46e" }), "the needle"),
        ("list", "session_list", json!({}), "1a46e"),
    ] {
        let (time, cpu, memory) = one(&program, home.path(), tool, &arguments, expected)?;
        println!("  {name:<44} {:>6.2} s {:>6.2} s {:>5} MB", time, cpu.as_secs_f64(), memory / 1_000_000);
        if cpu > MOST_TIME || memory > MOST_MEMORY {
            excesses.push(name);
        }
    }
    ensure!(excesses.is_empty(), "more than 2 s or 50 MB: {}", excesses.join("; "));
    Ok(())
}

/// Writes a transcript of Claude Code: questions, answers and outputs of tools of 100 to 8,000 bytes.
fn transcript(home: &Path) -> Result<u64> {
    let folder = home.join(".claude/projects/-large");
    fs::create_dir_all(&folder)?;
    let mut file = BufWriter::new(fs::File::create(folder.join("1a46e.jsonl"))?);
    let (mut written, mut number) = (0, 0_u64);
    let mut add = |text: &str| -> Result<u64> {
        let kind = if number.is_multiple_of(2) { "user" } else { "assistant" };
        let parent = number.checked_sub(1).map(|before| format!("m{before}"));
        let line = json!({
            "type": kind, "uuid": format!("m{number}"), "parentUuid": parent, "sessionId": "1a46e",
            "cwd": "/src/large", "timestamp": "2026-11-03T10:00:00Z",
            "message": { "role": kind, "content": [{ "type": "text", "text": text }] },
        });
        let line = format!("{line}\n");
        file.write_all(line.as_bytes())?;
        number += 1;
        written += line.len() as u64;
        Ok(written)
    };
    let phrase =
        "fn light(tower: &Tower) -> Result<Lamp> {\n    tower.lamp(\"on\")\n} // 3 of 14 assertions\n";
    let mut size = 1;
    while add(&phrase.repeat(size))? < BYTES {
        size = size * 7 % 97;
    }
    add("the needle")?;
    file.flush()?;
    Ok(number)
}

/// The time of one call in seconds, its CPU time, and the most memory of the process.
fn one(
    program: &Path,
    home: &Path,
    tool: &str,
    arguments: &Value,
    expected: &str,
) -> Result<(f64, Duration, u64)> {
    let mut command = Command::new(program);
    command.arg(home).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().context("start `serve_sessions`")?;
    let asked = ask(&mut child, tool, arguments, expected);
    // It may have ended.
    let _ = child.kill();
    let _ = child.wait();
    asked
}

fn ask(child: &mut Child, tool: &str, arguments: &Value, expected: &str) -> Result<(f64, Duration, u64)> {
    let mut stdin = child.stdin.take().context("take stdin")?;
    let mut stdout = BufReader::new(child.stdout.take().context("take stdout")?);
    let list = call(&mut stdin, &mut stdout, "tools/list", json!({}))?;
    ensure!(list.contains(tool), "the server does not offer `{tool}`: {list}");
    let (before, began) = (usage::cpu(child.id()), Instant::now());
    let params = json!({ "name": tool, "arguments": arguments });
    let answer = call(&mut stdin, &mut stdout, "tools/call", params)?;
    let (time, cpu) = (began.elapsed().as_secs_f64(), usage::cpu(child.id()).saturating_sub(before));
    ensure!(answer.contains(expected), "`{tool}` answers without {expected:?}: {answer}");
    Ok((time, cpu, usage::memory(child.id()).peak))
}

fn call(
    stdin: &mut ChildStdin,
    stdout: &mut BufReader<ChildStdout>,
    method: &str,
    mut params: Value,
) -> Result<String> {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    writeln!(stdin, "{request}").context("write to the server")?;
    loop {
        let mut line = String::new();
        ensure!(stdout.read_line(&mut line).context("read from the server")? > 0, "the server ended");
        // Progress comes before the answer.
        if line.contains("\"id\":1") {
            return Ok(line);
        }
    }
}
