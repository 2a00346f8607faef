//! Maps names to entries. A new table shares all unchanged parts with the table that it was made from, so the cost of a
//! change, and of dropping an old table, depends only on what has changed.

use std::hash::BuildHasher;
use std::sync::{Arc, LazyLock};

use foldhash::fast::RandomState;

use super::Entry;
use crate::pipeline::Chain;

/// The number of pieces of a table. A piece is copied when something in it changes.
const PIECES: usize = 1 << PIECE_BITS;
const PIECE_BITS: u32 = 10;

static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::default);

fn hash(name: &str) -> u64 {
    HASHER.hash_one(name)
}

/// An entry in one view, with the steps that this view sets for it.
#[derive(Clone, Debug)]
pub(crate) struct ViewEntry {
    pub(crate) entry: Arc<Entry>,
    /// The steps that its calls pass in this view.
    pub(crate) chain: Chain,
}

#[derive(Clone, Debug)]
struct NameSlot {
    hash: u64,
    found: ViewEntry,
}

/// The names of a view of many upstreams: each entry by its shown name and by its canonical id.
#[derive(Clone, Debug)]
pub(super) struct NameTable {
    /// Each is sorted by hash. The names themselves are in the entries.
    pieces: Vec<Arc<Vec<NameSlot>>>,
}

impl Default for NameTable {
    fn default() -> Self {
        Self { pieces: vec![Arc::default(); PIECES] }
    }
}

fn goes_by(entry: &Entry, name: &str) -> bool {
    entry.shown == name || *entry.canonical == *name
}

fn piece_of(hash: u64) -> usize {
    usize::try_from(hash >> (u64::BITS - PIECE_BITS)).unwrap_or_default()
}

impl NameTable {
    pub(super) fn get(&self, name: &str) -> Option<&ViewEntry> {
        self.get_hashed(hash(name), name)
    }

    fn get_hashed(&self, hash: u64, name: &str) -> Option<&ViewEntry> {
        let piece = &self.pieces[piece_of(hash)];
        let at = piece.partition_point(|slot| slot.hash < hash);
        let same = piece[at..].iter().take_while(|slot| slot.hash == hash);
        same.map(|slot| &slot.found).find(|found| goes_by(&found.entry, name))
    }

    /// Adds an entry under both its names, or returns the entry that has its shown name already.
    pub(super) fn insert(&mut self, new: &ViewEntry) -> Result<(), Arc<Entry>> {
        let (shown, canonical) = (&new.entry.shown, &*new.entry.canonical);
        let by_shown = hash(shown);
        if let Some(first) = self.get_hashed(by_shown, shown) {
            return Err(first.entry.clone());
        }
        self.put(by_shown, new.clone());
        let by_canonical = hash(canonical);
        if self.get_hashed(by_canonical, canonical).is_none() {
            self.put(by_canonical, new.clone());
        }
        Ok(())
    }

    fn put(&mut self, hash: u64, found: ViewEntry) {
        let piece = Arc::make_mut(&mut self.pieces[piece_of(hash)]);
        let at = piece.partition_point(|slot| slot.hash < hash);
        piece.insert(at, NameSlot { hash, found });
    }

    /// Removes an entry under all its names.
    pub(super) fn remove(&mut self, entry: &Arc<Entry>) {
        for hash in [hash(&entry.shown), hash(&entry.canonical)] {
            let piece = &mut self.pieces[piece_of(hash)];
            let is_it = |slot: &NameSlot| slot.hash == hash && Arc::ptr_eq(&slot.found.entry, entry);
            if piece.iter().any(is_it) {
                Arc::make_mut(piece).retain(|slot| !is_it(slot));
            }
        }
    }
}

/// The places of entries in a list, by their own names.
#[derive(Debug, Default)]
pub(super) struct OwnNames {
    /// Sorted by hash.
    places: Vec<(u64, u32)>,
}

impl OwnNames {
    pub(super) fn of<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let mut places: Vec<(u64, u32)> = names.map(hash).zip(0..).collect();
        places.sort_unstable();
        Self { places }
    }

    /// The first place whose name is this one.
    pub(super) fn find(&self, name: &str, is_it: impl Fn(usize) -> bool) -> Option<usize> {
        let hash = hash(name);
        let at = self.places.partition_point(|(other, _)| *other < hash);
        let same = self.places[at..].iter().take_while(|(other, _)| *other == hash);
        same.filter_map(|(_, place)| usize::try_from(*place).ok()).find(|place| is_it(*place))
    }
}
