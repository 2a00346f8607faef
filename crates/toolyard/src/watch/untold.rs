//! Where the system's way of telling is not known to us.

use std::path::PathBuf;

pub(super) enum Told {}

impl Told {
    pub(super) fn begin(_: Vec<PathBuf>) -> Option<Self> {
        None
    }

    pub(super) fn places(&self) -> &[PathBuf] {
        match *self {}
    }

    pub(super) fn ask(&self) -> bool {
        match *self {}
    }

    pub(super) async fn heard(&self) {
        match *self {}
    }

    pub(super) fn drain(&self) {
        match *self {}
    }
}
