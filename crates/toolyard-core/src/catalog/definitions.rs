//! The definitions of one upstream, in its own bytes.

use std::sync::{Arc, OnceLock};

use toolyard_model::Greeting;
use toolyard_policy::pin::Held;
use toolyard_proto::sanitize::{self, Sanitized};
use toolyard_proto::{Method, Raw};

use crate::pins::HeldTools;
use crate::tool_switch::OffTools;

/// How many faults of one upstream are listed; the rest are counted.
const MOST_LISTED: usize = 20;

/// The four lists of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ListKind {
    Tools,
    Resources,
    Templates,
    Prompts,
}

impl ListKind {
    pub const ALL: [Self; 4] = [Self::Tools, Self::Resources, Self::Templates, Self::Prompts];

    pub fn method(self) -> Method {
        match self {
            Self::Tools => Method::TOOLS_LIST,
            Self::Resources => Method::RESOURCES_LIST,
            Self::Templates => Method::TEMPLATES_LIST,
            Self::Prompts => Method::PROMPTS_LIST,
        }
    }

    /// The member of the result that holds the list.
    pub fn key(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
            Self::Prompts => "prompts",
        }
    }

    /// One entry of it, in the form for lists of many upstreams.
    fn sanitize(self, raw: &Raw) -> Sanitized {
        match self {
            Self::Tools => sanitize::tool(raw),
            Self::Resources => sanitize::resource(raw),
            Self::Templates => sanitize::template(raw),
            Self::Prompts => sanitize::prompt(raw),
        }
    }

    /// The word for one entry of it.
    fn entry(self) -> &'static str {
        match self {
            Self::Tools => "tool",
            Self::Resources => "resource",
            Self::Templates => "resource template",
            Self::Prompts => "prompt",
        }
    }

    pub fn capability(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Resources | Self::Templates => "resources",
            Self::Prompts => "prompts",
        }
    }

    pub(crate) fn index(self) -> usize {
        self as usize
    }
}

/// The definitions of one upstream, in its own bytes. Cloning is cheap: lists are shared.
#[derive(Clone, Debug)]
pub struct Definitions {
    pub greeting: Greeting,
    /// Every call needs it, so it is looked up once.
    has_resources: bool,
    lists: [Arc<List>; 4],
    /// Tools that are not offered until their definitions are approved.
    held: HeldTools,
    /// Why the record that they are compared with could not be written.
    unrecorded: Option<Arc<str>>,
    /// The own names of tools that an operator has switched off.
    off: OffTools,
}

/// A list as an upstream answered it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListRead {
    pub entries: Vec<Raw>,
    pub hints: CacheHints,
    /// The `_meta` of the answer.
    pub meta: Option<Raw>,
    /// Why there are no entries: the upstream answered with an error.
    pub failure: Option<String>,
}

/// How an upstream allows its list to be kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheHints {
    /// How many milliseconds the list may be cached; legacy upstreams do not state it.
    pub ttl_ms: Option<u64>,
    /// Whether it is for one principal alone.
    pub is_private: bool,
}

impl CacheHints {
    /// The caching of an upstream that should have stated it and did not: the list must not be cached or shared.
    pub const UNKNOWN: Self = Self { ttl_ms: Some(0), is_private: true };

    /// The stricter of two, for several pages or lists together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let ttl_ms = [self.ttl_ms, other.ttl_ms].into_iter().flatten().min();
        Self { ttl_ms, is_private: self.is_private || other.is_private }
    }

    /// The hints in the result of a list.
    pub fn of(result: &Raw, has_stamps: bool) -> Self {
        if !has_stamps {
            return Self::default();
        }
        let ttl = result.member("ttlMs").and_then(|ttl| ttl.read::<f64>().ok()).unwrap_or_default();
        let scope = result.member("cacheScope").and_then(|scope| scope.as_string());
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it saturates, which is right"
        )]
        let ttl_ms = Some(ttl as u64);
        Self { ttl_ms, is_private: scope.as_deref() != Some("public") }
    }
}

impl From<Vec<Raw>> for ListRead {
    fn from(entries: Vec<Raw>) -> Self {
        Self { entries, ..Self::default() }
    }
}

/// One list of an upstream.
#[derive(Debug, Default)]
pub(crate) struct List {
    entries: Vec<Raw>,
    hints: CacheHints,
    meta: Option<Raw>,
    failure: Option<String>,
    /// The same in the form that strict clients accept, made when it is first needed.
    strict_form: OnceLock<Vec<Sanitized>>,
}

impl List {
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn is_as(self: &Arc<Self>, other: &Arc<Self>) -> bool {
        Arc::ptr_eq(self, other) || self.entries == other.entries
    }
}

impl Definitions {
    pub fn new(greeting: Greeting) -> Self {
        let has_resources = greeting.capabilities.member("resources").is_some();
        Self {
            greeting,
            has_resources,
            lists: Default::default(),
            held: HeldTools::default(),
            unrecorded: None,
            off: OffTools::default(),
        }
    }

    /// The same for an upstream that replaces this one, until its own lists have been read. Which revision it
    /// speaks is not known, so it is probed.
    pub(crate) fn borrowed(&self) -> Arc<Self> {
        let mut borrowed = self.clone();
        borrowed.greeting.guessed = true;
        Arc::new(borrowed)
    }

    /// As the upstream listed it.
    pub fn list(&self, kind: ListKind) -> &[Raw] {
        &self.lists[kind.index()].entries
    }

    pub(crate) fn shared_list(&self, kind: ListKind) -> Arc<List> {
        self.lists[kind.index()].clone()
    }

    /// The same, entry by entry, as lists of many upstreams show it. The first use takes its time; the catalog makes
    /// it on its own thread.
    pub(crate) fn sanitized_list(&self, kind: ListKind) -> &[Sanitized] {
        let list = &self.lists[kind.index()];
        list.strict_form.get_or_init(|| list.entries.iter().map(|raw| kind.sanitize(raw)).collect())
    }

    /// How many entries lists of many upstreams show.
    pub(crate) fn shown(&self, kind: ListKind) -> usize {
        let is_out = |raw: &Raw| kind == ListKind::Tools && self.is_not_offered(raw);
        let entries = self.list(kind).iter().zip(self.sanitized_list(kind));
        entries.filter(|(raw, sanitized)| sanitized.entry.is_some() && !is_out(raw)).count()
    }

    /// Sets which tools are not offered.
    pub(crate) fn hold(&mut self, held: Vec<Held>) {
        self.held = held.into();
    }

    pub(crate) fn held(&self) -> &HeldTools {
        &self.held
    }

    pub(crate) fn set_unrecorded(&mut self, why: Option<Arc<str>>) {
        self.unrecorded = why;
    }

    pub(crate) fn unrecorded(&self) -> Option<&Arc<str>> {
        self.unrecorded.as_ref()
    }

    /// Sets which tools are switched off.
    pub(crate) fn switch_off(&mut self, off: OffTools) {
        self.off = off;
    }

    pub(crate) fn off(&self) -> &OffTools {
        &self.off
    }

    /// Whether a tool is held or switched off.
    fn is_not_offered(&self, raw: &Raw) -> bool {
        if self.held.is_empty() && self.off.is_empty() {
            return false;
        }
        let name = raw.member("name").and_then(|name| name.as_string());
        name.is_some_and(|name| self.off.contains(&name) || self.held.iter().any(|held| held.tool == name))
    }

    /// Whether a tool of this name is defined.
    pub(crate) fn has_tool(&self, own_name: &str) -> bool {
        let name = |raw: &Raw| raw.member("name").and_then(|name| name.as_string());
        self.list(ListKind::Tools).iter().any(|raw| name(raw).as_deref() == Some(own_name))
    }

    pub fn set(&mut self, kind: ListKind, list: impl Into<ListRead>) {
        let ListRead { entries, hints, meta, failure } = list.into();
        self.lists[kind.index()] =
            Arc::new(List { entries, hints, meta, failure, strict_form: OnceLock::new() });
    }

    /// The lists that the upstream declares but could not give.
    pub(crate) fn failed_lists(&self) -> Vec<ListKind> {
        ListKind::ALL.into_iter().filter(|kind| self.lists[kind.index()].failure.is_some()).collect()
    }

    pub(crate) fn hints(&self, kind: ListKind) -> CacheHints {
        self.lists[kind.index()].hints
    }

    /// The `_meta` that the upstream gave with a list.
    pub(crate) fn meta(&self, kind: ListKind) -> Option<&Raw> {
        self.lists[kind.index()].meta.as_ref()
    }

    /// Why lists could not be read, in a sentence each.
    pub(crate) fn list_failures(&self) -> Vec<String> {
        self.lists.iter().filter_map(|list| list.failure.clone()).collect()
    }

    /// Whether a list equals what was read.
    pub(crate) fn is_list(&self, kind: ListKind, read: &ListRead) -> bool {
        let List { entries, hints, meta, failure, .. } = &*self.lists[kind.index()];
        *entries == read.entries && *hints == read.hints && *meta == read.meta && *failure == read.failure
    }

    /// The definitions that clients of many upstreams do not get, and why, in a sentence each.
    pub(crate) fn faults(&self) -> Vec<String> {
        let mut listed: Vec<String> = self.list_failures();
        listed.extend(ListKind::ALL.into_iter().flat_map(|kind| self.faults_in(kind)));
        let more = listed.len().saturating_sub(MOST_LISTED);
        listed.truncate(MOST_LISTED);
        listed.extend((more > 0).then(|| format!("and {more} more")));
        listed
    }

    fn faults_in(&self, kind: ListKind) -> impl Iterator<Item = String> {
        self.list(kind).iter().zip(self.sanitized_list(kind)).flat_map(move |(raw, sanitized)| {
            let name = raw.member("name").and_then(|name| name.as_string());
            let name = name.map_or_else(|| "?".to_owned(), |name| sanitize::words(&name));
            sanitized.faults.iter().map(move |fault| match fault.without.as_str() {
                "" => format!("{} `{name}` is left out: {fault}", kind.entry()),
                without => format!("{} `{name}` is shown without `{without}`: {fault}", kind.entry()),
            })
        })
    }

    /// Whether answers of this upstream can carry URIs of its resources.
    pub fn has_resources(&self) -> bool {
        self.has_resources
    }
}
