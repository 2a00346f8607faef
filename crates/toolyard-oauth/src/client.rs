//! The client: finds the authorization server of a protected server, registers with it, signs the user in, and keeps
//! the token fresh.
//!
//! | module | job |
//! |---|---|
//! | `challenge` | what a 401 or 403 asks for |
//! | `metadata` | which authorization server protects a server, and what it can do |
//! | `registration` | which client id to use there |
//! | `sign_in` | the authorization code flow with PKCE |
//! | `device` | the device flow, for machines without a browser |
//! | `token` | the token endpoint |
//! | `vault` | credentials in the sealed store |
//! | `keeper` | one credential in use: refreshed in time, by one caller at a time |
//! | `callback` | the address that a browser comes back to, without a gateway |
//! | `pages` | sign-ins that a running gateway offers to a browser |
//! | `upstream` | the sign-ins of one upstream, for its links and in the middle of calls |

mod challenge;
mod metadata;
mod registration;
mod sign_in;
mod device;
mod token;
mod vault;
mod shared;
mod keeper;
mod pages;
mod callback;
mod upstream;

use std::fmt;

pub use callback::{Callback, Redirect};
pub use challenge::Challenge;
pub use device::DeviceSignIn;
pub use keeper::{Keeper, Keepers};
pub(crate) use metadata::issuer_document;
pub use metadata::{Discovered, challenge, discover};
pub use pages::{CALLBACK, Page, START, SignIns, Waiting};
pub use sign_in::SignIn;
pub(crate) use token::basic;
pub use upstream::UpstreamAuth;
pub use vault::{Credential, Vault};

/// The owner of the sign-ins that the user of the gateway makes, and that all principals share where the config sets
/// that.
pub const SHARED: &str = "local";

/// The settings for signing in at one server or provider.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Settings {
    /// A client that was registered by hand.
    pub client_id: Option<String>,
    pub client_secret: Option<String>,
    /// The HTTPS address of a client id metadata document.
    pub client_metadata_url: Option<String>,
    /// The scopes to ask for, in place of those that the server names.
    pub scopes: Option<Vec<String>>,
    /// The authorization server, where the server itself does not name one.
    pub issuer: Option<String>,
    /// The port of the redirect address, for clients that were registered with a fixed one.
    pub callback_port: Option<u16>,
    /// Whether all principals share one sign-in.
    pub shared: bool,
    /// Whether it is an account at the issuer itself, not a sign-in at a server.
    pub is_account: bool,
}

impl fmt::Debug for Settings {
    /// The client secret is left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("client_id", &self.client_id)
            .field("scopes", &self.scopes)
            .field("issuer", &self.issuer)
            .finish_non_exhaustive()
    }
}

/// A server or provider that is signed in at.
#[derive(Clone, Debug)]
pub struct Target {
    /// Its name in the config.
    pub name: String,
    pub url: http::Uri,
    pub settings: Settings,
}

/// Adds what is missing, and keeps the order.
pub(crate) fn union(scopes: &[String], more: &[String]) -> Vec<String> {
    let mut all = scopes.to_vec();
    for scope in more {
        if !all.contains(scope) {
            all.push(scope.clone());
        }
    }
    all
}

pub(crate) fn split_scopes(text: &str) -> Vec<String> {
    text.split_ascii_whitespace().map(str::to_owned).collect()
}

/// `bytes` random bytes in base64url.
pub(crate) fn random(bytes: usize) -> String {
    let mut buffer = vec![0; bytes];
    getrandom::fill(&mut buffer).expect("the system has randomness");
    data_encoding::BASE64URL_NOPAD.encode(&buffer)
}

/// The current time in seconds since 1970.
pub(crate) fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.unwrap_or_default().as_secs()
}
