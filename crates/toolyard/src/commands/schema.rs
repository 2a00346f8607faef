//! `toolyard schema`: the JSON Schema of the config, for editors.

use std::io;
use std::path::{Path, PathBuf};

use toolyard_config as config;
use toolyard_config::save::{self, Change, Readers};

use crate::failure::Failure;
use crate::{packs, say, settings};

/// The file with the schema, beside a config that was made here.
const FILE: &str = "config.schema.json";
/// The first line of such a config, by which editors find the schema.
pub(super) const LINE: &str = "#:schema ./config.schema.json\n\n";

pub(super) fn schema() -> Result<(), Failure> {
    Ok(say::json(&config::schema(&settings::context(&packs::known())))?)
}

/// The path of the schema beside a config.
pub(super) fn beside(config: &Path) -> PathBuf {
    config.with_file_name(FILE)
}

/// Writes the schema.
pub(super) fn place(path: &Path) -> io::Result<()> {
    let schema = config::schema(&settings::context(&packs::known()));
    let text = &format!("{schema:#}\n");
    let before = save::read(path)?;
    let change = Change {
        path,
        before: before.as_deref(),
        text,
        readers: Readers::SystemDefault,
        has_folder_lock: false,
    };
    change.write()
}
