//! Opens an audio file with its tags: the content decides its format, and its name only in case of
//! doubt.

use std::io::{BufReader, Read, Seek};
use std::panic::AssertUnwindSafe;

use lofty::config::ParseOptions;
use lofty::file::{FileType, TaggedFile};
use lofty::probe::Probe;
use toolyard_tool::ToolError;

/// The parts of a file to read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts {
    pub(crate) properties: bool,
    pub(crate) pictures: bool,
}

pub(crate) fn open<F: Read + Seek>(file: &mut F, name: &str, parts: Parts) -> Result<TaggedFile, ToolError> {
    // A parser that panics on a broken file should not end a scan of thousands.
    std::panic::catch_unwind(AssertUnwindSafe(|| parse(file, name, parts)))
        .unwrap_or_else(|_| Err(not_readable(name, "its parser failed")))
}

fn parse<F: Read + Seek>(file: &mut F, name: &str, parts: Parts) -> Result<TaggedFile, ToolError> {
    file.rewind()?;
    let mut options = ParseOptions::new();
    options.read_properties(parts.properties).read_cover_art(parts.pictures);
    let mut probe = Probe::new(BufReader::new(file)).options(options).guess_file_type()?;
    if probe.file_type().is_none() {
        let kind = FileType::from_path(name).ok_or_else(|| not_readable(name, "unknown format"))?;
        probe = probe.set_file_type(kind);
    }
    probe.read().map_err(|error| not_readable(name, &error.to_string()))
}

fn not_readable(name: &str, why: &str) -> ToolError {
    ToolError::new(format!("`{name}` cannot be read as audio: {why}")).hint(
        "the formats are MP3, FLAC, Ogg Vorbis, Opus, Speex, MP4/M4A, WAV, AIFF, APE, WavPack, Musepack, AAC",
    )
}

/// The name of a format in answers.
pub(crate) fn format(kind: FileType) -> &'static str {
    match kind {
        FileType::Aac => "AAC",
        FileType::Aiff => "AIFF",
        FileType::Ape => "APE",
        FileType::Flac => "FLAC",
        FileType::Mpeg => "MP3",
        FileType::Mp4 => "MP4",
        FileType::Mpc => "Musepack",
        FileType::Opus => "Opus",
        FileType::Vorbis => "Ogg Vorbis",
        FileType::Speex => "Speex",
        FileType::Wav => "WAV",
        FileType::WavPack => "WavPack",
        _ => "unknown",
    }
}
