//! Connecting to an upstream over HTTP. Only the messages of the protocol itself are evidence of an era: a refusal for
//! lack of credentials, a server error or silence is none.

use std::sync::Arc;

use tokio::time::timeout;
use toolyard_model::{Connected, Greeting, Peer, Scope};
use toolyard_proto::{CallError, Era, Id, Kind, Method, Raw};

use super::source::Source;
use super::{ConnectError, FirstProbe, Plan, Trouble};
use crate::events::Events;
use crate::http::HttpSpec;
use crate::http::LegacyLink;
use crate::http::client::{AnswerReader, HttpLink, ModernCaller};
use crate::http::legacy::{OpenError, Pool, PoolParts};
use crate::http::refusal::HttpRefusal;
use crate::http::upstream::{CHECK_PATH, HttpUpstream};
use crate::own::own_request;
use crate::probe::{Discovered, judge, rejected};

pub(super) async fn connect(
    plan: &Plan<'_>,
    spec: &HttpSpec,
    first: FirstProbe,
) -> Result<Connected, ConnectError> {
    let scope = plan.scope.child();
    let upstream = HttpUpstream::new(plan.name, spec, plan.timeouts.connect, &scope)
        .map_err(|why| ConnectError::new(Trouble::Unreachable, why))?;
    let attempt = HttpAttempt { plan, spec, upstream: Arc::new(upstream), scope };
    let connected = attempt.run(first).await;
    if connected.is_ok() {
        attempt.upstream.settle().await;
    }
    connected.inspect_err(|_| attempt.scope.cancel())
}

/// An attempt to connect to one address.
struct HttpAttempt<'a> {
    plan: &'a Plan<'a>,
    spec: &'a HttpSpec,
    upstream: Arc<HttpUpstream>,
    scope: Scope,
}

impl HttpAttempt<'_> {
    async fn run(&self, first: FirstProbe) -> Result<Connected, ConnectError> {
        match first {
            FirstProbe::Only(Era::Legacy) => self.legacy().await,
            FirstProbe::Only(Era::Modern) => self.modern_only().await,
            FirstProbe::Probe | FirstProbe::ProbeModern => self.probe().await,
            FirstProbe::LegacyThenProbe => match self.legacy().await {
                Err(error) if error.trouble == Trouble::Incompatible => {
                    self.probe().await.map_err(|again| again.after([error.reason]))
                }
                settled => settled,
            },
        }
    }

    async fn probe(&self) -> Result<Connected, ConnectError> {
        match self.discover().await? {
            Discovered::Modern(greeting) => Ok(self.modern(greeting)),
            Discovered::Incompatible(why) => Err(ConnectError::new(Trouble::Incompatible, why)),
            Discovered::Legacy { why, .. } => self.legacy().await.map_err(|error| error.after([why])),
        }
    }

    async fn modern_only(&self) -> Result<Connected, ConnectError> {
        match self.discover().await? {
            Discovered::Modern(greeting) => Ok(self.modern(greeting)),
            Discovered::Incompatible(why) => Err(ConnectError::new(Trouble::Incompatible, why)),
            Discovered::Legacy { why, .. } => Err(super::not_modern(self.plan.name, &why)),
        }
    }

    fn modern(&self, greeting: Greeting) -> Connected {
        let caller = ModernCaller::new(self.upstream.clone());
        let (events, receiver) = Events::channel(&self.scope);
        let link = Arc::new(HttpLink::new(greeting, caller, events, self.scope.clone()));
        Connected { link, events: receiver }
    }

    /// Asks the modern question.
    async fn discover(&self) -> Result<Discovered, ConnectError> {
        let limit = self.plan.timeouts.connect;
        let caller = ModernCaller::new(self.upstream.clone());
        let asked = timeout(limit, ask(self.plan, &caller)).await;
        let asked = asked.map_err(|_| self.no_answer(&Method::DISCOVER))?;
        asked.map(|outcome| judge(self.plan.name, outcome))
    }

    /// Shakes hands in the old way; the session becomes the gateway's own.
    async fn legacy(&self) -> Result<Connected, ConnectError> {
        let limit = self.plan.timeouts.connect;
        let (events, receiver) = Events::channel(&self.scope);
        let parts = PoolParts {
            upstream: self.upstream.clone(),
            offer: self.plan.offer.clone(),
            events,
            scope: self.scope.clone(),
            connect: limit,
            idle: self.plan.timeouts.session_idle,
        };
        let opened = timeout(limit, Pool::open(parts)).await;
        let opened = opened.map_err(|_| self.no_answer(&Method::INITIALIZE))?;
        let (pool, session) = match opened {
            Ok(opened) => opened,
            Err(OpenError::Refused(refusal)) if may_be_http_sse(&refusal) => {
                return self.http_sse(&refusal).await;
            }
            Err(error) => return Err(self.not_opened(&error)),
        };
        let link = Arc::new(LegacyLink::new(session.greeting().clone(), pool));
        Ok(Connected { link, events: receiver })
    }

    /// A server that refuses both eras may still speak the transport that was there before.
    async fn http_sse(&self, refusal: &HttpRefusal) -> Result<Connected, ConnectError> {
        let source = Source::Sse(self.spec);
        let connected = super::child::connect(self.plan, source, FirstProbe::Only(Era::Legacy)).await;
        connected.map_err(|mut error| {
            error.reason = error.reason.or_hint(CHECK_PATH);
            error.after([refusal.reason(&self.upstream)])
        })
    }

    fn not_opened(&self, error: &OpenError) -> ConnectError {
        let call = error.to_call_error(&self.upstream);
        let trouble = match error {
            OpenError::Refused(refusal) if refusal.wants_credentials() => Trouble::Credentials,
            OpenError::Call(error) if error.kind == Kind::SignIn => Trouble::Credentials,
            OpenError::Refused(refusal) if refusal.status.is_client_error() => Trouble::Incompatible,
            OpenError::Incompatible(_) => Trouble::Incompatible,
            OpenError::Call(error) if matches!(error.kind, Kind::Reported(_) | Kind::BadAnswer) => {
                Trouble::Incompatible
            }
            OpenError::Refused(_) | OpenError::Call(_) => Trouble::Unreachable,
        };
        let hint =
            if call.kind == Kind::Lost { lost_hint(&self.upstream) } else { "look at the log of the server" };
        let is_lost = call.kind == Kind::Lost;
        let reason = rejected(self.plan.name, &Method::INITIALIZE, call);
        ConnectError::new(trouble, if is_lost { reason.with_hint(hint) } else { reason.or_hint(hint) })
    }

    fn no_answer(&self, method: &Method) -> ConnectError {
        let limit = self.plan.timeouts.connect;
        let reason = super::silent(self.plan, method, limit);
        let hint = format!("check that {} is right, or raise `connect_timeout`", self.upstream.shown_url());
        ConnectError::new(Trouble::NoAnswer, reason.with_hint(hint))
    }
}

/// An outer error is none of the era's business.
async fn ask(plan: &Plan<'_>, caller: &ModernCaller) -> Result<Result<Raw, CallError>, ConnectError> {
    let origin = plan.offer.origin();
    let id = Id::string("yard-discover");
    let request = own_request(&origin, id, Method::DISCOVER, plan.offer.discover_params());
    let response = caller.post(request).await.map_err(|error| unreachable(&caller.upstream, error))?;
    if response.status().is_success() {
        let reader = AnswerReader {
            upstream: &caller.upstream,
            peer: &Peer::none(),
            listens: false,
            id: None,
            client: None,
        };
        return Ok(reader.read(response).await);
    }
    let refusal = HttpRefusal::read(response).await;
    if refusal.wants_credentials() {
        return Err(ConnectError::new(Trouble::Credentials, refusal.reason(&caller.upstream)));
    }
    match refusal.status.as_u16() {
        400..=499 if !matches!(refusal.status.as_u16(), 408 | 425 | 429) => {
            Ok(Err(refusal.to_call_error(&caller.upstream)))
        }
        _ => Err(ConnectError::new(Trouble::Unreachable, refusal.reason(&caller.upstream))),
    }
}

fn unreachable(upstream: &HttpUpstream, error: CallError) -> ConnectError {
    if error.kind == Kind::SignIn {
        return ConnectError::new(Trouble::Credentials, error.reason);
    }
    let is_lost = error.kind == Kind::Lost;
    let reason = error.reason;
    let reason = if is_lost { reason.with_hint(lost_hint(upstream)) } else { reason };
    ConnectError::new(Trouble::Unreachable, reason)
}

/// No client's call was lost; often the server expects TLS.
fn lost_hint(upstream: &HttpUpstream) -> &'static str {
    if upstream.is_plain() {
        "if the server requires TLS, write https:// in `url`"
    } else {
        "look at the log of the server"
    }
}

/// HTTP+SSE is recognised by these statuses.
fn may_be_http_sse(refusal: &HttpRefusal) -> bool {
    matches!(refusal.status.as_u16(), 400 | 404 | 405) && refusal.error.is_none()
}
