//! The user's browser. Other users can read the arguments of a process, so the browser gets the path of a private page
//! that leads to the address, and not the address, which may have a code in it.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result};
use serde_json::json;

use crate::system;

/// A private page that leads to an address. Removed when dropped, unless it is kept.
pub(crate) struct PrivatePage(PathBuf);

impl PrivatePage {
    /// Replaces the page of an earlier run.
    pub(crate) fn write(path: PathBuf, url: &str) -> Result<Self> {
        let page = include_str!("browser/page.html").replace("ADDRESS", &json!(url).to_string());
        let written = toolyard_model::private_file::write(&path, page.as_bytes());
        written.with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self(path))
    }

    /// Starts the program that opens files, if there is one.
    pub(crate) fn open(&self) -> Option<Child> {
        system::OPENERS.iter().find_map(|(program, arguments)| {
            let mut command = Command::new(program);
            command.args(*arguments).arg(&self.0);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()
        })
    }

    /// For a browser that reads it after this program has ended.
    pub(crate) fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for PrivatePage {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
