//! Resources and prompts: what a client can read without calling a tool, and how to begin common jobs.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use toolyard_tool::{Contents, Messages, ToolError, tool};

use crate::library::Library;
use crate::tags::read;
use crate::trouble::JailResult as _;
use crate::walk::AUDIO;

/// What this server is, and what is configured.
#[tool(resource = "music://info", mime = "application/json")]
pub(crate) async fn info(library: &Library) -> Result<Contents, ToolError> {
    let config = &library.config;
    Contents::json(&json!({
        "name": "toolyard-music",
        "version": env!("CARGO_PKG_VERSION"),
        "root": library.jail.root(),
        "allow_symlinks": config.allow_symlinks,
        "extensions": AUDIO,
        "can_identify": config.acoustid_key.is_some(),
        "services": {
            "musicbrainz": config.musicbrainz_url,
            "acoustid": config.acoustid_url,
            "coverart": config.coverart_url,
        },
    }))
}

/// A section for the gateway's config, with every key.
#[tool(resource = "music://config/example", mime = "application/toml")]
pub(crate) async fn config_example() -> &'static str {
    include_str!("offers/config.toml")
}

/// How to get from a messy folder to a tidy library.
#[tool(resource = "music://docs/guide", mime = "text/markdown")]
pub(crate) async fn guide() -> &'static str {
    include_str!("../../../docs/guide/music.md")
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct File {
    /// The file, relative to the root of the library.
    path: String,
}

/// The tags and properties of one file.
#[tool(template = "music://file/{+path}", mime = "application/json")]
pub(crate) fn file(library: &Library, wanted: File) -> Result<Contents, ToolError> {
    let path = library.path(&wanted.path)?;
    let name = path.name().and_then(|name| name.to_str()).unwrap_or_default();
    let mut file =
        library.jail.open(&path).tool_error().map_err(|error| ToolError::not_found(error.to_string()))?;
    Contents::json(&read::read(&mut file, name, path.to_string(), true)?)
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Tidy {
    /// The folder to tidy; `.` is the whole library.
    folder: String,
    /// How files should be called; by default `{album_artist}/{album} ({year|0000})/{track:02d} {title}`.
    scheme: Option<String>,
}

/// Tidies a folder: looks, plans, shows the plan, and carries it out once you agree.
#[tool(prompt, title = "Tidy a folder")]
pub(crate) async fn tidy_folder(wanted: Tidy) -> String {
    let scheme =
        wanted.scheme.as_deref().unwrap_or("{album_artist}/{album} ({year|0000})/{track:02d} {title}");
    format!(
        "Tidy the folder `{}` of my music library.\n\
         1. Find its files with `fs_scan_audio` and read their tags with `read_metadata_batch`.\n\
         2. Where tags are missing or contradict each other, look them up with `mb_match_from_tags` or \
         `mb_release_search`, and by sound with `mb_identify_record`.\n\
         3. Name every file with `apply_naming_scheme` and the template `{scheme}.{{ext}}`.\n\
         4. Put everything into one plan and call `apply_plan` with `dry_run: true`. Show me what it would do and \
         wait for my answer.\n\
         5. Carry it out, and tell me the plan's id: `undo_plan` takes it back.",
        wanted.folder
    )
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Review {
    /// The folder to look at; `.` is the whole library.
    folder: String,
    /// What matters most, such as `years` or `spelling of artists`.
    focus: Option<String>,
}

/// Reviews the tags of a folder without changing anything.
#[tool(prompt, title = "Review tags")]
pub(crate) async fn review_tags(wanted: Review) -> String {
    let focus = wanted.focus.map(|focus| format!(" Look at {focus} above all.")).unwrap_or_default();
    format!(
        "Review the tags in `{}` of my music library with `read_metadata_batch` and `inventory_divergences`.{focus} \
         List what is missing, misspelt or contradictory, file by file, with what you would write instead. Change \
         nothing.",
        wanted.folder
    )
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Folder {
    /// The folder to look at.
    folder: String,
}

/// Identifies files whose tags say nothing, by their sound.
#[tool(prompt, title = "Identify unknown files")]
pub(crate) async fn identify_unknown(library: &Library, wanted: Folder) -> Messages {
    let key = match library.config.acoustid_key {
        Some(_) => "",
        None => " `mb_identify_record` needs `acoustid_key` in [packs.music]; tell me so if you need it.",
    };
    Messages::new().user(format!(
        "Identify the files in `{}` that have no title or artist: `mb_identify_record` for each, then \
         `mb_recording_search` for the releases it is on.{key} Show me what you found and how sure it is before you \
         write any tags.",
        wanted.folder
    ))
}

/// Finds copies and proposes which to keep.
#[tool(prompt, title = "Clean up copies")]
pub(crate) async fn clean_up_copies(wanted: Folder) -> String {
    format!(
        "Find copies in `{}` with `find_duplicates`, also by sound (`acoustic: true`). For each group say which file \
         you would keep and why: lossless before lossy, higher bit rate before lower, complete tags before none. \
         Delete nothing before I agree.",
        wanted.folder
    )
}
