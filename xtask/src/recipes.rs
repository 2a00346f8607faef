//! `cargo xtask recipes`: follows the recipes of `docs/contributing` to the letter, in a copy of this repository: every
//! block of code at the place that the recipe names, then every command. So the recipes work, or this fails.
//!
//! The recipes describe places in words; `recipes/changes` has them as exact places. A test checks without building
//! anything that every place exists and that every block of a recipe is used.

mod changes;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use crate::step::step;
use crate::{process, workspace};
use changes::{CHANGES, Change, Place, RECIPES, Text};

/// Makes the copy a repository of its own, so that `git diff` shows what a recipe changes.
const COMMIT: &str = "git init -q 2>/dev/null; git add -A && \
    git -c user.name=recipes -c user.email=recipes@localhost commit -q --allow-empty -m copy";

pub(crate) fn recipes() -> Result<()> {
    let copy = workspace::target_directory()?.join("recipes");
    step("copy the repository", || copy_to(&copy))?;
    for change in &CHANGES {
        apply(change, &copy)?;
    }
    for recipe in RECIPES {
        let script = script(&read_recipe(recipe)?);
        step(recipe, || shell(&copy, &script))?;
    }
    Ok(())
}

/// Copies all files of the repository. Files that are the same already keep their times, so that cargo does not build
/// their crates again; third-party crates are shared with this repository.
fn copy_to(copy: &Path) -> Result<()> {
    fs::create_dir_all(copy).context("make the folder of the copy")?;
    let target = copy.join("target");
    if !target.exists() {
        std::os::unix::fs::symlink(workspace::target_directory()?, &target)
            .context("share the target folder")?;
    }
    for created in CHANGES.iter().filter_map(|change| match change.place {
        Place::New(file) => Some(copy.join(file)),
        _ => None,
    }) {
        let _ = fs::remove_file(created);
    }
    for file in workspace::files()? {
        let (from, to) = (workspace::root().join(&file), copy.join(&file));
        let text = fs::read(&from).with_context(|| format!("read {file}"))?;
        if fs::read(&to).is_ok_and(|old| old == text) {
            continue;
        }
        if let Some(folder) = to.parent() {
            fs::create_dir_all(folder).with_context(|| format!("make the folder of {file}"))?;
        }
        fs::write(&to, text).with_context(|| format!("copy {file}"))?;
    }
    shell(copy, COMMIT)
}

fn shell(folder: &Path, script: &str) -> Result<()> {
    let mut shell = Command::new("sh");
    // A server that a recipe starts in the background ends with the recipe.
    let script = format!("trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{script}");
    shell.args(["-e", "-c", &script]).current_dir(folder);
    process::run(workspace::without_package(&mut shell))
}

fn read_recipe(recipe: &str) -> Result<String> {
    let path = workspace::root().join("docs/contributing").join(recipe);
    fs::read_to_string(path).with_context(|| format!("read {recipe}"))
}

/// The commands of the `console` blocks of a recipe.
fn script(recipe: &str) -> String {
    let mut script = String::new();
    for block in blocks(recipe).iter().filter(|block| block.language == "console" && !block.is_nested) {
        for line in block.text.lines() {
            if let Some(command) = line.strip_prefix("$ ") {
                script.push_str(command);
            } else if let Some(more) = line.strip_prefix("> ") {
                script.push_str(more);
            } else {
                continue;
            }
            script.push('\n');
        }
    }
    script
}

struct Block {
    language: String,
    text: String,
    /// Whether it is part of a file that the recipe shows, and not of the recipe.
    is_nested: bool,
}

/// The blocks between fences, without the indentation of the list they are in. A fence of four marks holds fences of
/// three.
fn blocks(recipe: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut open: Option<(usize, String, Block)> = None;
    for line in recipe.lines() {
        let trimmed = line.trim_start();
        let marks = trimmed.len() - trimmed.trim_start_matches('`').len();
        open = match open {
            None if marks >= 3 => {
                let indentation = line[..line.len() - trimmed.len()].to_owned();
                let language = trimmed[marks..].to_owned();
                Some((marks, indentation, Block { language, text: String::new(), is_nested: false }))
            }
            Some((fence, _, block)) if marks == fence && trimmed.len() == marks => {
                blocks.push(block);
                None
            }
            Some((fence, indentation, mut block)) => {
                block.text.push_str(line.strip_prefix(&indentation).unwrap_or(line));
                block.text.push('\n');
                Some((fence, indentation, block))
            }
            None => None,
        };
    }
    blocks
}

/// The text that a change writes, as its recipe has it.
fn text_of(change: &Change) -> Result<String> {
    let recipe = read_recipe(change.recipe)?;
    match change.text {
        Text::Block(start) => {
            let found = blocks(&recipe).into_iter().find(|block| block.text.starts_with(start));
            Ok(found.with_context(|| format!("no block of {} begins `{start}`", change.recipe))?.text)
        }
        Text::Lines(first, count) => {
            let lines = recipe.lines().map(str::trim_start).skip_while(|line| *line != first).take(count);
            let lines: Vec<&str> = lines.collect();
            ensure!(lines.len() == count, "{} has no line `{first}`", change.recipe);
            Ok(lines.join("\n") + "\n")
        }
        Text::Inline(code) => {
            ensure!(recipe.contains(&format!("`{code}`")), "{} does not have `{code}`", change.recipe);
            Ok(code.to_owned() + "\n")
        }
        Text::InWords(code) => Ok(code.to_owned() + "\n"),
    }
}

fn apply(change: &Change, copy: &Path) -> Result<()> {
    let text = text_of(change)?;
    let file = copy.join(change.place.file());
    if let Place::New(_) = change.place {
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder)?;
        }
        return fs::write(&file, text).with_context(|| format!("write {}", file.display()));
    }
    let old = fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
    fs::write(&file, changed(&old, &change.place, &text)?)
        .with_context(|| format!("write {}", file.display()))
}

/// A file after a change at a place in it, which must be there exactly once.
fn changed(old: &str, place: &Place, text: &str) -> Result<String> {
    let (Place::Before(file, at) | Place::After(file, at) | Place::Instead(file, at)) = *place else {
        return Ok(old.to_owned() + text);
    };
    let count = old.matches(at).count();
    if count != 1 {
        bail!("{file} has `{at}` {count} times, so the recipe cannot be followed there");
    }
    let with = match place {
        Place::Before(..) => format!("{text}{at}"),
        Place::After(..) => format!("{at}{text}"),
        _ => text.trim_end_matches('\n').to_owned(),
    };
    Ok(old.replacen(at, &with, 1))
}

impl Place {
    fn file(&self) -> PathBuf {
        let (Self::New(file)
        | Self::End(file)
        | Self::Before(file, _)
        | Self::After(file, _)
        | Self::Instead(file, _)) = self;
        PathBuf::from(file)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn every_change_of_a_recipe_has_its_place_in_the_tree() {
        let mut files: HashMap<PathBuf, String> = HashMap::new();
        for change in &CHANGES {
            let text = text_of(change).unwrap();
            let file = change.place.file();
            let path = workspace::root().join(&file);
            if let Place::New(_) = change.place {
                assert!(!path.exists(), "{} exists already", file.display());
                continue;
            }
            let old = files.remove(&file).unwrap_or_else(|| fs::read_to_string(&path).unwrap());
            files.insert(file, changed(&old, &change.place, &text).unwrap());
        }
    }

    #[test]
    fn every_block_of_code_of_a_recipe_is_followed() {
        for recipe in RECIPES {
            for block in blocks(&read_recipe(recipe).unwrap()) {
                let is_followed = CHANGES
                    .iter()
                    .filter(|change| change.recipe == recipe)
                    .any(|change| block.text.trim().contains(text_of(change).unwrap().trim()));
                assert!(
                    block.language == "console" || is_followed,
                    "{recipe} has an unused block: {}",
                    block.text
                );
            }
        }
    }

    #[test]
    fn commands_are_read_from_the_blocks_of_the_recipe_itself() {
        let recipe = "1. Do:\n\n   ```console\n   $ a\n   > b\n   out\n   ```\n\n````markdown\n```console\n$ c\n```\n````\n";
        assert_eq!(script(recipe), "a\nb\n");
    }
}
