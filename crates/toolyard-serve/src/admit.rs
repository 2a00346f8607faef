//! Credentials become a principal, or a challenge that says what to present.

mod refusals;

use std::fmt;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::{Mutex, MutexGuard, PoisonError};

use http::HeaderValue;
use subtle::ConstantTimeEq;

use refusals::Refusals;
use toolyard_model::Principal;
pub use toolyard_model::signed::Signed;

/// An admitted client, and whether it proved its identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admitted {
    pub principal: Principal,
    /// False where no credentials are required: then the principal says nothing about who is calling.
    pub proven: bool,
    /// Whether the connection may change things through the control API.
    pub is_operator: bool,
    /// Whether only the user that runs this program can have opened the connection.
    pub is_owner: bool,
    /// The folder that the client works in, where it named one.
    pub folder: Option<Arc<Path>>,
}

impl Admitted {
    /// A client that did not have to present anything.
    pub fn unproven(principal: Principal) -> Self {
        Self { principal, proven: false, is_operator: false, is_owner: false, folder: None }
    }

    /// A client that has presented a valid credential.
    pub fn proven(principal: Principal) -> Self {
        Self { proven: true, ..Self::unproven(principal) }
    }

    /// The same client, working in this folder. Only an absolute path names one.
    #[must_use]
    pub fn in_folder(self, folder: Option<&str>) -> Self {
        let folder = folder.map(Path::new).filter(|folder| folder.is_absolute()).map(Arc::from);
        Self { folder, ..self }
    }

    /// Whether the connection proves who its user is.
    pub fn proves_user(&self) -> bool {
        self.proven || self.is_operator || self.is_owner
    }

    /// The same client with the rights of an operator.
    #[must_use]
    pub fn as_operator(self) -> Self {
        Self { is_operator: true, ..self }
    }
}

/// The answer to a client that is not admitted: the value of `WWW-Authenticate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Challenge(&'static str);

impl Challenge {
    pub fn header(self) -> HeaderValue {
        HeaderValue::from_static(self.0)
    }
}

/// Decides who may come in.
#[derive(Clone)]
pub struct Gate {
    tokens: Vec<(Principal, Box<[u8]>)>,
    operator: Option<Box<[u8]>>,
    signed: Option<Signed>,
    refusals: Refusals,
    local: Admitted,
}

impl Default for Gate {
    fn default() -> Self {
        Self::open()
    }
}

impl Gate {
    /// Everybody who reaches the listener may come in. For loopback only.
    pub fn open() -> Self {
        Self {
            tokens: Vec::new(),
            operator: None,
            signed: None,
            refusals: Refusals::default(),
            local: Admitted::unproven(Principal::local()),
        }
    }

    /// Admits only clients that present `token`, as `principal`. Can be called again for more tokens.
    #[must_use]
    pub fn with_token(mut self, principal: Principal, token: &str) -> Self {
        self.tokens.push((principal, token.as_bytes().into()));
        self
    }

    /// A client that presents `token` is an operator. This does not close an open gate.
    #[must_use]
    pub fn with_operator_token(mut self, token: &str) -> Self {
        self.operator = Some(token.as_bytes().into());
        self
    }

    /// Also admits clients that present a token made from the secret.
    #[must_use]
    pub fn with_signed(mut self, signed: Signed) -> Self {
        self.signed = Some(signed);
        self
    }

    pub fn is_open(&self) -> bool {
        self.tokens.is_empty() && self.signed.is_none()
    }

    /// Whether tokens are made from a secret, so that every program that knows it can have one.
    pub fn is_signed(&self) -> bool {
        self.signed.is_some()
    }

    /// From an `Authorization` header.
    pub fn admit(&self, authorization: Option<&HeaderValue>) -> Result<Admitted, Challenge> {
        self.admit_on(&Ticket::default(), authorization.map(HeaderValue::as_bytes))
    }

    /// The same on a connection: a single-use token is valid for every request on the connection that it opened.
    pub fn admit_on(&self, ticket: &Ticket, authorization: Option<&[u8]>) -> Result<Admitted, Challenge> {
        let presented = authorization.and_then(|header| Some((header, bearer(header)?)));
        if let Some((_, token)) = presented
            && self.is_operator_token(token)
        {
            return Ok(operator());
        }
        if self.is_open() {
            return Ok(self.local.clone());
        }
        let Some((header, token)) = presented else {
            self.refusals.missing(ticket.client);
            return Err(Challenge("Bearer"));
        };
        if let Some(admitted) = ticket.admits(header) {
            return Ok(admitted);
        }
        let admitted =
            self.admit_token(ticket.client, token).ok_or(Challenge("Bearer error=\"invalid_token\""))?;
        if self.signed.is_some() {
            ticket.stamp(header, &admitted);
        }
        Ok(admitted)
    }

    fn is_operator_token(&self, token: &[u8]) -> bool {
        self.operator.as_ref().is_some_and(|operator| bool::from(operator.as_ref().ct_eq(token)))
    }

    /// Logs that a stream connection did not present a token.
    pub(crate) fn note_missing(&self) {
        self.refusals.missing(None);
    }

    /// From a bare token, as the opening line of a stream connection carries it.
    pub fn admit_token(&self, client: Option<IpAddr>, token: &[u8]) -> Option<Admitted> {
        if self.is_operator_token(token) {
            return Some(operator());
        }
        let matches = |entry: &&(Principal, Box<[u8]>)| bool::from(entry.1.as_ref().ct_eq(token));
        if let Some((principal, _)) = self.tokens.iter().find(matches) {
            return Some(Admitted::proven(principal.clone()));
        }
        let checked = match (&self.signed, std::str::from_utf8(token)) {
            (Some(signed), Ok(token)) => signed.check(Some(token)).map_err(|bad| bad.to_string()),
            _ => Err("the token is not the configured one".to_owned()),
        };
        match checked {
            Ok(client) => Some(Admitted::proven(Principal::app(&client))),
            Err(reason) => {
                self.refusals.invalid(client, &reason);
                None
            }
        }
    }
}

/// The credential that a connection was admitted with last, and where the connection comes from.
#[derive(Default)]
pub struct Ticket {
    client: Option<IpAddr>,
    last: Mutex<Option<(Box<[u8]>, Admitted)>>,
}

impl Ticket {
    pub fn of(client: Option<IpAddr>) -> Self {
        Self { client, last: Mutex::default() }
    }

    fn admits(&self, header: &[u8]) -> Option<Admitted> {
        let stamped = self.stamped();
        stamped.as_ref().filter(|(used, _)| used.as_ref() == header).map(|(_, admitted)| admitted.clone())
    }

    fn stamp(&self, header: &[u8], admitted: &Admitted) {
        *self.stamped() = Some((header.into(), admitted.clone()));
    }

    fn stamped(&self) -> MutexGuard<'_, Option<(Box<[u8]>, Admitted)>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Ticket {
    /// Tokens must not appear in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Ticket").field(&self.stamped().as_ref().map(|(_, admitted)| admitted)).finish()
    }
}

impl fmt::Debug for Gate {
    /// Tokens are secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("tokens", &self.tokens.len()).finish_non_exhaustive()
    }
}

fn operator() -> Admitted {
    Admitted::proven(Principal::token("operator")).as_operator()
}

fn bearer(header: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = header.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then_some(token.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(gate: &Gate, header: Option<&str>, expected: Result<(&str, bool), &str>) {
        let value = header.map(|text| HeaderValue::from_str(text).unwrap());
        let got = gate.admit(value.as_ref());
        let got = got.as_ref().map(|admitted| (&**admitted.principal.name(), admitted.proven));
        assert_eq!(got.map_err(|challenge| challenge.0), expected, "{header:?}");
    }

    #[test]
    fn only_a_known_token_opens_a_closed_gate() {
        let gate = Gate::open().with_token(Principal::token("ann"), "s3cret");
        check(&gate, Some("Bearer s3cret"), Ok(("ann", true)));
        check(&gate, Some("bearer s3cret "), Ok(("ann", true)));
        check(&gate, Some("Bearer s3cre"), Err("Bearer error=\"invalid_token\""));
        check(&gate, Some("Basic s3cret"), Err("Bearer"));
        check(&gate, None, Err("Bearer"));
        check(&Gate::open(), None, Ok(("local", false)));
        assert!(!format!("{gate:?}").contains("s3cret"));
    }
}
