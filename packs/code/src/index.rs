//! The index of a project: its chunks, their words, and their vectors, kept current with the files.

pub(crate) mod chunk;
mod fill;
mod loaded;
pub(crate) mod rank;
pub(crate) mod store;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use schemars::JsonSchema;
use serde::Serialize;
use toolyard_rank::Index as Words;
use toolyard_tool::ToolError;

use crate::background::{self, on_all_cores};
use crate::embed::{Encoder, Passage};
use crate::language;
use crate::project::{Place, Project};
use crate::search::shorten;
use crate::walk::Walk;
use chunk::{Chunk, chunks, decorator_name};
use fill::Filling;
use loaded::{Indexed, Loaded, words_of};
use rank::{Form, cosine, quantized, text_for_model, weight_of_path};
use store::{Stamp, Store, StoredChunk, StoredFile};

/// An index is compared with the files at most this often.
const FRESH: Duration = Duration::from_secs(2);
/// How many characters of a chunk an answer shows.
pub(crate) const SNIPPET: usize = 500;
/// Files that are written in one transaction.
const BATCH: usize = 200;
/// Endings of files without a grammar that are indexed as text.
const TEXTS: [&str; 14] =
    ["cpp", "cs", "h", "hpp", "kt", "md", "proto", "scala", "sql", "svelte", "swift", "toml", "txt", "vue"];
/// A file that names further files to leave out, beside `.gitignore` and `.ignore`.
const IGNORE_FILE: &str = ".stravignore";
/// A file in the project's root that names all files to index, except those that are left out.
const ADD_FILE: &str = ".stravinskyadd";

/// One project's index. All callers share it.
#[derive(Debug)]
pub(crate) struct Index {
    project: Project,
    folder: PathBuf,
    encoder: Arc<Encoder>,
    loaded: Mutex<Loaded>,
    /// Held by the one caller that brings the index up to date.
    refreshing: Mutex<()>,
    cancelled: AtomicBool,
    filling: Mutex<Filling>,
}

/// What must hold for a chunk to be an answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    pub(crate) language: Option<String>,
    pub(crate) node_type: Option<String>,
    pub(crate) decorator: Option<String>,
    pub(crate) is_async: Option<bool>,
    pub(crate) base_class: Option<String>,
}

/// A chunk that answers a question.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Answer {
    /// Relative to the project's root.
    pub(crate) file: String,
    /// The first line, counted from 1.
    pub(crate) line: usize,
    /// Its first column in characters, counted from 1.
    pub(crate) column: usize,
    /// The last line.
    pub(crate) end_line: usize,
    /// What it is: `function`, `method`, `class`, `interface`, `type` or `text`.
    pub(crate) kind: String,
    /// Its name with the names around it, as `Type/method`.
    pub(crate) name: String,
    /// How well it answers, comparable within one search.
    pub(crate) score: f64,
    /// Its beginning.
    pub(crate) snippet: String,
}

impl Answer {
    /// Whether the code of another answer is in its own.
    pub(crate) fn contains(&self, other: &Self) -> bool {
        self.file == other.file && self.line <= other.line && other.end_line <= self.end_line
    }

    /// Whether one of these lines, by file, is in its code.
    pub(crate) fn has_any_of(&self, lines: &HashMap<&str, Vec<usize>>) -> bool {
        let within = self.line..=self.end_line;
        lines.get(self.file.as_str()).is_some_and(|lines| lines.iter().any(|line| within.contains(line)))
    }
}

/// A definition in an outline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outlined {
    /// Relative to the project's root.
    pub(crate) file: String,
    pub(crate) line: usize,
    /// Its first line without the body.
    pub(crate) signature: String,
    /// In how many other chunks its name occurs.
    pub(crate) uses: usize,
}

/// What an update of the index did.
#[derive(Clone, Debug, Default, Serialize, JsonSchema, PartialEq, Eq)]
pub(crate) struct Update {
    /// Files that were new or had changed.
    pub(crate) indexed_files: usize,
    /// Files that were removed from the index.
    pub(crate) removed_files: usize,
    /// Files that had not changed.
    pub(crate) reused_files: usize,
    /// Chunks in the index afterwards.
    pub(crate) chunks: usize,
    /// Whether it was cancelled before its end.
    pub(crate) cancelled: bool,
}

/// What is indexed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Size {
    pub(crate) files: usize,
    pub(crate) chunks: usize,
    /// How many chunks have a vector.
    pub(crate) vectors: usize,
}

impl Size {
    /// The share of the chunks that can be compared by meaning.
    #[expect(clippy::cast_precision_loss, reason = "a share needs no more than the precision of f32")]
    pub(crate) fn coverage(self) -> f32 {
        if self.chunks == 0 { 1.0 } else { self.vectors as f32 / self.chunks as f32 }
    }
}

impl Index {
    /// Opens the index of a project below `cache`, with what was stored before.
    pub(crate) fn open(project: Project, cache: &Path, encoder: Arc<Encoder>) -> Result<Self, ToolError> {
        let folder = store::folder(cache, project.root());
        let store = Store::open(&folder, &encoder.name()).map_err(|error| store_error(&folder, &error))?;
        let mut loaded = Loaded {
            store,
            version: 0,
            checked: None,
            dimensions: 0,
            words: Words::default(),
            entries: Vec::new(),
            files: HashMap::new(),
        };
        loaded.reload().map_err(|error| store_error(&folder, &error))?;
        Ok(Self {
            project,
            folder,
            encoder,
            loaded: Mutex::new(loaded),
            refreshing: Mutex::new(()),
            cancelled: AtomicBool::new(false),
            filling: Mutex::default(),
        })
    }

    /// How many numbers a vector has. 0 until there is one.
    pub(crate) fn dimensions(&self) -> usize {
        let loaded = self.lock();
        let mut vectors = loaded.entries.iter().flatten().filter_map(|entry| entry.vector.as_ref());
        vectors.next().map_or(0, |vector| vector.len())
    }

    /// The model of its vectors.
    pub(crate) fn encoder(&self) -> &Encoder {
        &self.encoder
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn size(&self) -> Size {
        let loaded = self.lock();
        let vectors = loaded.entries.iter().flatten().filter(|entry| entry.vector.is_some()).count();
        Size { files: loaded.files.len(), chunks: loaded.words.len(), vectors }
    }

    /// The name of the lock under which one gateway at a time computes its vectors.
    pub(crate) fn lock_name(&self) -> String {
        let name = self.folder.file_name().unwrap_or(self.folder.as_os_str());
        format!("vectors.{}", name.to_string_lossy())
    }

    /// Reads what another gateway has stored meanwhile.
    pub(crate) fn catch_up(&self) -> Result<(), ToolError> {
        let _alone = self.refreshing.lock();
        self.lock().reload_if_changed().map_err(|error| store_error(&self.folder, &error))
    }

    /// Empties the index, for all gateways; returns whether there was anything in it. Those that use it go on with the
    /// empty index, and their next update fills it again. Indexes of other providers stay.
    pub(crate) fn clear(&self) -> Result<bool, ToolError> {
        // An update that is under way must not keep the caller waiting until its end.
        self.cancel();
        let _alone = self.refreshing.lock();
        let open = || Store::open(&self.folder, &self.encoder.name());
        let mut loaded = self.lock();
        let cleared = loaded.store.clear();
        // A damaged file was removed, and its connection would read it again.
        let reloaded = loaded.reopen_if_gone(open).and_then(|()| loaded.reload());
        drop(loaded);
        self.forget_failure();
        let cleared = cleared.and_then(|had_any| reloaded.map(|()| had_any));
        cleared.map_err(|error| store_error(&self.folder, &error))
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    /// Asks an update that is under way to stop after the files it is working on.
    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
    }

    /// Brings the index up to date unless that was done a moment ago.
    pub(crate) fn refresh_if_stale(&self) -> Result<(), ToolError> {
        let is_fresh = || self.lock().checked.is_some_and(|checked| checked.elapsed() < FRESH);
        if !is_fresh() {
            self.refresh(&|| true, &|_, _| {})?;
        }
        Ok(())
    }

    /// Brings the index up to date with the files. Calls `go_on` and `report` between batches.
    pub(crate) fn refresh(
        &self,
        go_on: &(dyn Fn() -> bool + Sync),
        report: &(dyn Fn(usize, usize) + Sync),
    ) -> Result<Update, ToolError> {
        background::run(|| self.refresh_here(go_on, report))
    }

    fn refresh_here(
        &self,
        go_on: &dyn Fn() -> bool,
        report: &dyn Fn(usize, usize),
    ) -> Result<Update, ToolError> {
        let _alone = self.refreshing.lock();
        self.cancelled.store(false, Ordering::Release);
        {
            let mut loaded = self.lock();
            let open = || Store::open(&self.folder, &self.encoder.name());
            let current = loaded.reopen_if_gone(open).and_then(|()| loaded.reload_if_changed());
            current.map_err(|error| store_error(&self.folder, &error))?;
        }
        let (changed, removed, reused) = self.differences();
        let mut update = Update { removed_files: removed.len(), reused_files: reused, ..Update::default() };
        let total = changed.len();
        self.write(Vec::new(), &removed)?;
        for batch in changed.chunks(BATCH) {
            if self.cancelled.load(Ordering::Acquire) || !go_on() {
                update.cancelled = true;
                break;
            }
            update.indexed_files += batch.len();
            self.write(self.read_files(batch)?, &[])?;
            report(update.indexed_files, total);
        }
        let mut loaded = self.lock();
        loaded.checked = (!update.cancelled).then(Instant::now);
        update.chunks = loaded.words.len();
        Ok(update)
    }

    /// Files that are new or changed, files that are gone, and how many are as they were.
    fn differences(&self) -> (Vec<(PathBuf, Stamp)>, Vec<PathBuf>, usize) {
        let place = Place { project: self.project.clone(), below: PathBuf::new() };
        let files = Walk::default().with_ignore_file(IGNORE_FILE).with_add_file(ADD_FILE).files(&place);
        let wanted = files.into_iter().filter(|path| is_indexed(path));
        let found: HashMap<PathBuf, Stamp> = wanted
            .filter_map(|path| Stamp::of(&self.project.root().join(&path)).map(|stamp| (path, stamp)))
            .collect();
        let loaded = self.lock();
        let removed = loaded.files.keys().filter(|path| !found.contains_key(*path)).cloned().collect();
        let is_same =
            |path: &PathBuf, stamp: &Stamp| loaded.files.get(path).is_some_and(|file| file.stamp == *stamp);
        let all = found.len();
        let mut changed: Vec<(PathBuf, Stamp)> =
            found.into_iter().filter(|(path, stamp)| !is_same(path, stamp)).collect();
        changed.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let reused = all - changed.len();
        (changed, removed, reused)
    }

    /// Reads, cuts and, if that takes no time, encodes files, on all cores.
    fn read_files(&self, files: &[(PathBuf, Stamp)]) -> Result<Vec<StoredFile>, ToolError> {
        on_all_cores(files, |(path, stamp)| self.read_file(path, *stamp))
    }

    /// A file that cannot be read or parsed is kept without chunks, so that it is not read again until it changes.
    fn read_file(&self, path: &Path, stamp: Stamp) -> StoredFile {
        let text = self.project.text(path).unwrap_or_default();
        let parsed = std::panic::catch_unwind(|| chunks(path, &text)).unwrap_or_else(|_| {
            tracing::warn!(target: "code", file = %path.display(), "parsing panicked; the file is not indexed");
            Vec::new()
        });
        let chunks = parsed.into_iter().map(|chunk| {
            let is_instant = self.encoder.is_instant();
            let vector = if is_instant { self.encoder.at_once(&passage(path, &chunk)) } else { None };
            StoredChunk { vector: vector.as_deref().map(quantized), chunk }
        });
        StoredFile { path: path.to_owned(), stamp, chunks: chunks.collect() }
    }

    fn write(&self, changed: Vec<StoredFile>, removed: &[PathBuf]) -> Result<(), ToolError> {
        if changed.is_empty() && removed.is_empty() {
            return Ok(());
        }
        let mut loaded = self.lock();
        loaded.store.write(&changed, removed).map_err(|error| store_error(&self.folder, &error))?;
        for path in removed.iter().chain(changed.iter().map(|file| &file.path)) {
            loaded.forget(path);
        }
        for file in changed {
            loaded.take_in(file);
        }
        loaded.compact_if_sparse();
        Ok(())
    }

    /// The chunks that answer a question best. `vector` is the question's; empty if there is none.
    pub(crate) fn search(&self, query: &str, vector: &[f32], filter: &Filter, limit: usize) -> Vec<Answer> {
        let form = Form::of(query);
        let mut loaded = self.lock();
        loaded.expect_dimensions(vector.len());
        let by_words = loaded.words.scores(query);
        let found: Vec<(f32, Option<f32>, &Indexed)> = loaded
            .entries
            .iter()
            .zip(by_words)
            .filter_map(|(entry, words)| {
                let entry = entry.as_ref().filter(|entry| filter.accepts(entry))?;
                let meaning = entry.vector.as_ref().map(|stored| cosine(vector, stored).max(0.0));
                Some((words, meaning, entry))
            })
            .collect();
        // A chunk whose vector is still missing ranks by its words among the others.
        let usual = mean(found.iter().filter_map(|(_, meaning, _)| *meaning));
        let scored = found.into_iter().map(|(words, meaning, entry)| {
            let score = words + form.weight_of_meaning() * meaning.unwrap_or(usual);
            (score * weight_of_path(&entry.path), entry)
        });
        let mut scored: Vec<(f32, &Indexed)> = scored.filter(|(score, _)| *score > 0.0).collect();
        scored.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.order().cmp(&b.1.order())));
        scored.truncate(limit);
        scored.into_iter().map(|(score, entry)| entry.to_answer(score)).collect()
    }

    /// All definitions outside of tests and vendored code, with how often their names are used.
    pub(crate) fn outline(&self) -> Vec<Outlined> {
        let loaded = self.lock();
        let uses = loaded.uses();
        let is_shown = |entry: &&Indexed| !entry.chunk.name.is_empty() && weight_of_path(&entry.path) >= 1.0;
        let shown = loaded.entries.iter().flatten().filter(is_shown);
        shown
            .map(|entry| Outlined {
                file: entry.path.display().to_string(),
                line: entry.chunk.line,
                signature: signature(&entry.chunk),
                uses: uses.get(entry.chunk.own_name()).copied().unwrap_or(0),
            })
            .collect()
    }

    /// Where a name is used outside of its own definition, as `file:line name`.
    pub(crate) fn users_of(&self, name: &str, file: &str, line: usize, limit: usize) -> Vec<String> {
        let loaded = self.lock();
        let uses = loaded.entries.iter().flatten().filter(|entry| {
            let is_itself = entry.path.as_os_str() == file && entry.chunk.line == line;
            !is_itself && !entry.chunk.name.is_empty() && words_of(&entry.chunk.text).any(|word| word == name)
        });
        uses.take(limit)
            .map(|entry| format!("{}:{} {}", entry.path.display(), entry.chunk.line, entry.chunk.name))
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, Loaded> {
        self.loaded.lock()
    }
}

impl Filter {
    fn accepts(&self, entry: &Indexed) -> bool {
        let chunk = &entry.chunk;
        let has = |names: &[String], wanted: &str| names.iter().any(|name| is_named(name, wanted));
        self.language.as_deref().is_none_or(|wanted| language::is(&entry.path, wanted))
            && self.node_type.as_deref().is_none_or(|wanted| is_kind(chunk, wanted))
            && self.decorator.as_deref().is_none_or(|wanted| has(&chunk.decorators, &decorator_name(wanted)))
            && self.is_async.is_none_or(|wanted| chunk.is_async == wanted)
            && self.base_class.as_deref().is_none_or(|wanted| has(&chunk.bases, wanted))
    }
}

/// Whether this is the whole name, or its last segments: `task` and `app.task` of `celery.app.task`.
fn is_named(name: &str, wanted: &str) -> bool {
    name.strip_suffix(wanted).is_some_and(|before| before.is_empty() || before.ends_with(['.', ':', '\\']))
}

fn passage(path: &Path, chunk: &Chunk) -> Passage {
    Passage { name: chunk.own_name().to_owned(), text: text_for_model(path, chunk) }
}

#[expect(clippy::cast_precision_loss, reason = "a mean of so many numbers needs no more precision")]
fn mean(numbers: impl Iterator<Item = f32>) -> f32 {
    let (count, sum) = numbers.fold((0_usize, 0.0), |(count, sum), x| (count + 1, sum + x));
    if count == 0 { 0.0 } else { sum / count as f32 }
}

/// The first line of a definition without what opens its body.
fn signature(chunk: &Chunk) -> String {
    let first = chunk.text.lines().next().unwrap_or_default().trim();
    shorten(first.trim_end_matches(['{', ':']).trim_end(), 120)
}

/// Methods are functions, too; `func` and `struct` are what other tools call a function and a class.
fn is_kind(chunk: &Chunk, wanted: &str) -> bool {
    let own = chunk.kind.name();
    match wanted {
        "func" | "function" => matches!(own, "function" | "method"),
        "struct" | "class" => own == "class",
        other => own == other,
    }
}

impl Indexed {
    fn order(&self) -> (&Path, usize) {
        (&self.path, self.chunk.line)
    }

    fn to_answer(&self, score: f32) -> Answer {
        let first = self.chunk.text.lines().next().unwrap_or_default();
        Answer {
            file: self.path.display().to_string(),
            line: self.chunk.line,
            column: first.chars().take_while(|c| c.is_whitespace()).count() + 1,
            end_line: self.chunk.end_line,
            kind: self.chunk.kind.name().to_owned(),
            name: self.chunk.name.clone(),
            score: (f64::from(score) * 1000.0).round() / 1000.0,
            snippet: shorten(&self.chunk.text, SNIPPET),
        }
    }
}

/// Whether a file is code or prose, judged by its name. Lock files and minified code are neither.
fn is_indexed(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    let extension =
        path.extension().map(|extension| extension.to_string_lossy().to_lowercase()).unwrap_or_default();
    let is_noise = extension == "lock" || name.contains("-lock.") || name.contains(".min.");
    !is_noise && (language::of_file(path).is_some() || TEXTS.binary_search(&extension.as_str()).is_ok())
}

fn store_error(folder: &Path, error: &rusqlite::Error) -> ToolError {
    ToolError::new(format!("cannot use the index in `{}`: {error}", folder.display()))
        .hint("`delete_index` removes it, and the next search makes a new one")
}

#[cfg(test)]
mod tests;
