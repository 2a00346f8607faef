//! Credentials become a principal, or a challenge that states what to present.

mod credential;
mod refusals;
mod verify;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use http::{HeaderValue, StatusCode};
use subtle::ConstantTimeEq;
use tokio::time::Instant;

pub use credential::ConnectionCredential;
use refusals::Refusals;
pub use toolyard_model::signed::Signed;
use toolyard_model::{Delegates, PassedOn, Principal, PrincipalId, Transport};
pub use verify::{Bearer, Refusal, Verdict, VerifyToken};

/// An admitted client, its rights, and whether it proved its identity.
#[expect(clippy::struct_excessive_bools, reason = "each is proven, or not, on its own")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admitted {
    pub principal: Principal,
    /// False where no credentials are required: then the principal does not identify the caller.
    pub proven: bool,
    /// Whether the connection may change things through the control API.
    pub is_operator: bool,
    /// Whether only the user that runs this program can have opened the connection.
    pub is_owner: bool,
    /// The folder that the client works in, where it named one.
    pub folder: Option<Arc<Path>>,
    /// When its credential ends, if that is known.
    pub until: Option<Instant>,
    /// Whether another node has carried out all steps of its calls already.
    pub is_relayed: bool,
    /// The gateway that the client called, if another node relays the call.
    pub called: Option<Arc<str>>,
    /// The transport over which the client has connected, if it is known.
    pub transport: Option<Transport>,
}

impl Admitted {
    /// A client that did not have to present anything.
    pub fn unproven(principal: Principal) -> Self {
        Self {
            principal,
            proven: false,
            is_operator: false,
            is_owner: false,
            folder: None,
            until: None,
            is_relayed: false,
            called: None,
            transport: None,
        }
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

    /// The client of another node, as that node describes it.
    pub fn passed_on(caller: PassedOn) -> Self {
        let PassedOn { principal, is_proven, is_relayed, called } = caller;
        Self { proven: is_proven, is_relayed, called, ..Self::unproven(principal) }
    }

    /// Whether the connection proves who its user is.
    pub fn proves_user(&self) -> bool {
        self.proven || self.is_operator || self.is_owner
    }

    /// The same client over this transport.
    #[must_use]
    pub fn over(self, transport: Transport) -> Self {
        Self { transport: Some(transport), ..self }
    }

    /// The same client with the rights of an operator.
    #[must_use]
    pub fn as_operator(self) -> Self {
        Self { is_operator: true, ..self }
    }
}

/// Why a request is not admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denial {
    Answer(Challenge),
    /// The issuer of this token must be asked first; see [`Gate::verify_on`].
    Unverified(Box<str>),
}

/// The answer to a client that is not admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge {
    pub status: StatusCode,
    /// The value of `WWW-Authenticate`; none where the client can do nothing about it.
    pub header: Option<HeaderValue>,
    pub text: &'static str,
}

impl Challenge {
    /// A node did not name the caller.
    pub(crate) fn node() -> Self {
        Self::bearer("Node")
    }

    fn bearer(value: &'static str) -> Self {
        Self::with(HeaderValue::from_static(value))
    }

    fn with(header: HeaderValue) -> Self {
        Self { status: StatusCode::UNAUTHORIZED, header: Some(header), text: "a bearer token is required" }
    }
}

/// Decides which clients are admitted, and as which principal.
#[derive(Clone)]
pub struct Gate {
    tokens: Vec<(Principal, Box<[u8]>)>,
    operator: Option<Box<[u8]>>,
    signed: Option<Signed>,
    issued: Option<Arc<dyn VerifyToken>>,
    delegates: Option<Delegates>,
    refusals: Refusals,
    local: Admitted,
}

impl Default for Gate {
    fn default() -> Self {
        Self::open()
    }
}

impl Gate {
    /// Accepts every request that reaches the listener. For loopback only.
    pub fn open() -> Self {
        Self {
            tokens: Vec::new(),
            operator: None,
            signed: None,
            issued: None,
            delegates: None,
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

    /// Also admits clients that present a token of an issuer.
    #[must_use]
    pub fn with_issued(mut self, verifier: Arc<dyn VerifyToken>) -> Self {
        self.issued = Some(verifier);
        self
    }

    /// Also admits runs that the gateway has started, each to its view. This does not close an open gate.
    #[must_use]
    pub fn with_delegates(mut self, delegates: Delegates) -> Self {
        self.delegates = Some(delegates);
        self
    }

    pub fn is_open(&self) -> bool {
        self.tokens.is_empty() && self.signed.is_none() && self.issued.is_none()
    }

    /// Whether tokens are made from a shared secret, so that every program that knows the secret can make one.
    pub fn is_signed(&self) -> bool {
        self.signed.is_some()
    }

    /// Admits a request to `path` by its `Authorization` header. A token that was checked is not checked again on the
    /// same connection, so a single-use token is valid for every request on the connection that it opened.
    pub fn admit_on(
        &self,
        credential: &ConnectionCredential,
        path: &str,
        authorization: Option<&[u8]>,
    ) -> Result<Admitted, Denial> {
        // Nearly every request repeats the header of the one before it.
        if !self.is_open()
            && let Some(header) = authorization
            && let Some(admitted) = credential.admitted_before(header, path)
        {
            return Ok(admitted);
        }
        let presented = authorization.and_then(|header| Some((header, bearer(header)?)));
        if let Some((_, token)) = presented
            && self.is_operator_token(token)
        {
            return Ok(operator());
        }
        // The token of a run is checked even if no token is required: a run must not get the rights of its user.
        let is_run = presented.is_some_and(|(_, token)| Delegates::is_one(token));
        if self.is_open() && !is_run {
            return Ok(self.local.clone());
        }
        let Some((header, token)) = presented else {
            self.refusals.missing(credential.client());
            return Err(Denial::Answer(self.challenge(path, None)));
        };
        let judged = credential.judged(header).unwrap_or_else(|| {
            let judged = self.judge(token);
            let is_checked_once = (self.signed.is_some() || self.issued.is_some()) && !is_run;
            if is_checked_once && matches!(judged, Judged::Admitted(_) | Judged::Bearer(_)) {
                credential.stamp(header, judged.clone());
            }
            judged
        });
        match judged {
            Judged::Admitted(admitted) => Ok(admitted),
            Judged::Bearer(bearer) if bearer.may_enter(path) => Ok(admitted(&bearer)),
            Judged::Bearer(_) => Err(self.denial(credential, path, verify::OTHER_VIEW)),
            Judged::Refused(refusal) => Err(self.denial(credential, path, refusal)),
            Judged::Unverified => Err(Denial::Unverified(String::from_utf8_lossy(token).into_owned().into())),
        }
    }

    /// Asks the issuer about a token, and notes the outcome for the next [`Gate::admit_on`] of this header.
    pub async fn verify_on(&self, credential: &ConnectionCredential, authorization: &[u8], token: &str) {
        let Some(issued) = &self.issued else { return };
        credential.stamp(authorization, issued.verify(token).await.into());
    }

    fn denial(&self, credential: &ConnectionCredential, path: &str, refusal: Refusal) -> Denial {
        self.refusals.invalid(credential.client(), &refusal.to_string());
        Denial::Answer(self.challenge(path, Some(refusal)))
    }

    fn challenge(&self, path: &str, refusal: Option<Refusal>) -> Challenge {
        if let Some(Refusal::Unavailable(text)) = refusal {
            return Challenge { status: StatusCode::SERVICE_UNAVAILABLE, header: None, text };
        }
        let Some(issued) = &self.issued else {
            let value = if refusal.is_some() { "Bearer error=\"invalid_token\"" } else { "Bearer" };
            return Challenge::bearer(value);
        };
        let challenge = Challenge::with(issued.challenge(path, refusal));
        match refusal {
            Some(Refusal::Scopes) => {
                Challenge { status: StatusCode::FORBIDDEN, text: verify::SCOPES, ..challenge }
            }
            Some(Refusal::Invalid(text)) => Challenge { text, ..challenge },
            _ => challenge,
        }
    }

    fn is_operator_token(&self, token: &[u8]) -> bool {
        self.operator.as_ref().is_some_and(|operator| bool::from(operator.as_ref().ct_eq(token)))
    }

    /// Logs that a stream connection did not present a token.
    pub(crate) fn note_missing(&self) {
        self.refusals.missing(None);
    }

    /// Admits a stream connection by the token in its opening line, for the view that the line names.
    pub async fn admit_token(&self, token: &str, view: &str) -> Option<Admitted> {
        let judged = match self.judge(token.as_bytes()) {
            Judged::Unverified => match &self.issued {
                Some(issued) => issued.verify(token).await.into(),
                None => Judged::Unverified,
            },
            judged => judged,
        };
        let refusal = match judged {
            Judged::Admitted(admitted) => return Some(admitted),
            Judged::Bearer(bearer) if bearer.may_enter(&format!("/mcp/{view}")) => {
                return Some(admitted(&bearer));
            }
            Judged::Bearer(_) => verify::OTHER_VIEW,
            Judged::Refused(refusal) => refusal,
            Judged::Unverified => NOT_CONFIGURED,
        };
        self.refusals.invalid(None, &refusal.to_string());
        None
    }

    /// Waits until the run of this principal has ended. Never returns if the principal is not a run.
    pub(crate) async fn run_ended(&self, principal: &Principal) {
        match (&self.delegates, principal.id()) {
            (Some(delegates), PrincipalId::Delegate { .. }) => delegates.ended(principal).await,
            _ => std::future::pending().await,
        }
    }

    fn judge(&self, token: &[u8]) -> Judged {
        if self.is_operator_token(token) {
            return Judged::Admitted(operator());
        }
        let matches = |entry: &&(Principal, Box<[u8]>)| bool::from(entry.1.as_ref().ct_eq(token));
        if let Some((principal, _)) = self.tokens.iter().find(matches) {
            return Judged::Admitted(Admitted::proven(principal.clone()));
        }
        let Ok(token) = std::str::from_utf8(token) else { return Judged::Refused(NOT_CONFIGURED) };
        if Delegates::is_one(token.as_bytes()) {
            let run = self.delegates.as_ref().and_then(|delegates| delegates.find(token));
            return run.map_or(Judged::Refused(RUN_ENDED), |(principal, view)| {
                Judged::Bearer(Bearer::of_run(principal, &view))
            });
        }
        // Only tokens that are made from a secret have colons; those of issuers hardly ever do.
        let may_be_signed = self.issued.is_none() || token.contains(':');
        if let Some(signed) = self.signed.as_ref().filter(|_| may_be_signed) {
            return match signed.check(Some(token)) {
                Ok(client) => Judged::Admitted(Admitted::proven(Principal::app(&client))),
                Err(bad) => Judged::Refused(Refusal::Secret(bad)),
            };
        }
        match &self.issued {
            Some(issued) => issued.check(token).map_or(Judged::Unverified, Judged::from),
            None => Judged::Refused(NOT_CONFIGURED),
        }
    }
}

const RUN_ENDED: Refusal = Refusal::Invalid("the token belongs to a run that has ended");
const NOT_CONFIGURED: Refusal = Refusal::Invalid("the token is not one of those that are configured");

/// The judgement of a gate about a token.
#[derive(Clone)]
enum Judged {
    Admitted(Admitted),
    Bearer(Bearer),
    Refused(Refusal),
    /// The issuer has to be asked.
    Unverified,
}

impl From<Verdict> for Judged {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Valid(bearer) => Self::Bearer(bearer),
            Verdict::Refused(refusal) => Self::Refused(refusal),
        }
    }
}

fn admitted(bearer: &Bearer) -> Admitted {
    Admitted { until: bearer.expires, ..Admitted::proven(bearer.principal.clone()) }
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
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use toolyard_model::BoxFuture;
    use toolyard_proto::token::{Rules, Secret};

    use super::*;

    fn check(gate: &Gate, header: Option<&str>, expected: Result<(&str, bool), &str>) {
        let got = gate.admit_on(&ConnectionCredential::default(), "/mcp", header.map(str::as_bytes));
        let got = got.as_ref().map(|admitted| (&**admitted.principal.name(), admitted.proven));
        let got = got.map_err(|denial| match denial {
            Denial::Answer(challenge) => challenge.header.as_ref().unwrap().to_str().unwrap(),
            Denial::Unverified(_) => "unverified",
        });
        assert_eq!(got, expected, "{header:?}");
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

    #[test]
    fn tokens_made_from_a_secret_are_valid_beside_those_of_an_issuer() {
        let secret = |text: &str| Secret::parse(text).unwrap();
        let ours = || secret("MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=");
        let rules = Rules { secrets: vec![ours()], window: Rules::WINDOW, skew: Rules::SKEW };
        let verifier = Arc::new(Counting::default());
        let gate = Gate::open().with_issued(verifier.clone()).with_signed(Signed::new(rules));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let header = |token: &str| format!("Bearer {token}");
        let signed = header(&ours().mint("notes", now));
        let connection = ConnectionCredential::default();
        for _ in 0..2 {
            let admitted = gate.admit_on(&connection, "/mcp", Some(signed.as_bytes())).unwrap();
            assert_eq!((&**admitted.principal.name(), admitted.proven), ("client:notes", true));
        }
        check(&gate, Some(&signed), Err("Bearer"));
        let foreign = secret("ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA=");
        check(&gate, Some(&header(&foreign.mint("notes", now))), Err("Bearer"));
        assert_eq!(verifier.0.load(Ordering::Relaxed), 0, "the issuer is not asked about them");
        check(&gate, Some("Bearer a.b.c"), Ok(("ann", true)));
        assert_eq!(verifier.0.load(Ordering::Relaxed), 1);
        // The connection may change to the other kind and back.
        let admitted = gate.admit_on(&connection, "/mcp", Some(b"Bearer a.b.c")).unwrap();
        assert_eq!(&**admitted.principal.name(), "ann");
    }

    /// Accepts every token for ten seconds and counts how often it is asked.
    #[derive(Debug, Default)]
    struct Counting(AtomicUsize);

    impl VerifyToken for Counting {
        fn check(&self, _: &str) -> Option<Verdict> {
            self.0.fetch_add(1, Ordering::Relaxed);
            let until = Instant::now() + Duration::from_secs(10);
            let principal = Principal::token("ann");
            Some(Verdict::Valid(Bearer { principal, until, expires: Some(until), views: None }))
        }

        fn verify(&self, token: &str) -> BoxFuture<Verdict> {
            let verdict = self.check(token).unwrap();
            Box::pin(async { verdict })
        }

        fn challenge(&self, _: &str, _: Option<Refusal>) -> HeaderValue {
            HeaderValue::from_static("Bearer")
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_is_verified_once_per_connection_until_it_must_be_checked_again() {
        let verifier = Arc::new(Counting::default());
        let gate = Gate::open().with_issued(verifier.clone());
        let admit = |credential: &ConnectionCredential, token: &str| {
            let header = format!("Bearer {token}");
            assert!(gate.admit_on(credential, "/mcp", Some(header.as_bytes())).is_ok());
            verifier.0.load(Ordering::Relaxed)
        };
        let first = ConnectionCredential::default();
        assert_eq!([admit(&first, "a"), admit(&first, "a"), admit(&first, "a")], [1, 1, 1]);
        assert_eq!([admit(&first, "b"), admit(&first, "b")], [2, 2], "another token");
        let second = ConnectionCredential::default();
        assert_eq!([admit(&second, "b"), admit(&second, "b")], [3, 3], "another connection");
        tokio::time::advance(Duration::from_secs(11)).await;
        assert_eq!([admit(&second, "b"), admit(&second, "b")], [4, 4], "its time is over");
    }
}
