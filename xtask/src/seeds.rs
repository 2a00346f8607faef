//! `cargo xtask seeds`: which rows of the table of what Toolyard replaces are shown by tests. A test shows a
//! row by carrying its number in its name: `row_07_a_hung_tool_ends_at_its_timeout`.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};

use crate::{process, workspace};

/// The rows that tests must show, in their own words.
const ROWS: &[(u8, &str)] = &[
    (3, "app registration over newline JSON"),
    (4, "calls matched to answers by number"),
    (5, "many apps, each under its own id"),
    (6, "a second app of the same id is refused"),
    (7, "configurable timeout"),
    (8, "an app that dies in the middle of a call"),
    (9, "restart and reconnect"),
    (10, "changes are gathered and announced"),
    (11, "limits and backpressure"),
    (12, "tokens from a shared secret"),
    (13, "the same over every transport"),
    (14, ".mcpproxy.json"),
    (15, "structured logs"),
    (20, "tools that come and go"),
    (21, "a second agent joins the first"),
    (22, "latency, reported"),
    (23, "instance files"),
    (24, "registered after listening"),
    (25, "stale instance files"),
    (26, "instances_list"),
    (27, "sessions connect to instances"),
    (28, "every instance tool through the hub"),
    (29, "resources through the hub"),
    (30, "prompts through the hub"),
    (31, "streaming, progress and cancel through the hub"),
    (32, "the state machine"),
    (33, "health"),
    (34, "backoff and breaker"),
    (35, "offline and wake-up"),
    (44, "diagnostics"),
    (45, "names that models accept"),
];

/// What the tests of a row said.
#[derive(Default)]
struct Shown {
    passed: usize,
    failed: Vec<String>,
}

pub(crate) fn seeds() -> Result<()> {
    let mut cargo = workspace::cargo();
    cargo.args(["test", "--workspace", "--no-fail-fast", "--quiet", "--", "row_", "--format", "pretty"]);
    let output = process::capture(&mut cargo)?;
    let shown = read(&String::from_utf8_lossy(&output.stdout));
    ensure!(!shown.is_empty(), "no test was run: {}", String::from_utf8_lossy(&output.stderr));
    let mut open = Vec::new();
    for (row, about) in ROWS {
        let verdict = match shown.get(row) {
            None => "no test".to_owned(),
            Some(shown) if shown.failed.is_empty() => format!("pass ({})", shown.passed),
            Some(shown) => format!("FAIL: {}", shown.failed.join(", ")),
        };
        if !verdict.starts_with("pass") {
            open.push(row.to_string());
        }
        println!("{row:>3}  {about:48} {verdict}");
    }
    ensure!(open.is_empty(), "not shown: rows {}", open.join(", "));
    Ok(())
}

fn read(output: &str) -> BTreeMap<u8, Shown> {
    let mut rows: BTreeMap<u8, Shown> = BTreeMap::new();
    for line in output.lines() {
        let Some((name, verdict)) = line.strip_prefix("test ").and_then(|line| line.split_once(" ... "))
        else {
            continue;
        };
        let Some(row) = row_of(name) else { continue };
        let shown = rows.entry(row).or_default();
        if verdict.trim() == "ok" { shown.passed += 1 } else { shown.failed.push(name.to_owned()) }
    }
    rows
}

fn row_of(name: &str) -> Option<u8> {
    let (_, after) = name.rsplit_once("row_")?;
    after.split('_').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_shown_by_the_tests_that_carry_its_number() {
        let shown =
            read("test a::row_07_x ... ok\ntest row_07_y ... FAILED\ntest row_8 ... ok\ntest other ... ok\n");
        assert_eq!(shown.keys().copied().collect::<Vec<_>>(), [7, 8]);
        assert_eq!((shown[&7].passed, shown[&7].failed.len()), (1, 1));
    }
}
