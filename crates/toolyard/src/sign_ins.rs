//! The sign-ins of this program: the user's credentials, the pages that a running gateway offers, and the issuers whose
//! tokens it accepts.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use http::Uri;
use http::header::AUTHORIZATION;
use parking_lot::Mutex;
use toolyard_config::{LoginConfig, OAuthConfig, Reach, ResourceConfig, Server, UpstreamConfig, state_dir};
use toolyard_model::{BoxFuture, SharedSecrets};
use toolyard_oauth::client::{Keeper, SHARED, Settings, SignIns, Target, UpstreamAuth, Vault};
use toolyard_oauth::{Http, IntrospectionSettings, ResourceServer, ResourceSettings};
use toolyard_tool::host::{Credentials, NotSignedIn, SignInStatus};

use crate::settings;

/// The parts that all sign-ins share.
#[derive(Clone, Debug)]
pub(crate) struct SignInContext {
    http: Http,
    /// `None` if the user has no folder for secrets.
    vault: Option<Vault>,
    pages: Arc<SignIns>,
    upstreams: Arc<Mutex<HashMap<String, KnownUpstream>>>,
}

/// An upstream's sign-ins while its connection or a call uses them, with what they were made from.
#[derive(Debug)]
struct KnownUpstream {
    url: Uri,
    settings: Settings,
    auth: Weak<UpstreamAuth>,
}

impl SignInContext {
    /// Sign-ins with the credentials of the user that runs this program.
    pub(crate) fn of_user() -> Self {
        let vault = state_dir::secrets(&settings::variable).and_then(|folder| Vault::open(&folder).ok());
        Self { http: Http::default(), vault, pages: Arc::default(), upstreams: Arc::default() }
    }

    pub(crate) fn pages(&self) -> &Arc<SignIns> {
        &self.pages
    }

    pub(crate) fn http(&self) -> &Http {
        &self.http
    }

    pub(crate) fn vault(&self) -> Option<&Vault> {
        self.vault.as_ref()
    }

    /// Sign-ins of a program beside a gateway that shares its credentials with other nodes.
    pub(crate) fn beside_node(self) -> Self {
        Self { vault: self.vault.map(Vault::shared_by_another), ..self }
    }

    /// The sign-ins of an upstream; `None` if it has none. `shared`: the other gateways that have them, too. They are the
    /// same after a reload of the config: the connection of an unchanged upstream stays, and a call over it must find out
    /// that the user has to sign in.
    pub(crate) fn upstream(
        &self,
        upstream: &UpstreamConfig,
        shared: Option<Arc<dyn SharedSecrets>>,
    ) -> Option<Arc<UpstreamAuth>> {
        let (target, vault) = (target(upstream)?, self.vault.clone()?);
        let vault = match shared {
            Some(shared) => vault.shared_with(shared),
            None => vault,
        };
        let mut all = self.upstreams.lock();
        let known = all.get(&target.name);
        let same = known.filter(|known| known.url == target.url && known.settings == target.settings);
        if let Some(auth) = same.and_then(|known| known.auth.upgrade()) {
            return Some(auth);
        }
        let Target { name, url, settings } = target.clone();
        let auth = Arc::new(UpstreamAuth::new(self.http.clone(), vault, target, self.pages.clone()));
        all.insert(name, KnownUpstream { url, settings, auth: Arc::downgrade(&auth) });
        Some(auth)
    }

    /// Checks the tokens of clients; `base` is the address of the gateway as they reach it.
    pub(crate) fn resource(&self, config: &ResourceConfig, base: &str) -> ResourceServer {
        let introspection = config.introspection.as_ref().map(|introspection| IntrospectionSettings {
            url: introspection.url.clone(),
            client_id: introspection.client_id.clone(),
            client_secret: introspection.client_secret.clone(),
        });
        let settings = ResourceSettings {
            base: base.trim_end_matches('/').to_owned(),
            issuers: config.issuers.clone(),
            jwks_uri: config.jwks_uri.clone(),
            audience: config.audience.clone(),
            scopes: config.scopes.clone(),
            role_claims: config.role_claims.clone(),
            introspection,
        };
        ResourceServer::new(self.http.clone(), settings)
    }

    /// The account of the user at a provider.
    pub(crate) fn account(&self, login: &LoginConfig) -> Option<Keeper> {
        let settings = Settings { is_account: true, ..read(&login.oauth) };
        let target = Target { name: login.name.clone(), url: login.issuer.parse().ok()?, settings };
        let owner = format!("login:{}", login.name);
        Some(Keeper::new(self.http.clone(), self.vault.clone()?, target, &owner))
    }

    /// The accounts that packs may use.
    pub(crate) fn accounts(&self, logins: &[LoginConfig]) -> Arc<Accounts> {
        let keeper = |login: &LoginConfig| Some((login.name.clone(), Arc::new(self.account(login)?)));
        Arc::new(Accounts(logins.iter().filter_map(keeper).collect()))
    }

    /// The sign-in of the user of this program at an upstream.
    pub(crate) fn keeper(&self, target: Target) -> Option<Keeper> {
        Some(Keeper::new(self.http.clone(), self.vault.clone()?, target, SHARED))
    }
}

/// The accounts of the user at providers, by name. Packs get a fresh access token, and nothing else.
pub(crate) struct Accounts(HashMap<String, Arc<Keeper>>);

impl Credentials for Accounts {
    fn token(&self, provider: &str) -> BoxFuture<Result<String, NotSignedIn>> {
        let (keeper, missing) = (self.0.get(provider).cloned(), NotSignedIn::new(provider));
        Box::pin(async move {
            let Some(keeper) = keeper else { return Err(missing) };
            token_of(&keeper).await.ok_or(missing)
        })
    }

    fn sign_ins(&self) -> BoxFuture<Vec<SignInStatus>> {
        let mut keepers: Vec<(String, Arc<Keeper>)> =
            self.0.iter().map(|(name, keeper)| (name.clone(), keeper.clone())).collect();
        keepers.sort_by(|a, b| a.0.cmp(&b.0));
        Box::pin(async move {
            let mut all = Vec::with_capacity(keepers.len());
            for (provider, keeper) in keepers {
                // The user may have run `toolyard login` or `toolyard logout` since.
                let is_signed_in = keeper.reload().await.is_ok() && is_usable(&keeper).await;
                all.push(SignInStatus { provider, is_signed_in });
            }
            all
        })
    }
}

async fn is_usable(keeper: &Keeper) -> bool {
    keeper.sign_in_reason().is_none() && keeper.is_signed_in().await.unwrap_or(false)
}

/// The store is read again if there is no usable sign-in: the user may have run `toolyard login` since.
async fn token_of(keeper: &Arc<Keeper>) -> Option<String> {
    if !is_usable(keeper).await {
        keeper.reload().await.ok()?;
    }
    match keeper.authorization().await {
        Ok(header) => header?.to_str().ok()?.strip_prefix("Bearer ").map(str::to_owned),
        Err(error) => {
            tracing::warn!(target: "auth", login = keeper.target().name, %error, "cannot use a login");
            None
        }
    }
}

/// The server to sign in to: over HTTP, with credentials that are not fixed by the config.
pub(crate) fn target(upstream: &UpstreamConfig) -> Option<Target> {
    let Reach::Server(Server { url, headers, .. }) = &upstream.reach else { return None };
    if headers.contains_key(AUTHORIZATION) || upstream.oauth.is_off || !may_sign_in(url) {
        return None;
    }
    Some(Target { name: upstream.id.to_string(), url: url.clone(), settings: read(&upstream.oauth) })
}

/// Tokens go over TLS, or to this machine.
fn may_sign_in(url: &Uri) -> bool {
    let is_local = || {
        let host = url.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
        host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
    };
    url.scheme_str() == Some("https") || is_local()
}

fn read(config: &OAuthConfig) -> Settings {
    Settings {
        client_id: config.client_id.clone(),
        client_secret: config.client_secret.clone(),
        client_metadata_url: config.client_metadata_url.clone(),
        scopes: config.scopes.clone(),
        issuer: config.issuer.clone(),
        callback_port: config.callback_port,
        shared: config.shared,
        is_account: false,
    }
}
