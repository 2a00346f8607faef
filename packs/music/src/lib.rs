//! The pack `music`: a library of audio files to look through, identify, tag, rename and tidy, without ever
//! losing a file. Every path goes through a root jail; every file is replaced in one step; plans can be undone.

mod clock;
mod config;
mod cursor;
mod fingerprint;
mod library;
mod locks;
mod naming;
mod offers;
mod plan;
mod relocate;
mod services;
mod tags;
mod tools;
mod trouble;
mod walk;

use toolyard_tool::{Pack, ToolSet};

use config::Config;
use library::Library;
use tools::{change, cover, duplicates, hash, inventory, list, manifests, mb, metadata, scan};

/// What opens the tools that change files to connections that do not prove their user.
const UNPROVEN_WRITES: &str = "`unproven_writes = true` in [packs.music]";

/// The pack, as the gateway takes it in.
pub fn pack() -> Pack {
    Pack::with_config("music", "A music library: find, identify, tag, rename and tidy files", tools)
}

fn tools(config: Config) -> ToolSet<Library> {
    let set = ToolSet::new("toolyard-music", env!("CARGO_PKG_VERSION")).title("Toolyard: music");
    let set = if config.unproven_writes { set } else { set.proven_writers_only(UNPROVEN_WRITES) };
    set.instructions(
        "Tools for one music library. Paths are relative to its root. Look before you change: \
             `fs_scan_audio` and `read_metadata_batch` first, then `apply_plan` with `dry_run: true`, then \
             without; `undo_plan` takes a plan back.",
    )
    .state_with(move || Library::open(&config))
    .with::<list::fs_list_dir>()
    .with::<change::fs_rename>()
    .with::<change::fs_delete>()
    .with::<change::fs_mkdir>()
    .with::<change::fs_move>()
    .with::<scan::fs_scan_audio>()
    .with::<hash::fs_hash>()
    .with::<duplicates::find_duplicates>()
    .with::<metadata::read_metadata>()
    .with::<metadata::read_metadata_batch>()
    .with::<metadata::write_metadata>()
    .with::<metadata::write_metadata_batch>()
    .with::<cover::embed_cover>()
    .with::<cover::extract_picture>()
    .with::<tools::naming::apply_naming_scheme>()
    .with::<tools::plan::apply_plan>()
    .with::<tools::plan::undo_plan>()
    .with::<tools::plan::plan_list>()
    .with::<inventory::inventory_divergences>()
    .with::<manifests::manifest_write>()
    .with::<manifests::manifest_read>()
    .with::<manifests::manifest_list>()
    .with::<mb::artist::mb_artist_search>()
    .with::<mb::release::mb_release_search>()
    .with::<mb::recording::mb_recording_search>()
    .with::<mb::works::mb_work_search>()
    .with::<mb::works::mb_label_search>()
    .with::<mb::advanced::mb_advanced_search>()
    .with::<mb::matching::mb_match_from_tags>()
    .with::<mb::relations::mb_get_relations>()
    .with::<mb::cover::mb_cover_download>()
    .with::<mb::identify::mb_identify_record>()
    .with::<offers::info>()
    .with::<offers::config_example>()
    .with::<offers::guide>()
    .with::<offers::file>()
    .with::<offers::tidy_folder>()
    .with::<offers::review_tags>()
    .with::<offers::identify_unknown>()
    .with::<offers::clean_up_copies>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pack_needs_a_root_and_offers_everything_without_opening_it() {
        let pack = pack();
        assert!(pack.needs_config());
        let tools = pack.tools(serde_json::json!({ "root": "/nowhere" })).unwrap();
        assert_eq!(tools.tool_names().count(), 28 + 1 + 3, "the table, mb_advanced_search, and three beyond");
        for name in tools.tool_names() {
            let definition = tools.definition(name).unwrap();
            assert!(definition["outputSchema"]["type"] == "object", "{name}");
        }
    }
}
