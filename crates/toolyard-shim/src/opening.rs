//! The first line of a connection to the gateway: the view, the token and the working folder of the client. If the
//! gateway requires tokens, each connection presents a new one, made from the secret of the config.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use serde_json::json;
use toolyard_config::environment;
use toolyard_proto::token::Rules;

use super::locate_gateway::{About, GatewayRefusal};
use super::tokens::{Presented, Tokens};

/// The environment variable for a token; the program that Toolyard replaces used the same one.
pub(crate) const TOKEN: &str = "MCP_AUTH_TOKEN";

/// Reads the rules for tokens again, since a shim may outlive a secret.
pub type CurrentRules = Box<dyn Fn() -> Option<Rules> + Send + Sync>;

pub(crate) struct Opening {
    view: Option<String>,
    current_rules: CurrentRules,
    tokens: Mutex<Tokens>,
    /// The problem of the config, if it could not be read.
    trouble: Option<String>,
    /// The working folder of the client, which starts this program there.
    folder: Option<PathBuf>,
}

impl Opening {
    pub(crate) fn new(
        view: Option<String>,
        rules: Option<Rules>,
        current_rules: CurrentRules,
        trouble: Option<String>,
    ) -> Self {
        let given = environment(TOKEN).filter(|token| !token.is_empty());
        let own = format!("toolyard-stdio-{}", std::process::id());
        let tokens = Tokens::new(own, given, rules, now());
        let folder = std::env::current_dir().ok().filter(|folder| folder.to_str().is_some());
        Self { view, current_rules, tokens: Mutex::new(tokens), trouble, folder }
    }

    fn tokens(&self) -> MutexGuard<'_, Tokens> {
        self.tokens.lock()
    }

    /// The line for the next connection. `None` if it would be empty: then the connection gets the view of everything.
    pub(crate) fn line(&self) -> Option<Bytes> {
        let mut tokens = self.tokens();
        if tokens.presented().is_some() {
            // A shim may outlive a secret. A file that is being edited or is missing for a moment changes nothing.
            let rules = (self.current_rules)().filter(|rules| !rules.secrets.is_empty());
            if rules.is_some() {
                tokens.renew(rules, now());
            }
        }
        let token = tokens.next(now(), random());
        let line = json!({ "toolyard": 1, "view": self.view, "token": token, "folder": self.folder });
        (self.view.is_some() || token.is_some() || self.folder.is_some()).then(|| line.to_string().into())
    }

    /// The gateway has accepted us.
    pub(crate) fn welcomed(&self) {
        self.tokens().taken();
    }

    /// Whether another token can be tried after this refusal.
    pub(crate) fn has_another(&self, refusal: &GatewayRefusal) -> bool {
        refusal.about == About::Token && self.tokens().refused()
    }

    /// The reason of a refusal, with advice if it is about our token.
    pub(crate) fn explained(&self, refusal: GatewayRefusal) -> String {
        match refusal.about {
            About::Token => {}
            About::View if self.view.as_ref().is_some_and(|view| view.starts_with("p/")) => {
                return format!(
                    "{} (the profiles are the sections [profiles.NAME] of the config)",
                    refusal.why
                );
            }
            About::View => return format!("{} (`toolyard list` lists the available ones)", refusal.why),
            About::Other => return refusal.why,
        }
        let tokens = self.tokens();
        // The last attempt is made without a token, after all tokens that can be made.
        let was_refused = tokens.presented() == Some(Presented::Nothing) && tokens.has_secret();
        let why = if was_refused { "the token is not accepted here" } else { &refusal.why };
        let advice = match (tokens.presented(), &self.trouble) {
            (Some(Presented::Given), _) => {
                "the one in MCP_AUTH_TOKEN is wrong, has expired or was used before"
            }
            (_, Some(trouble)) => trouble,
            _ if tokens.has_secret() => "the gateway was started with another secret: start it again",
            _ => "there is no `secret` in [auth] to make one from",
        };
        format!("{why} ({advice})")
    }
}

/// Without randomness from the system, the process id is used.
fn random() -> u64 {
    getrandom::u64().unwrap_or_else(|_| u64::from(std::process::id()))
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
