//! Changes a config file without touching the rest of it: comments, order and spacing stay. What would be
//! written is checked first; a change that would break the file is not made.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use toml_edit::{DocumentMut, Item, Table};
use toolyard_config::definition::{Definition, Written, apps_in_file, in_file};
use toolyard_config::save::{self, Change, Lock, Readers};
use toolyard_config::{self as config, File, Format, PROJECT_FILE, Problem, Role, Source, Trusted};

use super::schema;
use crate::cli::Common;
use crate::failure::{Failure, refused};
use crate::{packs, settings};

/// The file to change.
#[derive(Debug, Args)]
pub(super) struct Where {
    /// Change `toolyard.toml` in this folder instead of your own config.
    #[arg(long, conflicts_with = "config")]
    pub(super) project: bool,
}

/// A config file that is being changed.
pub(super) struct Draft {
    pub(super) path: PathBuf,
    source: Source,
    below: Vec<Source>,
    before: String,
    is_new: bool,
    document: DocumentMut,
    /// The problems that it had before the change.
    problems: Vec<Problem>,
    /// A project file that the user trusts, or that this command makes, stays trusted.
    keeps_trust: bool,
    /// Held so that no other run changes the file meanwhile.
    _lock: Lock,
}

impl Where {
    pub(super) fn file(&self, common: &Common) -> Result<PathBuf, Failure> {
        if self.project {
            return Ok(PathBuf::from(PROJECT_FILE));
        }
        let found = config::find(common.config.as_deref(), Path::new(""), &settings::variable);
        let asked = common.config.clone().or(found.user_file);
        asked.ok_or_else(|| {
            refused(
                "neither XDG_CONFIG_HOME nor HOME is set, so there is no user config",
                "name a file with --config",
            )
        })
    }
}

impl Draft {
    pub(super) fn open(common: &Common, place: &Where) -> Result<Self, Failure> {
        let path = place.file(common)?;
        let lock = save::lock(&path)?;
        let text = save::read(&path).map_err(|error| {
            let message = format!("cannot read {}: {error}", path.display());
            refused(message, "check its permissions; the file must be UTF-8 text")
        })?;
        let (is_new, before) = (text.is_none(), text.unwrap_or_default());
        if (File { path: path.clone(), text: before.clone() }).format() == Format::Json {
            let message = format!("{} is JSON, and only TOML can be changed here", path.display());
            let help = format!("edit it by hand, or `toolyard import --from {}`", path.display());
            return Err(refused(message, help));
        }
        let (source, below) = if place.project {
            config::project(&path, &settings::variable)
        } else {
            (Source { path: path.clone(), role: Role::Own }, Vec::new())
        };
        let problems = config::check(&source, before.clone(), &below, &settings::context(&packs::known()));
        // A file that cannot be parsed cannot be edited, either.
        let document = before.parse().map_err(|_| Failure::Config(problems.clone()))?;
        let is_trusted = Trusted::read(&settings::variable).state(&path) == config::TrustState::Trusted;
        Ok(Self {
            path,
            source,
            below,
            before,
            is_new,
            document,
            problems,
            keeps_trust: place.project && (is_new || is_trusted),
            _lock: lock,
        })
    }

    /// The upstreams of the file before the change.
    pub(super) fn upstreams(&self) -> Vec<Written> {
        in_file(&File { path: self.path.clone(), text: self.before.clone() })
    }

    /// The app endpoints of the file before the change.
    pub(super) fn apps(&self) -> Vec<Written> {
        apps_in_file(&File { path: self.path.clone(), text: self.before.clone() })
    }

    pub(super) fn insert(&mut self, id: &str, definition: &Definition) {
        let mut table = definition.to_toml();
        table.decor_mut().set_prefix(self.space());
        if let Some(upstreams) = self.section("upstreams").as_table_like_mut() {
            upstreams.insert(id, Item::Table(table));
        }
    }

    /// An app that listens at `endpoint`.
    pub(super) fn insert_app(&mut self, id: &str, endpoint: &str) {
        let mut table = Table::new();
        table.decor_mut().set_prefix(self.space());
        if let Some(apps) = self.section("apps").as_table_like_mut()
            && let Some(apps) = apps.entry("endpoints").or_insert(Item::Table(table)).as_table_like_mut()
        {
            apps.insert(id, toml_edit::value(endpoint));
        }
    }

    /// Adds a section. False if it is there already.
    pub(super) fn insert_section(&mut self, key: &str, mut section: Table) -> bool {
        if self.document.contains_key(key) {
            return false;
        }
        section.decor_mut().set_prefix(self.space());
        self.document.insert(key, Item::Table(section));
        true
    }

    /// The text before a section that is added. The comments of a file without sections stay above it.
    fn space(&mut self) -> String {
        if !self.document.is_empty() {
            return "\n".to_owned();
        }
        let comments = self.document.trailing().as_str().unwrap_or_default().trim_end().to_owned();
        self.document.set_trailing("");
        if comments.is_empty() { comments } else { comments + "\n\n" }
    }

    fn section(&mut self, key: &str) -> &mut Item {
        self.document.entry(key).or_insert_with(|| {
            let mut section = Table::new();
            section.set_implicit(true);
            Item::Table(section)
        })
    }

    pub(super) fn remove(&mut self, id: &str) {
        if let Some(upstreams) = self.document.get_mut("upstreams").and_then(Item::as_table_like_mut) {
            upstreams.remove(id);
        }
    }

    pub(super) fn remove_app(&mut self, id: &str) {
        let apps = self.document.get_mut("apps").and_then(|apps| apps.get_mut("endpoints"));
        if let Some(apps) = apps.and_then(Item::as_table_like_mut) {
            apps.remove(id);
        }
    }

    /// The file before the change.
    pub(super) fn before(&self) -> &str {
        &self.before
    }

    /// The file after the change.
    pub(super) fn text(&self) -> String {
        let text = with_comments_of(&self.before, self.document.to_string());
        let head = if self.names_schema() && !text.is_empty() { schema::LINE } else { "" };
        let text = if self.before.starts_with('\n') { &text } else { text.trim_start_matches('\n') };
        format!("{head}{text}")
    }

    /// Problems that the change would cause.
    pub(super) fn new_problems(&self) -> Vec<Problem> {
        let is_known = |problem: &Problem| {
            self.problems.iter().any(|known| known.key == problem.key && known.message == problem.message)
        };
        let mut problems =
            config::check(&self.source, self.text(), &self.below, &settings::context(&packs::known()));
        problems.retain(|problem| !is_known(problem));
        problems
    }

    /// A new user config names its schema for editors. A project file is shared, so it gets no schema file beside it.
    fn names_schema(&self) -> bool {
        self.is_new && self.source.role == Role::Own
    }

    pub(super) fn save(&self) -> Result<(), Failure> {
        let before = (!self.is_new).then_some(self.before.as_str());
        let (path, text) = (&self.path, &self.text());
        let change = Change { path, before, text, readers: Readers::Owner, has_folder_lock: false };
        change.write().with_context(|| format!("write {}", self.path.display()))?;
        if self.names_schema() {
            let schema = &schema::beside(&self.path);
            schema::place(schema).with_context(|| format!("write {}", schema.display()))?;
        }
        if self.keeps_trust {
            Trusted::read(&settings::variable).add(&self.path)?;
        }
        Ok(())
    }

    /// Keeps a backup beside the file; returns its path.
    pub(super) fn back_up(&self) -> std::io::Result<Option<PathBuf>> {
        let keep = || save::back_up(&self.path, &self.path, &self.before).map(|backup| Some(backup.path));
        if self.before.is_empty() { Ok(None) } else { keep() }
    }

    /// Whether the file is a project file that still needs `toolyard trust`.
    pub(super) fn needs_trust(&self, place: &Where) -> bool {
        place.project && !self.keeps_trust
    }
}

/// The comment directly above a section is removed with it. A comment that is separated by an empty line belongs to
/// the file and stays.
fn with_comments_of(before: &str, after: String) -> String {
    if before.len() <= after.len() {
        return after;
    }
    let common = before.bytes().zip(after.bytes()).take_while(|(a, b)| a == b).count();
    let start = before[..before.floor_char_boundary(common)].rfind('\n').map_or(0, |at| at + 1);
    let lost = &before[start..];
    let header = lost.lines().take_while(|line| line.trim().is_empty() || line.trim_start().starts_with('#'));
    let comment: usize = header.map(|line| line.len() + 1).sum();
    let comment = lost.get(..comment.min(lost.len())).unwrap_or_default();
    match comment.rfind("\n\n") {
        Some(end) if comment[..end].contains('#') && !after[start..].starts_with(&comment[..end]) => {
            format!("{}{}\n{}", &after[..start], comment[..end].trim_end(), prefixed(&after[start..]))
        }
        _ => after,
    }
}

fn prefixed(rest: &str) -> String {
    if rest.is_empty() || rest.starts_with('\n') { rest.to_owned() } else { format!("\n{rest}") }
}
