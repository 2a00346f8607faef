//! `fs_hash`: the checksum of a file.

use std::fs::File;
use std::io::Read as _;

use data_encoding::HEXLOWER;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use toolyard_jail::Look;
use toolyard_tool::{Context, ToolError, WithText, tool};

use crate::library::Library;
use crate::trouble::{JailResult as _, cancelled};

/// Larger files are not read whole: no song is.
pub(crate) const LARGEST: u64 = 500 * 1024 * 1024;
const PIECE: usize = 64 * 1024;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct HashFile {
    /// The file.
    path: String,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Hash {
    path: String,
    algorithm: String,
    sha256: String,
    bytes: u64,
}

/// Computes the SHA-256 checksum of a file of at most 500 MiB.
#[tool(read_only, idempotent)]
pub(crate) fn fs_hash(
    library: &Library,
    context: &Context,
    args: HashFile,
) -> Result<WithText<Hash>, ToolError> {
    let path = library.path(&args.path)?;
    let mut file = library.jail.open(&path).tool_error()?;
    if Look::of(&file)?.size > LARGEST {
        return Err(ToolError::new(format!("`{path}` is larger than 500 MiB"))
            .hint("files of that size are not hashed; compare their sizes with `fs_list_dir`"));
    }
    let (sha256, bytes) = sha256(&mut file, context)?;
    let text = format!("{sha256}  {path}");
    Ok(WithText::new(Hash { path: path.to_string(), algorithm: "sha256".into(), sha256, bytes }, text))
}

/// The checksum and the number of bytes that were read: a little more than the limit at most, because the file may grow
/// while it is read.
pub(crate) fn sha256(file: &mut File, context: &Context) -> Result<(String, u64), ToolError> {
    let mut hasher = Sha256::new();
    let mut piece = vec![0; PIECE];
    let mut bytes = 0;
    loop {
        if context.is_cancelled() {
            return Err(cancelled());
        }
        let read = file.read(&mut piece)?;
        if read == 0 || bytes > LARGEST {
            return Ok((HEXLOWER.encode(&hasher.finalize()), bytes));
        }
        hasher.update(&piece[..read]);
        bytes += read as u64;
    }
}
