//! How much of an MP4 file's sound to leave out at its beginning. An encoder of AAC puts some silence first; the
//! file declares how much in the edit list of its track or, from Apple's older programs, in the tag `iTunSMPB`. The
//! decoder knows neither.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

/// Containers are few and their headers small: a file with more is not searched further.
const MOST_ATOMS: usize = 10_000;
const MOST_BYTES: u64 = 4_096;

/// In seconds; none where the file does not declare it or is not an MP4.
pub(super) fn lead(file: &File) -> Option<f64> {
    let mut search = Search { file, left: MOST_ATOMS };
    let end = file.metadata().ok()?.len();
    search.lead(0..end).ok().flatten()
}

/// A part of the file.
type Span = std::ops::Range<u64>;

struct Search<'a> {
    file: &'a File,
    left: usize,
}

impl Search<'_> {
    fn lead(&mut self, file: Span) -> io::Result<Option<f64>> {
        let Some(moov) = self.child(&file, "moov")? else { return Ok(None) };
        for track in self.children(&moov, "trak")? {
            let Some(media) = self.child(&track, "mdia")? else { continue };
            if !self.is_sound(&media)? {
                continue;
            }
            let Some(scale) = self.scale(&media)? else { return Ok(None) };
            let edited = self.edited(&track)?;
            let silence = if edited.is_some() { edited } else { self.itunes(&moov)? };
            #[expect(clippy::cast_precision_loss, reason = "far fewer samples than 2^52")]
            return Ok(silence.map(|samples| samples as f64 / f64::from(scale)));
        }
        Ok(None)
    }

    fn is_sound(&mut self, media: &Span) -> io::Result<bool> {
        let Some(handler) = self.child(media, "hdlr")? else { return Ok(false) };
        Ok(self.bytes(&handler)?.get(8..12) == Some(b"soun"))
    }

    /// Ticks a second.
    fn scale(&mut self, media: &Span) -> io::Result<Option<u32>> {
        let Some(head) = self.child(media, "mdhd")? else { return Ok(None) };
        let head = self.bytes(&head)?;
        let at = if head.first() == Some(&1) { 20 } else { 12 };
        Ok(four(&head, at).filter(|scale| *scale > 0))
    }

    /// Where the first edit that is not a pause begins.
    fn edited(&mut self, track: &Span) -> io::Result<Option<u64>> {
        let Some(edits) = self.child(track, "edts")? else { return Ok(None) };
        let Some(list) = self.child(&edits, "elst")? else { return Ok(None) };
        let list = self.bytes(&list)?;
        let wide = list.first() == Some(&1);
        let (size, at) = if wide { (20, 8) } else { (12, 4) };
        let times = list.get(8..).unwrap_or_default().chunks_exact(size).map(|edit| {
            if wide {
                eight(edit, at).map(u64::cast_signed)
            } else {
                four(edit, at).map(|time| i64::from(time.cast_signed()))
            }
        });
        Ok(times.flatten().find_map(|time| u64::try_from(time).ok()))
    }

    /// ` 00000000 00000840 …`: the second number is the delay of the encoder, in hex.
    fn itunes(&mut self, moov: &Span) -> io::Result<Option<u64>> {
        let Some(user) = self.child(moov, "udta")? else { return Ok(None) };
        let Some(meta) = self.child(&user, "meta")? else { return Ok(None) };
        // Four bytes of version and flags come first.
        let Some(list) = self.child(&(meta.start + 4..meta.end), "ilst")? else { return Ok(None) };
        for tag in self.children(&list, "----")? {
            let Some(name) = self.child(&tag, "name")? else { continue };
            if self.bytes(&name)?.get(4..) != Some(b"iTunSMPB") {
                continue;
            }
            let Some(data) = self.child(&tag, "data")? else { continue };
            let data = self.bytes(&data)?;
            let text = String::from_utf8_lossy(data.get(8..).unwrap_or_default()).into_owned();
            let delay = text.split_whitespace().nth(1);
            return Ok(delay.and_then(|delay| u64::from_str_radix(delay, 16).ok()));
        }
        Ok(None)
    }

    fn child(&mut self, parent: &Span, name: &str) -> io::Result<Option<Span>> {
        Ok(self.children(parent, name)?.into_iter().next())
    }

    /// The content of the atoms of that name.
    fn children(&mut self, parent: &Span, name: &str) -> io::Result<Vec<Span>> {
        let (mut at, mut found) = (parent.start, Vec::new());
        while at + 8 <= parent.end && self.left > 0 {
            self.left -= 1;
            let head = self.bytes(&(at..parent.end.min(at + 16)))?;
            let (length, header) = match four(&head, 0) {
                Some(0) => (parent.end - at, 8),
                Some(1) => (eight(&head, 8).unwrap_or(0), 16),
                length => (u64::from(length.unwrap_or(0)), 8),
            };
            let Some(end) = at.checked_add(length).filter(|end| length >= header && *end <= parent.end)
            else {
                break;
            };
            if head.get(4..8) == Some(name.as_bytes()) {
                found.push(at + header..end);
            }
            at = end;
        }
        Ok(found)
    }

    fn bytes(&mut self, span: &Span) -> io::Result<Vec<u8>> {
        self.file.seek(SeekFrom::Start(span.start))?;
        let mut bytes = Vec::new();
        self.file.take((span.end - span.start).min(MOST_BYTES)).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

fn four(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn eight(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_be_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}
