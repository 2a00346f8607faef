//! How a browser becomes an operator without a cookie: an operator asks for a code that is valid once and for a
//! minute, the page exchanges it for a token and sends that with every request.
//!
//! Cookies are not used because browsers do not separate them by port: any other server on this machine would
//! receive them. The token is sealed with the gateway's keys, so that a page stays signed in when the gateway is
//! restarted.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use data_encoding::HEXLOWER;
use parking_lot::{Mutex, MutexGuard};
use subtle::ConstantTimeEq;
use toolyard_model::{Keys, Principal};

use super::admit::Admitted;

/// How long a code is valid.
pub const CODE_LIFE: Duration = Duration::from_mins(1);
/// How long a token is valid.
const TOKEN_LIFE: Duration = Duration::from_hours(12);
/// How many codes can be waiting; a new one replaces the oldest.
const MOST_CODES: usize = 8;
/// Begins every token, so that other credentials are recognised at once.
const PREFIX: &str = "tyui_";
const PURPOSE: &str = "dashboard";

/// Makes and checks codes and tokens.
pub(crate) struct UiAccess {
    keys: Arc<Keys>,
    codes: Mutex<Vec<(String, Instant)>>,
}

impl UiAccess {
    pub(crate) fn new(keys: Arc<Keys>) -> Self {
        Self { keys, codes: Mutex::default() }
    }

    fn codes(&self) -> MutexGuard<'_, Vec<(String, Instant)>> {
        let mut codes = self.codes.lock();
        codes.retain(|(_, made)| made.elapsed() < CODE_LIFE);
        codes
    }

    /// A new code; `None` without randomness.
    pub(crate) fn make_code(&self) -> Option<String> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).ok()?;
        let code = HEXLOWER.encode(&bytes);
        let mut codes = self.codes();
        if codes.len() == MOST_CODES {
            codes.remove(0);
        }
        codes.push((code.clone(), Instant::now()));
        Some(code)
    }

    /// A token for a code, which is used up.
    pub(crate) fn exchange(&self, code: &str) -> Option<String> {
        let mut codes = self.codes();
        let at = codes.iter().position(|(known, _)| bool::from(known.as_bytes().ct_eq(code.as_bytes())))?;
        codes.remove(at);
        let expires = now() + TOKEN_LIFE.as_secs();
        Some(format!("{PREFIX}{}", self.keys.seal(PURPOSE, &expires.to_be_bytes())))
    }

    /// The operator behind an `Authorization` header, if it carries a token of the dashboard.
    pub(crate) fn admit(&self, authorization: Option<&[u8]>) -> Option<Admitted> {
        let header = std::str::from_utf8(authorization?).ok()?;
        let sealed = header.strip_prefix("Bearer ")?.strip_prefix(PREFIX)?;
        let expires = self.keys.open(PURPOSE, sealed)?;
        let expires = u64::from_be_bytes(expires.try_into().ok()?);
        (expires > now()).then(|| Admitted::proven(Principal::token("operator")).as_operator())
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_exchanged_once_and_its_token_makes_an_operator() {
        let keys = Arc::new(Keys::default());
        let access = UiAccess::new(keys.clone());
        let code = access.make_code().unwrap();
        assert_eq!(access.exchange("0".repeat(32).as_str()), None);
        let token = access.exchange(&code).unwrap();
        assert_eq!(access.exchange(&code), None, "used up");
        let header = format!("Bearer {token}");
        assert!(access.admit(Some(header.as_bytes())).unwrap().is_operator);
        assert!(UiAccess::new(keys).admit(Some(header.as_bytes())).is_some(), "after a restart");
        assert!(UiAccess::new(Arc::default()).admit(Some(header.as_bytes())).is_none(), "of another gateway");
        assert!(access.admit(Some(b"Bearer tyui_AAAA")).is_none());
        assert!(access.admit(None).is_none());
    }

    #[test]
    fn old_codes_and_old_tokens_are_refused() {
        let access = UiAccess::new(Arc::default());
        let code = access.make_code().unwrap();
        access.codes.lock()[0].1 = Instant::now().checked_sub(CODE_LIFE).unwrap();
        assert_eq!(access.exchange(&code), None);
        let sealed = access.keys.seal(PURPOSE, &(now() - 1).to_be_bytes());
        assert!(access.admit(Some(format!("Bearer {PREFIX}{sealed}").as_bytes())).is_none());
    }

    #[test]
    fn codes_are_bounded() {
        let access = UiAccess::new(Arc::default());
        let first = access.make_code().unwrap();
        for _ in 0..MOST_CODES {
            access.make_code().unwrap();
        }
        assert_eq!(access.exchange(&first), None);
    }
}
