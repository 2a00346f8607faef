//! The catalog as one view shows it: which parts, which of their entries, under which names.

mod parts;
mod make;

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use toolyard_proto::Raw;
use toolyard_proto::name::{NameStyle, legal_name};
use toolyard_proto::uri::{self, ResultKind, map_result};

use super::lean::Lean;
use super::names::ViewEntry;
use super::pages::{Layout, Pages};
use super::part::{LeftOut, unlisted_entry};
use super::search::Findable;
use super::{Entry, ListKind};
use crate::pipeline::{Chain, StepRules};
use crate::upstream::Upstream;
use make::Names;
pub(super) use make::ViewParts;
pub(super) use parts::HubEntries;
use parts::ViewPart;

/// The kind of a view.
#[derive(Clone, Debug)]
pub(crate) enum Shape {
    /// Many upstreams under shown names, perhaps through a profile.
    Many { profile: Option<usize> },
    /// One upstream under its own names.
    Alone(Arc<Upstream>),
    /// The same, through a profile.
    Filtered { upstream: Arc<Upstream>, profile: usize },
    /// The tools about instances, and beside them one instance under its own names.
    Hub(Option<Arc<Upstream>>),
}

#[derive(Debug)]
pub(crate) struct ViewCatalog {
    /// Unique: prepared lists belong to one state of one view.
    pub(super) id: u64,
    /// The upstream that this view shows as if clients were connected to it directly.
    /// In the hub view, the instance beside the hub's own tools.
    pub(crate) alone: Option<Arc<Upstream>>,
    pub(crate) is_hub: bool,
    pub(super) parts: Vec<Arc<ViewPart>>,
    hub: Option<Arc<HubEntries>>,
    pub(super) lean: Option<Lean>,
    /// The shown names; `None` in a view of one upstream.
    names: Option<Names>,
    /// Whether entries are shown under their own names where no other entry has the same name.
    is_bare: bool,
    profile: Option<String>,
    style: NameStyle,
    steps: Arc<StepRules>,
    /// Whether every upstream has answered or failed; until then lists are valid for a moment only.
    pub(super) settled: bool,
    pub(super) layouts: [OnceLock<Layout>; 4],
    pub(super) pages: Arc<Pages>,
    /// Made when the view is first searched.
    findable: OnceLock<Findable>,
}

impl ViewCatalog {
    fn is_as(&self, parts: &[Arc<ViewPart>], hub: Option<&Arc<HubEntries>>, settled: bool) -> bool {
        let same_hub = match (&self.hub, hub) {
            (Some(own), Some(other)) => Arc::ptr_eq(own, other),
            (own, other) => own.is_none() && other.is_none(),
        };
        let same_parts = self.parts.len() == parts.len()
            && self.parts.iter().zip(parts).all(|(one, other)| Arc::ptr_eq(one, other));
        same_hub && same_parts && self.settled == settled
    }

    /// Whether tools are found by search rather than listed.
    pub(crate) fn is_lean(&self) -> bool {
        self.lean.is_some()
    }

    /// The searchable texts of this view.
    pub(crate) fn findable(&self) -> &Findable {
        self.findable.get_or_init(|| Findable::of(self))
    }

    /// Whether the first search is still to come, which takes longer the more tools there are.
    pub(crate) fn is_unsearched(&self) -> bool {
        self.findable.get().is_none()
    }

    /// Whether the names of entries show their upstream.
    pub(crate) fn is_namespaced(&self) -> bool {
        self.names.is_some()
    }

    /// Whether entries are shown exactly as their upstream defined them. In other views, an entry that clients would
    /// refuse is left out, because they would refuse the whole list.
    pub(super) fn is_transparent(&self) -> bool {
        self.alone.is_some() && !self.is_hub
    }

    /// The upstreams in it whose definitions are known.
    pub(crate) fn upstreams(&self) -> impl Iterator<Item = &Arc<Upstream>> {
        let own = self.hub.iter().map(|hub| &hub.part.upstream);
        let is_there =
            |own: &&Arc<Upstream>| self.parts.iter().any(|part| Arc::ptr_eq(&part.part.upstream, own));
        let lean = self.lean.iter().map(Lean::upstream).filter(move |own| !is_there(own));
        own.chain(lean).chain(self.parts.iter().map(|part| &part.part.upstream))
    }

    /// A tool by the name that this view shows, or by its canonical id.
    pub(crate) fn tool(&self, name: &str) -> Option<ViewEntry> {
        if self.names.is_some() {
            let own = self.lean.as_ref().and_then(|lean| lean.own(name)).cloned();
            return own.or_else(|| self.named(ListKind::Tools, name));
        }
        self.hub.as_ref().and_then(|hub| hub.get(name).cloned()).or_else(|| self.own(ListKind::Tools, name))
    }

    pub(crate) fn prompt(&self, name: &str) -> Option<ViewEntry> {
        if self.names.is_some() {
            return self.named(ListKind::Prompts, name);
        }
        self.own(ListKind::Prompts, name)
    }

    /// An entry of a view of many upstreams. Full names are first: else an upstream could take the name of an entry of
    /// another one as the own name of its own.
    fn named(&self, kind: ListKind, name: &str) -> Option<ViewEntry> {
        let names = self.names.as_ref()?;
        let table = if kind == ListKind::Prompts { &names.prompts } else { &names.tools };
        table.get(name).cloned().or_else(|| self.bare(kind, name))
    }

    /// The entry with this own name, if the view shows own names.
    fn bare(&self, kind: ListKind, name: &str) -> Option<ViewEntry> {
        self.is_bare.then(|| self.own(kind, name)).flatten()
    }

    /// The name under which this view lists a tool of its own.
    pub(crate) fn name_of_tool<'a>(&self, entry: &'a Arc<Entry>) -> &'a str {
        if self.alone.is_some() { &entry.own_name } else { self.shown_name(ListKind::Tools, entry) }
    }

    /// The name of an entry in a view of many upstreams.
    fn shown_name<'a>(&self, kind: ListKind, entry: &'a Arc<Entry>) -> &'a str {
        let has_own = |found: ViewEntry| Arc::ptr_eq(&found.entry, entry);
        let is_legal = || matches!(legal_name(&entry.own_name), Cow::Borrowed(_));
        let is_own = self.is_bare && self.named(kind, &entry.own_name).is_some_and(has_own) && is_legal();
        if is_own { &entry.own_name } else { &entry.shown }
    }

    fn own(&self, kind: ListKind, name: &str) -> Option<ViewEntry> {
        let by_legal_name = || self.parts.iter().find_map(|part| part.by_legal_name(kind, name));
        let found = self.parts.iter().find_map(|part| part.own(kind, name));
        let found = found.or_else(|| self.is_hub.then(by_legal_name).flatten())?;
        let is_shown =
            if self.is_transparent() { !found.entry.is_unusable } else { found.entry.sanitized.is_some() };
        is_shown.then_some(found)
    }

    /// A tool that the upstream of this view does not list, but may have. Never in a profile, which shows only what it
    /// names.
    pub(crate) fn unlisted_tool(&self, name: &str) -> Option<ViewEntry> {
        let upstream = self.alone.as_ref().filter(|_| self.is_transparent() && self.profile.is_none())?;
        let has_tools = upstream.definitions()?.greeting.capabilities.member("tools").is_some();
        if !has_tools || self.why_left_out(name).is_some() {
            return None;
        }
        let entry = unlisted_entry(upstream, self.style, name);
        let chain = self.steps.chain(None, upstream, &entry.canonical);
        Some(ViewEntry { entry, chain })
    }

    /// A tool by its upstream's own name, if only one upstream of this view has it.
    pub(crate) fn tool_by_own_name(&self, name: &str) -> Option<ViewEntry> {
        self.names.as_ref()?;
        let mut found = self.parts.iter().filter_map(|part| part.own(ListKind::Tools, name));
        let one = found.next().filter(|one| one.entry.sanitized.is_some())?;
        found.next().is_none().then_some(one)
    }

    /// The steps of requests to an upstream that name neither tool nor prompt.
    pub(crate) fn default_chain(&self, upstream: &Arc<Upstream>) -> Chain {
        let part = self.parts.iter().find(|part| Arc::ptr_eq(&part.part.upstream, upstream));
        let of_unknown = || self.steps.default_chain(self.profile.as_deref(), upstream);
        part.map_or_else(of_unknown, |part| part.default.clone())
    }

    /// The reason why an entry that an upstream defines is not shown.
    pub(crate) fn why_left_out(&self, name: &str) -> Option<&str> {
        let clashes = self.names.iter().flat_map(|names| &names.clashes);
        let mut clashes = clashes.filter(|(entry, _)| *entry.canonical == *name);
        if let Some((_, reason)) = clashes.next() {
            return Some(reason);
        }
        let mut all = self.parts.iter().flat_map(|part| &part.part.offer.left_out);
        let is_it = |one: &&LeftOut| {
            one.shown == name || one.canonical == name || (self.is_transparent() && one.own_name == name)
        };
        all.find(is_it).map(|one| one.reason.as_str())
    }

    pub(crate) fn upstream(&self, id: &str) -> Option<&Arc<Upstream>> {
        self.upstreams().find(|upstream| upstream.id().as_str().eq_ignore_ascii_case(id))
    }

    /// The upstream that owns the resource of a shown URI, and the URI at that upstream.
    pub(crate) fn resource(&self, shown: &str) -> Option<(Arc<Upstream>, String)> {
        if let Some(alone) = &self.alone {
            return Some((alone.clone(), shown.to_owned()));
        }
        let (id, own) = uri::from_shown(shown)?;
        self.upstream(id).map(|upstream| (upstream.clone(), own))
    }

    /// The tools that are listed, in order.
    pub(crate) fn listed_tools(&self) -> Box<dyn Iterator<Item = &Arc<Entry>> + '_> {
        match &self.lean {
            Some(lean) => Box::new(lean.listed_tools()),
            None => Box::new(self.listed_entries(ListKind::Tools)),
        }
    }

    /// The tools or prompts that are listed, in order.
    fn listed_entries(&self, kind: ListKind) -> impl Iterator<Item = &Arc<Entry>> {
        let own = self.hub.iter().filter(move |_| kind == ListKind::Tools).flat_map(|hub| &hub.entries);
        let own = own.map(|one| &one.entry);
        let listed = self.parts.iter().filter(|part| part.part.listed);
        let others = listed.flat_map(move |part| part.entries(kind)).map(|(_, entry)| entry);
        own.chain(others.filter(move |entry| !entry.is_unlisted && self.fits_view(kind, entry)))
    }

    /// The tools that search finds: those that are listed, and those that can only be called.
    pub(crate) fn findable_tools(&self) -> Box<dyn Iterator<Item = &Arc<Entry>> + '_> {
        if let Some(lean) = &self.lean {
            return Box::new(lean.findable_tools());
        }
        let parts = self.parts.iter().filter(|part| part.part.listed);
        let unlisted = parts.flat_map(move |part| part.entries(ListKind::Tools)).map(|(_, entry)| entry);
        let unlisted = unlisted.filter(|entry| entry.is_unlisted && self.fits_view(ListKind::Tools, entry));
        Box::new(self.listed_tools().chain(unlisted))
    }

    fn fits_view(&self, kind: ListKind, entry: &Arc<Entry>) -> bool {
        if self.is_transparent() {
            return !entry.is_unusable;
        }
        let is_taken = || match (&self.hub, &self.names) {
            (Some(hub), _) => kind == ListKind::Tools && hub.get(&entry.own_name).is_some(),
            (None, Some(names)) => names.clashes.iter().any(|(other, _)| Arc::ptr_eq(other, entry)),
            (None, None) => false,
        };
        entry.sanitized.is_some() && !is_taken()
    }

    /// The items of a list, in order.
    pub(super) fn items(&self, kind: ListKind) -> Box<dyn Iterator<Item = Item<'_>> + '_> {
        match kind {
            ListKind::Tools => return Box::new(self.listed_tools().map(Item::Entry)),
            ListKind::Prompts => return Box::new(self.listed_entries(kind).map(Item::Entry)),
            ListKind::Resources | ListKind::Templates => {}
        }
        let listed = self.parts.iter().filter(|part| part.part.listed);
        Box::new(listed.flat_map(move |part| {
            let definitions = &part.part.definitions;
            let both = definitions.list(kind).iter().zip(definitions.sanitized_list(kind));
            let shown = both.filter_map(|(raw, sanitized)| {
                if self.is_transparent() {
                    (!sanitized.is_unusable).then_some(raw)
                } else {
                    sanitized.entry.as_ref()
                }
            });
            shown.map(|raw| Item::Resource(&part.part.upstream, raw))
        }))
    }

    /// One item in the form of this view: renamed where the view is namespaced.
    pub(super) fn rendered(&self, kind: ListKind, item: &Item<'_>) -> Raw {
        match item {
            Item::Entry(entry) if self.is_transparent() => entry.own.clone(),
            Item::Entry(entry) => {
                let own = entry.sanitized.as_ref().unwrap_or(&entry.own);
                if !self.is_namespaced() {
                    // Clients refuse lists with other names; the instance's own name can be called as well.
                    let Cow::Owned(legal) = legal_name(&entry.own_name) else { return own.clone() };
                    return own.with("name", &Raw::from_serialize(&legal));
                }
                let renamed = own.with("name", &Raw::from_serialize(&self.shown_name(kind, entry)));
                if kind != ListKind::Tools {
                    return renamed;
                }
                with_shown_uris(&entry.upstream, ResultKind::ToolEntry, &renamed)
            }
            Item::Resource(upstream, raw) if self.is_namespaced() => {
                let templates = kind == ListKind::Templates;
                let shape = if templates { ResultKind::TemplateEntry } else { ResultKind::ResourceEntry };
                with_shown_uris(upstream, shape, raw)
            }
            Item::Resource(_, raw) => (*raw).clone(),
        }
    }
}

/// One element of a list.
pub(super) enum Item<'a> {
    Entry(&'a Arc<Entry>),
    Resource(&'a Arc<Upstream>, &'a Raw),
}

impl Item<'_> {
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Entry(entry) => entry.own.len(),
            Self::Resource(_, raw) => raw.len(),
        }
    }
}

fn with_shown_uris(upstream: &Upstream, kind: ResultKind, raw: &Raw) -> Raw {
    map_result(kind, upstream.id(), raw.as_bytes())
        .and_then(|mapped| Raw::parse(mapped).ok())
        .unwrap_or_else(|| raw.clone())
}
