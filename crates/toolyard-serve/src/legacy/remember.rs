//! Sessions that outlive the process: the state of a session is kept in a folder, and a client that comes
//! back with its id after a restart continues the session without a new handshake.
//!
//! Kept are the client's identity and capabilities, its log level, its subscriptions, and whatever else the
//! handler asks to keep. Calls and streams are not: they end with the process, and clients open new ones. A file is
//! named by a digest of the session's id, so the folder does not reveal the ids.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use toolyard_model::{Origin, View};
use toolyard_proto::modern::LogLevel;
use toolyard_proto::{Raw, Revision};

use super::session::ClientSession;
use super::sessions::name_of;
use crate::admit::Admitted;

/// A folder of sessions. Losing it costs clients a new handshake and nothing else, so failures are only logged.
#[derive(Debug)]
pub(crate) struct Remember {
    folder: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct Record {
    format: u32,
    revision: String,
    view: String,
    principal: String,
    capabilities: Raw,
    client_info: Option<Raw>,
    level: Option<String>,
    watched: Vec<String>,
    /// Files of earlier versions name it `keepsake`.
    #[serde(default, rename = "keepsake")]
    handler_state: Option<String>,
}

const FORMAT: u32 = 1;

/// A session as it was.
pub(crate) struct RestoredSession {
    pub(crate) origin: Arc<Origin>,
    pub(crate) watched: Vec<String>,
    pub(crate) handler_state: Option<String>,
}

impl Remember {
    /// Opens the folder; sessions that were unused for `idle` are deleted.
    pub(crate) fn open(folder: PathBuf, idle: Duration) -> Option<Self> {
        if let Err(error) = fs::create_dir_all(&folder) {
            tracing::warn!(folder = %folder.display(), %error, "sessions are not kept across restarts");
            return None;
        }
        let remember = Self { folder };
        remember.forget_older_than(idle);
        Some(remember)
    }

    fn forget_older_than(&self, idle: Duration) {
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let age =
                entry.metadata().and_then(|about| about.modified()).ok().and_then(|at| at.elapsed().ok());
            if age.is_some_and(|age| age > idle) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    fn path(&self, id: &str) -> PathBuf {
        self.folder.join(format!("{}.json", HEXLOWER.encode(&Sha256::digest(id)[..16])))
    }

    pub(crate) fn save(&self, id: &str, session: &ClientSession) {
        let origin = &session.origin;
        let record = Record {
            format: FORMAT,
            revision: origin.revision.to_string(),
            view: origin.view.to_string(),
            principal: origin.principal.name().to_string(),
            capabilities: origin.capabilities.clone(),
            client_info: origin.client_info.clone(),
            level: origin.log_level.get().map(|level| level.as_str().to_owned()),
            watched: session.watched(),
            handler_state: session.handler.save_session(origin),
        };
        let written = serde_json::to_vec(&record).map_err(std::io::Error::from).and_then(|text| {
            let beside = self.path(id).with_extension("new");
            fs::write(&beside, text)?;
            fs::rename(beside, self.path(id))
        });
        if let Err(error) = written {
            tracing::debug!(%error, "a session could not be stored");
        }
    }

    /// Notes that a session was last used so long ago.
    pub(crate) fn used(&self, id: &str, idle: Duration) {
        let at = SystemTime::now().checked_sub(idle).unwrap_or_else(SystemTime::now);
        let noted =
            fs::File::options().append(true).open(self.path(id)).and_then(|file| file.set_modified(at));
        if let Err(error) = noted {
            tracing::debug!(%error, "the last use of a session could not be stored");
        }
    }

    /// The session of this id, if it is this client's, in this view.
    pub(crate) fn restore(&self, id: &str, view: &View, admitted: &Admitted) -> Option<RestoredSession> {
        let principal = &admitted.principal;
        let record: Record = serde_json::from_slice(&fs::read(self.path(id)).ok()?).ok()?;
        let is_theirs = record.view == view.to_string() && *record.principal == **principal.name();
        if record.format != FORMAT || !is_theirs {
            return None;
        }
        let level = record.level.as_deref().and_then(LogLevel::parse);
        let origin = Arc::new(
            Origin::new(view.clone(), principal.clone(), name_of(id)?, Revision::parse(&record.revision)?)
                .with_capabilities(record.capabilities)
                .with_client_info(record.client_info)
                .with_log_level(level)
                .with_transport(admitted.transport),
        );
        Some(RestoredSession { origin, watched: record.watched, handler_state: record.handler_state })
    }

    pub(crate) fn has(&self, id: &str) -> bool {
        self.path(id).exists()
    }

    pub(crate) fn forget(&self, id: &str) {
        let _ = fs::remove_file(self.path(id));
    }
}
