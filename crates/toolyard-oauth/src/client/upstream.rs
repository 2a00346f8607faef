//! The sign-ins of one upstream: adds tokens to the requests of its links, and asks the user in the middle of a call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::json;
use toolyard_link::http::{Authorize, Unauthorized};
use toolyard_model::{Ask, AskError, BoxFuture, Origin, Peer, Principal, PrincipalId};
use toolyard_proto::{CallError, Method, Notification, Raw, Reason};

use super::pages::Waiting;
use super::{Challenge, Keeper, Keepers, SHARED, SignIns, Target, Vault};
use crate::error::{Error, Kind};
use crate::http::Http;

/// How often a call that waits for the user shows that it is alive.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// Signs in at one upstream.
#[derive(Debug)]
pub struct UpstreamAuth {
    keepers: Keepers,
    pages: Arc<SignIns>,
    /// Whether there has been a sign-in, or a refusal for want of one.
    is_in_use: Arc<AtomicBool>,
}

impl UpstreamAuth {
    pub fn new(http: Http, vault: Vault, target: Target, pages: Arc<SignIns>) -> Self {
        Self { keepers: Keepers::new(http, vault, target), pages, is_in_use: Arc::default() }
    }

    /// The sign-in that requests of this principal use. A person that an issuer vouches for has an own one; all others
    /// act for the user of the gateway.
    pub fn keeper(&self, principal: Option<&Principal>) -> Arc<Keeper> {
        let owner = principal.filter(|_| !self.keepers.target().settings.shared).and_then(person);
        self.keepers.of(owner.as_deref().unwrap_or(SHARED))
    }

    /// Why the gateway itself cannot connect without the user, if so.
    pub fn sign_in_reason(&self) -> Option<Reason> {
        self.keeper(None).sign_in_reason()
    }

    /// Whether there is, or should be, a sign-in.
    pub fn is_in_use(&self) -> bool {
        self.is_in_use.load(Ordering::Relaxed)
    }

    /// Begins a sign-in of the user of the gateway, outside of a call.
    pub fn begin_sign_in(&self) -> BoxFuture<Result<Waiting, Error>> {
        let (keeper, pages) = (self.keeper(None), self.pages.clone());
        Box::pin(async move {
            let challenge = keeper.last_challenge();
            pages.begin(&keeper, &challenge).await
        })
    }

    /// Asks the client of a call to open the sign-in page, and waits until its user is done.
    pub fn sign_in(self: &Arc<Self>, origin: &Arc<Origin>, peer: &Peer) -> BoxFuture<Result<(), CallError>> {
        let (keeper, pages) = (self.keeper(Some(&origin.principal)), self.pages.clone());
        let (origin, peer) = (origin.clone(), peer.clone());
        Box::pin(async move {
            let name: Arc<str> = keeper.target().name.as_str().into();
            sign_in_by_page(&keeper, &pages, &origin, &peer).await.map_err(|reason| {
                let hint = format!("run `toolyard login {name}`, then try again");
                CallError::sign_in(reason.or_hint(hint)).at(&name)
            })
        })
    }
}

fn person(principal: &Principal) -> Option<Arc<str>> {
    match principal.id() {
        PrincipalId::OAuth { .. } => Some(principal.name().clone()),
        PrincipalId::Delegate { parent, .. } => person(parent),
        _ => None,
    }
}

async fn sign_in_by_page(
    keeper: &Arc<Keeper>,
    pages: &SignIns,
    origin: &Origin,
    peer: &Peer,
) -> Result<(), Reason> {
    let name = &keeper.target().name;
    let needed = keeper.sign_in_reason();
    if needed.is_none() && keeper.is_signed_in().await.map_err(|error| error.reason)? {
        // It was used without a token so far, or another call has signed in.
        return Ok(());
    }
    let needed = needed.unwrap_or_else(|| Reason::of_upstream(name, "needs a sign-in"));
    if ask(name, "", "").refusal(&origin.capabilities).is_some() {
        return Err(needed);
    }
    let challenge = keeper.last_challenge();
    let mut waiting = pages.begin(keeper, &challenge).await.map_err(|error| error.reason)?;
    let answer = peer.ask(ask(name, &waiting.url, &waiting.id)).await;
    let accepted = match &answer {
        Ok(result) => {
            result.member("action").and_then(|action| action.as_string()).as_deref() == Some("accept")
        }
        Err(AskError::Unsupported(_)) => return Err(needed),
        Err(_) => false,
    };
    if !accepted {
        return Err(needed.because("the sign-in was declined"));
    }
    wait(&mut waiting, peer).await.map_err(|error| error.reason)?;
    let id = Raw::from_serialize(&json!({ "elicitationId": waiting.id }));
    peer.notify(Notification::new(Method::new("notifications/elicitation/complete"), Some(id)));
    Ok(())
}

fn ask(name: &str, url: &str, id: &str) -> Ask {
    let params = json!({
        "mode": "url",
        "message": format!("`{name}` needs you to sign in. Open the page to continue."),
        "url": url,
        "elicitationId": id,
    });
    Ask { method: Method::new("elicitation/create"), params: Some(params.into()) }
}

/// Waits for the user; the call shows from time to time that it is alive.
async fn wait(waiting: &mut Waiting, peer: &Peer) -> Result<(), Error> {
    let mut ticks = tokio::time::interval(PROGRESS_INTERVAL);
    let mut finished = Box::pin(waiting.finished());
    loop {
        tokio::select! {
            outcome = &mut finished => return outcome,
            _ = ticks.tick() => peer.alive(),
        }
    }
}

impl Authorize for UpstreamAuth {
    fn authorization(
        &self,
        principal: Option<&Principal>,
    ) -> BoxFuture<Result<Option<HeaderValue>, Unauthorized>> {
        let (keeper, is_in_use) = (self.keeper(principal), self.is_in_use.clone());
        Box::pin(async move {
            let authorization = keeper.authorization().await;
            if !matches!(authorization, Ok(None)) {
                is_in_use.store(true, Ordering::Relaxed);
            }
            authorization.map_err(unauthorized)
        })
    }

    fn renewed(
        &self,
        principal: Option<&Principal>,
        used: Option<HeaderValue>,
        status: StatusCode,
        headers: &HeaderMap,
    ) -> BoxFuture<Result<Option<HeaderValue>, Unauthorized>> {
        let Some(challenge) = Challenge::read(status, headers) else { return Box::pin(async { Ok(None) }) };
        self.is_in_use.store(true, Ordering::Relaxed);
        let keeper = self.keeper(principal);
        Box::pin(async move { keeper.renew(used.as_ref(), &challenge).await.map_err(unauthorized) })
    }
}

fn unauthorized(error: Error) -> Unauthorized {
    Unauthorized { needs_sign_in: error.kind == Kind::SignIn, reason: error.reason }
}
