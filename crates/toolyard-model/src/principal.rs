//! The caller's identity, as proven by what it presented.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, LazyLock};

/// The identity that makes a call. Cheap to clone. Two principals are equal if their ids are.
#[derive(Clone)]
pub struct Principal(Arc<Identity>);

struct Identity {
    id: PrincipalId,
    name: Arc<str>,
    roles: Vec<Arc<str>>,
    class: Arc<str>,
    /// The names of the principals on whose behalf it acts, the outermost first.
    parents: Vec<Arc<str>>,
}

/// The identity of a principal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PrincipalId {
    /// A client that did not have to present anything: it reached a loopback listener or the local socket.
    Local,
    /// The bearer of a token, which has a name in the config.
    Token(Arc<str>),
    /// A program that named itself in a token made from the shared secret.
    App(Arc<str>),
    /// A user that an OAuth issuer vouches for.
    OAuth { issuer: Arc<str>, subject: Arc<str> },
    /// A run that the gateway started on behalf of `parent`, such as an agent.
    Delegate { parent: Principal, run: Arc<str> },
    /// The gateway itself, towards its upstreams.
    Gateway,
}

static LOCAL: LazyLock<Principal> = LazyLock::new(|| Principal::of(PrincipalId::Local));

impl Principal {
    pub fn local() -> Self {
        LOCAL.clone()
    }

    pub fn gateway() -> Self {
        Self::of(PrincipalId::Gateway)
    }

    pub fn token(name: &str) -> Self {
        Self::of(PrincipalId::Token(name.into()))
    }

    pub fn app(id: &str) -> Self {
        Self::of(PrincipalId::App(id.into()))
    }

    pub fn oauth(issuer: &str, subject: &str) -> Self {
        Self::of(PrincipalId::OAuth { issuer: issuer.into(), subject: subject.into() })
    }

    /// A run on behalf of this principal, with its roles and class.
    #[must_use]
    pub fn delegate(&self, run: &str) -> Self {
        let id = PrincipalId::Delegate { parent: self.clone(), run: run.into() };
        let Identity { name: parent, roles, class, parents, .. } = &*self.0;
        let name = name_of(&id);
        let parents = parents.iter().chain([parent]).cloned().collect();
        Self(Arc::new(Identity { id, name, roles: roles.clone(), class: class.clone(), parents }))
    }

    fn of(id: PrincipalId) -> Self {
        let name = name_of(&id);
        Self(Arc::new(Identity { id, name, roles: Vec::new(), class: "".into(), parents: Vec::new() }))
    }

    /// The same principal with these roles.
    #[must_use]
    pub fn with_roles(&self, roles: impl IntoIterator<Item = Arc<str>>) -> Self {
        let Identity { id, name, class, parents, .. } = &*self.0;
        let (roles, parents) = (roles.into_iter().collect(), parents.clone());
        Self(Arc::new(Identity { id: id.clone(), name: name.clone(), roles, class: class.clone(), parents }))
    }

    /// The same principal in this visibility class.
    #[must_use]
    pub fn with_class(&self, class: &str) -> Self {
        let Identity { id, name, roles, parents, .. } = &*self.0;
        let (class, parents) = (class.into(), parents.clone());
        Self(Arc::new(Identity { id: id.clone(), name: name.clone(), roles: roles.clone(), class, parents }))
    }

    pub fn id(&self) -> &PrincipalId {
        &self.0.id
    }

    /// Its name in logs and reports.
    pub fn name(&self) -> &Arc<str> {
        &self.0.name
    }

    /// The names of the principals on whose behalf it acts, the outermost first: for an agent, the user who started
    /// it, and the agents between. Empty for any other principal.
    pub fn parents(&self) -> &[Arc<str>] {
        &self.0.parents
    }

    /// The name of the principal that is responsible for it: itself, or the user who started the outermost agent.
    pub fn user(&self) -> &Arc<str> {
        self.parents().first().unwrap_or_else(|| self.name())
    }

    pub fn roles(&self) -> &[Arc<str>] {
        &self.0.roles
    }

    /// Principals of one class see the same part of the catalog. Empty for the default class.
    pub fn class(&self) -> &Arc<str> {
        &self.0.class
    }
}

/// No two principals share a name, because names decide which calls, sessions and handles a principal may see. A `:`
/// follows the kind and a `/` comes before a run, so they are escaped in what others choose.
fn name_of(id: &PrincipalId) -> Arc<str> {
    match id {
        PrincipalId::Local => "local".into(),
        PrincipalId::Token(name) if matches!(&**name, "local" | "gateway") => format!("token:{name}").into(),
        PrincipalId::Token(name) => escaped(name).replace(':', "%3A").into(),
        PrincipalId::App(id) => format!("client:{}", escaped(id)).into(),
        // No issuer's address contains a `#`.
        PrincipalId::OAuth { issuer, subject } => format!("oauth:{issuer}#{}", escaped(subject)).into(),
        PrincipalId::Delegate { parent, run } => format!("{}/{}", parent.name(), escaped(run)).into(),
        PrincipalId::Gateway => "gateway".into(),
    }
}

fn escaped(text: &str) -> String {
    text.replace('%', "%25").replace('/', "%2F")
}

impl PartialEq for Principal {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.id == other.0.id
    }
}

impl Eq for Principal {}

impl Hash for Principal {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.id.hash(state);
    }
}

impl fmt::Debug for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Principal").field(&self.0.name).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn names_are_stable_and_ids_decide_equality() {
        let check = |principal: &Principal, name: &str| assert_eq!(&**principal.name(), name);
        check(&Principal::local(), "local");
        check(&Principal::token("ann"), "ann");
        check(&Principal::app("shim"), "client:shim");
        check(&Principal::token("ann").delegate("run-1"), "ann/run-1");
        check(&Principal::oauth("https://id.example", "7"), "oauth:https://id.example#7");
        check(&Principal::oauth("https://id.example", "a/b"), "oauth:https://id.example#a%2Fb");
        check(&Principal::app("a/r"), "client:a%2Fr");
        check(&Principal::app("a").delegate("r"), "client:a/r");
        assert_eq!(Principal::token("ann"), Principal::token("ann").with_class("guest"));
        assert_ne!(Principal::token("client:shim"), Principal::app("shim"), "a name gives no identity");
        assert_ne!(Principal::token("local"), Principal::local());
    }

    #[test]
    fn no_two_principals_share_a_name() {
        let parts = [
            "",
            "a",
            "r",
            "a/r",
            "a/",
            "/r",
            "%",
            "%2F",
            "a%2Fr",
            "%252F",
            ":",
            "#",
            "a#r",
            "local",
            "gateway",
            "client:a",
            "client%3Aa",
            "token:local",
            "oauth:i#a",
            "https://i/a",
        ];
        let is_issuer = |part: &&str| !part.contains('#');
        let mut all = vec![Principal::local(), Principal::gateway()];
        all.extend(parts.map(Principal::token).into_iter().chain(parts.map(Principal::app)));
        for issuer in parts.iter().copied().filter(is_issuer) {
            all.extend(parts.map(|subject| Principal::oauth(issuer, subject)));
        }
        for _depth in 0..2 {
            let few = all.iter().rev().step_by(7).chain(&all[..2 * parts.len() + 2]);
            let below = few.flat_map(|parent| parts.map(|run| parent.delegate(run)));
            all = below.chain(all.iter().cloned()).collect();
        }
        let mut by_name: HashMap<Arc<str>, Principal> = HashMap::new();
        for principal in all {
            let first = by_name.entry(principal.name().clone()).or_insert_with(|| principal.clone());
            assert_eq!(first.id(), principal.id(), "{principal:?}");
        }
    }

    #[test]
    fn an_agent_names_the_principals_on_whose_behalf_it_acts() {
        let user = Principal::token("ann").with_roles(["ops".into()]);
        let nested = user.delegate("run-1").with_class("guest").delegate("run-2").with_roles([]);
        let parents: Vec<&str> = nested.parents().iter().map(AsRef::as_ref).collect();
        assert_eq!(parents, ["ann", "ann/run-1"]);
        assert_eq!((&**nested.user(), &**nested.class()), ("ann", "guest"));
        assert_eq!((&**user.user(), user.parents()), ("ann", &[][..]));
    }
}
