//! Files are where a reader expects them, and no file names a place that exists on one machine only.

use super::Findings;
use crate::workspace;

/// Folders that belong to one person or one machine.
const HOMES: [&str; 4] = ["/home/", "/Users/", "/root/", "/work/"];
/// What documentation may put after them.
const PLACEHOLDERS: [&str; 2] = ["you", "me"];
/// This file names the folders; a lock file names what others have chosen.
const SKIPPED: [&str; 3] = ["xtask/src/tidy/places.rs", "Cargo.lock", "xtask/pins/package-lock.json"];

pub(super) fn check(files: &[String], findings: &mut Findings) {
    for path in files {
        if path.ends_with("/mod.rs") {
            findings
                .error(path, "name the file after its module (`a.rs` beside the folder `a`), not `mod.rs`");
        }
        if SKIPPED.contains(&path.as_str()) {
            continue;
        }
        // What is not text has no paths to read.
        let Ok(text) = std::fs::read_to_string(workspace::root().join(path)) else { continue };
        for (index, line) in text.lines().enumerate() {
            if let Some(place) = private_place(line) {
                let what = format!("`{place}` exists on one machine only: use a relative path or a setting");
                findings.error(&format!("{path}:{}", index + 1), &what);
            }
        }
    }
}

/// The first path in a line that leads into the folder of a user.
fn private_place(line: &str) -> Option<&str> {
    HOMES.iter().find_map(|home| {
        line.match_indices(home).find_map(|(at, _)| {
            let is_inside_a_longer_path =
                line[..at].ends_with(|c: char| c.is_alphanumeric() || "._-~}".contains(c));
            let rest = &line[at + home.len()..];
            let names_a_user = rest.starts_with(|c: char| c.is_alphanumeric() || c == '.');
            let name = rest.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
            let is_placeholder = PLACEHOLDERS.contains(&name);
            let length =
                rest.find(|c: char| !(c.is_alphanumeric() || "._-/".contains(c))).unwrap_or(rest.len());
            (names_a_user && !is_placeholder && !is_inside_a_longer_path)
                .then(|| &line[at..at + home.len() + length])
        })
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn private_places_are_found() {
        let check = |line: &str, expected: Option<&str>| assert_eq!(super::private_place(line), expected);
        check("cd /home/ann/src && make", Some("/home/ann/src"));
        check("path = \"/work/main/x.rs\"", Some("/work/main/x.rs"));
        check("cd /home/you/project", None);
        check("HOME=/home/you", None);
        check("HOME=/home/youtube", Some("/home/youtube"));
        check("the folder target/work/a", None);
        check("https://example.com/home/page", None);
        check("nothing below /root/", None);
    }
}
