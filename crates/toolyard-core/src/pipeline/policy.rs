//! The rules of the config, applied twice: `authorize`, the outermost step, refuses calls that are denied whatever
//! their arguments are, and handles approvals; `judge`, after which only retries come, decides about the arguments
//! that will really be sent. A call that needs approval ends in the inner step, so that everything it holds is released
//! while it waits, and the outer step sends it again.

mod authorize;

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use toolyard_model::{Answer, BoxFuture, Origin};
use toolyard_policy::rules::{self, Annotations, Decision, Do, Kind, Policy, Target, Verdict, Who};
use toolyard_policy::unique::Unique;
use toolyard_proto::name::canonical;
use toolyard_proto::{CallError, Method};

use super::{Call, Next, Step};
use crate::approvals::{ApprovalSubject, Approvals, Wanted};
use crate::catalog::Entry;
use crate::upstream::Upstream;

pub(super) use authorize::Authorize;

/// The rules in force and the approvals that they ask for.
#[derive(Clone, Debug)]
pub(crate) struct Governor {
    pub(crate) policy: Arc<Policy>,
    pub(crate) approvals: Arc<Approvals>,
}

/// A principal, as rules see it.
pub(crate) fn who(origin: &Origin) -> Who<'_, Arc<str>> {
    let principal = &origin.principal;
    let (name, parents) = (principal.name(), principal.parents());
    Who { name, parents, roles: principal.roles(), class: principal.class() }
}

/// A tool or prompt, as rules see it.
pub(crate) fn target(entry: &Entry) -> Target<'_> {
    let kind = entry.kind;
    let canonical = &*entry.canonical;
    let is_trusted = entry.upstream.is_trusted();
    let annotations = if kind == Kind::Tool { entry.annotations() } else { Annotations::default() };
    Target { kind, canonical, annotations, is_trusted }
}

/// A resource of an upstream, as rules see it.
pub(crate) fn resource<'a>(upstream: &Upstream, canonical: &'a str) -> Target<'a> {
    let (annotations, is_trusted) = (Annotations::default(), upstream.is_trusted());
    Target { kind: Kind::Resource, canonical, annotations, is_trusted }
}

/// The subject of a call.
enum About {
    Entry(Arc<Entry>),
    Resource { upstream: Arc<Upstream>, uri: String, canonical: String },
}

impl About {
    /// `None` for requests that rules do not cover.
    fn of(call: &Call) -> Option<Self> {
        if let Some(entry) = &call.entry {
            return Some(Self::Entry(entry.clone()));
        }
        if call.method != Method::RESOURCES_READ {
            return None;
        }
        let uri = call.params.member("uri").and_then(|uri| uri.as_string()).unwrap_or_default();
        let canonical = canonical(call.upstream.id(), &uri);
        Some(Self::Resource { upstream: call.upstream.clone(), uri, canonical })
    }

    fn target(&self) -> Target<'_> {
        match self {
            Self::Entry(entry) => target(entry),
            Self::Resource { upstream, canonical, .. } => resource(upstream, canonical),
        }
    }

    fn canonical(&self) -> &str {
        match self {
            Self::Entry(entry) => &entry.canonical,
            Self::Resource { canonical, .. } => canonical,
        }
    }

    fn kind(&self) -> Kind {
        match self {
            Self::Entry(entry) => entry.kind,
            Self::Resource { .. } => Kind::Resource,
        }
    }
}

/// The arguments of a resource read, as conditions see them.
pub(crate) fn resource_arguments(uri: &str) -> Value {
    serde_json::json!({ "uri": uri })
}

impl Governor {
    fn verdict(&self, origin: &Origin, about: &About) -> Arc<Verdict> {
        self.policy.class_of(&who(origin)).verdict(&about.target())
    }

    /// A server may read a URI with dot segments as another resource than the one that the rules judge.
    fn refusal(&self, call: &Call, about: &About) -> Option<CallError> {
        let About::Resource { uri, canonical, .. } = about else { return None };
        (self.policy.names_resources() && rules::has_dot_segments(uri)).then(|| {
            let message = format!("{canonical} has `.` or `..` in its path, which rules cannot judge");
            CallError::invalid_params(message).at(call.upstream.name())
        })
    }

    fn place(&self, decision: &Decision) -> String {
        place(&self.policy, decision)
    }

    /// The error of a call that the rules do not permit.
    fn denied(&self, call: &Call, about: &About, decision: &Decision) -> CallError {
        let subject = about.canonical();
        let place = self.place(decision);
        call.note("rules", format!("{} by {place}", decision.action));
        if decision.action == Do::Hide {
            return CallError::invalid_params(format!("unknown {} `{subject}`", about.kind().as_str()));
        }
        let name = call.origin.principal.name();
        tracing::info!(target: "policy", tool = subject, principal = %name, rule = place, error = decision.error, "a call was denied");
        let reason = match &decision.error {
            Some(_) => {
                format!("{subject} is denied to {name}: the condition of a rule could not be evaluated")
            }
            None => format!("{subject} is denied to {name} by a rule of this gateway"),
        };
        CallError::denied(reason).at(call.upstream.name())
    }
}

/// The place of the rule that decided.
pub(super) fn place(policy: &Policy, decision: &Decision) -> String {
    let rule = policy.rule(decision);
    rule.map_or_else(|| "the default of `[policy]`".to_owned(), |rule| rule.place.clone())
}

/// The state that the two steps share about one call.
#[derive(Debug, Default)]
pub struct Slot {
    /// The subject that was approved, by the client or by a grant.
    granted: Mutex<Option<ApprovalSubject>>,
    /// The approval that the call needs.
    wanted: Mutex<Option<Wanted>>,
}

impl Slot {
    fn new(granted: Option<ApprovalSubject>) -> Self {
        Self { granted: Mutex::new(granted), wanted: Mutex::default() }
    }

    fn granted(&self) -> Option<ApprovalSubject> {
        self.granted.lock().clone()
    }

    /// Whether the call was not sent because it needs approval.
    pub(super) fn needs_approval(&self) -> bool {
        self.wanted.lock().is_some()
    }

    fn wanted(&self) -> Option<Wanted> {
        self.wanted.lock().take()
    }
}

/// The inner step.
pub(super) struct Judge(pub(super) Governor);

impl Step for Judge {
    fn run(&self, mut call: Call, next: Next) -> BoxFuture<Answer> {
        let Some(about) = About::of(&call) else { return next.run(call) };
        let verdict = self.0.verdict(&call.origin, &about);
        if let Some(decision) = verdict.settled().filter(|decision| decision.action == Do::Allow) {
            if decision.rule.is_some() {
                call.note("rules", format!("allow by {}", self.0.place(decision)));
            }
            return next.run(call);
        }
        let args = match arguments(&call, &about) {
            Ok(args) => args,
            Err(error) => return Box::pin(async move { Err(error) }),
        };
        let decision = verdict.decide(&who(&call.origin), about.canonical(), &args);
        match decision.action {
            Do::Allow => {
                call.note("rules", format!("allow by {}", self.0.place(&decision)));
                next.run(call)
            }
            Do::Deny | Do::Hide => {
                let error = self.0.denied(&call, &about, &decision);
                Box::pin(async move { Err(error) })
            }
            Do::Approve => match self.is_granted(&call, &about, &args) {
                Ok(true) => {
                    call.note("rules", format!("approved, as {} requires", self.0.place(&decision)));
                    // Its upstream may ask questions of its own, whose state is wrapped with the approval.
                    call.needs_whole = true;
                    next.run(call)
                }
                Ok(false) => {
                    let error = self.want(&call, &about, args, &decision);
                    Box::pin(async move { Err(error) })
                }
                Err(error) => Box::pin(async move { Err(error) }),
            },
        }
    }
}

impl Judge {
    /// Whether these very arguments were approved.
    fn is_granted(&self, call: &Call, about: &About, args: &Value) -> Result<bool, CallError> {
        let Some(slot) = &call.approval else { return Ok(false) };
        let subject = ApprovalSubject::new(&call.origin, about.canonical(), args);
        if slot.granted().as_ref() == Some(&subject) {
            return Ok(true);
        }
        let is_granted = authorize::taken(self.0.approvals.take(&subject, &call.origin.client), call)?;
        if is_granted {
            *slot.granted.lock() = Some(subject);
        }
        Ok(is_granted)
    }

    /// Leaves the need for approval to the outer step, which never passes this error on.
    fn want(&self, call: &Call, about: &About, args: Value, decision: &Decision) -> CallError {
        let subject = ApprovalSubject::new(&call.origin, about.canonical(), &args);
        let approval = self.0.policy.rule(decision).map(|rule| rule.approval).unwrap_or_default();
        let rule = self.0.place(decision);
        call.note("rules", format!("approval required by {rule}"));
        if let Some(slot) = &call.approval {
            let wanted = Wanted { subject, approval, args, rule };
            *slot.wanted.lock() = Some(wanted);
        }
        CallError::denied(format!("{} needs approval", about.canonical())).at(call.upstream.name())
    }
}

/// The arguments as they will be sent; none are an empty object. A tool may read duplicate keys in another way than
/// rules do, so there must be none.
fn arguments(call: &Call, about: &About) -> Result<Value, CallError> {
    if let About::Resource { uri, .. } = about {
        return Ok(resource_arguments(uri));
    }
    let invalid = |what: &str| {
        let message = format!("the arguments of {} have {what}, which rules cannot judge", call.subject());
        CallError::invalid_params(message).at(call.upstream.name())
    };
    let given = call.params.find_once("arguments").map_err(|_| invalid("a duplicate"))?;
    let Some(given) = given.map(|range| call.params.slice(range)) else {
        return Ok(Value::Object(serde_json::Map::new()));
    };
    let Unique(args) = given.read::<Unique>().map_err(|_| invalid("duplicate keys"))?;
    Ok(if args.is_null() { Value::Object(serde_json::Map::new()) } else { args })
}

impl Entry {
    /// The annotations of the tool by its upstream, with the protocol's defaults.
    pub(crate) fn annotations(&self) -> Annotations {
        *self.annotations.get_or_init(|| {
            let definition = self.own.read::<Value>().unwrap_or_default();
            rules::Annotations::of(&definition)
        })
    }
}
