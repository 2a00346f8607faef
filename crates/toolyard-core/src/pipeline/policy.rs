//! The rules of the config, applied twice: `authorize`, the outermost step, refuses what no arguments could make
//! right and sees to approvals; `policy`, the innermost but the route, decides about the arguments that will really be
//! sent. A call that needs approval ends in the inner step, so that whatever it holds is released while it waits, and
//! is sent again by the outer one.

mod authorize;

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use toolyard_model::{Answer, BoxFuture, Origin};
use toolyard_policy::rules::{self, Annotations, Decision, Do, Policy, Tool, Verdict, Who};
use toolyard_policy::unique::Unique;
use toolyard_proto::CallError;

use super::{Call, Next, Step};
use crate::approvals::{Approvals, Subject, Wanted};
use crate::catalog::Entry;

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
    Who { name: principal.name(), roles: principal.roles(), class: principal.class() }
}

/// A tool or prompt, as rules see it.
pub(crate) fn tool(entry: &Entry) -> Tool<'_> {
    let (canonical, is_trusted) = (&*entry.canonical, entry.upstream.is_trusted());
    Tool { canonical, annotations: entry.annotations(), is_trusted }
}

impl Governor {
    fn verdict(&self, origin: &Origin, entry: &Entry) -> Arc<Verdict> {
        self.policy.class_of(&who(origin)).verdict(&tool(entry))
    }

    fn place(&self, decision: &Decision) -> String {
        self.policy
            .rule(decision)
            .map_or_else(|| "the default of `[policy]`".to_owned(), |rule| rule.place.clone())
    }

    /// The error of a call that the rules do not permit.
    fn denied(&self, call: &Call, decision: &Decision) -> CallError {
        let subject = call.subject();
        if decision.action == Do::Hide {
            let what = if call.entry.is_some() { "tool" } else { "method" };
            return CallError::invalid_params(format!("unknown {what} `{subject}`"));
        }
        let name = call.origin.principal.name();
        tracing::info!(target: "policy", tool = subject, principal = %name, rule = self.place(decision), error = decision.error, "a call was denied");
        let reason = match &decision.error {
            Some(_) => {
                format!("{subject} is denied to {name}: the condition of a rule could not be evaluated")
            }
            None => format!("{subject} is denied to {name} by a rule of this gateway"),
        };
        CallError::denied(reason).at(call.upstream.name())
    }
}

/// What the two steps share about one call.
#[derive(Debug, Default)]
pub struct Slot {
    /// What was approved, by the client or by a grant.
    granted: Mutex<Option<Subject>>,
    /// What needs approval.
    wanted: Mutex<Option<Wanted>>,
}

impl Slot {
    fn new(granted: Option<Subject>) -> Self {
        Self { granted: Mutex::new(granted), wanted: Mutex::default() }
    }

    fn granted(&self) -> Option<Subject> {
        self.granted.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn wanted(&self) -> Option<Wanted> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The inner step.
pub(super) struct Judge(pub(super) Governor);

impl Step for Judge {
    fn run(&self, mut call: Call, next: Next) -> BoxFuture<Answer> {
        let Some(entry) = call.entry.clone() else { return next.run(call) };
        let verdict = self.0.verdict(&call.origin, &entry);
        if verdict.settled().is_some_and(|decision| decision.action == Do::Allow) {
            return next.run(call);
        }
        let args = match arguments(&call) {
            Ok(args) => args,
            Err(error) => return Box::pin(async move { Err(error) }),
        };
        let decision = verdict.decide(&who(&call.origin), &entry.canonical, &args);
        match decision.action {
            Do::Allow => next.run(call),
            Do::Deny | Do::Hide => {
                let error = self.0.denied(&call, &decision);
                Box::pin(async move { Err(error) })
            }
            Do::Approve if self.is_granted(&call, &entry, &args) => {
                // Its upstream may ask questions of its own, whose state is wrapped with the approval.
                call.needs_whole = true;
                next.run(call)
            }
            Do::Approve => {
                let error = self.want(&call, &entry, args, &decision);
                Box::pin(async move { Err(error) })
            }
        }
    }
}

impl Judge {
    /// Whether these very arguments were approved.
    fn is_granted(&self, call: &Call, entry: &Entry, args: &Value) -> bool {
        let Some(slot) = &call.approval else { return false };
        let subject = Subject::new(&call.origin, &entry.canonical, args);
        if slot.granted().as_ref() == Some(&subject) {
            return true;
        }
        let is_granted = self.0.approvals.take(&subject, &call.origin.client);
        if is_granted {
            *slot.granted.lock().unwrap_or_else(PoisonError::into_inner) = Some(subject);
        }
        is_granted
    }

    /// Leaves what needs approval for the outer step, which never passes this error on.
    fn want(&self, call: &Call, entry: &Entry, args: Value, decision: &Decision) -> CallError {
        let subject = Subject::new(&call.origin, &entry.canonical, &args);
        let approval = self.0.policy.rule(decision).map(|rule| rule.approval).unwrap_or_default();
        let rule = self.0.place(decision);
        if let Some(slot) = &call.approval {
            let wanted = Wanted { subject, approval, args, rule };
            *slot.wanted.lock().unwrap_or_else(PoisonError::into_inner) = Some(wanted);
        }
        CallError::denied(format!("{} needs approval", entry.canonical)).at(call.upstream.name())
    }
}

/// The arguments as they will be sent; none are an empty object. A tool may read duplicate keys in another way than
/// rules do, so there must be none.
fn arguments(call: &Call) -> Result<Value, CallError> {
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
    /// What its upstream states about it, with the protocol's defaults.
    pub(crate) fn annotations(&self) -> Annotations {
        *self.annotations.get_or_init(|| {
            let definition = self.own.read::<Value>().unwrap_or_default();
            rules::Annotations::of(&definition)
        })
    }
}
