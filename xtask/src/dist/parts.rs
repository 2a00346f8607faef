//! What a program is made of: how many bytes of its functions and tables belong to which crate.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::Result;

use super::build::Program;
use crate::process;

/// How many parts are printed.
const SHOWN: usize = 15;

pub(super) fn megabytes(bytes: u64) -> String {
    let hundredths = bytes / 10_000;
    format!("{}.{:02} MB", hundredths / 100, hundredths % 100)
}

/// Prints the largest parts of a program.
pub(super) fn print(program: &Program) -> Result<()> {
    let listed =
        process::output(Command::new("nm").args(["--print-size", "--defined-only"]).arg(&program.named))?;
    let mut parts = sizes(&listed).into_iter().collect::<Vec<_>>();
    parts.sort_by_key(|(_, size)| std::cmp::Reverse(*size));
    println!("the largest parts:");
    for (name, size) in parts.iter().take(SHOWN) {
        println!("{:>11} {name}", megabytes(*size));
    }
    Ok(())
}

/// Bytes by crate, from the output of `nm`. What is not Rust counts as C.
fn sizes(listed: &str) -> BTreeMap<String, u64> {
    let mut sizes = BTreeMap::new();
    for line in listed.lines() {
        let mut words = line.split_whitespace();
        let (Some(_), Some(size), Some(_), Some(symbol)) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            continue;
        };
        let Ok(size) = u64::from_str_radix(size, 16) else { continue };
        *sizes.entry(crate_of(symbol)).or_default() += size;
    }
    sizes
}

/// The crate whose name a mangled symbol has first, or `C and data` for other symbols.
fn crate_of(symbol: &str) -> String {
    let legacy = symbol.strip_prefix("_ZN").and_then(first_identifier).map(generic);
    let found = legacy.or_else(|| symbol.strip_prefix("_R").and_then(v0_crate));
    found.unwrap_or_else(|| "C and data".to_owned())
}

/// `4core3fmt…` begins with `core`.
fn first_identifier(rest: &str) -> Option<&str> {
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let length: usize = rest[..digits].parse().ok()?;
    rest.get(digits..digits + length)
}

/// `_$LT$tokio..runtime..Handle$u20$as…` is of `tokio`.
fn generic(identifier: &str) -> String {
    let inner = identifier.trim_start_matches('_').trim_start_matches("$LT$").trim_start_matches("$RF$");
    let end = inner.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(inner.len());
    inner[..end].to_owned()
}

/// The first `C…` in a symbol of the newer mangling: `Cs…_4core`.
fn v0_crate(rest: &str) -> Option<String> {
    let at = rest.find("Cs")?;
    let name = &rest[at + 2..];
    let name = &name[name.find('_')? + 1..];
    first_identifier(name).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_belong_to_crates() {
        for (symbol, expected) in [
            ("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE", "core"),
            ("_ZN61_$LT$tokio..runtime..Handle$u20$as$u20$core..fmt..Debug$GT$3fmt17hE", "tokio"),
            ("_RNvNtCs1234_7mycrate3foo3bar", "mycrate"),
            ("sqlite3_exec", "C and data"),
        ] {
            assert_eq!(crate_of(symbol), expected);
        }
        let listed = "0000000000001000 0000000000000010 T sqlite3_exec\n0000000000001010 T nothing\n";
        assert_eq!(sizes(listed), BTreeMap::from([("C and data".to_owned(), 16)]));
    }
}
