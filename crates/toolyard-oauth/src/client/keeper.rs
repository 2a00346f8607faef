//! One credential in use: loaded once, refreshed in time and by one caller at a time, and saved before it is used.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;
use tokio::time::Instant;
use toolyard_model::Scope;
use toolyard_proto::Reason;

use super::metadata::{Discovered, discover};
use super::sign_in::Redirection;
use super::vault::{Credential, Vault};
use super::{Challenge, SignIn, Target, token, union};
use crate::error::{Error, Kind};
use crate::http::Http;

/// A server that rejects a token this soon after its refresh would reject the next one as well.
const FRESH: Duration = Duration::from_secs(10);
/// How long a token that is still valid is used after a refresh has failed.
const PAUSE: Duration = Duration::from_secs(10);
/// How long another process may take to refresh a credential that has expired or was rejected.
const PATIENCE: Duration = Duration::from_secs(30);
/// How many principals have their credential in memory. Beyond that, the one used longest ago is dropped.
const MOST_KEEPERS: usize = 1_000;

/// The credential of one owner for one server.
pub struct Keeper {
    target: Target,
    owner: Arc<str>,
    http: Http,
    vault: Vault,
    live: Mutex<Live>,
    /// Held while the credential is loaded, refreshed or replaced.
    flight: Arc<tokio::sync::Mutex<()>>,
    /// Owns refreshes. Each one holds its keeper, and ends within the time limit of its requests.
    refreshes: Scope,
}

#[derive(Default)]
struct Live {
    is_loaded: bool,
    credential: Option<Arc<Credential>>,
    header: Option<HeaderValue>,
    refreshed: Option<Instant>,
    /// When a refresh failed that may succeed later.
    failed: Option<Instant>,
    /// Why the user must sign in, if so.
    sign_in: Option<Reason>,
    /// The last challenge of the server.
    challenge: Challenge,
}

impl std::fmt::Debug for Keeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keeper")
            .field("target", &self.target.name)
            .field("owner", &self.owner)
            .finish_non_exhaustive()
    }
}

impl Keeper {
    pub fn new(http: Http, vault: Vault, target: Target, owner: &str) -> Self {
        let live = Mutex::default();
        let flight = Arc::default();
        let refreshes = Scope::new();
        Self { target, owner: owner.into(), http, vault, live, flight, refreshes }
    }

    pub fn target(&self) -> &Target {
        &self.target
    }

    pub fn owner(&self) -> &Arc<str> {
        &self.owner
    }

    /// Why the user must sign in, if that is known.
    pub fn sign_in_reason(&self) -> Option<Reason> {
        self.live().sign_in.clone()
    }

    /// Reads the store again: another process may have signed in or out.
    pub async fn reload(&self) -> Result<(), Error> {
        let _flight = self.flight.lock().await;
        self.load().await
    }

    /// The last challenge of the server.
    pub fn last_challenge(&self) -> Challenge {
        self.live().challenge.clone()
    }

    /// Whether there is a credential. The store is read the first time.
    pub async fn is_signed_in(&self) -> Result<bool, Error> {
        self.loaded().await?;
        Ok(self.live().credential.is_some())
    }

    /// The value of `Authorization` to send, refreshed if it is due. Nothing if the user has not signed in.
    pub async fn authorization(self: &Arc<Self>) -> Result<Option<HeaderValue>, Error> {
        if let Some(header) = self.current() {
            return Ok(Some(header));
        }
        self.loaded().await?;
        let Some(credential) = self.credential() else { return Ok(None) };
        if !credential.is_due() || !credential.can_refresh() {
            return Ok(self.live().header.clone());
        }
        let is_valid = !credential.is_expired();
        if is_valid && self.live().failed.is_some_and(|at| at.elapsed() < PAUSE) {
            return Ok(self.live().header.clone());
        }
        let Ok(flight) = self.flight.clone().try_lock_owned() else {
            if is_valid {
                return Ok(self.live().header.clone());
            }
            // Another caller refreshes it.
            drop(self.flight.lock().await);
            return Ok(self.live().header.clone());
        };
        let keeper = self.clone();
        let refreshed = self.to_the_end(async move {
            let _flight = flight;
            // A token that is still valid is used while another process refreshes it.
            let patience = if credential.is_expired() { PATIENCE } else { Duration::ZERO };
            keeper.refresh(&credential, patience).await
        });
        match refreshed.await {
            Ok(header) => Ok(Some(header)),
            // The old token may be good for a while, and the server decides.
            Err(error) if error.kind == Kind::Unreachable => Ok(self.live().header.clone()),
            Err(error) if is_valid && error.kind != Kind::SignIn => {
                tracing::warn!(target: "oauth", upstream = self.target.name, %error, "a token was not refreshed");
                Ok(self.live().header.clone())
            }
            Err(error) => Err(error),
        }
    }

    /// Handles the refusal of a request that was sent with `used`. Returns the header to send instead, or `None` if the
    /// server does not require OAuth; an error of kind [`Kind::SignIn`] if the user must sign in.
    pub async fn renew(
        self: &Arc<Self>,
        used: Option<&HeaderValue>,
        challenge: &Challenge,
    ) -> Result<Option<HeaderValue>, Error> {
        let flight = self.flight.clone().lock_owned().await;
        let keeper = self.clone();
        let used = used.cloned();
        let challenge = challenge.clone();
        let renewed = self.to_the_end(async move {
            let _flight = flight;
            keeper.renew_alone(used.as_ref(), &challenge).await
        });
        renewed.await
    }

    /// Runs `work` as a task of its own: a call that is cancelled must not lose a token that the server has replaced.
    async fn to_the_end<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        let (done, outcome) = oneshot::channel();
        self.refreshes.spawn(async move {
            // The caller may be gone.
            let _ = done.send(work.await);
        });
        outcome.await.unwrap_or_else(|_| Err(Error::new(Kind::Unreachable, "the refresh was interrupted")))
    }

    /// Only while `flight` is held.
    async fn renew_alone(
        &self,
        used: Option<&HeaderValue>,
        challenge: &Challenge,
    ) -> Result<Option<HeaderValue>, Error> {
        self.live().challenge = challenge.clone();
        self.load().await?;
        // Another caller or another process was faster.
        if let Some(header) = self.live().header.clone().filter(|header| Some(header) != used) {
            return Ok(Some(header));
        }
        let Some(credential) = self.credential() else { return self.first_sign_in(challenge).await };
        if challenge.needs_more_scopes {
            return Err(self.step_up(&credential, challenge).await?);
        }
        self.check_issuer(&credential, challenge).await?;
        let was_fresh = self.live().refreshed.is_some_and(|at| at.elapsed() < FRESH);
        if was_fresh {
            return Err(self.must_sign_in("rejects a token that was just refreshed"));
        }
        if !credential.can_refresh() {
            let what = if credential.is_expired() {
                "needs a new sign-in: the last one has expired"
            } else {
                REVOKED
            };
            return Err(self.must_sign_in(what));
        }
        self.refresh(&credential, PATIENCE).await.map(Some)
    }

    /// Finds out what a sign-in needs, and which scopes it should ask for beside those that the server names.
    pub async fn prepare(&self, challenge: &Challenge) -> Result<(Discovered, Vec<String>), Error> {
        self.loaded().await?;
        let found = discover(&self.http, &self.target, challenge).await?;
        let earlier = self.credential().filter(|credential| credential.issuer == found.issuer());
        Ok((found, earlier.map(|credential| credential.scopes_to_request()).unwrap_or_default()))
    }

    /// Prepares a sign-in in the browser.
    pub async fn begin(&self, challenge: &Challenge, redirect_uri: &str) -> Result<SignIn, Error> {
        self.begin_marked(challenge, redirect_uri, "").await
    }

    /// The same with a `state` that begins with `mark`.
    pub async fn begin_marked(
        &self,
        challenge: &Challenge,
        redirect_uri: &str,
        mark: &str,
    ) -> Result<SignIn, Error> {
        let (found, scopes) = self.prepare(challenge).await?;
        let redirect = Redirection { uri: redirect_uri, mark };
        SignIn::begin(&self.http, &self.vault, &self.target, found, &scopes, redirect).await
    }

    /// Redeems what the browser brought back, and saves the credential.
    pub async fn finish(&self, sign_in: &SignIn, query: &str) -> Result<(), Error> {
        match sign_in.finish(&self.http, query).await {
            Ok(credential) => self.accept(credential).await,
            Err(error) => {
                if error.is_invalid_client() {
                    self.vault.forget_registration(sign_in.issuer(), sign_in.client()).await?;
                }
                Err(error)
            }
        }
    }

    /// Saves a new credential and uses it from now on.
    pub async fn accept(&self, credential: Credential) -> Result<(), Error> {
        let _flight = self.flight.lock().await;
        self.vault.keep(&self.owner, &self.target.url, &credential).await?;
        self.set(Some(credential));
        self.live().refreshed = None;
        Ok(())
    }

    /// Revokes the tokens where the server offers that, and removes the credential; whether there was one.
    pub async fn sign_out(&self) -> Result<bool, Error> {
        let _flight = self.flight.lock().await;
        self.load().await?;
        if let Some(credential) = self.credential() {
            self.revoke(&credential).await;
        }
        self.set(None);
        self.vault.forget(&self.owner, &self.target.url).await
    }

    async fn revoke(&self, credential: &Credential) {
        let Some(endpoint) = &credential.revocation_endpoint else { return };
        let token = credential.refresh_token.as_ref().unwrap_or(&credential.access_token);
        let pairs = [("token", token.as_str())];
        let sent = token::revoke(&self.http, endpoint, &credential.client, &pairs).await;
        if let Err(error) = sent {
            tracing::warn!(target: "oauth", upstream = self.target.name, %error, "could not revoke a token");
        }
    }

    /// Handles the first refusal. Returns `None` for a server that does not offer OAuth.
    async fn first_sign_in(&self, challenge: &Challenge) -> Result<Option<HeaderValue>, Error> {
        if challenge.resource_metadata.is_none() {
            match discover(&self.http, &self.target, challenge).await {
                Ok(_) => {}
                Err(error) if error.kind == Kind::NotOffered => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Err(self.must_sign_in("needs a sign-in"))
    }

    /// The token is valid but does not allow what was asked. The scopes are remembered for the next sign-in; a server
    /// that asks again for what it was already asked for gets no further sign-in, or there would be no end to it.
    async fn step_up(&self, credential: &Credential, challenge: &Challenge) -> Result<Error, Error> {
        let known = &credential.requested;
        let more: Vec<String> =
            challenge.scopes.iter().filter(|scope| !known.contains(scope)).cloned().collect();
        if more.is_empty() {
            let scopes = challenge.scopes.join(", ");
            let reason = Reason::of_upstream(&self.target.name, "refuses access (HTTP 403)");
            let reason =
                reason.because(format!("the last sign-in asked for {scopes} and was not granted enough"));
            return Ok(Error::new(Kind::Refused("insufficient_scope".to_owned()), reason));
        }
        let wanted = union(&credential.wanted, &more);
        if wanted != credential.wanted {
            let credential = Credential { wanted, ..credential.clone() };
            self.vault.keep(&self.owner, &self.target.url, &credential).await?;
            self.set(Some(credential));
        }
        Ok(self.must_sign_in(&format!("needs a sign-in with more rights ({})", more.join(", "))))
    }

    /// A credential is never used with another issuer than its own.
    async fn check_issuer(&self, credential: &Credential, challenge: &Challenge) -> Result<(), Error> {
        match discover(&self.http, &self.target, challenge).await {
            Ok(found) if found.issuer() != credential.issuer => {
                self.vault.forget(&self.owner, &self.target.url).await?;
                self.set(None);
                Err(self.must_sign_in("uses another authorization server now and needs a new sign-in"))
            }
            Err(error) if error.kind == Kind::Violation => Err(error),
            // What cannot be found out now does not make the refresh token worse.
            _ => Ok(()),
        }
    }

    /// Only while `flight` is held. The new token is saved before it is used, because the server may have made the
    /// old refresh token invalid.
    async fn refresh(&self, credential: &Credential, patience: Duration) -> Result<HeaderValue, Error> {
        let guard = self.vault.refresh_guard(&self.owner, &self.target.url, patience).await?;
        let Some(_guard) = guard else {
            self.live().failed = Some(Instant::now());
            let reason = Reason::of_upstream(&self.target.name, "has a token that another process refreshes");
            return Err(Error::unreachable(reason.with_hint("try again")));
        };
        let shared = self.vault.shared_guard(&self.owner, &self.target.url, patience).await;
        let _shared = shared.inspect_err(|_| self.live().failed = Some(Instant::now()))?;
        let agreed = self.vault.credential_of_all(&self.owner, &self.target.url).await;
        self.show(agreed.inspect_err(|_| self.live().failed = Some(Instant::now()))?);
        let Some(stored) = self.credential() else { return Err(self.must_sign_in(REVOKED)) };
        if stored.access_token != credential.access_token {
            return self.live().header.clone().ok_or_else(|| self.must_sign_in(REVOKED));
        }
        let Some(refresh_token) = &stored.refresh_token else { return Err(self.must_sign_in(REVOKED)) };
        let pairs = [
            ("grant_type", "refresh_token"),
            ("refresh_token", refresh_token),
            ("resource", &stored.resource),
        ];
        let sent =
            token::request(&self.http, &stored.issuer, &stored.token_endpoint, &stored.client, &pairs).await;
        let answer = match sent {
            Ok(answer) => answer,
            Err(error) if error.is_invalid_grant() || error.is_invalid_client() => {
                return Err(self.refresh_refused(&stored, &error).await?);
            }
            // Whatever else fails, such as a proxy in between, does not make the refresh token worse.
            Err(error) => {
                self.live().failed = Some(Instant::now());
                return Err(error);
            }
        };
        let fresh = stored.refreshed(answer);
        self.vault.keep(&self.owner, &self.target.url, &fresh).await?;
        tracing::debug!(target: "oauth", upstream = self.target.name, "refreshed a token");
        let header =
            fresh.header().ok_or_else(|| Error::violation("the token cannot be sent in a header"))?;
        self.set(Some(fresh));
        self.live().refreshed = Some(Instant::now());
        Ok(header)
    }

    /// A refresh token that was refused is not sent again.
    async fn refresh_refused(&self, stored: &Credential, error: &Error) -> Result<Error, Error> {
        if error.is_invalid_client() {
            self.vault.forget_registration(&stored.issuer, &stored.client).await?;
        }
        let ended = Credential { refresh_token: None, ..stored.clone() };
        self.vault.keep(&self.owner, &self.target.url, &ended).await?;
        self.set(Some(ended));
        tracing::warn!(target: "oauth", upstream = self.target.name, %error, "the refresh token was refused");
        Ok(self.must_sign_in(REVOKED))
    }

    fn must_sign_in(&self, what: &str) -> Error {
        let hint = format!("run `toolyard login {}`", self.target.name);
        let reason = Reason::of_upstream(&self.target.name, what).with_hint(hint);
        self.live().sign_in = Some(reason.clone());
        Error::new(Kind::SignIn, reason)
    }

    async fn loaded(&self) -> Result<(), Error> {
        if self.live().is_loaded {
            return Ok(());
        }
        let _flight = self.flight.lock().await;
        if self.live().is_loaded { Ok(()) } else { self.load().await }
    }

    /// Reads the store: another process may have changed it.
    async fn load(&self) -> Result<(), Error> {
        self.show(self.vault.credential(&self.owner, &self.target.url).await?);
        Ok(())
    }

    fn show(&self, stored: Option<Credential>) {
        if self.credential().as_deref() != stored.as_ref() || !self.live().is_loaded {
            self.set(stored);
        }
    }

    fn set(&self, credential: Option<Credential>) {
        let mut live = self.live();
        live.header = credential.as_ref().and_then(Credential::header);
        live.credential = credential.map(Arc::new);
        live.is_loaded = true;
        live.sign_in = None;
        live.failed = None;
    }

    /// The token, if it can be sent without any wait.
    fn current(&self) -> Option<HeaderValue> {
        let live = self.live();
        let credential = live.credential.as_ref()?;
        if credential.is_due() { None } else { live.header.clone() }
    }

    fn credential(&self) -> Option<Arc<Credential>> {
        self.live().credential.clone()
    }

    fn live(&self) -> MutexGuard<'_, Live> {
        self.live.lock()
    }
}

const REVOKED: &str = "needs a new sign-in: the last one was revoked or has expired";

/// The keepers of one server, by owner.
#[derive(Debug)]
pub struct Keepers {
    http: Http,
    vault: Vault,
    target: Target,
    by_owner: Mutex<HashMap<Arc<str>, Arc<Keeper>>>,
}

impl Keepers {
    pub fn new(http: Http, vault: Vault, target: Target) -> Self {
        Self { http, vault, target, by_owner: Mutex::default() }
    }

    pub fn target(&self) -> &Target {
        &self.target
    }

    pub fn of(&self, owner: &str) -> Arc<Keeper> {
        let mut keepers = self.by_owner.lock();
        if let Some(keeper) = keepers.get(owner) {
            return keeper.clone();
        }
        if keepers.len() >= MOST_KEEPERS {
            // Those in use live on; the rest is loaded again when it is needed.
            keepers.retain(|_, keeper| Arc::strong_count(keeper) > 1);
        }
        let keeper = Keeper::new(self.http.clone(), self.vault.clone(), self.target.clone(), owner);
        let keeper = Arc::new(keeper);
        keepers.insert(owner.into(), keeper.clone());
        keeper
    }
}
