//! Takes keys out of a section, checks what they hold, and collects what is wrong, so that one run shows
//! everything. A key that was not taken is unknown.

use std::collections::BTreeMap;

use super::interpolate::source::{EnvFileError, read_env_file};
use super::interpolate::{CommandUse, Commands, Lookup, Missing, Secrets, Trouble, Variables, expand};
use super::packs::KnownPacks;
use super::problem::{Level, Place, Problem, ProblemKind};
use super::suggest::nearest;
use super::tree::{Entry, File, Format, Node, Value};
use crate::{ReadContext, system};

/// One file being read.
pub(crate) struct Reader<'a> {
    pub(crate) file: &'a File,
    variables: &'a Variables<'a>,
    secrets: &'a Secrets<'a>,
    commands: Option<&'a Commands<'a>>,
    pub(crate) packs: &'a KnownPacks,
    problems: Vec<Problem>,
    unset: Unset,
    /// The first reference without a value while this was being recorded.
    missing: Option<Missing>,
    /// Where keys are that a report on the config refers to, by their paths.
    places: BTreeMap<String, Place>,
}

/// How a part of the config is treated in which a variable is not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unset {
    /// It is an error: nothing may silently vanish here.
    Error,
    /// The part, of this kind, is disabled until the variable is set.
    Disables(&'static str),
    /// The part is off anyway.
    Ignore,
}

/// A table with its place in the file. Take the known keys, then call [`Section::finish`].
pub(crate) struct Section {
    /// The keys that lead here, with dots.
    pub(crate) path: String,
    /// The byte at which the key of this section starts.
    pub(crate) at: usize,
    entries: Vec<Entry>,
    known: Vec<&'static str>,
}

/// A key with its value, not yet checked.
#[derive(Clone)]
pub(crate) struct Field {
    pub(crate) path: String,
    /// The last part of the path.
    pub(crate) key: String,
    /// The byte at which the key starts.
    pub(crate) at: usize,
    node: Node,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(file: &'a File, context: &ReadContext<'a>) -> Self {
        let ReadContext { variables, secrets, commands, packs, is_for_running } = *context;
        let unset = if is_for_running { Unset::Ignore } else { Unset::Error };
        let (problems, places) = (Vec::new(), BTreeMap::new());
        Self { file, variables, secrets, commands, packs, problems, unset, missing: None, places }
    }

    /// Keeps where a key is.
    pub(crate) fn keep_place(&mut self, field: &Field) {
        let place = self.place(field.at);
        self.places.insert(field.path.clone(), place);
    }

    pub(crate) fn take_places(&mut self) -> BTreeMap<String, Place> {
        std::mem::take(&mut self.places)
    }

    /// The sources of the values of references, at this place of the file.
    fn lookup(&self) -> Lookup<'a> {
        let commands = match (self.unset, self.commands) {
            (Unset::Error, _) => CommandUse::Refuse,
            (Unset::Disables(_), Some(run)) => CommandUse::Run(run),
            _ => CommandUse::Skip,
        };
        let Self { variables, secrets, file, .. } = *self;
        Lookup { variables, secrets, commands, folder: file.folder() }
    }

    /// Reads one part of the file while variables that are not set are treated like this. Returns the first of them
    /// that disables this part.
    /// Whether a reference without a value is an error.
    pub(crate) fn needs_values(&self) -> bool {
        self.unset == Unset::Error
    }

    pub(crate) fn with_unset<T>(
        &mut self,
        unset: Unset,
        read: impl FnOnce(&mut Self) -> T,
    ) -> (T, Option<Missing>) {
        let before = self.unset;
        if before != Unset::Ignore {
            self.unset = unset;
        }
        let read = read(self);
        self.unset = before;
        (read, self.missing.take())
    }

    pub(crate) fn error(
        &mut self,
        at: usize,
        key: &str,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.error_of(None, at, key, message.into(), help.into());
    }

    /// An error of a kind that callers distinguish.
    pub(crate) fn error_of(
        &mut self,
        kind: Option<ProblemKind>,
        at: usize,
        key: &str,
        message: String,
        help: String,
    ) {
        let place = Some(self.place(at));
        let kind = kind.map(Box::new);
        self.problems.push(Problem { place, kind, ..Problem::error(key, message, help) });
    }

    pub(crate) fn warn(&mut self, at: usize, key: &str, message: impl Into<String>, help: impl Into<String>) {
        self.add(Level::Warning, at, key, message.into(), help.into());
    }

    pub(crate) fn note(&mut self, at: usize, key: &str, message: impl Into<String>) {
        self.add(Level::Note, at, key, message.into(), String::new());
    }

    fn add(&mut self, level: Level, at: usize, key: &str, message: String, help: String) {
        let place = Some(self.place(at));
        self.problems.push(Problem { level, place, ..Problem::error(key, message, help) });
    }

    /// A path that starts with `~/` starts from the home folder.
    pub(crate) fn below_home(&self, path: String) -> String {
        let home = || system::home(self.variables).filter(|home| home.is_absolute());
        match path.strip_prefix("~/").map(ToOwned::to_owned).or_else(|| (path == "~").then(String::new)) {
            Some(rest) => home().map_or(path, |home| home.join(rest).display().to_string()),
            None => path,
        }
    }

    /// How a key with a value is written in this file.
    pub(crate) fn example(&self, key: &str, value: &str) -> String {
        match self.file.format() {
            Format::Toml => format!("{key} = {value}"),
            Format::Json => format!("\"{key}\": {value}"),
        }
    }

    pub(crate) fn place(&self, at: usize) -> Place {
        Place::find(&self.file.path, &self.file.text, at)
    }

    /// The problems that were found, in the order of the file.
    pub(crate) fn finish(mut self) -> Vec<Problem> {
        self.problems.sort_by_key(|problem| problem.place.as_ref().map(|place| (place.line, place.column)));
        self.problems
    }
}

impl Section {
    pub(crate) fn root(entries: Vec<Entry>) -> Self {
        Self { path: String::new(), at: 0, entries, known: Vec::new() }
    }

    /// Takes a key, if it is there.
    pub(crate) fn take(&mut self, key: &'static str) -> Option<Field> {
        self.known.push(key);
        let index = self.entries.iter().position(|entry| entry.key == key)?;
        let entry = self.entries.remove(index);
        Some(self.field(entry))
    }

    /// The text of a key in a subsection, which stays to be taken.
    pub(crate) fn peek(&self, section: &str, key: &str) -> Option<String> {
        let find = |entries: &[Entry], key: &str| entries.iter().find(|entry| entry.key == key).cloned();
        let Value::Table(entries) = find(&self.entries, section)?.node.value else { return None };
        match find(&entries, key)?.node.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Lets a key of another program count as one of ours.
    pub(crate) fn rename(&mut self, from: &str, to: &str) {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.key == from) {
            to.clone_into(&mut entry.key);
        }
    }

    /// Takes a key that belongs elsewhere and is not offered as a known one.
    pub(crate) fn take_other(&mut self, key: &str) -> Option<Field> {
        let index = self.entries.iter().position(|entry| entry.key == key)?;
        let entry = self.entries.remove(index);
        Some(self.field(entry))
    }

    /// All that is left, where any key will do.
    pub(crate) fn take_all(mut self) -> Vec<Field> {
        let entries = std::mem::take(&mut self.entries);
        entries.into_iter().map(|entry| self.field(entry)).collect()
    }

    /// Whether a key is there.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.entries.iter().any(|entry| entry.key == key)
    }

    /// Whether no key is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether a key is left that is probably a misspelt `key`.
    pub(crate) fn has_slip_of(&self, key: &str) -> bool {
        self.entries.iter().any(|entry| nearest(&entry.key, [key]).is_some())
    }

    /// A subsection such as `[listen]`.
    pub(crate) fn section(&mut self, reader: &mut Reader<'_>, key: &'static str) -> Option<Self> {
        self.take(key)?.section(reader)
    }

    /// The subsections of a section that holds nothing else, such as `[upstreams.*]`.
    pub(crate) fn named_sections(
        &mut self,
        reader: &mut Reader<'_>,
        key: &'static str,
    ) -> Vec<(Field, Self)> {
        let fields = self.section(reader, key).map(Self::take_all).unwrap_or_default();
        let named = |field: Field| Some((field.clone(), field.section(reader)?));
        fields.into_iter().filter_map(named).collect()
    }

    /// Everything that was not taken is a mistake.
    pub(crate) fn finish(self, reader: &mut Reader<'_>) {
        let known = self.known.clone();
        for field in self.take_all() {
            let help = match nearest(&field.key, known.iter().copied()) {
                Some(key) => format!("did you mean `{key}`?"),
                None => "remove it, or use one of these; `toolyard schema` describes every key".into(),
            };
            let mut expected: Vec<String> = known.iter().map(|key| format!("`{key}`")).collect();
            expected.sort();
            let message = format!("unknown key; expected one of {}", expected.join(", "));
            reader.error_of(
                Some(ProblemKind::UnknownKey(known.clone())),
                field.at,
                &field.path,
                message,
                help,
            );
        }
    }

    fn field(&self, entry: Entry) -> Field {
        let path = join(&self.path, &entry.key);
        Field { path, key: entry.key, at: entry.at, node: entry.node }
    }
}

impl Field {
    pub(crate) fn error(&self, reader: &mut Reader<'_>, message: impl Into<String>, help: impl Into<String>) {
        reader.error(self.at, &self.path, message, help);
    }

    pub(crate) fn warn(&self, reader: &mut Reader<'_>, message: impl Into<String>, help: impl Into<String>) {
        reader.warn(self.at, &self.path, message, help);
    }

    /// How this key, or this item of a list, is written with another value.
    pub(crate) fn example(&self, reader: &Reader<'_>, value: &str) -> String {
        if self.path.ends_with(']') { value.to_owned() } else { reader.example(&self.key, value) }
    }

    pub(crate) fn wrong_kind(&self, reader: &mut Reader<'_>, expected: &str, help: impl Into<String>) {
        let message = format!("expected {expected}, found {}", self.node.value.kind());
        reader.error_of(Some(ProblemKind::WrongKind), self.node.at, &self.path, message, help.into());
    }

    pub(crate) fn value(&self) -> &Value {
        &self.node.value
    }

    pub(crate) fn text(&self, reader: &mut Reader<'_>) -> Option<String> {
        let Value::Text(text) = &self.node.value else {
            let help = format!("put one value in quotes: {}", self.example(reader, "\"…\""));
            self.wrong_kind(reader, "a string", help);
            return None;
        };
        Some(text.clone())
    }

    /// A text with each `${VAR}` replaced by the environment variable, and each `${secret:NAME}` by the secret.
    pub(crate) fn expanded(&self, reader: &mut Reader<'_>) -> Option<String> {
        let text = self.text(reader)?;
        match expand(&text, reader.lookup()) {
            Ok(text) => Some(text),
            Err(Trouble { is_skipped: true, .. }) => None,
            Err(Trouble { missing: Some(missing), message, help, .. }) if reader.unset != Unset::Error => {
                self.disable(reader, missing, &message, &help);
                None
            }
            Err(trouble) => {
                let kind = match trouble.missing {
                    Some(Missing::Variable(_)) => Some(ProblemKind::UnsetVariable),
                    _ => None,
                };
                reader.error_of(kind, self.node.at, &self.path, trouble.message, trouble.help);
                None
            }
        }
    }

    /// This part of the config is off, since it needs something that has no value.
    fn disable(&self, reader: &mut Reader<'_>, missing: Missing, message: &str, help: &str) {
        if let Unset::Disables(part) = reader.unset {
            reader.warn(self.node.at, &self.path, format!("{message}, so this {part} is off"), help);
            reader.missing.get_or_insert(missing);
        }
    }

    /// The variables of the file that this names.
    pub(crate) fn env_file(&self, reader: &mut Reader<'_>) -> Option<Vec<(String, String)>> {
        let text = self.expanded(reader)?;
        let path = reader.file.folder().join(reader.below_home(text));
        match read_env_file(&path) {
            Ok(variables) => return Some(variables),
            Err(EnvFileError::Read(error)) => {
                let missing = Missing::File(path.display().to_string(), error.to_string());
                self.disable(reader, missing.clone(), &missing.reason(), &missing.hint());
            }
            Err(EnvFileError::Line(line)) => {
                let message = format!("line {line} of {} is not NAME=value", path.display());
                self.error(
                    reader,
                    message,
                    "write one variable a line; close quotes on the line on which they open",
                );
            }
        }
        None
    }

    /// One of a few words.
    pub(crate) fn choice<T: Copy>(&self, reader: &mut Reader<'_>, choices: &[(&str, T)]) -> Option<T> {
        let text = self.text(reader)?;
        let chosen = choices.iter().find(|(word, _)| *word == text);
        if chosen.is_none() {
            let words: Vec<String> = choices.iter().map(|(word, _)| format!("\"{word}\"")).collect();
            let help = match nearest(&text, choices.iter().map(|(word, _)| *word)) {
                Some(word) => format!("did you mean \"{word}\"?"),
                None => "choose one of these, or remove the key".to_owned(),
            };
            let message = format!("expected one of {}, found \"{text}\"", words.join(", "));
            let words = choices.iter().map(|(word, _)| (*word).to_owned()).collect();
            reader.error_of(Some(ProblemKind::NotAChoice(words)), self.node.at, &self.path, message, help);
        }
        chosen.map(|(_, value)| *value)
    }

    pub(crate) fn flag(&self, reader: &mut Reader<'_>) -> Option<bool> {
        let Value::Flag(flag) = self.node.value else {
            let help = format!("write {}, without quotes", self.example(reader, "true"));
            self.wrong_kind(reader, "true or false", help);
            return None;
        };
        Some(flag)
    }

    pub(crate) fn integer(&self, reader: &mut Reader<'_>) -> Option<i64> {
        let Value::Integer(integer) = self.node.value else {
            let help = format!("write {}, without quotes", self.example(reader, "48"));
            self.wrong_kind(reader, "a whole number", help);
            return None;
        };
        Some(integer)
    }

    /// The items of a list, each with the path `key[0]`.
    pub(crate) fn items(&self, reader: &mut Reader<'_>) -> Vec<Self> {
        let Value::List(items) = &self.node.value else {
            let help = format!("put the values in brackets: {}", self.example(reader, "[\"…\"]"));
            self.wrong_kind(reader, "a list of strings", help);
            return Vec::new();
        };
        let item = |(index, node): (usize, &Node)| {
            let path = format!("{}[{index}]", self.path);
            Self { path, key: self.key.clone(), at: node.at, node: node.clone() }
        };
        items.iter().enumerate().map(item).collect()
    }

    pub(crate) fn expanded_list(&self, reader: &mut Reader<'_>) -> Vec<String> {
        self.items(reader).iter().filter_map(|item| item.expanded(reader)).collect()
    }

    /// A table of texts, each expanded.
    pub(crate) fn expanded_table(&self, reader: &mut Reader<'_>) -> BTreeMap<String, (Self, String)> {
        let fields = self.clone().section(reader).map(Section::take_all).unwrap_or_default();
        let pair = |field: Self| {
            let text = field.expanded(reader)?;
            Some((field.key.clone(), (field, text)))
        };
        fields.into_iter().filter_map(pair).collect()
    }

    pub(crate) fn section(self, reader: &mut Reader<'_>) -> Option<Section> {
        if !matches!(self.node.value, Value::Table(_)) {
            let (expected, help) = match reader.file.format() {
                Format::Toml
                    if matches!(self.node.value, Value::List(_)) && NAMED.contains(&self.key.as_str()) =>
                {
                    (
                        "a table",
                        format!("write one section for each: [{}.NAME], with single brackets", self.path),
                    )
                }
                Format::Toml => ("a table", format!("write it as a section: [{}]", self.path)),
                Format::Json => ("an object", format!("write {}", self.example(reader, "{ … }"))),
            };
            self.wrong_kind(reader, expected, help);
            return None;
        }
        let Value::Table(entries) = self.node.value else { return None };
        Some(Section { path: self.path, at: self.at, entries, known: Vec::new() })
    }
}

/// Sections whose subsections have names that the user chooses.
const NAMED: [&str; 5] = ["upstreams", "packs", "profiles", "limits", "hooks"];

/// `upstreams.files`, with quotes where TOML wants them.
fn join(path: &str, key: &str) -> String {
    let is_bare = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    let key = if is_bare { key.to_owned() } else { format!("{key:?}") };
    if path.is_empty() { key } else { format!("{path}.{key}") }
}
