//! The line that a connection to the gateway opens with: which view is wanted, and who asks. Where the gateway
//! asks for tokens, each connection brings a fresh one, made from the secret of the config.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use serde_json::json;
use toolyard_proto::token::Rules;

use super::tokens::{Presented, Tokens};
use crate::cli::{Common, StdioArgs};
use crate::settings;

/// Where clients of what Toolyard replaces put their token.
pub(super) const TOKEN: &str = "MCP_AUTH_TOKEN";

pub(super) struct Opening {
    view: Option<String>,
    common: Common,
    tokens: Mutex<Tokens>,
}

impl Opening {
    pub(super) fn new(common: &Common, args: &StdioArgs, rules: Option<Rules>) -> Self {
        let given = settings::variable(TOKEN).filter(|token| !token.is_empty());
        let own = format!("toolyard-stdio-{}", std::process::id());
        let tokens = Tokens::new(own, given, rules, now());
        Self { view: view(args), common: common.clone(), tokens: Mutex::new(tokens) }
    }

    fn tokens(&self) -> MutexGuard<'_, Tokens> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The line for the next connection. Without one it is everything, for the owner of the socket.
    pub(super) fn line(&self) -> Option<Bytes> {
        let mut tokens = self.tokens();
        if tokens.presented().is_some() {
            // A shim may outlive a secret. What is just being edited says nothing.
            let loaded = settings::look(&self.common).1;
            if loaded.config.is_some() || loaded.auth.is_some() {
                tokens.renew(loaded.auth);
            }
        }
        let token = tokens.next(now());
        if self.view.is_none() && token.is_none() {
            return None;
        }
        Some(json!({ "toolyard": 1, "view": self.view, "token": token }).to_string().into())
    }

    /// Why we are not wanted, and what can be done about it where it is our token.
    pub(super) fn explained(&self, why: &str) -> String {
        let advice = match self.tokens().presented() {
            Some(Presented::Given) => "the one in MCP_AUTH_TOKEN is wrong, has expired or was used before",
            Some(Presented::Minted) => "the gateway was started with another secret: start it again",
            Some(Presented::Nothing) | None => "there is no `secret` in [auth] to make one from",
        };
        if why.contains("token") { format!("{why} ({advice})") } else { why.to_owned() }
    }
}

fn view(args: &StdioArgs) -> Option<String> {
    match (args.hub, &args.profile, &args.upstream) {
        (true, ..) => Some("hub".to_owned()),
        (false, Some(profile), _) => Some(format!("p/{profile}")),
        (false, None, Some(upstream)) => Some(upstream.clone()),
        (false, None, None) => None,
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
