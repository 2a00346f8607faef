//! A library of any size: short WAV files with a title, an artist, an album and a number, a hundred to a folder.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

const TO_A_FOLDER: usize = 100;
const SAMPLES: usize = 800;

/// The paths of the files, below `root`.
pub(super) fn make(root: &Path, files: usize) -> Result<Vec<String>> {
    let mut paths = Vec::with_capacity(files);
    for index in 0..files {
        let (album, track) = (index / TO_A_FOLDER, index % TO_A_FOLDER);
        let artist = album / 10;
        let folder = format!("Artist {artist:03}/Album {album:04}");
        if track == 0 {
            fs::create_dir_all(root.join(&folder)).context("make a folder of the library")?;
        }
        let path = format!("{folder}/{track:02} Title {index}.wav");
        let tags = [
            (b"INAM", format!("Title {index}")),
            (b"IART", format!("Artist {artist:03}")),
            (b"IPRD", format!("Album {album:04}")),
            (b"ITRK", track.to_string()),
        ];
        fs::write(root.join(&path), wav(&tags)?).context("write a file of the library")?;
        paths.push(path);
    }
    Ok(paths)
}

fn wav(tags: &[(&[u8; 4], String)]) -> Result<Vec<u8>> {
    let mut list = b"INFO".to_vec();
    for (name, text) in tags {
        list.extend(chunk(*name, &[text.as_bytes(), b"\0"].concat())?);
    }
    // One channel of 16 bits at 8,000 Hz.
    let format = [1, 0, 1, 0, 0x40, 0x1f, 0, 0, 0x80, 0x3e, 0, 0, 2, 0, 16, 0];
    let chunks = [chunk(b"fmt ", &format)?, chunk(b"LIST", &list)?, chunk(b"data", &[0; 2 * SAMPLES])?];
    chunk(b"RIFF", &[b"WAVE".to_vec(), chunks.concat()].concat())
}

/// Its name, its size, what is in it, and a byte more where that is odd.
fn chunk(name: &[u8], content: &[u8]) -> Result<Vec<u8>> {
    let mut bytes = name.to_vec();
    bytes.extend(u32::try_from(content.len())?.to_le_bytes());
    bytes.extend(content);
    bytes.resize(bytes.len().next_multiple_of(2), 0);
    Ok(bytes)
}
