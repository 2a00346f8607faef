//! Runs that the gateway has started for a principal, such as agents. Each has a token of its own, which names the run
//! and its principal, opens one view, and ends with the run.

use std::collections::HashMap;
use std::sync::Arc;

use data_encoding::BASE64URL_NOPAD;
use parking_lot::{Mutex, MutexGuard};

use crate::{Principal, Scope, View};

/// How a token of a run begins.
const PREFIX: &str = "tyd_";
/// How many runs may have a token at a time.
const MOST: usize = 1_000;

/// The tokens of all runs under way. Cheap to clone.
#[derive(Clone, Default)]
pub struct Delegates(Arc<Mutex<HashMap<String, Run>>>);

struct Run {
    principal: Principal,
    view: View,
    /// Ends with the run.
    under_way: Scope,
}

impl Delegates {
    /// A token for a run on behalf of `parent`, for this view only. `None` if there are too many already, or no
    /// random numbers.
    pub fn issue(&self, parent: &Principal, run: &str, view: View) -> Option<String> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).ok()?;
        let token = format!("{PREFIX}{}", BASE64URL_NOPAD.encode(&bytes));
        let mut known = self.known();
        if known.len() >= MOST {
            return None;
        }
        let run = Run { principal: parent.delegate(run), view, under_way: Scope::new() };
        known.insert(token.clone(), run);
        Some(token)
    }

    /// The run that a token belongs to, and its view.
    pub fn find(&self, token: &str) -> Option<(Principal, View)> {
        self.known().get(token).map(|run| (run.principal.clone(), run.view.clone()))
    }

    /// Waits until the run of this principal has ended.
    pub async fn ended(&self, principal: &Principal) {
        let under_way =
            self.known().values().find(|run| run.principal == *principal).map(|run| run.under_way.clone());
        if let Some(under_way) = under_way {
            under_way.ended().await;
        }
    }

    pub fn revoke(&self, token: &str) {
        if let Some(run) = self.known().remove(token) {
            run.under_way.cancel();
        }
    }

    /// Whether a token is one of a run, under way or not.
    pub fn is_one(token: &[u8]) -> bool {
        token.starts_with(PREFIX.as_bytes())
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Run>> {
        self.0.lock()
    }
}

impl std::fmt::Debug for Delegates {
    /// Tokens are secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Delegates").field("runs", &self.known().len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_names_its_run_until_it_is_revoked() {
        let (delegates, view) = (Delegates::default(), View::Profile("work".into()));
        let token = delegates.issue(&Principal::token("ann"), "agent_1", view.clone()).unwrap();
        assert!(Delegates::is_one(token.as_bytes()) && token.len() > 40);
        let (principal, found) = delegates.find(&token).unwrap();
        assert_eq!((principal.name().as_ref(), found), ("ann/agent_1", view));
        assert!(!format!("{delegates:?}").contains(&token));
        delegates.revoke(&token);
        assert_eq!(delegates.find(&token), None);
    }
}
