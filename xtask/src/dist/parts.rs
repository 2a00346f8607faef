//! What a program is made of: how many bytes of its functions and tables belong to which crate or library of C.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::build::Program;
use super::c_parts::{self, Owner};
use crate::{process, workspace};

/// How many parts are printed.
const SHOWN: usize = 15;
/// What shows what the gateway does, each with the crate whose name its symbols contain.
const WATCHING: [(&str, &str); 5] = [
    ("audit", "toolyard_audit"),
    ("metrics", "toolyard_metrics"),
    ("dashboard", "toolyard_dashboard"),
    ("traces", "toolyard_traces"),
    ("rusqlite, also for tasks", "rusqlite"),
];
/// How large all of it may be together.
const MOST_WATCHING: u64 = 4_000_000;

pub(super) fn megabytes(bytes: u64) -> String {
    let hundredths = bytes / 10_000;
    format!("{}.{:02} MB", hundredths / 100, hundredths % 100)
}

/// Prints the largest parts of a program, and those that show what the gateway does. Returns what is wrong if the
/// latter are larger than they may be.
pub(super) fn print(program: &Program) -> Result<Option<String>> {
    // In the order of the symbol table, with the names of files: those of C precede the symbols that only they see.
    let arguments = ["--debug-syms", "--no-sort", "--print-size", "--defined-only"];
    let listed = process::output(Command::new("nm").args(arguments).arg(&program.named))?;
    let symbols = symbols(&listed);
    let (mut parts, grammars) = sizes(&symbols);
    // Both come with the code pack.
    if !grammars.is_empty() {
        parts.insert("weights of the models for code".to_owned(), weights()?);
        parts.insert(format!("{} grammars", grammars.len()), grammars.values().sum());
    }
    println!("the largest parts:");
    print_largest(parts, SHOWN);
    println!("the grammars:");
    print_largest(grammars, usize::MAX);
    let watching = watching(&symbols, assets()?);
    println!("audit, metrics, dashboard and traces:");
    for (name, size) in &watching {
        println!("{:>11} {name}", megabytes(*size));
    }
    let all: u64 = watching.iter().map(|(_, size)| size).sum();
    let (all_text, most) = (megabytes(all), megabytes(MOST_WATCHING));
    println!("{all_text:>11} of at most {most} together");
    let name = program.stripped.display();
    let too_large = || {
        format!(
            "audit, metrics, dashboard and traces take {all_text} of `{name}`, and at most {most} are allowed"
        )
    };
    Ok((all > MOST_WATCHING).then(too_large))
}

fn print_largest(parts: BTreeMap<String, u64>, most: usize) {
    let mut parts: Vec<(String, u64)> = parts.into_iter().collect();
    parts.sort_by_key(|(_, size)| std::cmp::Reverse(*size));
    for (name, size) in parts.iter().take(most) {
        println!("{:>11} {name}", megabytes(*size));
    }
}

/// The bytes of the files of the dashboard. They have no symbols.
fn assets() -> Result<u64> {
    embedded("crates/toolyard-dashboard/assets", |_| true)
}

/// The bytes of the models of the code pack. They have no symbols.
fn weights() -> Result<u64> {
    embedded("packs/code/model", |path| path.extension().is_some_and(|extension| extension == "tyce"))
}

/// The bytes of files that become part of the program.
fn embedded(folder: &str, is_embedded: fn(&Path) -> bool) -> Result<u64> {
    let mut bytes = 0;
    for file in std::fs::read_dir(workspace::root().join(folder))? {
        let file = file?;
        bytes += if is_embedded(&file.path()) { file.metadata()?.len() } else { 0 };
    }
    Ok(bytes)
}

pub(super) struct Symbol<'a> {
    pub(super) address: u64,
    pub(super) size: u64,
    kind: &'a str,
    pub(super) name: &'a str,
    /// The file whose name came before it in the list, and the number of files up to that one.
    pub(super) file: (usize, &'a str),
}

impl Symbol<'_> {
    /// Whether only its own file can refer to it.
    pub(super) fn is_local(&self) -> bool {
        self.kind.bytes().all(|kind| kind.is_ascii_lowercase())
    }

    pub(super) fn is_code(&self) -> bool {
        self.kind.eq_ignore_ascii_case("t")
    }
}

pub(super) fn symbols(listed: &str) -> Vec<Symbol<'_>> {
    let mut file = (0, "");
    let mut symbols = Vec::new();
    for line in listed.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |text| u64::from_str_radix(text, 16).ok();
        match words[..] {
            [_, "a", name] => file = (file.0 + 1, name),
            [address, size, kind, name] => {
                if let Some((address, size)) = number(address).zip(number(size)) {
                    symbols.push(Symbol { address, size, kind, name, file });
                }
            }
            _ => {}
        }
    }
    symbols
}

/// What shows what the gateway does, with its size. A symbol that names two of the crates counts for the first.
fn watching(symbols: &[Symbol<'_>], assets: u64) -> Vec<(&'static str, u64)> {
    let owner = |symbol: &Symbol<'_>| WATCHING.iter().position(|(_, name)| symbol.name.contains(name));
    let mut sizes: Vec<(&str, u64)> = WATCHING.iter().map(|(name, _)| (*name, 0)).collect();
    for symbol in symbols {
        if let Some(owner) = owner(symbol) {
            sizes[owner].1 += symbol.size;
        }
    }
    sizes.push(("files of the dashboard", assets));
    sizes.push(("SQLite, also for tasks", sqlite(symbols)));
    sizes
}

/// The bytes of SQLite. It is one file of C whose functions are beside each other, also those without its name.
fn sqlite(symbols: &[Symbol<'_>]) -> u64 {
    let is_code = |symbol: &&Symbol<'_>| symbol.is_code();
    let has_name = |symbol: &&Symbol<'_>| symbol.name.starts_with("sqlite3");
    let named = || symbols.iter().filter(is_code).filter(has_name).map(|symbol| symbol.address);
    let (Some(first), Some(last)) = (named().min(), named().max()) else { return 0 };
    let is_rust = |symbol: &Symbol<'_>| symbol.name.starts_with("_ZN") || symbol.name.starts_with("_R");
    let counts = |symbol: &&Symbol<'_>| {
        let is_within = (first..=last).contains(&symbol.address) && !is_rust(symbol);
        if is_code(symbol) { is_within } else { has_name(symbol) }
    };
    symbols.iter().filter(counts).map(|symbol| symbol.size).sum()
}

/// Bytes by crate and by library of C, and those of each grammar.
fn sizes(symbols: &[Symbol<'_>]) -> (BTreeMap<String, u64>, BTreeMap<String, u64>) {
    let of_files = c_parts::grammars(symbols);
    let (mut parts, mut grammars) = (BTreeMap::new(), BTreeMap::new());
    for symbol in symbols {
        match crate_of(symbol.name) {
            Some(name) => *parts.entry(name).or_default() += symbol.size,
            None => match c_parts::owner(symbol, &of_files) {
                Owner::Grammar(name) => *grammars.entry(name).or_default() += symbol.size,
                Owner::Library(name) => *parts.entry(name.to_owned()).or_default() += symbol.size,
            },
        }
    }
    (parts, grammars)
}

/// The crate whose name a mangled symbol has first.
fn crate_of(symbol: &str) -> Option<String> {
    let legacy = symbol.strip_prefix("_ZN").and_then(first_identifier).map(generic);
    legacy.or_else(|| symbol.strip_prefix("_R").and_then(v0_crate))
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
        ] {
            assert_eq!(crate_of(symbol).as_deref(), Some(expected));
        }
        assert_eq!(crate_of("sqlite3_exec"), None);
    }

    /// As `nm` lists them: names of files before their own symbols, and those that all can refer to at the end.
    #[test]
    fn tables_of_c_belong_to_their_grammar_and_their_library() {
        let listed = "\
            0000 a sqlite3.c\n\
            1000 10 t balance_nonroot\n\
            0000 a crate.1234-cgu.0\n\
            2000 100 t _ZN4core3fmt5Write9write_fmt17hE\n\
            0000 a lib.c\n\
            3000 5 t stack_push\n\
            0000 a parser.c\n\
            4000 20 t ts_lex\n\
            9000 3000 r ts_parse_table\n\
            0000 a scanner.c\n\
            4100 1 t scan\n\
            0000 a parser.c\n\
            4200 200 t ts_lex\n\
            a000 40000 r ts_parse_table\n\
            0000 a montgomery.c\n\
            b000 7 r table\n\
            4440 8 T tree_sitter_rust\n\
            1100 2 T sqlite3_exec\n\
            4080 8 T tree_sitter_php\n\
            4110 4 T tree_sitter_php_external_scanner_scan\n\
            3100 1 T ts_parser_new\n\
            5000 T without_size\n";
        let (parts, grammars) = sizes(&symbols(listed));
        let map =
            |list: &[(&str, u64)]| list.iter().map(|(name, size)| ((*name).to_owned(), *size)).collect();
        assert_eq!(grammars, map(&[("php", 0x302d), ("rust", 0x40208)]));
        let expected =
            [("SQLite", 0x12), ("core", 0x100), ("other C and data", 7), ("tree-sitter's library", 6)];
        assert_eq!(parts, map(&expected));
    }

    #[test]
    fn what_shows_the_gateway_is_counted_once_and_with_all_functions_of_sqlite() {
        let listed = "\
            1000 10 T _ZN14toolyard_audit5store4openE\n\
            1010 20 t _ZN4core3ptr49drop_in_place$LT$toolyard_audit..store..Store$GT$E\n\
            2000 100 T sqlite3_exec\n\
            2100 1000 t balance_nonroot\n\
            3100 10 T sqlite3_close\n\
            4000 40000 T tree_sitter_rust\n\
            9000 3 r sqlite3UpperToLower\n";
        let sizes = watching(&symbols(listed), 7);
        let of = |name: &str| sizes.iter().find(|(part, _)| *part == name).map(|(_, size)| *size);
        assert_eq!(of("audit"), Some(0x30));
        assert_eq!(of("traces"), Some(0));
        assert_eq!(of("files of the dashboard"), Some(7));
        assert_eq!(of("SQLite, also for tasks"), Some(0x1113));
    }
}
