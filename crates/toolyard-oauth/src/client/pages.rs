//! Sign-ins that a running gateway offers: a start page, and the address to which the browser is redirected.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;
use tokio::time::Instant;
use toolyard_model::Scope;
use toolyard_proto::Reason;

use super::{Challenge, Keeper, SignIn, random};
use crate::error::{Error, Kind};

/// How long a sign-in may take.
const VALID: Duration = Duration::from_mins(10);
const MOST_PENDING: usize = 200;
/// Below the gateway's address.
pub const START: &str = "/oauth/start/";
pub const CALLBACK: &str = "/oauth/callback";

/// The sign-ins that wait for a browser.
#[derive(Debug, Default)]
pub struct SignIns {
    base: Mutex<Option<String>>,
    /// The prefix of the ids of sign-ins, by which other gateways recognise the gateway that began them.
    mark: Mutex<String>,
    pending: Mutex<HashMap<String, Arc<Pending>>>,
    /// Owns the sign-ins that are being finished, each within the time limit of its requests.
    finishing: Scope,
}

#[derive(Debug)]
struct Pending {
    keeper: Arc<Keeper>,
    sign_in: SignIn,
    since: Instant,
    done: watch::Sender<Option<Result<(), Error>>>,
}

/// A sign-in that was begun, and its outcome.
#[derive(Debug)]
pub struct Waiting {
    pub id: String,
    /// Where the user begins.
    pub url: String,
    done: watch::Receiver<Option<Result<(), Error>>>,
}

/// A page for the browser.
#[derive(Debug, PartialEq, Eq)]
pub enum Page {
    /// Go on to this address.
    Redirect(String),
    /// Ask before continuing: the owner of the sign-in, the issuer, and the path that continues.
    Confirm {
        owner: String,
        target: String,
        issuer: String,
        go_on: String,
    },
    Done {
        target: String,
    },
    Failed {
        message: String,
    },
    NotFound,
}

impl SignIns {
    /// The address of the gateway as browsers reach it, without a slash at the end.
    pub fn set_base(&self, base: &str) {
        *self.base.lock() = Some(base.trim_end_matches('/').to_owned());
    }

    /// Names this gateway in the ids of its sign-ins, for others that a browser may be sent to.
    pub fn set_gateway(&self, gateway: &str) {
        *self.mark.lock() = format!("yard-{gateway}.");
    }

    /// The id of the sign-in that a page belongs to.
    pub fn id_in(path: &str, query: &str) -> Option<String> {
        match path.strip_prefix(START) {
            Some(id) => Some(id.to_owned()),
            None if path == CALLBACK => crate::url::query_value(query, "state"),
            None => None,
        }
    }

    fn base(&self) -> Result<String, Error> {
        let base = self.base.lock().clone();
        base.ok_or_else(|| Error::new(Kind::Config, "the gateway has no address that a browser could reach"))
    }

    /// Prepares a sign-in for the owner of `keeper`.
    pub async fn begin(&self, keeper: &Arc<Keeper>, challenge: &Challenge) -> Result<Waiting, Error> {
        let base = self.base()?;
        if let Some(waiting) = self.join(keeper, &base) {
            return Ok(waiting);
        }
        let mark = self.mark.lock().clone();
        let sign_in = keeper.begin_marked(challenge, &format!("{base}{CALLBACK}"), &mark).await?;
        let (id, (done, waiting)) = (format!("{mark}{}", random(18)), watch::channel(None));
        let pending = Pending { keeper: keeper.clone(), sign_in, since: Instant::now(), done };
        let mut all = self.pending();
        all.retain(|_, pending| pending.since.elapsed() < VALID);
        if all.len() >= MOST_PENDING {
            return Err(Error::new(Kind::Unreachable, "too many sign-ins are under way; try again later"));
        }
        all.insert(id.clone(), Arc::new(pending));
        Ok(Waiting { url: format!("{base}{START}{id}"), id, done: waiting })
    }

    /// Calls that need the same sign-in share one, while the user can still begin it.
    fn join(&self, keeper: &Arc<Keeper>, base: &str) -> Option<Waiting> {
        let all = self.pending();
        let is_same =
            |pending: &Pending| Arc::ptr_eq(&pending.keeper, keeper) && pending.since.elapsed() < VALID / 2;
        let (id, pending) = all.iter().find(|(_, pending)| is_same(pending))?;
        let done = pending.done.subscribe();
        Some(Waiting { url: format!("{base}{START}{id}"), id: id.clone(), done })
    }

    /// The page at `path` below the gateway's address. `confirmed`: the user has agreed to go on.
    pub async fn page(&self, path: &str, query: &str, confirmed: bool) -> Page {
        if let Some(id) = path.strip_prefix(START) {
            return self.start(id, confirmed);
        }
        if path == CALLBACK { self.callback(query).await } else { Page::NotFound }
    }

    /// A shared or local sign-in continues at once. A sign-in of a principal must be confirmed first: if the link has
    /// reached another person, that person would sign in on behalf of the principal.
    fn start(&self, id: &str, confirmed: bool) -> Page {
        let Some(pending) = self.get(id) else { return Page::NotFound };
        let owner = pending.keeper.owner();
        if confirmed || &**owner == super::SHARED {
            return Page::Redirect(pending.sign_in.url.clone());
        }
        Page::Confirm {
            owner: owner.to_string(),
            target: pending.keeper.target().name.clone(),
            issuer: pending.sign_in.issuer().to_owned(),
            go_on: format!("{START}{id}"),
        }
    }

    async fn callback(&self, query: &str) -> Page {
        let state = crate::url::query_value(query, "state").unwrap_or_default();
        let Some(pending) = self.take_by_state(&state) else {
            let reason = Reason::new("this sign-in is unknown, finished or too old");
            return Page::Failed { message: reason.with_hint("start it again").to_string() };
        };
        let target = pending.keeper.target().name.clone();
        let (mut done, query) = (pending.done.subscribe(), query.to_owned());
        // A browser that leaves now has used up its code, so the sign-in is finished without it.
        self.finishing.spawn(async move {
            let outcome = pending.keeper.finish(&pending.sign_in, &query).await;
            pending.done.send_replace(Some(outcome));
        });
        let outcome = done.wait_for(Option::is_some).await;
        match outcome.as_deref() {
            Ok(Some(Err(error))) => Page::Failed { message: error.to_string() },
            Ok(_) => Page::Done { target },
            Err(_) => Page::Failed { message: "the sign-in was interrupted; start it again".to_owned() },
        }
    }

    fn get(&self, id: &str) -> Option<Arc<Pending>> {
        self.pending().get(id).filter(|pending| pending.since.elapsed() < VALID).cloned()
    }

    /// Each redirect is used once.
    fn take_by_state(&self, state: &str) -> Option<Arc<Pending>> {
        let mut all = self.pending();
        let is_it = |pending: &Pending| pending.since.elapsed() < VALID && pending.sign_in.state() == state;
        let id = all.iter().find(|(_, pending)| is_it(pending)).map(|(id, _)| id.clone())?;
        all.remove(&id)
    }

    fn pending(&self) -> MutexGuard<'_, HashMap<String, Arc<Pending>>> {
        self.pending.lock()
    }
}

impl Waiting {
    /// Waits for the user to finish, at most as long as the sign-in is valid.
    pub async fn finished(&mut self) -> Result<(), Error> {
        let late = || {
            let reason = Reason::new("the sign-in was not finished in time").with_hint("start it again");
            Err(Error::new(Kind::SignIn, reason))
        };
        let done = tokio::time::timeout(VALID, self.done.wait_for(Option::is_some)).await;
        match done {
            Ok(Ok(outcome)) => outcome.clone().unwrap_or(Ok(())),
            Ok(Err(_)) | Err(_) => late(),
        }
    }
}
