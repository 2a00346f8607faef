//! Publishes the addresses of the gateway in a file in the state directory, for other programs.
//!
//! Of several gateways with one config, one is announced: the first, which has the sockets. When it is gone, one that
//! is left takes its place, so that `toolyard list` and `toolyard stdio` find it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use tokio::sync::watch;
use toolyard_config::state_dir::{self, Addresses, Announcement, Running};

use crate::cli::Common;
use crate::commands::answers;
use crate::settings;

/// How often the gateway checks whether another gateway has freed its addresses.
pub(crate) const AGAIN: Duration = Duration::from_secs(1);

/// The addresses of this gateway. It gets more when another gateway ends and frees its own. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct OwnAddresses {
    addresses: Arc<watch::Sender<Addresses>>,
}

impl OwnAddresses {
    pub(crate) fn new(addresses: Addresses) -> Self {
        Self { addresses: Arc::new(watch::Sender::new(addresses)) }
    }

    pub(crate) fn now(&self) -> Addresses {
        self.addresses.borrow().clone()
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut Addresses)) {
        self.addresses.send_modify(change);
    }
}

/// The note of this gateway. Removed when dropped.
pub(crate) struct Note {
    folder: Option<PathBuf>,
    /// The name of the config set.
    set: String,
    config: Vec<PathBuf>,
    own_addresses: OwnAddresses,
    own: Option<Announcement>,
}

impl Note {
    /// Other programs can find the gateway only by this note, so a state directory that was asked for must work.
    pub(crate) fn begin(
        common: &Common,
        folder: Option<&Path>,
        (set, config): (String, Vec<PathBuf>),
        own_addresses: &OwnAddresses,
    ) -> Result<Self> {
        let addresses = own_addresses.now();
        let (own_folder, own_addresses) = (folder.map(Path::to_owned), own_addresses.clone());
        let mut note = Self { folder: own_folder, set, config, own_addresses, own: None };
        if let Some((base, folder)) = state_dir::base(&settings::variable).zip(folder) {
            let _ = state_dir::note_folder(&base, folder);
        }
        if let Some(first) = folder.and_then(|folder| still_first(folder, &addresses)) {
            tracing::warn!(
                "another gateway runs with this config at {}; commands such as `toolyard list` ask that one",
                first.http
            );
            return Ok(note);
        }
        match folder
            .map(|folder| Announcement::write(folder, &note.set, &note.config, &addresses))
            .transpose()
        {
            Err(error) if common.state_dir.is_none() => {
                tracing::warn!("other programs cannot find this gateway: {error:#}");
            }
            announced => note.own = announced?,
        }
        Ok(note)
    }

    /// Keeps the note up to date until it is dropped.
    pub(crate) async fn keep(mut self) {
        let Some(folder) = self.folder.clone() else { return };
        let mut changes = self.own_addresses.addresses.subscribe();
        loop {
            let _ = tokio::time::timeout(AGAIN, changes.changed()).await;
            let (looked_in, addresses) = (folder.clone(), self.own_addresses.now());
            let asked = addresses.clone();
            let is_due = tokio::task::spawn_blocking(move || is_due(&looked_in, &asked)).await;
            if is_due.unwrap_or(false) {
                self.write(&folder, &addresses);
            }
        }
    }

    fn write(&mut self, folder: &Path, addresses: &Addresses) {
        let written = match &self.own {
            Some(own) => own.renew(addresses),
            None => Announcement::write(folder, &self.set, &self.config, addresses)
                .map(|own| self.own = Some(own)),
        };
        match written {
            Ok(()) => tracing::info!("commands such as `toolyard list` ask this gateway now"),
            Err(error) => tracing::debug!("other programs cannot find this gateway: {error:#}"),
        }
    }
}

/// The gateway that was started before this one, has the socket of this config, and still runs.
fn still_first(folder: &Path, own: &Addresses) -> Option<Running> {
    let first = state_dir::announced(folder)?;
    let has_socket = own.socket.is_none() && first.socket.is_some();
    (has_socket && first.http != own.http && answers(&first.http)).then_some(first)
}

/// Whether the note is missing, incomplete, or that of a gateway that has ended or lost its socket.
fn is_due(folder: &Path, own: &Addresses) -> bool {
    match state_dir::announced(folder) {
        None => true,
        Some(note) if note.pid == std::process::id() => !note.is_at(own),
        Some(other) => {
            let is_left = other.socket.is_none() || other.socket == own.socket;
            (own.socket.is_some() && is_left) || !answers(&other.http)
        }
    }
}
