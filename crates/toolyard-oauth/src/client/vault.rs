//! Credentials in the user's sealed store, by owner and server; registrations, by issuer and redirect address.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::PathBuf;
use std::time::Duration;

use data_encoding::HEXLOWER;
use http::{HeaderValue, Uri};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use toolyard_secrets::{Secret, Store};

use super::metadata::Discovered;
use super::registration::Registered;
use super::token::TokenAnswer;
use super::{now, union};
use crate::error::{Error, Kind};

/// How long another process may take to refresh a credential.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(50);
/// Without a lifetime in the answer, a token is used until the server rejects it.
const UNKNOWN_LIFETIME: u64 = u64::MAX / 4;

/// A sign-in: the tokens, and all that a refresh needs.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credential {
    pub issuer: String,
    pub resource: String,
    pub(crate) client: Registered,
    pub(crate) token_endpoint: String,
    pub(crate) revocation_endpoint: Option<String>,
    pub(crate) access_token: String,
    pub(crate) refresh_token: Option<String>,
    pub(crate) obtained_at: u64,
    pub(crate) lifetime: u64,
    /// The scopes that were asked for, and those that were granted.
    pub(crate) requested: Vec<String>,
    pub scopes: Vec<String>,
    /// Scopes that the server has asked for since.
    #[serde(default)]
    pub(crate) wanted: Vec<String>,
}

impl std::fmt::Debug for Credential {
    /// Tokens must not appear in logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credential")
            .field("issuer", &self.issuer)
            .field("scopes", &self.scopes)
            .finish_non_exhaustive()
    }
}

impl Credential {
    pub(crate) fn new(
        found: &Discovered,
        token_endpoint: &str,
        client: &Registered,
        requested: &[String],
        scopes: Vec<String>,
        answer: TokenAnswer,
    ) -> Self {
        Self {
            issuer: found.issuer().to_owned(),
            resource: found.resource.clone(),
            client: client.clone(),
            token_endpoint: token_endpoint.to_owned(),
            revocation_endpoint: found.server.revocation_endpoint.clone(),
            access_token: answer.access_token,
            refresh_token: answer.refresh_token,
            obtained_at: now(),
            lifetime: answer.expires_in.unwrap_or(UNKNOWN_LIFETIME),
            requested: requested.to_vec(),
            scopes,
            wanted: Vec::new(),
        }
    }

    /// The same after a refresh. A server that sends no new refresh token keeps the old one valid.
    pub(crate) fn refreshed(&self, answer: TokenAnswer) -> Self {
        let scopes = super::metadata::granted(answer.scope.as_deref(), &self.scopes);
        Self {
            access_token: answer.access_token,
            refresh_token: answer.refresh_token.or_else(|| self.refresh_token.clone()),
            obtained_at: now(),
            lifetime: answer.expires_in.unwrap_or(UNKNOWN_LIFETIME),
            scopes,
            ..self.clone()
        }
    }

    /// The value of `Authorization`.
    pub(crate) fn header(&self) -> Option<HeaderValue> {
        let mut value = HeaderValue::try_from(format!("Bearer {}", self.access_token)).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    pub fn is_expired(&self) -> bool {
        now() >= self.obtained_at.saturating_add(self.lifetime)
    }

    /// Whether four fifths of its life are over.
    pub(crate) fn is_due(&self) -> bool {
        now() >= self.obtained_at.saturating_add(self.lifetime / 5 * 4)
    }

    pub fn can_refresh(&self) -> bool {
        self.refresh_token.is_some()
    }

    /// All scopes that a new sign-in should ask for.
    pub fn scopes_to_request(&self) -> Vec<String> {
        union(&union(&self.requested, &self.scopes), &self.wanted)
    }
}

/// The credentials of one user.
#[derive(Clone, Debug)]
pub struct Vault {
    store: Store,
    folder: PathBuf,
}

/// Held while a credential is refreshed, so that no other process does the same.
#[derive(Debug)]
pub(crate) struct RefreshGuard {
    _file: File,
}

impl Vault {
    /// The vault in the folder of the user's secrets.
    pub fn open(folder: &std::path::Path) -> Result<Self, Error> {
        Ok(Self { store: Store::open(folder)?, folder: folder.to_owned() })
    }

    /// The credential of `owner` for the server at `url`.
    pub async fn credential(&self, owner: &str, url: &Uri) -> Result<Option<Credential>, Error> {
        self.read(token_name(owner, url)).await
    }

    /// Stores a credential. It is on the disk when this returns.
    pub async fn keep(&self, owner: &str, url: &Uri, credential: &Credential) -> Result<(), Error> {
        self.write(token_name(owner, url), credential).await
    }

    /// Removes a credential; whether there was one.
    pub async fn forget(&self, owner: &str, url: &Uri) -> Result<bool, Error> {
        let (store, name) = (self.store.clone(), token_name(owner, url));
        blocking(move || Ok(store.remove(&name)?)).await
    }

    pub(crate) async fn registration(&self, issuer: &str) -> Result<Option<Registered>, Error> {
        self.read(client_name(issuer)).await
    }

    pub(crate) async fn keep_registration(&self, issuer: &str, client: &Registered) -> Result<(), Error> {
        self.write(client_name(issuer), client).await
    }

    /// Forgets a client that the issuer does not know any more, so that the next sign-in registers again.
    pub(crate) async fn forget_registration(&self, issuer: &str) -> Result<(), Error> {
        let (store, name) = (self.store.clone(), client_name(issuer));
        blocking(move || Ok(store.remove(&name).map(drop)?)).await
    }

    /// Waits until no other process refreshes a credential of this user.
    pub(crate) async fn refresh_guard(&self) -> Result<RefreshGuard, Error> {
        let path = self.folder.join("oauth.lock");
        let failed = move |cause: String| {
            let reason = toolyard_proto::Reason::new(format!("{} cannot be locked", path.display()));
            Error::new(Kind::Store, reason.because(cause))
        };
        let path = self.folder.join("oauth.lock");
        let file =
            blocking(move || Ok(OpenOptions::new().create(true).truncate(false).write(true).open(path)));
        let file = file.await?.map_err(|error| failed(error.to_string()))?;
        let locked = tokio::time::timeout(PATIENCE, async {
            loop {
                match file.try_lock() {
                    Ok(()) => return Ok(()),
                    Err(TryLockError::WouldBlock) => tokio::time::sleep(PAUSE).await,
                    Err(TryLockError::Error(error)) => return Err(error.to_string()),
                }
            }
        });
        match locked.await {
            Ok(Ok(())) => Ok(RefreshGuard { _file: file }),
            Ok(Err(cause)) => Err(failed(cause)),
            Err(_) => Err(failed("another process holds it".to_owned())),
        }
    }

    async fn read<T: DeserializeOwned + Send + 'static>(&self, name: String) -> Result<Option<T>, Error> {
        let store = self.store.clone();
        blocking(move || {
            let secret = store.get(&name)?;
            // What an older version wrote in another form is as good as absent.
            Ok(secret.and_then(|secret| serde_json::from_slice(secret.expose()).ok()))
        })
        .await
    }

    async fn write<T: Serialize>(&self, name: String, value: &T) -> Result<(), Error> {
        let bytes = serde_json::to_vec(value)
            .map_err(|error| Error::new(Kind::Store, format!("a credential cannot be written: {error}")))?;
        let store = self.store.clone();
        blocking(move || Ok(store.set(&name, Secret::new(bytes))?)).await
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let failed = |_| Error::new(Kind::Store, "the store of secrets failed, which is a bug");
    tokio::task::spawn_blocking(work).await.map_err(failed)?
}

fn token_name(owner: &str, url: &Uri) -> String {
    format!("oauth/token/{}", digest(&[owner, &url.to_string()]))
}

fn client_name(issuer: &str) -> String {
    format!("oauth/client/{}", digest(&[issuer]))
}

/// Names in the store are short and of few characters.
fn digest(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.len().to_le_bytes());
        hash.update(part.as_bytes());
    }
    HEXLOWER.encode(&hash.finalize()[..20])
}
