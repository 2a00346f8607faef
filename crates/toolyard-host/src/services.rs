//! The services that exist only once the gateway has been built: the hooks of the user, the limits of the config and
//! the accounts of the user. Before they are there, everything passes, nothing is limited and no one is signed in.

use std::sync::{Arc, OnceLock};

use serde_json::Value;
use toolyard_model::{BoxFuture, Delegates, Principal, View};
use toolyard_tool::host::{
    Credentials, Delegation, Delegations, Events, Hooks, Limited, LimitedWork, Limits, NotSignedIn, Permit,
    SignInStatus, Verdict,
};

#[derive(Default)]
pub(crate) struct LateHooks(OnceLock<Arc<dyn Hooks>>);

impl LateHooks {
    pub(crate) fn set(&self, hooks: Arc<dyn Hooks>) {
        let _ = self.0.set(hooks);
    }
}

impl Hooks for LateHooks {
    fn run(&self, point: &str, input: Value) -> BoxFuture<Verdict> {
        match self.0.get() {
            Some(hooks) => hooks.run(point, input),
            None => Box::pin(async { Verdict::Continue(input) }),
        }
    }

    fn has_any(&self, point: &str, subject: &str) -> bool {
        self.0.get().is_some_and(|hooks| hooks.has_any(point, subject))
    }
}

#[derive(Default)]
pub(crate) struct LateLimits(OnceLock<Arc<dyn Limits>>);

impl LateLimits {
    pub(crate) fn set(&self, limits: Arc<dyn Limits>) {
        let _ = self.0.set(limits);
    }
}

impl Limits for LateLimits {
    fn acquire(&self, name: &str, work: LimitedWork) -> BoxFuture<Result<Permit, Limited>> {
        match self.0.get() {
            Some(limits) => limits.acquire(name, work),
            None => Box::pin(async { Ok(Permit::unlimited()) }),
        }
    }
}

#[derive(Default)]
pub(crate) struct LateCredentials(OnceLock<Arc<dyn Credentials>>);

impl LateCredentials {
    pub(crate) fn set(&self, credentials: Arc<dyn Credentials>) {
        let _ = self.0.set(credentials);
    }
}

impl Credentials for LateCredentials {
    fn token(&self, provider: &str) -> BoxFuture<Result<String, NotSignedIn>> {
        if let Some(credentials) = self.0.get() {
            return credentials.token(provider);
        }
        let missing = NotSignedIn::new(provider);
        Box::pin(async { Err(missing) })
    }

    fn sign_ins(&self) -> BoxFuture<Vec<SignInStatus>> {
        match self.0.get() {
            Some(credentials) => credentials.sign_ins(),
            None => Box::pin(async { Vec::new() }),
        }
    }
}

#[derive(Default)]
pub(crate) struct LateEvents(OnceLock<Arc<dyn Events>>);

impl LateEvents {
    pub(crate) fn set(&self, events: Arc<dyn Events>) {
        let _ = self.0.set(events);
    }
}

impl Events for LateEvents {
    fn publish(&self, pack: &str, principal: &str, event: Value) {
        if let Some(events) = self.0.get() {
            events.publish(pack, principal, event);
        }
    }
}

/// The tokens of runs, and the command that serves them the gateway.
#[derive(Default)]
pub(crate) struct LateDelegations(OnceLock<(Delegates, Vec<String>)>);

impl LateDelegations {
    pub(crate) fn set(&self, delegates: Delegates, command: Vec<String>) {
        let _ = self.0.set((delegates, command));
    }
}

impl Delegations for LateDelegations {
    fn delegate(&self, parent: &Principal, run: &str, profile: &str) -> Option<Delegation> {
        let (delegates, command) = self.0.get()?;
        let token = delegates.issue(parent, run, View::Profile(profile.into()))?;
        let command = command.iter().cloned().chain(["--profile".into(), profile.into()]).collect();
        let (delegates, revoked) = (delegates.clone(), token.clone());
        Some(Delegation::new(token, command, move || delegates.revoke(&revoked)))
    }
}
