//! Tokens that apps and agents make themselves from a shared secret:
//! `ClientId:UnixTimestamp:Base64(HMAC-SHA256(secret, "ClientId:UnixTimestamp"))`. Good for a while, for one
//! connection. Pure: the time is an argument.

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use data_encoding::{BASE64, HEXLOWER};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The shortest secret, in bytes.
pub const SHORTEST_SECRET: usize = 16;
/// How many tokens are remembered within their window; more are refused.
const MOST_USED: usize = 100_000;
const LONGEST_CLIENT: usize = 128;

/// The secret that both sides know.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// Parses the base64 form that configs contain.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = BASE64.decode(text.trim().as_bytes()).ok()?;
        (bytes.len() >= SHORTEST_SECRET).then_some(Self(bytes))
    }

    fn signer(&self, text: &str) -> Hmac<Sha256> {
        let mut signer = Hmac::<Sha256>::new_from_slice(&self.0).expect("a key may have any length");
        signer.update(text.as_bytes());
        signer
    }

    /// A token of `client`, made at `now` (seconds since 1970). A client that opens several connections in a second
    /// uses the last timestamp plus one.
    pub fn mint(&self, client: &str, now: u64) -> String {
        let signed = format!("{client}:{now}");
        let signature = self.signer(&signed).finalize().into_bytes();
        format!("{signed}:{}", BASE64.encode(&signature))
    }

    /// The answer to a challenge with this nonce, which shows that we know the secret.
    pub fn prove(&self, nonce: &str) -> String {
        BASE64.encode(&self.signer(&proven(nonce)).finalize().into_bytes())
    }

    /// Whether this proof answers a challenge with this nonce. In constant time.
    pub fn is_proof(&self, nonce: &str, proof: &str) -> bool {
        let proof = BASE64.decode(proof.as_bytes());
        is_nonce(nonce) && proof.is_ok_and(|proof| self.signer(&proven(nonce)).verify_slice(&proof).is_ok())
    }

    /// A bearer that is always the same, for programs of our own that know the secret.
    pub fn bearer(&self) -> String {
        HEXLOWER.encode(&self.signer("toolyard bearer").finalize().into_bytes())
    }
}

/// Whether this is a nonce for a challenge: 32 to 128 hexadecimal digits. Anything else could make a proof that is
/// also a signature of something else.
pub fn is_nonce(text: &str) -> bool {
    (32..=128).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The text that is signed to answer a challenge. Without a colon, so that no proof is a token.
fn proven(nonce: &str) -> String {
    format!("toolyard gateway proof {nonce}")
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// Why a token is invalid. Never contains the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadToken {
    #[error("a token is required")]
    Missing,
    #[error("the token does not have the form ClientId:UnixTimestamp:Signature")]
    Malformed,
    #[error("the token was made with another secret")]
    Signature,
    #[error("the token has expired")]
    Expired,
    #[error("the token is from the future: check the clocks")]
    Future,
    #[error("the token was used before: make a new one for each connection")]
    Used,
    #[error("the use of the token cannot be recorded: see the gateway's log")]
    Unrecorded,
}

/// The rules that decide whether a token is valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Any of these; two while one takes the other's place.
    pub secrets: Vec<Secret>,
    /// How long a token is good, in seconds.
    pub window: u64,
    /// How far clocks may be apart, in seconds.
    pub skew: u64,
}

impl Rules {
    pub const WINDOW: u64 = 30 * 60;
    pub const SKEW: u64 = 2 * 60;

    /// Returns who made the token and when, if it is valid now. Does not check whether it was used before.
    pub fn verify(&self, token: &str, now: u64) -> Result<(String, u64), BadToken> {
        let (signed, signature) = token.rsplit_once(':').ok_or(BadToken::Malformed)?;
        let (client, made) = signed.rsplit_once(':').ok_or(BadToken::Malformed)?;
        let made: u64 = made.parse().map_err(|_| BadToken::Malformed)?;
        let signature = BASE64.decode(signature.as_bytes()).map_err(|_| BadToken::Malformed)?;
        if client.is_empty() || client.len() > LONGEST_CLIENT {
            return Err(BadToken::Malformed);
        }
        // In constant time, and first: without a valid signature, no other reason is revealed.
        let mut good = false;
        for secret in &self.secrets {
            good |= secret.signer(signed).verify_slice(&signature).is_ok();
        }
        if !good {
            return Err(BadToken::Signature);
        }
        if made > now.saturating_add(self.skew) {
            return Err(BadToken::Future);
        }
        if made.saturating_add(self.window + self.skew) < now {
            return Err(BadToken::Expired);
        }
        Ok((client.to_owned(), made))
    }
}

/// One use of a token: which client made it, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    pub client: String,
    /// In seconds since 1970, as the token states it.
    pub made: u64,
}

/// Checks tokens and remembers those that were used.
#[derive(Debug)]
pub struct Checker {
    rules: Rules,
    used: HashMap<String, BTreeSet<u64>>,
    count: usize,
}

impl Checker {
    pub fn new(rules: Rules) -> Self {
        Self { rules, used: HashMap::new(), count: 0 }
    }

    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Returns who presents the token. A token is valid once.
    pub fn check(&mut self, token: &str, now: u64) -> Result<Use, BadToken> {
        let (client, made) = self.rules.verify(token, now)?;
        self.forget_before(now.saturating_sub(self.rules.window + self.rules.skew));
        let used = Use { client, made };
        if self.count >= MOST_USED || !self.remember(&used) {
            return Err(BadToken::Used);
        }
        Ok(used)
    }

    /// Notes a use. False if it is known already.
    pub fn remember(&mut self, used: &Use) -> bool {
        let is_new = self.used.entry(used.client.clone()).or_default().insert(used.made);
        self.count += usize::from(is_new);
        is_new
    }

    /// The uses that are remembered, after those of tokens that have expired at `now` were forgotten.
    pub fn remembered(&mut self, now: u64) -> Vec<Use> {
        self.forget_before(now.saturating_sub(self.rules.window + self.rules.skew));
        let uses = |(client, times): (&String, &BTreeSet<u64>)| -> Vec<Use> {
            times.iter().map(|made| Use { client: client.clone(), made: *made }).collect()
        };
        self.used.iter().flat_map(uses).collect()
    }

    fn forget_before(&mut self, oldest: u64) {
        self.used.retain(|_, times| {
            while times.first().is_some_and(|first| *first < oldest) {
                times.pop_first();
                self.count -= 1;
            }
            !times.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000;

    fn secret(byte: u8) -> Secret {
        Secret(vec![byte; 32])
    }

    #[test]
    fn a_proof_answers_its_own_challenge_and_is_not_a_token() {
        let (own, other) = (secret(1), secret(2));
        let (nonce, second) = ("ab".repeat(16), "cd".repeat(16));
        let proof = own.prove(&nonce);
        assert!(own.is_proof(&nonce, &proof));
        assert!(!other.is_proof(&nonce, &proof) && !own.is_proof(&second, &proof));
        for odd in ["", "x", "1794726783", &"a:".repeat(20), &"ab".repeat(65)] {
            assert!(!is_nonce(odd) && !own.is_proof(odd, &own.prove(odd)), "{odd}");
        }
        let token = format!("toolyard gateway proof {nonce}:{proof}");
        assert_eq!(checker(&[1]).check(&token, NOW), Err(BadToken::Malformed));
    }

    fn checker(secrets: &[u8]) -> Checker {
        let secrets = secrets.iter().map(|byte| secret(*byte)).collect();
        Checker::new(Rules { secrets, window: Rules::WINDOW, skew: 60 })
    }

    #[test]
    fn only_a_fresh_token_of_a_known_secret_is_good_and_only_once() {
        let mut checker = checker(&[1, 2]);
        let mut check = |token: &str, expected: Result<&str, BadToken>| {
            let got = checker.check(token, NOW).map(|used| used.client);
            assert_eq!(got.as_deref().map_err(|bad| *bad), expected, "{token}");
        };
        let good = secret(1).mint("MyApp", NOW);
        check(&good, Ok("MyApp"));
        check(&good, Err(BadToken::Used));
        check(&secret(1).mint("MyApp", NOW + 1), Ok("MyApp"));
        check(&secret(2).mint("a:b", NOW), Ok("a:b"));
        check(&secret(3).mint("MyApp", NOW), Err(BadToken::Signature));
        check(&secret(1).mint("Old", NOW - 30 * 60 - 60), Ok("Old"));
        check(&secret(1).mint("Old", NOW - 30 * 60 - 61), Err(BadToken::Expired));
        check(&secret(1).mint("Young", NOW + 60), Ok("Young"));
        check(&secret(1).mint("Young", NOW + 61), Err(BadToken::Future));
        for malformed in ["", "a", "a:b", "a:b:c", ":1:AAAA", "a:1:!"] {
            check(malformed, Err(BadToken::Malformed));
        }
        check(&good.replace("MyApp", "Other"), Err(BadToken::Signature));
    }

    #[test]
    fn what_has_expired_is_forgotten() {
        let mut checker = checker(&[1]);
        for at in 0..100 {
            checker.check(&secret(1).mint("a", NOW + at), NOW + at).unwrap();
        }
        assert_eq!(checker.count, 100);
        let later = NOW + 100 + Rules::WINDOW + 60;
        checker.check(&secret(1).mint("b", later), later).unwrap();
        assert_eq!((checker.count, checker.used.len()), (1, 1));
    }

    #[test]
    fn a_signature_is_what_others_make_of_the_same_secret() {
        // printf 'WatchTower:1800000000' | openssl dgst -sha256 -hmac … -binary | base64
        let secret = Secret::parse(&BASE64.encode(b"0123456789abcdef0123456789abcdef")).unwrap();
        assert_eq!(
            secret.mint("WatchTower", NOW),
            "WatchTower:1800000000:itVpjFeVrWgssHJqPo0yqfD2Zk6HZdEt+o5tEpvS6ME="
        );
        assert!(Secret::parse("short").is_none() && Secret::parse(&BASE64.encode(b"short")).is_none());
        assert_eq!(format!("{secret:?}"), "Secret");
    }
}
