//! The folders that the packs are given: whether they exist and can be read.

use std::io;
use std::path::Path;

use serde_json::Value;
use toolyard_config::Config;

use super::{Finding, Severity};
use crate::packs::{self, PackState};

/// Keys whose value is made by the pack itself if it is missing.
const MADE_BY_PACKS: [(&str, &str); 1] = [("music", "cache")];

/// Problems with the folders of the packs that are on.
pub(super) fn missing(config: &Config) -> Vec<Finding> {
    packs::states(config).iter().flat_map(of_pack).collect()
}

fn of_pack(state: &PackState) -> Vec<Finding> {
    let (Ok(config), name) = (&state.config, state.pack.name()) else { return Vec::new() };
    let paths = state.pack.keys().iter().filter(|key| key.is_path());
    let paths = paths.filter(|key| !MADE_BY_PACKS.contains(&(name, key.name())));
    paths
        .flat_map(|key| texts(&config[key.name()]).map(|path| (key.name(), path)))
        .filter_map(|(key, path)| Some(finding(name, key, path, &std::fs::read_dir(path).err()?)))
        .collect()
}

/// The value of a key: one path, or a list.
fn texts(value: &Value) -> impl Iterator<Item = &Path> {
    let one = value.as_str().into_iter();
    let several = value.as_array().into_iter().flatten().filter_map(Value::as_str);
    one.chain(several).map(Path::new)
}

fn finding(pack: &str, key: &str, path: &Path, error: &io::Error) -> Finding {
    let shown = path.display();
    let change = format!("change `{key}` in [packs.{pack}]");
    let (what, help) = match error.kind() {
        io::ErrorKind::NotFound => {
            (format!("the folder {shown} does not exist"), format!("create it, or {change}"))
        }
        io::ErrorKind::NotADirectory => (format!("{shown} is not a folder"), change),
        _ => (format!("the folder {shown} cannot be read: {error}"), change),
    };
    Finding::new(Severity::Wrong, &format!("pack {pack}"), format!("`{key}`: {what}"), help)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_folder_that_cannot_be_used_has_advice() {
        for kind in [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory, io::ErrorKind::PermissionDenied] {
            let found = finding("music", "root", Path::new("/srv/music"), &io::Error::from(kind));
            assert!(found.state == Severity::Wrong && !found.help.is_empty(), "{kind}");
        }
    }
}
