//! The index in memory: chunks by file, with the index of their words.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use toolyard_rank::{DocumentId, Index as Words};

use super::chunk::Chunk;
use super::rank::document;
use super::store::{Stamp, Store, StoredChunk, StoredFile};

/// Fewer empty slots than this are not worth a compaction.
const MIN_EMPTY: usize = 1_000;

/// The index in memory, and the store behind it.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) store: Store,
    pub(super) version: i64,
    pub(super) checked: Option<Instant>,
    /// How many numbers a vector of the model has; 0 until that is known.
    pub(super) dimensions: usize,
    pub(super) words: Words,
    /// By [`DocumentId::index`].
    pub(super) entries: Vec<Option<Indexed>>,
    pub(super) files: HashMap<PathBuf, IndexedFile>,
}

#[derive(Debug)]
pub(super) struct Indexed {
    pub(super) path: Arc<Path>,
    pub(super) chunk: Chunk,
    pub(super) vector: Option<Box<[i8]>>,
}

#[derive(Debug)]
pub(super) struct IndexedFile {
    pub(super) stamp: Stamp,
    pub(super) documents: Vec<DocumentId>,
}

impl Loaded {
    pub(super) fn reload_if_changed(&mut self) -> rusqlite::Result<()> {
        if self.store.version()? == self.version { Ok(()) } else { self.reload() }
    }

    /// Begins with an empty database if someone has removed the one in use.
    pub(super) fn reopen_if_gone(
        &mut self,
        open: impl FnOnce() -> rusqlite::Result<Store>,
    ) -> rusqlite::Result<()> {
        if !self.store.is_gone() {
            return Ok(());
        }
        self.store = open()?;
        self.reload()
    }

    pub(super) fn reload(&mut self) -> rusqlite::Result<()> {
        self.version = self.store.version()?;
        self.checked = None;
        self.words = Words::default();
        self.entries = Vec::new();
        self.files = HashMap::new();
        for file in self.store.load()? {
            self.take_in(file);
        }
        Ok(())
    }

    pub(super) fn take_in(&mut self, file: StoredFile) {
        let path: Arc<Path> = file.path.as_path().into();
        let mut documents = Vec::with_capacity(file.chunks.len());
        for StoredChunk { chunk, vector } in file.chunks {
            let vector = vector.filter(|vector| self.dimensions == 0 || vector.len() == self.dimensions);
            documents.push(self.words.add(&document(&path, &chunk)));
            self.entries.push(Some(Indexed { path: path.clone(), chunk, vector }));
        }
        self.files.insert(file.path, IndexedFile { stamp: file.stamp, documents });
    }

    /// The model has returned a vector of this length. Stored ones of another length count as missing, since a service
    /// may replace a model under the same name.
    pub(super) fn expect_dimensions(&mut self, dimensions: usize) {
        if dimensions == 0 || dimensions == self.dimensions {
            return;
        }
        self.dimensions = dimensions;
        for entry in self.entries.iter_mut().flatten() {
            entry.vector.take_if(|vector| vector.len() != dimensions);
        }
    }

    /// In how many chunks each defined name occurs.
    pub(super) fn uses(&self) -> HashMap<&str, usize> {
        let names = self.entries.iter().flatten().map(|entry| entry.chunk.own_name());
        let mut uses: HashMap<&str, usize> =
            names.filter(|name| !name.is_empty()).map(|name| (name, 0)).collect();
        for entry in self.entries.iter().flatten() {
            let words: HashSet<&str> = words_of(&entry.chunk.text).collect();
            for word in words {
                if let Some(count) = uses.get_mut(word)
                    && word != entry.chunk.own_name()
                {
                    *count += 1;
                }
            }
        }
        uses
    }

    pub(super) fn forget(&mut self, path: &Path) {
        let Some(file) = self.files.remove(path) else { return };
        for document in file.documents {
            self.words.remove(document);
            self.entries[document.index()] = None;
        }
    }

    /// Frees the slots of removed chunks once they are more than half of all: each search visits every slot.
    pub(super) fn compact_if_sparse(&mut self) {
        let empty = self.entries.len() - self.words.len();
        if empty < MIN_EMPTY || empty <= self.words.len() {
            return;
        }
        let moved = self.words.compact();
        self.entries.retain(Option::is_some);
        self.entries.shrink_to_fit();
        for file in self.files.values_mut() {
            let documents = file.documents.iter();
            file.documents = documents.filter_map(|document| moved[document.index()]).collect();
        }
    }
}

pub(super) fn words_of(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}
