//! The rules of a config, compiled for the principals and targets that are there.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use serde_json::Value;

use super::{Annotations, Do, Rule, Target, Who};

/// How many principals, classes and targets are remembered; beyond that everything is compiled again.
const REMEMBERED: usize = 100_000;
/// The rules for longer ids, which clients can invent, are compiled each time.
const LONGEST: usize = 256;

/// The decision about a call, and the rule that made it; no rule if it is the default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub action: Do,
    pub rule: Option<usize>,
    /// Why a condition could not be evaluated, which denies the call.
    pub error: Option<String>,
}

impl Decision {
    fn of(action: Do, rule: Option<usize>) -> Self {
        Self { action, rule, error: None }
    }
}

/// All rules.
pub struct Policy {
    rules: Arc<[Rule]>,
    default: Do,
    names_resources: bool,
    classes: Mutex<HashMap<Box<[usize]>, Arc<PrincipalClass>>>,
    hasher: RandomState,
    principals: RwLock<HashMap<u64, (Known, Arc<PrincipalClass>)>>,
}

/// The properties that determine the class of a principal.
#[derive(PartialEq, Eq)]
struct Known {
    name: String,
    parents: Vec<String>,
    roles: Vec<String>,
    class: String,
}

impl Known {
    fn is<R: AsRef<str>>(&self, who: &Who<'_, R>) -> bool {
        let are_equal = |known: &[String], given: &[R]| {
            known.len() == given.len() && known.iter().zip(given).all(|(one, other)| *one == other.as_ref())
        };
        self.name == who.name
            && self.class == who.class
            && are_equal(&self.parents, who.parents)
            && are_equal(&self.roles, who.roles)
    }
}

impl std::fmt::Debug for Policy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Policy({} rules)", self.rules.len())
    }
}

impl PartialEq for Policy {
    fn eq(&self, other: &Self) -> bool {
        self.rules == other.rules && self.default == other.default
    }
}

impl Eq for Policy {}

impl Policy {
    pub fn new(rules: Vec<Rule>, default: Do) -> Self {
        let classes = Mutex::default();
        let hasher = RandomState::new();
        let principals = RwLock::default();
        let names_resources = rules.iter().any(|rule| !rule.names.resources.is_empty());
        Self { rules: rules.into(), default, names_resources, classes, hasher, principals }
    }

    pub fn rule(&self, decision: &Decision) -> Option<&Rule> {
        self.rules.get(decision.rule?)
    }

    pub fn default_action(&self) -> Do {
        self.default
    }

    /// Whether patterns over URIs decide about resources.
    pub fn names_resources(&self) -> bool {
        self.names_resources
    }

    /// The class of a principal.
    pub fn class_of<R: AsRef<str>>(&self, who: &Who<'_, R>) -> Arc<PrincipalClass> {
        let roles: Vec<&str> = who.roles.iter().map(AsRef::as_ref).collect();
        let parents: Vec<&str> = who.parents.iter().map(AsRef::as_ref).collect();
        let key = self.hasher.hash_one((who.name, &parents, &roles, who.class));
        let known = self.principals.read();
        if let Some((_, class)) = known.get(&key).filter(|(known, _)| known.is(who)) {
            return class.clone();
        }
        drop(known);
        let class = self.compile(who);
        let mut known = self.principals.write();
        if known.len() >= REMEMBERED {
            known.clear();
        }
        let owned = |texts: Vec<&str>| texts.into_iter().map(str::to_owned).collect();
        let owned = Known {
            name: who.name.to_owned(),
            parents: owned(parents),
            roles: owned(roles),
            class: who.class.to_owned(),
        };
        known.insert(key, (owned, class.clone()));
        class
    }

    fn compile<R: AsRef<str>>(&self, who: &Who<'_, R>) -> Arc<PrincipalClass> {
        let concerning = self.rules.iter().enumerate().filter(|(_, rule)| rule.concerns(who));
        let rules: Box<[usize]> = concerning.map(|(at, _)| at).collect();
        let mut classes = self.classes.lock();
        if classes.len() >= REMEMBERED {
            classes.clear();
        }
        // Ids are never used twice, also where the table was emptied: prepared lists belong to them.
        let id =
            u32::try_from(NEXT_CLASS.fetch_add(1, std::sync::atomic::Ordering::Relaxed)).unwrap_or(u32::MAX);
        let new = || {
            let (all, default) = (self.rules.clone(), self.default);
            Arc::new(PrincipalClass { id, all, rules: rules.clone(), default, verdicts: Default::default() })
        };
        classes.entry(rules.clone()).or_insert_with(new).clone()
    }
}

/// The class 0 is that of gateways without rules.
static NEXT_CLASS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);

/// Principals that the same rules concern.
pub struct PrincipalClass {
    id: u32,
    all: Arc<[Rule]>,
    /// The rules that concern it, in order.
    rules: Box<[usize]>,
    default: Do,
    /// By kind of target.
    verdicts: [RwLock<HashMap<String, Compiled>>; 3],
}

/// A verdict, and what of the target it follows from.
type Compiled = ((Annotations, bool), Arc<Verdict>);

impl std::fmt::Debug for PrincipalClass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PrincipalClass({})", self.id)
    }
}

impl PrincipalClass {
    /// Different for every two classes of a process.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The verdict of the rules for a target.
    pub fn verdict(&self, target: &Target<'_>) -> Arc<Verdict> {
        let basis = (target.annotations, target.is_trusted);
        let verdicts = &self.verdicts[target.kind as usize];
        let known = verdicts.read();
        if let Some((_, verdict)) = known.get(target.canonical).filter(|(known, _)| *known == basis) {
            return verdict.clone();
        }
        drop(known);
        let verdict = Arc::new(self.compile(target));
        if target.canonical.len() > LONGEST {
            return verdict;
        }
        let mut known = verdicts.write();
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(target.canonical.to_owned(), (basis, verdict.clone()));
        verdict
    }

    fn compile(&self, target: &Target<'_>) -> Verdict {
        let mut candidates = Vec::new();
        let mut otherwise = Decision::of(self.default, None);
        for at in self.rules.iter().copied().filter(|at| self.all[*at].is_about(target)) {
            let (rule, only_tightens) = (&self.all[at], self.all[at].only_tightens(target));
            if !rule.is_conditional() && !only_tightens {
                otherwise = Decision::of(rule.action, Some(at));
                break;
            }
            candidates.push(Candidate { rule: at, only_tightens });
        }
        let mut verdict = Verdict { rules: self.all.clone(), candidates, otherwise };
        if verdict.candidates.iter().all(|one| !self.all[one.rule].is_conditional()) {
            let any_caller: Who<'_, &str> = Who { name: "", parents: &[], roles: &[], class: "" };
            verdict.otherwise = verdict.decide(&any_caller, target.canonical, &Value::Null);
            verdict.candidates.clear();
        }
        verdict
    }
}

/// The verdict of the rules for one class and target.
#[derive(Debug)]
pub struct Verdict {
    rules: Arc<[Rule]>,
    /// The rules that may match, in order; those that depend on arguments, and those before them.
    candidates: Vec<Candidate>,
    otherwise: Decision,
}

#[derive(Clone, Copy, Debug)]
struct Candidate {
    rule: usize,
    only_tightens: bool,
}

impl Verdict {
    /// The decision, if it does not depend on arguments.
    pub fn settled(&self) -> Option<&Decision> {
        self.candidates.is_empty().then_some(&self.otherwise)
    }

    /// Whether there are arguments with which the target may be used.
    pub fn may_call(&self) -> bool {
        let permits = |one: &Candidate| self.rules[one.rule].action.is_permissive();
        self.otherwise.action.is_permissive()
            || self.candidates.iter().any(|one| !one.only_tightens && permits(one))
    }

    /// The decision for a call with these arguments.
    pub fn decide<R: AsRef<str>>(&self, who: &Who<'_, R>, tool: &str, args: &Value) -> Decision {
        let mut strictest: Option<Decision> = None;
        let mut stricter = |decision: Decision| {
            let is_stricter = strictest.as_ref().is_none_or(|known| known.action < decision.action);
            if is_stricter {
                strictest = Some(decision);
            }
        };
        for Candidate { rule: at, only_tightens } in self.candidates.iter().copied() {
            let rule = &self.rules[at];
            let decision = match matches(rule, who, tool, args) {
                Ok(false) => continue,
                Ok(true) => Decision::of(rule.action, Some(at)),
                Err(error) => Decision { action: Do::Deny, rule: Some(at), error: Some(error) },
            };
            stricter(decision);
            if !only_tightens {
                return strictest.unwrap_or_else(|| self.otherwise.clone());
            }
        }
        stricter(self.otherwise.clone());
        strictest.unwrap_or_else(|| self.otherwise.clone())
    }
}

/// Whether the conditions of a rule hold.
pub(super) fn matches<R: AsRef<str>>(
    rule: &Rule,
    who: &Who<'_, R>,
    tool: &str,
    args: &Value,
) -> Result<bool, String> {
    let holds = |(pointer, test): &(String, super::Test)| test.holds(args.pointer(pointer));
    if !rule.args.iter().all(holds) {
        return Ok(false);
    }
    rule.when.as_ref().map_or(Ok(true), |when| when.holds(who, tool, args))
}
