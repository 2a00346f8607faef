//! Tokens made from a shared secret: good for a while, and for one connection.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use toolyard_proto::token::{BadToken, Checker, Rules};

/// Checks tokens, and remembers which were used. All doors of a gateway share one.
#[derive(Clone)]
pub struct Signed(Arc<Mutex<Checker>>);

impl Signed {
    pub fn new(rules: Rules) -> Self {
        Self(Arc::new(Mutex::new(Checker::new(rules))))
    }

    /// The answers to a challenge, one for each secret that is valid now.
    pub fn prove(&self, nonce: &str) -> Vec<String> {
        let checker = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        checker.rules().secrets.iter().map(|secret| secret.prove(nonce)).collect()
    }

    /// Who presents this token, which is used up by it.
    pub fn check(&self, token: Option<&str>) -> Result<Arc<str>, BadToken> {
        let token = token.ok_or(BadToken::Missing)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let mut checker = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        checker.check(token, now).map(Into::into)
    }
}

impl fmt::Debug for Signed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signed")
    }
}
