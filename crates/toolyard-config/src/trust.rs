//! Which project files the user trusts, what in them is trusted, and in which projects packs may run programs. A
//! project file names programs to run and may come from another author, so it is used only after `toolyard trust`, and
//! a changed command needs it again.
//!
//! The list contains a hash of each upstream as written: variables are not expanded, so a new value of one is not a
//! change, and no secret gets into the list. Disabling something or a longer timeout is not a change either.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::interpolate::Variables;
use super::tree::{Entry, File, Value};
use crate::state_dir::{self, attempted};

/// Keys of an upstream that change nothing about what is run or reached.
const HARMLESS: [&str; 8] =
    ["connect_timeout", "enabled", "era", "lazy", "sharing", "start_timeout", "stop_when_idle", "timeout"];
/// Keys of packs whose change needs no trust. Any other key may decide what the pack can access.
const HARMLESS_OF_PACKS: [&str; 1] = ["enabled"];

/// Whether the user trusts a project file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrustState {
    Trusted,
    Unknown,
    /// Trusted once, but these are new or other than they were.
    Changed(Vec<String>),
}

/// The list of what the user has agreed to.
#[derive(Debug)]
pub struct Trusted {
    /// Where it is kept.
    pub path: Option<PathBuf>,
    files: BTreeMap<PathBuf, Agreed>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Agreed {
    /// Seconds since 1970.
    pub since: u64,
    /// Each upstream with the hash of its definition.
    pub upstreams: BTreeMap<String, String>,
}

impl Trusted {
    /// A missing or broken list trusts no file.
    pub fn read(variables: &Variables<'_>) -> Self {
        let path = state_dir::base(variables).map(|base| base.join("trust.json"));
        let text = path.as_ref().and_then(|path| std::fs::read(path).ok()).unwrap_or_default();
        Self { path, files: serde_json::from_slice(&text).unwrap_or_default() }
    }

    pub fn state(&self, file: &Path) -> TrustState {
        let Some(agreed) = self.files.get(&canonical(file)) else { return TrustState::Unknown };
        // Nothing is run from a file that cannot be read; loading it reports the problem.
        let Some(now) = hashes(file) else { return TrustState::Trusted };
        let is_other = |(name, hash): &(String, String)| agreed.upstreams.get(name) != Some(hash);
        let changed: Vec<String> = now.into_iter().filter(is_other).map(|(name, _)| name).collect();
        if changed.is_empty() { TrustState::Trusted } else { TrustState::Changed(changed) }
    }

    /// Agrees to a file as it is now.
    pub fn add(&mut self, file: &Path) -> io::Result<()> {
        let unreadable = || io::Error::other(format!("{} cannot be read", file.display()));
        let upstreams = hashes(file).ok_or_else(unreadable)?;
        self.files.insert(canonical(file), Agreed { since: now(), upstreams });
        self.write()
    }

    /// Lets packs run programs and code of the project in this folder, and of all projects below it.
    pub fn add_folder(&mut self, folder: &Path) -> io::Result<()> {
        self.files.insert(canonical(folder), Agreed { since: now(), upstreams: BTreeMap::new() });
        self.write()
    }

    /// Whether packs may run programs and code of the project in this folder.
    pub fn covers(&self, folder: &Path) -> bool {
        canonical(folder).ancestors().any(|above| self.files.contains_key(above))
    }

    /// Takes it back; whether there was anything to take back.
    pub fn remove(&mut self, file: &Path) -> io::Result<bool> {
        let was_there = self.files.remove(&canonical(file)).is_some();
        if was_there {
            self.write()?;
        }
        Ok(was_there)
    }

    pub fn files(&self) -> &BTreeMap<PathBuf, Agreed> {
        &self.files
    }

    fn write(&self) -> io::Result<()> {
        let nowhere =
            || io::Error::other("neither XDG_STATE_HOME nor HOME is set, so there is no place to keep it");
        let path = self.path.as_ref().ok_or_else(nowhere)?;
        path.parent().map(state_dir::create).transpose()?;
        state_dir::replace(path, &serde_json::to_vec_pretty(&self.files)?)
            .map_err(|error| attempted(&error, "write", path))
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// A file stays itself, however it is named.
fn canonical(file: &Path) -> PathBuf {
    std::fs::canonicalize(file).unwrap_or_else(|_| file.to_owned())
}

/// The upstreams and packs of a file, each with the hash of what it does.
fn hashes(file: &Path) -> Option<BTreeMap<String, String>> {
    let text = std::fs::read_to_string(file).ok()?;
    let entries = File { path: file.to_owned(), text }.entries().ok()?;
    let mut found = BTreeMap::new();
    for section in entries {
        let Value::Table(named) = section.node.value else { continue };
        match section.key.as_str() {
            "upstreams" => {
                found.extend(named.into_iter().map(|entry| (entry.key.clone(), hash(&entry, &HARMLESS))));
            }
            "packs" => {
                let packs = named.into_iter();
                found.extend(
                    packs.map(|entry| (format!("pack {}", entry.key), hash(&entry, &HARMLESS_OF_PACKS))),
                );
            }
            _ => {}
        }
    }
    Some(found)
}

fn hash(entry: &Entry, harmless: &[&str]) -> String {
    let mut hash = Sha256::new();
    match &entry.node.value {
        Value::Table(keys) => {
            let mut keys: Vec<&Entry> =
                keys.iter().filter(|key| !harmless.contains(&key.key.as_str())).collect();
            keys.sort_by(|a, b| a.key.cmp(&b.key));
            for key in keys {
                add(&mut hash, &Value::Text(key.key.clone()));
                add(&mut hash, &key.node.value);
            }
        }
        other => add(&mut hash, other),
    }
    HEXLOWER.encode(&hash.finalize())
}

/// Each value with its kind and length, so that no two make the same bytes.
fn add(hash: &mut Sha256, value: &Value) {
    let mut count = |kind: u8, count: usize| {
        hash.update([kind]);
        hash.update(u64::try_from(count).unwrap_or(u64::MAX).to_le_bytes());
    };
    match value {
        Value::Text(text) => {
            count(b's', text.len());
            hash.update(text.as_bytes());
        }
        Value::Integer(integer) => hash.update([&[b'i'][..], &integer.to_le_bytes()].concat()),
        Value::Fraction(number) => hash.update([&[b'f'][..], &number.to_le_bytes()].concat()),
        Value::Flag(flag) => hash.update([b'b', u8::from(*flag)]),
        Value::List(items) => {
            count(b'l', items.len());
            for item in items {
                add(hash, &item.value);
            }
        }
        Value::Table(entries) => {
            count(b't', entries.len());
            let mut entries: Vec<&Entry> = entries.iter().collect();
            entries.sort_by(|a, b| a.key.cmp(&b.key));
            for entry in entries {
                add(hash, &Value::Text(entry.key.clone()));
                add(hash, &entry.node.value);
            }
        }
        Value::Other(kind) => hash.update(kind.as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pack_that_may_touch_something_else_needs_trust_again() {
        let home = tempfile::tempdir().unwrap();
        let variables = |name: &str| (name == "HOME").then(|| home.path().display().to_string());
        let file = home.path().join("toolyard.toml");
        let agreed = "[packs.music]\nroot = \"music\"\ntimeout = 3\n";
        std::fs::write(&file, agreed).unwrap();
        Trusted::read(&variables).add(&file).unwrap();
        let check = |text: &str, expected: &[&str]| {
            std::fs::write(&file, text).unwrap();
            let expected = match expected {
                [] => TrustState::Trusted,
                names => TrustState::Changed(names.iter().map(ToString::to_string).collect()),
            };
            assert_eq!(Trusted::read(&variables).state(&file), expected, "{text}");
        };
        check(agreed, &[]);
        check(&format!("{agreed}enabled = false\n"), &[]);
        check(&agreed.replace("music\"", "/\""), &["pack music"]);
        check(&agreed.replace('3', "4"), &["pack music"]);
        check(&format!("{agreed}[packs.code]\n"), &["pack code"]);
        check("[upstreams.music]\nroot = \"music\"\n", &["music"]);
    }

    #[test]
    fn a_trusted_folder_covers_all_below_it_and_a_trusted_file_covers_none() {
        let home = tempfile::tempdir().unwrap();
        let variables = |name: &str| (name == "HOME").then(|| home.path().display().to_string());
        let (project, below) = (home.path().join("app"), home.path().join("app/deep"));
        std::fs::create_dir_all(&below).unwrap();
        std::fs::write(project.join("toolyard.toml"), "").unwrap();
        Trusted::read(&variables).add(&project.join("toolyard.toml")).unwrap();
        assert!(!Trusted::read(&variables).covers(&project));
        Trusted::read(&variables).add_folder(&project).unwrap();
        for (folder, expected) in [(&project, true), (&below, true), (&home.path().to_owned(), false)] {
            assert_eq!(Trusted::read(&variables).covers(folder), expected, "{}", folder.display());
        }
        assert!(Trusted::read(&variables).remove(&project).unwrap());
        assert!(!Trusted::read(&variables).covers(&project));
    }

    #[test]
    fn only_what_is_run_or_reached_counts() {
        let home = tempfile::tempdir().unwrap();
        let variables = |name: &str| (name == "HOME").then(|| home.path().display().to_string());
        let file = home.path().join("toolyard.toml");
        let write = |text: &str| std::fs::write(&file, text).unwrap();
        let standing = || Trusted::read(&variables).state(&file);
        write("[upstreams.a]\ncommand = \"x\"\nargs = [\"1\", \"2\"]\n");
        assert_eq!(standing(), TrustState::Unknown);
        Trusted::read(&variables).add(&file).unwrap();
        assert_eq!(standing(), TrustState::Trusted);
        write(
            "# moved\n[upstreams.a]\nargs = [\"1\", \"2\"]\ncommand = \"x\"\ntimeout = 3\nenabled = false\n",
        );
        assert_eq!(standing(), TrustState::Trusted);
        write("[upstreams.a]\ncommand = \"x\"\nargs = [\"12\"]\n[upstreams.b]\nurl = \"http://b\"\n");
        assert_eq!(standing(), TrustState::Changed(vec!["a".into(), "b".into()]));
        write("broken");
        assert_eq!(standing(), TrustState::Trusted);
        assert!(Trusted::read(&variables).remove(&file).unwrap());
        assert_eq!(standing(), TrustState::Unknown);
    }
}
