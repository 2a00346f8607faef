//! The credential that a connection presented last, and the result of its check, so that it is checked once.

use std::fmt;
use std::net::IpAddr;

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;
use toolyard_model::PassedOn;

use super::{Admitted, Judged, admitted};

/// The credential that a connection presented last, the result of its check, and the address of the client.
#[derive(Default)]
pub struct ConnectionCredential {
    client: Option<IpAddr>,
    last: Mutex<Option<Presented>>,
}

struct Presented {
    header: Box<[u8]>,
    judged: Judged,
    /// The client, if it is one, ready to be copied for each request.
    admitted: Option<Admitted>,
}

impl ConnectionCredential {
    pub fn of(client: Option<IpAddr>) -> Self {
        Self { client, last: Mutex::default() }
    }

    pub(super) fn client(&self) -> Option<IpAddr> {
        self.client
    }

    /// The client, if the connection has presented this header before and it counts for `path` now.
    pub(super) fn admitted_before(&self, header: &[u8], path: &str) -> Option<Admitted> {
        let last = self.last();
        let last = last.as_ref().filter(|last| *last.header == *header)?;
        let counts = match &last.judged {
            Judged::Admitted(_) => true,
            Judged::Bearer(bearer) => Instant::now() < bearer.until && bearer.may_enter(path),
            Judged::Refused(_) | Judged::Unverified => false,
        };
        if counts { last.admitted.clone() } else { None }
    }

    /// The client of another node, as this header describes it. It is read once for each connection, as long as the
    /// header is the same.
    pub(crate) fn passed_on(&self, header: &[u8]) -> Option<Admitted> {
        if let Some(before) = self.admitted_before(header, "") {
            return Some(before);
        }
        let caller = Admitted::passed_on(PassedOn::from_header(header)?);
        self.stamp(header, Judged::Admitted(caller.clone()));
        Some(caller)
    }

    /// The earlier judgement about this header. A refusal counts once: the next time the token may be valid.
    pub(super) fn judged(&self, header: &[u8]) -> Option<Judged> {
        let mut last = self.last();
        let Presented { judged, .. } = last.as_ref().filter(|last| *last.header == *header)?;
        match judged {
            Judged::Admitted(_) => Some(judged.clone()),
            Judged::Bearer(bearer) if Instant::now() < bearer.until => Some(judged.clone()),
            Judged::Refused(_) => last.take().map(|last| last.judged),
            Judged::Bearer(_) | Judged::Unverified => None,
        }
    }

    pub(super) fn stamp(&self, header: &[u8], judged: Judged) {
        let admitted = match &judged {
            Judged::Admitted(admitted) => Some(admitted.clone()),
            Judged::Bearer(bearer) => Some(admitted(bearer)),
            Judged::Refused(_) | Judged::Unverified => None,
        };
        *self.last() = Some(Presented { header: header.into(), judged, admitted });
    }

    fn last(&self) -> MutexGuard<'_, Option<Presented>> {
        self.last.lock()
    }
}

impl fmt::Debug for ConnectionCredential {
    /// Tokens must not appear in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionCredential").field("client", &self.client).finish_non_exhaustive()
    }
}
