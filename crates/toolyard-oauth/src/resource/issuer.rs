//! One issuer: its metadata and keys. They are fetched when they are first needed, by one request at a time, and again
//! when they are old or a key is unknown, but not more often than every half minute: a flood of tokens with made-up
//! keys does not become a flood at the issuer.

use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use tokio::time::Instant;

use super::keys::{Key, KeySet};
use super::token::Algorithm;
use crate::client::issuer_document;
use crate::error::{Error, Kind};
use crate::http::Http;

/// The least time between two attempts.
const PAUSE: Duration = Duration::from_secs(30);
/// The same as long as no keys are known at all.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
/// After so long they are fetched again; if that fails, the old ones count.
const MAX_AGE: Duration = Duration::from_mins(15);
/// How long a client waits for its issuer.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Issuer {
    pub(super) id: String,
    jwks_uri: Option<String>,
    http: Http,
    state: Mutex<State>,
    /// Held while something is fetched.
    flight: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    keys: Option<Arc<KeySet>>,
    fetched: Option<Instant>,
    tried: Option<Instant>,
    /// Whether they are being fetched: then a request waits for that.
    is_fetching: bool,
    introspection: Option<String>,
}

/// The result of the lookup of a key.
#[derive(Debug)]
pub(super) enum Lookup {
    Found(Key),
    Unknown,
    /// The keys should be fetched first.
    Fetch,
    /// They cannot be fetched.
    Unavailable,
}

impl Issuer {
    pub(super) fn new(http: Http, id: String, jwks_uri: Option<String>) -> Self {
        Self { id, jwks_uri, http, state: Mutex::default(), flight: tokio::sync::Mutex::default() }
    }

    pub(super) fn key(&self, algorithm: Algorithm, id: Option<&str>) -> Lookup {
        let state = self.state();
        let since = |then: Option<Instant>| then.map_or(Duration::MAX, |then| then.elapsed());
        let Some(keys) = &state.keys else {
            let may_try = state.is_fetching || since(state.tried) >= FIRST_PAUSE;
            return if may_try { Lookup::Fetch } else { Lookup::Unavailable };
        };
        let may_try = since(state.tried) >= PAUSE;
        match keys.find(algorithm, id) {
            Some(_) if may_try && since(state.fetched) > MAX_AGE => Lookup::Fetch,
            Some(key) => Lookup::Found(key.clone()),
            None if may_try || state.is_fetching => Lookup::Fetch,
            None => Lookup::Unknown,
        }
    }

    /// Fetches the keys, unless another request has done so in the meantime.
    pub(super) async fn fetch(&self, algorithm: Algorithm, id: Option<&str>) {
        let _flight = self.flight.lock().await;
        if !matches!(self.key(algorithm, id), Lookup::Fetch) {
            return;
        }
        let _fetching = Fetching::begin(self);
        let fetched = tokio::time::timeout(PATIENCE, self.fetch_keys()).await;
        let failed = match fetched {
            Ok(Ok((keys, introspection))) => {
                let mut state = self.state();
                state.keys = Some(Arc::new(keys));
                state.fetched = Some(Instant::now());
                state.introspection = introspection.or(state.introspection.take());
                return;
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {} s", PATIENCE.as_secs()),
        };
        tracing::warn!(target: "auth", issuer = self.id, error = failed, "cannot fetch the keys of an issuer");
    }

    async fn fetch_keys(&self) -> Result<(KeySet, Option<String>), Error> {
        let (place, introspection) = self.places().await?;
        let answer = self.http.get(&place).await?;
        let keys = KeySet::parse(&answer.body).filter(|_| answer.status.is_success());
        let keys = keys.ok_or_else(|| {
            Error::new(Kind::Unreachable, format!("{place} answered {} without keys", answer.status))
        })?;
        tracing::debug!(target: "auth", issuer = self.id, "fetched the keys of an issuer");
        Ok((keys, introspection))
    }

    /// The addresses of the keys and, if the metadata was read, of the introspection.
    async fn places(&self) -> Result<(String, Option<String>), Error> {
        if let Some(place) = &self.jwks_uri {
            return Ok((place.clone(), None));
        }
        let metadata = self.metadata().await?;
        let place = metadata["jwks_uri"].as_str().ok_or_else(|| missing(&self.id, "jwks_uri"))?;
        Ok((place.to_owned(), metadata["introspection_endpoint"].as_str().map(str::to_owned)))
    }

    /// The address of the introspection.
    pub(super) async fn introspection_endpoint(&self) -> Result<String, Error> {
        let _flight = self.flight.lock().await;
        if let Some(endpoint) = self.state().introspection.clone() {
            return Ok(endpoint);
        }
        let metadata = self.metadata().await?;
        let endpoint = metadata["introspection_endpoint"].as_str();
        let endpoint = endpoint.ok_or_else(|| missing(&self.id, "introspection_endpoint"))?.to_owned();
        self.state().introspection = Some(endpoint.clone());
        Ok(endpoint)
    }

    async fn metadata(&self) -> Result<Value, Error> {
        let issuer: Uri = self.id.parse().map_err(|_| missing(&self.id, "address"))?;
        issuer_document(&self.http, &issuer, &self.id).await
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

/// Marks that keys are being fetched, also if the request that does it ends early.
struct Fetching<'i>(&'i Issuer);

impl<'i> Fetching<'i> {
    fn begin(issuer: &'i Issuer) -> Self {
        let mut state = issuer.state();
        state.tried = Some(Instant::now());
        state.is_fetching = true;
        drop(state);
        Self(issuer)
    }
}

impl Drop for Fetching<'_> {
    fn drop(&mut self) {
        self.0.state().is_fetching = false;
    }
}

fn missing(issuer: &str, what: &str) -> Error {
    Error::new(Kind::Config, format!("the metadata of {issuer} has no `{what}`"))
}
