//! The fingerprint of a recording, as by Chromaprint: computed here where the format can be decoded here, and
//! by `fpcalc` where it cannot.

mod compare;
mod decode;
mod edits;
mod fpcalc;
mod listen;
mod resample;

use std::fs::File;
use std::io::Seek as _;

use data_encoding::BASE64URL_NOPAD;
use lofty::file::AudioFile as _;
use rusty_chromaprint::{Configuration, FingerprintCompressor};
use toolyard_tool::ToolError;

pub(crate) use compare::difference;

use listen::Listener;

use crate::config::Config;
use crate::tags::file::{self, Parts};

/// How much of a recording is used, as by `fpcalc`.
const SECONDS: u64 = 120;

/// The sound of a recording.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fingerprint {
    pub(crate) items: Vec<u32>,
    /// Of the whole recording, in seconds.
    pub(crate) duration: f64,
}

impl Fingerprint {
    /// In the form that AcoustID takes.
    pub(crate) fn encoded(&self) -> String {
        let configuration = Configuration::preset_test2();
        BASE64URL_NOPAD.encode(&FingerprintCompressor::from(&configuration).compress(&self.items))
    }
}

/// `stop` is asked from time to time whether the call was cancelled.
pub(crate) fn take(
    config: &Config,
    mut file: File,
    name: &str,
    stop: &dyn Fn() -> bool,
) -> Result<Fingerprint, ToolError> {
    let audio = file::open(&mut file, name, Parts { properties: true, pictures: false });
    let duration = audio.map(|audio| audio.properties().duration().as_secs_f64());
    file.rewind()?;
    let found = native(file.try_clone()?, name, stop);
    let items = match (found, duration) {
        (Ok(items), Ok(duration)) => return Ok(Fingerprint { items, duration }),
        (Ok(items), Err(_)) => Ok(items),
        (Err(error), _) => Err(error),
    };
    if config.fpcalc.is_empty() {
        return Err(match items {
            Err(why) => not_decoded(name, &why, "set `fpcalc` of [packs.music] to the program of that name"),
            Ok(_) => not_decoded(name, "its length is unknown", "set `fpcalc` of [packs.music]"),
        });
    }
    file.rewind()?;
    fpcalc::take(&config.fpcalc, &file, stop).map_err(|why| {
        let native = items.err().unwrap_or_default();
        not_decoded(
            name,
            &format!("{native}; fpcalc: {why}"),
            "install `fpcalc` (Debian: libchromaprint-tools)",
        )
    })
}

fn not_decoded(name: &str, why: &str, hint: &str) -> ToolError {
    ToolError::new(format!("`{name}` cannot be fingerprinted: {why}")).hint(hint)
}

/// Listens to the beginning of a file.
fn native(file: File, name: &str, stop: &dyn Fn() -> bool) -> Result<Vec<u32>, String> {
    let lead = edits::lead(&file).unwrap_or(0.0);
    (&file).rewind().map_err(|error| error.to_string())?;
    let mut listener: Option<Listener> = None;
    decode::decode(file, name, &mut |rate, channels, samples| {
        let listener = match &mut listener {
            Some(listener) => listener,
            none => none.insert(Listener::new(rate, lead)?),
        };
        Ok(listener.add(rate, channels, samples) && !stop())
    })?;
    match listener.map(Listener::finish) {
        Some(items) if !items.is_empty() => Ok(items),
        _ => Err("it is too short".into()),
    }
}

#[cfg(test)]
mod tests;
