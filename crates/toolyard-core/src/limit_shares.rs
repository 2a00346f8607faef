//! Limits that several gateways have together: each uses a share, which is set from outside once in a while. No call
//! waits for another gateway.

use std::collections::HashMap;
use std::sync::Arc;

use crate::Gateway;
pub use crate::pipeline::limit::{LimitDemand, LimitShares};
pub use toolyard_limits::{Demand, Limit, Share, Window};

impl Gateway {
    /// How much calls have asked of each limit since this was last read. Limits per client are left out: a client is
    /// at one gateway.
    pub fn take_limit_demands(&self) -> Vec<LimitDemand> {
        self.rules().steps.take_demands()
    }

    /// Uses only these shares of limits from now on, by the names of the limits. A limit that is made later begins with
    /// one equal share of `gateways`.
    pub fn share_limits(&self, gateways: usize, shares: &HashMap<Arc<str>, LimitShares>) {
        self.rules().steps.set_shares(gateways, shares);
    }
}
