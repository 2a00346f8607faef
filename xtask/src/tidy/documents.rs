//! Links and paths in the documentation lead somewhere: relative links with their anchors in every Markdown file and in
//! `llms.txt`, paths in backticks in the documents about the code, and pages that the code refers to.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::Findings;
use super::source::Source;
use crate::workspace::root;

/// Documents whose paths in backticks are checked.
const ABOUT_CODE: &[&str] = &["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/design/", "docs/contributing/"];

/// The first part of a path, and the folder that it means.
const PREFIXES: &[(&str, &str)] = &[
    ("core", "crates/toolyard-core"),
    ("link", "crates/toolyard-link"),
    ("model", "crates/toolyard-model"),
    ("proto", "crates/toolyard-proto"),
    ("serve", "crates/toolyard-serve"),
    ("shim", "crates/toolyard-shim"),
    ("testkit", "crates/toolyard-testkit"),
    ("toolyard", "crates/toolyard"),
    ("toolyard-tool", "sdk/toolyard-tool"),
    ("bench", "bench"),
    ("crates", "crates"),
    ("docs", "docs"),
    ("examples", "examples"),
    ("fuzz", "fuzz"),
    ("packs", "packs"),
    ("sdk", "sdk"),
    ("xtask", "xtask"),
];

pub(super) fn check(files: &[String], sources: &[Source], findings: &mut Findings) {
    let read = |path: &String| fs::read_to_string(root().join(path)).unwrap_or_default();
    let pages: BTreeMap<&str, String> =
        files.iter().filter(|path| is_page(path)).map(|path| (path.as_str(), read(path))).collect();
    for (path, text) in &pages {
        for link in links(text) {
            if let Some(fault) = broken_link(path, &link, &pages, files) {
                findings.error(path, &format!("the link `{link}` {fault}"));
            }
        }
        if ABOUT_CODE.iter().any(|about| path.starts_with(about)) {
            for named in paths(text).into_iter().filter(|named| !leads_to_code(named, files)) {
                findings.error(path, &format!("`{named}` does not exist: correct the path"));
            }
        }
    }
    for source in sources {
        for page in pages_named(&source.text).into_iter().filter(|page| !is_there(page, files)) {
            findings.error(&source.path, &format!("`{page}` does not exist: correct the path"));
        }
    }
}

/// Whether this is written in Markdown. `llms.txt` is, too.
fn is_page(path: &str) -> bool {
    path == "llms.txt" || Path::new(path).extension().is_some_and(|extension| extension == "md")
}

/// The targets of the links in a page, without addresses of web sites.
fn links(text: &str) -> Vec<String> {
    let prose = without_blocks(text);
    let targets = prose.split("](").skip(1).filter_map(|after| after.split(')').next());
    targets.filter(|target| !target.contains("://")).map(str::to_owned).collect()
}

fn broken_link(page: &str, link: &str, pages: &BTreeMap<&str, String>, files: &[String]) -> Option<String> {
    let (target, anchor) = link.split_once('#').unwrap_or((link, ""));
    let path = if target.is_empty() { page.to_owned() } else { resolved(page, target) };
    if !is_there(&path, files) {
        return Some(format!("leads to `{path}`, which does not exist"));
    }
    let lacks_anchor = |text: &String| !anchor.is_empty() && !anchors(text).contains(anchor);
    pages
        .get(path.as_str())
        .is_some_and(lacks_anchor)
        .then(|| format!("does not match a heading of `{path}`"))
}

/// `target` as a path from the root, where `page` has a link to it.
fn resolved(page: &str, target: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.split('/').filter(|part| !part.is_empty() && *part != ".") {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    parts.join("/")
}

/// The anchors that Markdown viewers make from headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let prose = without_blocks(text);
    let headings = prose.lines().filter(|line| line.starts_with('#'));
    headings.map(|heading| anchor(heading.trim_start_matches('#').trim())).collect()
}

fn anchor(heading: &str) -> String {
    let lower = heading.to_lowercase();
    let kept = lower.chars().filter(|char| char.is_alphanumeric() || matches!(char, ' ' | '-' | '_'));
    kept.map(|char| if char == ' ' { '-' } else { char }).collect()
}

/// Paths in backticks that begin with a known prefix; `{a,b}` is written out.
fn paths(text: &str) -> Vec<String> {
    let prose = without_blocks(text);
    let quoted = prose.split('`').skip(1).step_by(2);
    let named = quoted.filter(|text| {
        let is_path = |char: char| char.is_ascii_alphanumeric() || "_-./{},*".contains(char);
        let (first, rest) = text.split_once('/').unwrap_or_default();
        !rest.is_empty() && text.chars().all(is_path) && PREFIXES.iter().any(|(prefix, _)| *prefix == first)
    });
    named.flat_map(alternatives).collect()
}

fn alternatives(path: &str) -> Vec<String> {
    let Some((before, rest)) = path.split_once('{') else { return vec![path.to_owned()] };
    let Some((names, after)) = rest.split_once('}') else { return vec![path.to_owned()] };
    names.split(',').map(|name| format!("{before}{name}{after}")).collect()
}

/// Whether a path is a file, a folder or a module, from its crate or from the `src` of its crate. A path with `*` is
/// cut there, and must be the beginning of one.
fn leads_to_code(named: &str, files: &[String]) -> bool {
    let Some((first, rest)) = named.split_once('/') else { return true };
    let folder = PREFIXES.iter().find(|(prefix, _)| *prefix == first).map_or(first, |(_, folder)| folder);
    let path = format!("{folder}/{rest}");
    // In `crates/NAME/…` and the like, the second part is the crate.
    let is_group = matches!(first, "crates" | "sdk" | "packs" | "examples");
    let depth = if is_group { 2 } else { folder.split('/').count() };
    let mut parts: Vec<&str> = path.split('/').collect();
    parts.insert(depth.min(parts.len()), "src");
    [path.clone(), parts.join("/")].iter().any(|path| match path.split_once('*') {
        Some((begin, _)) => files.iter().any(|file| file.starts_with(begin)),
        None => is_there(path.trim_end_matches('/'), files) || is_there(&format!("{path}.rs"), files),
    })
}

/// Whether there is such a file or folder.
fn is_there(path: &str, files: &[String]) -> bool {
    let is_it = |rest: &str| rest.is_empty() || rest.starts_with('/');
    files.iter().any(|file| file.strip_prefix(path).is_some_and(is_it))
}

/// Pages below `docs` that a source names.
fn pages_named(text: &str) -> Vec<String> {
    let is_part = |char: char| char.is_ascii_alphanumeric() || "_-./".contains(char);
    let words = text.split(|char| !is_part(char)).map(|word| word.trim_end_matches('.'));
    let folders = ["docs/guide/", "docs/design/", "docs/contributing/"];
    let pages = words.filter(|word| is_page(word) && folders.iter().any(|folder| word.starts_with(folder)));
    pages.map(str::to_owned).collect()
}

/// The text without fenced blocks.
fn without_blocks(text: &str) -> String {
    text.split("```").step_by(2).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_resolved_from_their_page() {
        assert_eq!(resolved("docs/guide/cli.md", "../design/windows.md"), "docs/design/windows.md");
        assert_eq!(resolved("README.md", "docs/guide/"), "docs/guide");
        let text = "see [a](b.md#c) and [web](https://a.example) \n```\n[no](x)\n```\n[d](#e)";
        assert_eq!(links(text), ["b.md#c", "#e"]);
    }

    #[test]
    fn a_broken_link_in_llms_txt_is_found() {
        let files = ["llms.txt", "docs/guide/cli.md", "pins.txt"].map(str::to_owned);
        let pages: Vec<&String> = files.iter().filter(|path| is_page(path)).collect();
        assert_eq!(pages, ["llms.txt", "docs/guide/cli.md"]);
        let pages = [("llms.txt", String::new()), ("docs/guide/cli.md", "# Commands\n".to_owned())].into();
        let broken = |link: &str| broken_link("llms.txt", link, &pages, &files);
        assert_eq!(broken("docs/guide/cli.md#commands"), None);
        assert_eq!(broken("docs/cli.md").unwrap(), "leads to `docs/cli.md`, which does not exist");
    }

    #[test]
    fn headings_become_anchors() {
        let text = "# The hub\n## `[profiles.NAME]`\n```\n# no heading\n```\n";
        assert_eq!(anchors(text), ["profilesname".to_owned(), "the-hub".to_owned()].into());
    }

    #[test]
    fn paths_in_backticks_are_found_and_written_out() {
        let text = "`core/hub/{call,connect}.rs`, `tools/call`, `proto/name`, `docs/design/a*.md`, `core::x`";
        let expected = ["core/hub/call.rs", "core/hub/connect.rs", "proto/name", "docs/design/a*.md"];
        assert_eq!(paths(text), expected);
    }

    #[test]
    fn a_path_leads_to_a_file_a_folder_or_a_module() {
        let files = ["crates/toolyard-core/src/hub.rs", "sdk/toolyard-tool/src/link.rs", "docs/guide/cli.md"];
        let files = files.map(str::to_owned);
        for (path, expected) in [
            ("core/hub", true),
            ("core/hub.rs", true),
            ("core/bub", false),
            ("sdk/toolyard-tool/link", true),
            ("sdk/toolyard-tool", true),
            ("docs/guide", true),
            ("docs/gui*.md", true),
            ("docs/gux*.md", false),
        ] {
            assert_eq!(leads_to_code(path, &files), expected, "{path}");
        }
    }

    #[test]
    fn pages_named_in_sources_are_found() {
        let text =
            "// see docs/design/windows.md. Look it up in docs/guide/cli.md#trust, ../docs/guide/music.md";
        assert_eq!(pages_named(text), ["docs/design/windows.md", "docs/guide/cli.md"]);
    }
}
