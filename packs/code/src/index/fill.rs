//! Computes the vectors of chunks that have none, beside searches and updates. Models that are slow, or behind a network,
//! need this; the fast model encodes while files are read.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use parking_lot::MutexGuard;
use toolyard_rank::DocumentId;
use toolyard_tool::ToolError;

use super::loaded::IndexedFile;
use super::rank::quantized;
use super::store::{StoredChunk, StoredFile};
use super::{Index, Size, passage};
use crate::embed::Passage;

/// After a failure, missing vectors are computed again no sooner than this.
const FILL_AGAIN: Duration = Duration::from_mins(1);

/// How the computation of missing vectors is going.
#[derive(Debug, Default)]
pub(super) struct Filling {
    is_running: bool,
    /// When it last failed, and why.
    failed: Option<(Instant, String)>,
}

impl Index {
    /// Computes the missing vectors, batch by batch; returns whether all chunks have one then. Searches and updates
    /// continue in the meantime.
    pub(crate) async fn fill(
        &self,
        go_on: &(dyn Fn() -> bool + Sync),
        report: &(dyn Fn(Size) + Sync),
    ) -> Result<bool, ToolError> {
        let mut length = None;
        loop {
            let files = self.unfilled();
            if files.is_empty() {
                return Ok(true);
            }
            if self.cancelled.load(Ordering::Acquire) || !go_on() {
                return Ok(false);
            }
            let passages: Vec<Passage> = files
                .iter()
                .flat_map(|file| file.chunks.iter().map(|stored| passage(&file.path, &stored.chunk)))
                .collect();
            let vectors = self.encoder.passages(&passages).await?;
            self.check_length(&mut length, &vectors)?;
            self.keep(files, &vectors)?;
            report(self.size());
        }
    }

    /// All vectors of a fill have one length. Each change of the length discards the vectors before it, so a service
    /// that returned two lengths in turn would be asked indefinitely.
    fn check_length(&self, length: &mut Option<usize>, vectors: &[Vec<f32>]) -> Result<(), ToolError> {
        let expected = match *length {
            // A search, too, can have discarded vectors since the first batch.
            Some(expected) if self.lock().dimensions != expected => return Err(lengths_differ()),
            Some(expected) => expected,
            None => *length.insert(vectors.first().map_or(0, Vec::len)),
        };
        let is_same = vectors.iter().all(|vector| vector.len() == expected);
        if is_same { Ok(()) } else { Err(lengths_differ()) }
    }

    /// Files with chunks that have no vector, up to a batch of chunks.
    fn unfilled(&self) -> Vec<StoredFile> {
        let loaded = self.lock();
        let entry = |document: &DocumentId| loaded.entries[document.index()].as_ref();
        let is_unfilled =
            |file: &IndexedFile| file.documents.iter().filter_map(entry).any(|entry| entry.vector.is_none());
        let mut files = Vec::new();
        let mut count = 0;
        for (path, file) in loaded.files.iter().filter(|(_, file)| is_unfilled(file)) {
            let chunks: Vec<StoredChunk> = file
                .documents
                .iter()
                .filter_map(entry)
                .map(|entry| StoredChunk { chunk: entry.chunk.clone(), vector: None })
                .collect();
            count += chunks.len();
            files.push(StoredFile { path: path.clone(), stamp: file.stamp, chunks });
            if count >= self.encoder.batch() {
                break;
            }
        }
        files
    }

    /// Stores computed vectors, except those of files that changed meanwhile.
    fn keep(&self, files: Vec<StoredFile>, vectors: &[Vec<f32>]) -> Result<(), ToolError> {
        let dimensions = vectors.first().map_or(0, Vec::len);
        let mut vectors = vectors.iter();
        let mut filled = Vec::with_capacity(files.len());
        for mut file in files {
            for stored in &mut file.chunks {
                stored.vector = vectors.next().map(|vector| quantized(vector));
            }
            filled.push(file);
        }
        let _alone = self.refreshing.lock();
        {
            let mut loaded = self.lock();
            loaded.expect_dimensions(dimensions);
            filled.retain(|file| loaded.files.get(&file.path).is_some_and(|now| now.stamp == file.stamp));
        }
        self.write(filled, &[])
    }

    /// The right to fill the index in the background, if there is something to fill, no other fill is running and none
    /// has failed a moment ago.
    pub(crate) fn claim_fill(&self) -> bool {
        let size = self.size();
        let mut filling = self.filling();
        let has_failed = filling.failed.as_ref().is_some_and(|(at, _)| at.elapsed() < FILL_AGAIN);
        let is_due = size.vectors < size.chunks && !filling.is_running && !has_failed;
        filling.is_running |= is_due;
        is_due
    }

    /// Records how a fill that was claimed ended.
    pub(crate) fn end_fill(&self, result: &Result<bool, ToolError>) {
        let mut filling = self.filling();
        filling.is_running = false;
        filling.failed = result.as_ref().err().map(|error| (Instant::now(), error.message().to_owned()));
    }

    /// Why vectors are missing, if computing them failed.
    pub(crate) fn fill_failure(&self) -> Option<String> {
        self.filling().failed.as_ref().map(|(_, reason)| reason.clone())
    }

    /// Lets the next fill begin at once, although the last one failed.
    pub(super) fn forget_failure(&self) {
        self.filling().failed = None;
    }

    fn filling(&self) -> MutexGuard<'_, Filling> {
        self.filling.lock()
    }
}

fn lengths_differ() -> ToolError {
    ToolError::new("the service of the embedding model returned vectors of different lengths")
        .hint("if it now serves another model under the same name, try again")
}
