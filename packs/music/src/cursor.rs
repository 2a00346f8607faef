//! The position at which a scan continues: the last path, and how much was seen before.

use data_encoding::BASE64URL_NOPAD;
use serde::{Deserialize, Serialize};
use toolyard_jail::Inside;
use toolyard_tool::ToolError;

use crate::library::Library;

#[derive(Debug, Deserialize, Serialize)]
struct Written {
    after: String,
    seen: u64,
}

/// The beginning, if there was no cursor.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Cursor {
    pub(crate) after: Option<Inside>,
    pub(crate) seen: u64,
}

impl Cursor {
    pub(crate) fn read(library: &Library, text: Option<&str>) -> Result<Self, ToolError> {
        let Some(text) = text else { return Ok(Self::default()) };
        let written = BASE64URL_NOPAD.decode(text.as_bytes()).ok();
        let written = written.and_then(|bytes| serde_json::from_slice::<Written>(&bytes).ok());
        let found = written.and_then(|written| {
            Some(Self { after: Some(library.jail.path(&written.after).ok()?), seen: written.seen })
        });
        found.ok_or_else(|| {
            ToolError::new("the cursor is not one that this tool gave")
                .hint("pass `next_cursor` of the page before, unchanged, or none to begin again")
        })
    }

    pub(crate) fn write(after: &Inside, seen: u64) -> String {
        let written = Written { after: after.to_string(), seen };
        BASE64URL_NOPAD.encode(&serde_json::to_vec(&written).unwrap_or_default())
    }
}
