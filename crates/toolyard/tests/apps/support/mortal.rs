//! Apps and instances that are real processes, report their identity, and can be killed.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use super::Yard;
use crate::testkit;

/// A process that ends with its test, if not before.
pub(crate) struct Mortal {
    child: Child,
}

impl Mortal {
    pub(crate) fn app(yard: &Yard, name: &str) -> Self {
        Self::app_at(&yard.apps_tcp(), name)
    }

    pub(crate) fn app_at(address: &str, name: &str) -> Self {
        Self::start(&["app", address, name])
    }

    pub(crate) fn instance(yard: &Yard, name: &str) -> Self {
        let folder = yard.instance_folder("toolyard");
        Self::start(&["instance", folder.to_str().unwrap(), name])
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// An instance whose file is in a folder that no gateway searches.
    pub(crate) fn hidden(folder: &Path, name: &str) -> Self {
        Self::start(&["instance", folder.to_str().unwrap(), name])
    }

    /// The path of the program.
    pub(crate) fn program() -> &'static Path {
        static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
        PROGRAM.get_or_init(|| testkit::build_target("toolyard-app", ["--example", "mortal"]))
    }

    fn start(words: &[&str]) -> Self {
        let mut command = Command::new(Self::program());
        let command = command.args(words).stdin(Stdio::null()).stdout(Stdio::null());
        Self { child: command.spawn().unwrap() }
    }
}

impl Drop for Mortal {
    /// Kills it with SIGKILL.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
