//! The keys of `[packs.music]`.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;
use toolyard_tool::{Secret, path};

#[derive(Clone, Deserialize, JsonSchema)]
pub(crate) struct Config {
    /// The folder with the music. Nothing outside of it is read or changed.
    #[schemars(transform = path)]
    pub(crate) root: PathBuf,
    /// Follow symbolic links, as long as they stay below the root.
    #[serde(default)]
    pub(crate) allow_symlinks: bool,
    /// Let connections that do not prove their user change files, too: any program of this machine, of any user, can make one.
    #[serde(default)]
    pub(crate) unproven_writes: bool,
    /// How MusicBrainz can reach you, as its rules ask: an e-mail address or a URL.
    pub(crate) contact: Option<String>,
    /// The key of your application at AcoustID, to identify recordings.
    pub(crate) acoustid_key: Option<Secret>,
    /// The program `fpcalc`, for what cannot be decoded here, such as Opus; never used if empty.
    #[serde(default = "fpcalc")]
    pub(crate) fpcalc: String,
    /// The file in which answers of MusicBrainz are kept; by default `toolyard/music.sqlite` in the user's cache folder.
    #[schemars(transform = path)]
    pub(crate) cache: Option<PathBuf>,
    /// Where MusicBrainz is.
    #[serde(default = "musicbrainz")]
    pub(crate) musicbrainz_url: String,
    /// Where AcoustID is.
    #[serde(default = "acoustid")]
    pub(crate) acoustid_url: String,
    /// Where the Cover Art Archive is.
    #[serde(default = "coverart")]
    pub(crate) coverart_url: String,
}

fn fpcalc() -> String {
    "fpcalc".into()
}

fn musicbrainz() -> String {
    "https://musicbrainz.org/ws/2".into()
}

fn acoustid() -> String {
    "https://api.acoustid.org/v2".into()
}

fn coverart() -> String {
    "https://coverartarchive.org".into()
}

/// Leaves the secret key out.
impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Config").field("root", &self.root).finish_non_exhaustive()
    }
}
