//! The part of an answer that is kept: its beginning, its length and its digest. Filled while the answer passes.

use bytes::Bytes;
use sha2::{Digest, Sha256};

/// How much of an answer is kept.
const LARGEST: usize = 64 * 1024;

/// Collects the pieces that pass.
#[derive(Default)]
pub(crate) struct Capture {
    /// An answer that came in one piece is kept without a copy.
    piece: Bytes,
    more: Vec<u8>,
    total: u64,
    /// Only for an answer that is not kept as a whole.
    hasher: Option<Sha256>,
}

/// The part of an answer that was kept.
#[derive(Clone, Debug)]
pub struct Captured {
    /// Its beginning, up to 64 KiB.
    pub bytes: Bytes,
    /// How long it was.
    pub total: u64,
    digest: Option<[u8; 32]>,
}

impl Capture {
    /// A whole answer.
    pub(crate) fn whole(bytes: &Bytes) -> Captured {
        let mut capture = Self::default();
        capture.add(bytes);
        capture.finish()
    }

    pub(crate) fn add(&mut self, piece: &Bytes) {
        let before = usize::try_from(self.total).unwrap_or(usize::MAX);
        self.total += piece.len() as u64;
        if before == 0 && piece.len() <= LARGEST {
            self.piece = piece.clone();
            return;
        }
        if self.more.is_empty() {
            self.more.extend_from_slice(&std::mem::take(&mut self.piece));
        }
        if let Some(hasher) = &mut self.hasher {
            hasher.update(piece);
            return;
        }
        let room = LARGEST.saturating_sub(self.more.len());
        if piece.len() > room {
            self.hasher = Some(Sha256::new_with_prefix(&self.more).chain_update(piece));
        }
        self.more.extend_from_slice(&piece[..piece.len().min(room)]);
    }

    pub(crate) fn finish(self) -> Captured {
        let bytes = if self.more.is_empty() { self.piece } else { self.more.into() };
        let digest = self.hasher.map(|hasher| hasher.finalize().into());
        Captured { bytes, total: self.total, digest }
    }
}

impl Captured {
    /// SHA-256 over all of it.
    pub fn digest(&self) -> [u8; 32] {
        self.digest.unwrap_or_else(|| Sha256::digest(&self.bytes).into())
    }

    /// Whether all of it is kept.
    pub fn is_whole(&self) -> bool {
        self.total == self.bytes.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_covers_what_is_not_kept() {
        for pieces in [vec![10], vec![10, 20], vec![70_000], vec![10, 70_000, 5], vec![65_536, 1]] {
            let mut capture = Capture::default();
            let mut all = Vec::new();
            for (at, length) in pieces.iter().enumerate() {
                let piece = Bytes::from(vec![u8::try_from(at).unwrap(); *length]);
                capture.add(&piece);
                all.extend_from_slice(&piece);
            }
            let captured = capture.finish();
            assert_eq!(captured.total, all.len() as u64);
            assert_eq!(captured.bytes, all[..all.len().min(LARGEST)], "{pieces:?}");
            let expected: [u8; 32] = Sha256::digest(&all).into();
            assert_eq!(captured.digest(), expected, "{pieces:?}");
        }
    }
}
