//! Credentials in the user's sealed store, by owner and server; registrations, by issuer and redirect address.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::PathBuf;
use std::time::Duration;

use data_encoding::HEXLOWER;
use http::{HeaderValue, Uri};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::time::Instant;
use toolyard_secrets::{Secret, Store};

use super::metadata::Discovered;
use super::registration::Registered;
use super::shared::{Sharing, Stored};
use super::token::TokenAnswer;
use super::{now, union};
use crate::error::{Error, Kind};

/// Between two attempts to lock a credential.
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
    pub(super) sharing: Sharing,
}

/// Held while a credential is refreshed, so that no other process does the same.
#[derive(Debug)]
pub(crate) struct RefreshGuard {
    _file: File,
}

impl Vault {
    /// The vault in the folder of the user's secrets.
    pub fn open(folder: &std::path::Path) -> Result<Self, Error> {
        Ok(Self { store: Store::open(folder)?, folder: folder.to_owned(), sharing: Sharing::Alone })
    }

    /// The credential of `owner` for the server at `url`.
    pub async fn credential(&self, owner: &str, url: &Uri) -> Result<Option<Credential>, Error> {
        let name = token_name(owner, url);
        let own = self.read::<Stored>(name.clone()).await?;
        Ok(self.agreed(&name, own).await?.and_then(Stored::credential))
    }

    /// Like [`credential`](Self::credential), but fails while other gateways that share it cannot be asked.
    pub(crate) async fn credential_of_all(
        &self,
        owner: &str,
        url: &Uri,
    ) -> Result<Option<Credential>, Error> {
        let name = token_name(owner, url);
        let own = self.read::<Stored>(name.clone()).await?;
        Ok(self.agreed_by_all(&name, own).await?.and_then(Stored::credential))
    }

    /// Stores a credential. It is on the disk when this returns, and shared if it is to be and can be.
    pub async fn keep(&self, owner: &str, url: &Uri, credential: &Credential) -> Result<(), Error> {
        let (name, stored) = (token_name(owner, url), Stored::Credential(Box::new(credential.clone())));
        self.write(name.clone(), &stored).await?;
        self.announce(&name, &stored).await;
        Ok(())
    }

    /// Removes a credential; whether there was one.
    pub async fn forget(&self, owner: &str, url: &Uri) -> Result<bool, Error> {
        let (store, name) = (self.store.clone(), token_name(owner, url));
        if matches!(self.sharing, Sharing::Alone) {
            return blocking(move || Ok(store.remove(&name)?)).await;
        }
        let was_there = self.credential(owner, url).await?.is_some();
        let removed = Stored::removed();
        self.write(name.clone(), &removed).await?;
        self.announce(&name, &removed).await;
        Ok(was_there)
    }

    /// The client that was registered at the issuer for this redirect address.
    pub(crate) async fn registration(
        &self,
        issuer: &str,
        redirect_uri: &str,
    ) -> Result<Option<Registered>, Error> {
        if let Some(client) = self.read(client_name(issuer, redirect_uri)).await? {
            return Ok(Some(client));
        }
        // Older versions kept one for all addresses.
        let older: Option<Registered> = self.read(issuer_only_name(issuer)).await?;
        Ok(older.filter(|older| older.redirect_uri.as_deref() == Some(redirect_uri)))
    }

    pub(crate) async fn keep_registration(
        &self,
        issuer: &str,
        redirect_uri: &str,
        client: &Registered,
    ) -> Result<(), Error> {
        self.write(client_name(issuer, redirect_uri), client).await
    }

    /// Forgets a client that the issuer does not know any more, so that the next sign-in registers again. Clients that
    /// were registered for other redirect addresses, or since, are kept.
    pub(crate) async fn forget_registration(&self, issuer: &str, client: &Registered) -> Result<(), Error> {
        let Some(redirect_uri) = &client.redirect_uri else { return Ok(()) };
        for name in [client_name(issuer, redirect_uri), issuer_only_name(issuer)] {
            let kept: Option<Registered> = self.read(name.clone()).await?;
            if kept.is_some_and(|kept| kept.id == client.id) {
                let store = self.store.clone();
                blocking(move || Ok(store.remove(&name).map(drop)?)).await?;
            }
        }
        Ok(())
    }

    /// The issuer that a client of the config was first used with, for the server at `url`.
    pub(crate) async fn issuer_of_client(&self, url: &Uri, id: &str) -> Result<Option<String>, Error> {
        self.read(issuer_name(url, id)).await
    }

    pub(crate) async fn keep_issuer_of_client(&self, url: &Uri, id: &str, issuer: &str) -> Result<(), Error> {
        self.write(issuer_name(url, id), &issuer).await
    }

    /// Waits until no other process refreshes this credential. Nothing if one still does after `patience`.
    pub(crate) async fn refresh_guard(
        &self,
        owner: &str,
        url: &Uri,
        patience: Duration,
    ) -> Result<Option<RefreshGuard>, Error> {
        let folder = self.folder.join("locks");
        let path = folder.join(digest(&[owner, &url.to_string()]));
        let shown = path.display().to_string();
        let failed = move |cause: String| {
            let reason = toolyard_proto::Reason::new(format!("{shown} cannot be locked"));
            Error::new(Kind::Store, reason.because(cause))
        };
        let file = blocking(move || {
            let created = std::fs::create_dir_all(&folder);
            let opened = || OpenOptions::new().create(true).truncate(false).write(true).open(path);
            Ok(created.and_then(|()| opened()))
        });
        let file = file.await?.map_err(|error| failed(error.to_string()))?;
        let end = Instant::now() + patience;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Some(RefreshGuard { _file: file })),
                Err(TryLockError::WouldBlock) if Instant::now() >= end => return Ok(None),
                Err(TryLockError::WouldBlock) => tokio::time::sleep(PAUSE).await,
                Err(TryLockError::Error(error)) => return Err(failed(error.to_string())),
            }
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

    pub(super) async fn write<T: Serialize>(&self, name: String, value: &T) -> Result<(), Error> {
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

pub(super) fn token_name(owner: &str, url: &Uri) -> String {
    format!("oauth/token/{}", digest(&[owner, &url.to_string()]))
}

fn client_name(issuer: &str, redirect_uri: &str) -> String {
    format!("oauth/client/{}", digest(&[issuer, redirect_uri]))
}

fn issuer_only_name(issuer: &str) -> String {
    format!("oauth/client/{}", digest(&[issuer]))
}

fn issuer_name(url: &Uri, id: &str) -> String {
    format!("oauth/issuer/{}", digest(&[&url.to_string(), id]))
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

#[cfg(test)]
mod tests {
    use super::*;

    const ISSUER: &str = "https://issuer.example";

    fn client(id: &str, redirect_uri: &str) -> Registered {
        let redirect_uri = Some(redirect_uri.to_owned());
        Registered {
            id: id.into(),
            secret: None,
            method: "none".into(),
            redirect_uri,
            expires_at: None,
            scopes: None,
        }
    }

    #[tokio::test]
    async fn a_registration_of_an_older_version_is_used_for_its_own_redirect_address() {
        let folder = tempfile::tempdir().unwrap();
        let vault = Vault::open(folder.path()).unwrap();
        let kept = client("kept", "http://127.0.0.1:7780/oauth/callback");
        vault.write(issuer_only_name(ISSUER), &kept).await.unwrap();
        let found = async |address: &str| vault.registration(ISSUER, address).await.unwrap();
        assert_eq!(found("http://127.0.0.1:7780/oauth/callback").await, Some(kept.clone()));
        assert_eq!(found("http://127.0.0.1:7777/oauth/callback").await, None);
        vault.forget_registration(ISSUER, &kept).await.unwrap();
        assert_eq!(found("http://127.0.0.1:7780/oauth/callback").await, None);
    }

    #[tokio::test]
    async fn forgetting_a_registration_keeps_those_of_other_addresses_and_later_ones() {
        let folder = tempfile::tempdir().unwrap();
        let vault = Vault::open(folder.path()).unwrap();
        let one = client("one", "http://127.0.0.1:1/x");
        let other = client("other", "http://127.0.0.1:2/x");
        for client in [&one, &other] {
            let address = client.redirect_uri.as_deref().unwrap();
            vault.keep_registration(ISSUER, address, client).await.unwrap();
        }
        vault.forget_registration(ISSUER, &client("before", "http://127.0.0.1:1/x")).await.unwrap();
        vault.forget_registration(ISSUER, &other).await.unwrap();
        let found = async |address: &str| vault.registration(ISSUER, address).await.unwrap();
        assert_eq!(found("http://127.0.0.1:1/x").await, Some(one.clone()));
        assert_eq!(found("http://127.0.0.1:2/x").await, None);
    }
}
