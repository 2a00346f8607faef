//! The body of `toolyard stdio`: MCP on stdin and stdout, through the gateway of the same config set. It connects to
//! the running gateway, or starts one. If that gateway dies, it connects to another one, and its client continues.
//!
//! Nothing but messages is ever written to stdout.

mod relay;
mod locate_gateway;
mod opening;
mod tokens;
mod memory;
mod lines;
mod log;
mod system;

use std::io;

use toolyard_proto::token::Rules;

pub use locate_gateway::{GatewayLocator, Start};
pub use log::keep_log_bounded;
pub use opening::CurrentRules;

use opening::Opening;
use relay::Relay;

/// The view of this shim's client, and its credentials.
pub struct Shim {
    pub locator: GatewayLocator,
    /// The path of the view below `/mcp`; the view of everything if `None`.
    pub view: Option<String>,
    pub is_hub: bool,
    /// The rules for making tokens.
    pub rules: Option<Rules>,
    pub current_rules: CurrentRules,
    /// The problem of the config, if it could not be read.
    pub trouble: Option<String>,
}

impl Shim {
    /// Runs until the client closes its end, or no gateway can be reached.
    pub async fn run(self) -> io::Result<()> {
        let Self { locator, view, is_hub, rules, current_rules, trouble } = self;
        Relay::new(locator, Opening::new(view, rules, current_rules, trouble), is_hub).run().await
    }
}

/// Answers a client that cannot be served with the reason, and ends its session.
pub async fn refuse(why: &str) {
    relay::refuse(why).await;
}

impl std::fmt::Debug for Shim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shim")
            .field("locator", &self.locator)
            .field("view", &self.view)
            .finish_non_exhaustive()
    }
}
