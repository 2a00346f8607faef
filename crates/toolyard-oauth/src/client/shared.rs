//! Credentials that several gateways have together. Each keeps a copy of its own, so that it can go on alone; the
//! latest counts, wherever it was made.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::Uri;
use serde::{Deserialize, Serialize};
use toolyard_model::{SharedLock, SharedSecrets, Versioned};
use toolyard_proto::Reason;

use super::vault::{Credential, Vault, token_name};
use crate::error::{Error, Kind};

/// The entry of the store for one credential.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Stored {
    Credential(Box<Credential>),
    /// It was removed, which others must learn.
    Removed {
        /// In milliseconds since 1970.
        removed_at: u64,
    },
}

impl Stored {
    pub(super) fn removed() -> Self {
        Self::Removed { removed_at: millis() }
    }

    pub(super) fn credential(self) -> Option<Credential> {
        match self {
            Self::Credential(credential) => Some(*credential),
            Self::Removed { .. } => None,
        }
    }

    fn versioned(&self) -> Option<Versioned> {
        Some(match self {
            Self::Credential(credential) => Versioned {
                at: credential.obtained_at.saturating_mul(1_000),
                value: Some(serde_json::to_vec(credential).ok()?),
            },
            Self::Removed { removed_at } => Versioned { at: *removed_at, value: None },
        })
    }

    /// Reads an entry; `None` if another version of this program wrote it in another form.
    fn read(versioned: &Versioned) -> Option<Self> {
        match &versioned.value {
            Some(value) => serde_json::from_slice(value).ok().map(Self::Credential),
            None => Some(Self::Removed { removed_at: versioned.at }),
        }
    }
}

/// The gateways that share credentials with a vault.
#[derive(Clone, Debug, Default)]
pub(super) enum Sharing {
    #[default]
    Alone,
    /// A gateway that runs with the same store shares them, so what is removed must be noted, and only it refreshes.
    ByAnother,
    With(Arc<dyn SharedSecrets>),
}

impl Vault {
    /// The same for a gateway that shares its credentials with others.
    #[must_use]
    pub fn shared_with(mut self, others: Arc<dyn SharedSecrets>) -> Self {
        self.sharing = Sharing::With(others);
        self
    }

    /// The same beside a gateway that shares its credentials with others.
    #[must_use]
    pub fn shared_by_another(mut self) -> Self {
        self.sharing = Sharing::ByAnother;
        self
    }

    /// The credential that is valid for all gateways, given this gateway's own. If the others cannot be asked, its own.
    pub(super) async fn agreed(&self, name: &str, own: Option<Stored>) -> Result<Option<Stored>, Error> {
        let versioned = own.as_ref().and_then(Stored::versioned);
        let latest = self.share(name, versioned).await.unwrap_or_else(|reason| unshared(&reason));
        self.adopted(name, own, latest).await
    }

    /// Like [`agreed`](Self::agreed), but fails while the other gateways cannot be asked.
    pub(super) async fn agreed_by_all(
        &self,
        name: &str,
        own: Option<Stored>,
    ) -> Result<Option<Stored>, Error> {
        let versioned = own.as_ref().and_then(Stored::versioned);
        let latest = self.share(name, versioned).await.map_err(not_asked)?;
        self.adopted(name, own, latest).await
    }

    /// Keeps a copy of what counts.
    async fn adopted(
        &self,
        name: &str,
        own: Option<Stored>,
        latest: Option<Versioned>,
    ) -> Result<Option<Stored>, Error> {
        let Some(latest) = latest.as_ref().and_then(Stored::read) else { return Ok(own) };
        if own.as_ref() != Some(&latest) {
            self.write(name.to_owned(), &latest).await?;
        }
        Ok(Some(latest))
    }

    /// Sends the others what has just changed. It counts even if the clock of another gateway is ahead.
    pub(super) async fn announce(&self, name: &str, stored: &Stored) {
        let known = self.share(name, None).await.unwrap_or_else(|reason| unshared(&reason));
        let at = known.map_or(0, |known| known.at.saturating_add(1)).max(millis());
        let changed = stored.versioned().map(|versioned| Versioned { at, ..versioned });
        self.share(name, changed).await.unwrap_or_else(|reason| unshared(&reason));
    }

    async fn share(&self, name: &str, own: Option<Versioned>) -> Result<Option<Versioned>, String> {
        let Sharing::With(others) = &self.sharing else { return Ok(None) };
        others.agree(name, own).await
    }

    /// Waits until no other gateway refreshes this credential. A refresh token may be valid once only, so without the
    /// others none is used.
    pub(super) async fn shared_guard(
        &self,
        owner: &str,
        url: &Uri,
        patience: Duration,
    ) -> Result<Option<Box<dyn SharedLock>>, Error> {
        let others = match &self.sharing {
            Sharing::Alone => return Ok(None),
            Sharing::ByAnother => {
                let reason = Reason::new(
                    "this sign-in is shared with other nodes, and only the gateway of this machine refreshes it",
                );
                return Err(Error::new(Kind::Unreachable, reason.with_hint("start it")));
            }
            Sharing::With(others) => others,
        };
        others.lock(&token_name(owner, url), patience).await.map(Some).map_err(not_asked)
    }
}

fn not_asked(cause: String) -> Error {
    let reason = Reason::new("the sign-in cannot be refreshed: the cluster cannot be asked");
    Error::new(Kind::Unreachable, reason.because(cause))
}

fn unshared(reason: &str) -> Option<Versioned> {
    tracing::debug!(target: "oauth", reason, "a sign-in is not shared yet");
    None
}

fn millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
