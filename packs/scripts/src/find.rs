//! Which scripts a project has.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;

use crate::Config;

/// How much of a file is read.
const LONGEST: u64 = 1024 * 1024;
/// How many scripts of one file are listed.
const MOST: usize = 200;
/// The commands that Cargo has for every package.
const CARGO: [&str; 6] = ["build", "check", "test", "run", "clippy", "bench"];

/// A script of the project.
#[derive(Clone, Debug, Serialize, JsonSchema, PartialEq, Eq)]
pub(crate) struct Script {
    /// What to pass to `run`.
    pub(crate) id: String,
    /// The file that defines it.
    pub(crate) from: &'static str,
    /// What it does, as that file has it.
    pub(crate) does: String,
    /// The program with its arguments.
    #[serde(skip)]
    pub(crate) command: Vec<String>,
}

/// All scripts, in the order of the files.
pub(crate) fn scripts(config: &Config) -> Vec<Script> {
    let own = config.commands.iter().map(|(name, command)| Script {
        id: name.clone(),
        from: "the config",
        does: command.join(" "),
        command: command.clone(),
    });
    let root = &config.root;
    own.chain(package_json(root)).chain(cargo(root)).chain(makefile(root)).chain(justfile(root)).collect()
}

/// The script with this id, or the only one with this name after the colon.
pub(crate) fn find(scripts: &[Script], name: &str) -> Result<Script, String> {
    if let Some(script) = scripts.iter().find(|script| script.id == name) {
        return Ok(script.clone());
    }
    let is_named = |script: &&Script| script.id.split_once(':').is_some_and(|(_, own)| own == name);
    let named: Vec<&Script> = scripts.iter().filter(is_named).collect();
    match named.as_slice() {
        [script] => Ok((*script).clone()),
        [] => Err(format!("there is no script `{name}`; `list` shows the scripts of the project")),
        several => {
            let ids: Vec<&str> = several.iter().map(|script| script.id.as_str()).collect();
            Err(format!("`{name}` can be several scripts: {}", ids.join(", ")))
        }
    }
}

fn read(path: &Path) -> Option<String> {
    let mut text = String::new();
    File::open(path).ok()?.take(LONGEST).read_to_string(&mut text).ok()?;
    Some(text)
}

fn script(tool: &str, name: &str, from: &'static str, does: String, command: &[&str]) -> Script {
    let command = command.iter().map(|&word| word.to_owned()).collect();
    Script { id: format!("{tool}:{name}"), from, does, command }
}

fn package_json(root: &Path) -> Vec<Script> {
    let text = read(&root.join("package.json")).unwrap_or_default();
    let package: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    let runner = runner(root);
    let scripts = package["scripts"].as_object().into_iter().flatten();
    let script = |(name, does): (&String, &serde_json::Value)| {
        // A name must not be read as a flag.
        let does = does.as_str().filter(|_| !name.starts_with('-'))?;
        Some(script(runner, name, "package.json", does.to_owned(), &[runner, "run", name]))
    };
    scripts.filter_map(script).take(MOST).collect()
}

/// The package manager that the project uses, by its lock file.
fn runner(root: &Path) -> &'static str {
    let files =
        [("pnpm-lock.yaml", "pnpm"), ("yarn.lock", "yarn"), ("bun.lock", "bun"), ("bun.lockb", "bun")];
    files.into_iter().find(|(file, _)| root.join(file).is_file()).map_or("npm", |(_, runner)| runner)
}

fn cargo(root: &Path) -> Vec<Script> {
    let Some(text) = read(&root.join("Cargo.toml")) else { return Vec::new() };
    if toml::from_str::<toml::Table>(&text).is_err() {
        return Vec::new();
    }
    CARGO.map(|name| script("cargo", name, "Cargo.toml", format!("cargo {name}"), &["cargo", name])).into()
}

fn makefile(root: &Path) -> Vec<Script> {
    let text = ["GNUmakefile", "makefile", "Makefile"].iter().find_map(|name| read(&root.join(name)));
    let text = text.unwrap_or_default();
    let mut targets: Vec<&str> = Vec::new();
    for line in text.lines() {
        let Some((names, rest)) = line.split_once(':') else { continue };
        // Recipes are indented; `:=` and `::=` set variables; `.PHONY`, patterns and variables are no targets to call.
        if line.starts_with([' ', '\t', '#', '.']) || rest.starts_with('=') || rest.starts_with(":=") {
            continue;
        }
        let is_plain = |name: &&str| name.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c));
        let names = names.split_whitespace().filter(is_plain).filter(|name| !name.starts_with('-'));
        for name in names {
            if !targets.contains(&name) && targets.len() < MOST {
                targets.push(name);
            }
        }
    }
    targets
        .iter()
        .map(|name| script("make", name, "Makefile", format!("make {name}"), &["make", name]))
        .collect()
}

fn justfile(root: &Path) -> Vec<Script> {
    let text = ["justfile", "Justfile", ".justfile"].iter().find_map(|name| read(&root.join(name)));
    let text = text.unwrap_or_default();
    let recipe = |line: &str| {
        let (head, rest) = line.split_once(':')?;
        let name = head.split_whitespace().next()?.trim_start_matches('@').to_owned();
        let is_recipe = !rest.starts_with('=') && !line.starts_with([' ', '\t', '#', '[', '_']);
        let is_plain = name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
        let is_setting = ["set", "alias", "export", "import", "mod"].contains(&name.as_str());
        // A recipe that must be given arguments cannot be called without them.
        let needs = head.split_whitespace().skip(1).any(|word| !word.contains('=') && !word.starts_with('*'));
        (is_recipe && is_plain && !is_setting && !needs).then_some(name)
    };
    let names = text.lines().filter_map(recipe).take(MOST);
    names.map(|name| script("just", &name, "justfile", format!("just {name}"), &["just", &name])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_of_every_kind_of_project_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("package.json", r#"{"scripts":{"dev":"vite","test":"vitest","--evil":"x","odd":1}}"#);
        write("pnpm-lock.yaml", "");
        write("Cargo.toml", "[package]\nname = \"x\"\n");
        write(
            "Makefile",
            "CC := gcc\nall: a.o\n\tcc x:y\n.PHONY: all\n%.o: %.c\nclean lint:\n\trm\nX ::= 1\n$(Y): z\n",
        );
        write(
            "justfile",
            "set shell := [\"sh\"]\nx := \"1\"\n# a: b\nserve port='80': build\n  echo a: b\n@fmt:\ndeploy target:\n_hidden:\n",
        );
        let config = Config {
            root: folder.path().to_owned(),
            commands: [("api".to_owned(), vec!["python3".to_owned(), "api.py".to_owned()])].into(),
        };
        let all = scripts(&config);
        let ids: Vec<&str> = all.iter().map(|script| script.id.as_str()).collect();
        let expected = [
            "api",
            "pnpm:dev",
            "pnpm:test",
            "cargo:build",
            "cargo:check",
            "cargo:test",
            "cargo:run",
            "cargo:clippy",
            "cargo:bench",
            "make:all",
            "make:clean",
            "make:lint",
            "just:serve",
            "just:fmt",
        ];
        assert_eq!(ids, expected);
        assert_eq!(find(&all, "dev").unwrap().command, ["pnpm", "run", "dev"]);
        assert_eq!(find(&all, "api").unwrap().command, ["python3", "api.py"]);
        assert_eq!(
            find(&all, "test"),
            Err("`test` can be several scripts: pnpm:test, cargo:test".to_owned())
        );
        assert!(find(&all, "evil").is_err());
    }
}
