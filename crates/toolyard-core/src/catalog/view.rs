//! The catalog as one view shows it: which parts, which of their entries, under which names. A view is made from the
//! one before it: parts that are the same are kept, and the name table changes by what differs.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use toolyard_proto::Raw;
use toolyard_proto::name::{NameStyle, legal_name};
use toolyard_proto::uri::{self, ResultKind, map_result};

use super::names::{NameTable, ViewEntry};
use super::pages::{Layout, Pages};
use super::part::{LeftOut, Part, hub_entries, unlisted_entry};
use super::snapshot::Views;
use super::{Entry, ListKind};
use crate::hub;
use crate::pipeline::{Chain, StepRules};
use crate::plan::ProfilePlan;
use crate::upstream::Upstream;

/// What kind of view it is.
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
    /// Never used twice: prepared lists belong to one view at one time.
    pub(super) id: u64,
    /// The upstream that this view shows as if clients spoke to it directly.
    /// In the hub view, the instance beside the hub's own tools.
    pub(crate) alone: Option<Arc<Upstream>>,
    pub(crate) is_hub: bool,
    pub(super) parts: Vec<Arc<ViewPart>>,
    hub: Option<Arc<HubEntries>>,
    /// Of a view of many upstreams.
    names: Option<Names>,
    profile: Option<String>,
    style: NameStyle,
    steps: Arc<StepRules>,
    /// Whether every upstream has been heard of; until then lists are valid for a moment only.
    pub(super) settled: bool,
    pub(super) layouts: [OnceLock<Layout>; 4],
    pub(super) pages: Arc<Pages>,
}

#[derive(Clone, Debug, Default)]
struct Names {
    tools: NameTable,
    prompts: NameTable,
    /// Entries whose shown name another upstream's entry has, with the reason.
    clashes: Vec<(Arc<Entry>, String)>,
}

/// A part as one view has it.
#[derive(Debug)]
pub(super) struct ViewPart {
    pub(super) part: Arc<Part>,
    tools: Picked,
    prompts: Picked,
    /// Of requests that name neither tool nor prompt.
    default: Chain,
}

/// Which entries of a part a view has, and the steps of their calls.
#[derive(Debug)]
struct Picked {
    /// Places in the part's list, rising; all of them where there is no profile.
    places: Option<Box<[u32]>>,
    chains: EntryChains,
}

#[derive(Debug)]
enum EntryChains {
    /// Nearly always: all entries have the same settings.
    Same(Chain),
    /// By place in the part's list.
    Each(Box<[Chain]>),
}

impl Picked {
    fn new(part: &Part, kind: ListKind, profile: Option<&ProfilePlan>, steps: &StepRules) -> Self {
        let entries = &part.entries(kind).all;
        let is_picked = |(place, entry): (u32, &Arc<Entry>)| {
            profile.is_none_or(|profile| is_shown(profile, part, entry)).then_some(place)
        };
        let places = profile.map(|_| (0..).zip(entries).filter_map(is_picked).collect());
        let name = profile.map(|profile| profile.name.as_str());
        Self { places, chains: EntryChains::new(part, entries, name, steps) }
    }

    fn has(&self, place: usize) -> bool {
        let place = u32::try_from(place).ok();
        self.places
            .as_ref()
            .is_none_or(|places| place.is_some_and(|place| places.binary_search(&place).is_ok()))
    }
}

impl EntryChains {
    fn new(part: &Part, entries: &[Arc<Entry>], profile: Option<&str>, steps: &StepRules) -> Self {
        let default = steps.default_chain(profile, &part.upstream);
        if !steps.differ_by_tool() {
            return Self::Same(default);
        }
        let chain = |entry: &Arc<Entry>| steps.chain(profile, &part.upstream, &entry.canonical);
        let chains: Box<[Chain]> = entries.iter().map(chain).collect();
        if chains.iter().all(|chain| Arc::ptr_eq(chain, &default)) {
            Self::Same(default)
        } else {
            Self::Each(chains)
        }
    }

    fn at(&self, place: usize) -> &Chain {
        match self {
            Self::Same(chain) => chain,
            Self::Each(chains) => &chains[place],
        }
    }
}

impl ViewPart {
    fn new(part: &Arc<Part>, profile: Option<&ProfilePlan>, steps: &StepRules) -> Self {
        let picked = |kind| Picked::new(part, kind, profile, steps);
        let default = steps.default_chain(profile.map(|profile| profile.name.as_str()), &part.upstream);
        Self {
            tools: picked(ListKind::Tools),
            prompts: picked(ListKind::Prompts),
            default,
            part: part.clone(),
        }
    }

    fn picked(&self, kind: ListKind) -> &Picked {
        if kind == ListKind::Prompts { &self.prompts } else { &self.tools }
    }

    /// The entries of a view, with their places in the part's list.
    fn entries(&self, kind: ListKind) -> impl Iterator<Item = (usize, &Arc<Entry>)> {
        let (all, picked) = (&self.part.entries(kind).all, self.picked(kind));
        let some =
            picked.places.iter().flat_map(|places| places.iter().filter_map(|at| usize::try_from(*at).ok()));
        let everything = 0..if picked.places.is_none() { all.len() } else { 0 };
        some.chain(everything).map(|place| (place, &all[place]))
    }

    fn view_entry(&self, kind: ListKind, place: usize, entry: &Arc<Entry>) -> ViewEntry {
        ViewEntry { entry: entry.clone(), chain: self.picked(kind).chains.at(place).clone() }
    }

    /// An entry by its own name.
    fn own(&self, kind: ListKind, name: &str) -> Option<ViewEntry> {
        let entries = self.part.entries(kind);
        let place = entries.place(name).filter(|place| self.picked(kind).has(*place))?;
        Some(self.view_entry(kind, place, &entries.all[place]))
    }

    /// An entry by the name that stands for its own where clients accept no such names. Asked for only in the hub, after
    /// its own name was not found.
    fn by_legal_name(&self, kind: ListKind, name: &str) -> Option<ViewEntry> {
        let mut entries = self.entries(kind);
        let (place, entry) = entries.find(|(_, entry)| legal_name(&entry.own_name) == name)?;
        Some(self.view_entry(kind, place, entry))
    }

    /// Those that lists of many upstreams can show.
    fn fitting(&self, kind: ListKind) -> impl Iterator<Item = ViewEntry> {
        let fitting = self.entries(kind).filter(|(_, entry)| entry.fit.is_some());
        fitting.map(move |(place, entry)| self.view_entry(kind, place, entry))
    }
}

/// The hub's own tools, by their names and their names with a slash.
#[derive(Debug)]
pub(super) struct HubEntries {
    part: Arc<Part>,
    entries: Vec<ViewEntry>,
}

impl HubEntries {
    /// The hub's tools, or `before` where they are the same.
    pub(super) fn now(rules: &Views, parts: &[Arc<Part>], before: Option<&Arc<Self>>) -> Option<Arc<Self>> {
        let part = parts.iter().find(|part| part.built_in)?;
        if let Some(before) = before.filter(|before| Arc::ptr_eq(&before.part, part)) {
            return Some(before.clone());
        }
        let chain = |entry: &Arc<Entry>| rules.steps.chain(None, &part.upstream, &entry.canonical);
        let entries = hub_entries(&part.upstream, rules.names).into_iter();
        let entries = entries.map(|entry| ViewEntry { chain: chain(&entry), entry }).collect();
        Some(Arc::new(Self { part: part.clone(), entries }))
    }

    fn get(&self, name: &str) -> Option<&ViewEntry> {
        let is_it = |own: &str| own == name || hub::with_slash(own) == name;
        self.entries.iter().find(|one| is_it(&one.entry.own_name))
    }
}

static NEXT_VIEW: AtomicU64 = AtomicU64::new(1);

/// What a view is made of.
pub(super) struct Making<'a> {
    pub(super) rules: &'a Views,
    pub(super) parts: &'a [Arc<Part>],
    pub(super) settled: bool,
    pub(super) hub: Option<&'a Arc<HubEntries>>,
    pub(super) pages: &'a Arc<Pages>,
    /// Whether rules are as they were, so that the views before can be built on.
    pub(super) same_rules: bool,
}

impl Making<'_> {
    /// The view of this shape, or `before` where nothing in it has changed.
    pub(super) fn view(&self, shape: &Shape, before: Option<&Arc<ViewCatalog>>) -> Arc<ViewCatalog> {
        let profile = match shape {
            Shape::Many { profile } => profile.map(|at| &self.rules.profiles[at]),
            Shape::Filtered { profile, .. } => Some(&self.rules.profiles[*profile]),
            Shape::Alone(_) | Shape::Hub(_) => None,
        };
        let before = before.filter(|_| self.same_rules);
        let parts = self.view_parts(shape, profile, before);
        let is_hub = matches!(shape, Shape::Hub(_));
        let hub = self.hub.filter(|_| is_hub);
        if let Some(before) = before.filter(|before| before.is_as(&parts, hub, self.settled)) {
            return before.clone();
        }
        let names = match shape {
            Shape::Many { .. } => Some(Names::following(before.map(|before| &**before), &parts)),
            _ => None,
        };
        Arc::new(ViewCatalog {
            id: NEXT_VIEW.fetch_add(1, Ordering::Relaxed),
            alone: match shape {
                Shape::Many { .. } => None,
                Shape::Alone(upstream) | Shape::Filtered { upstream, .. } => Some(upstream.clone()),
                Shape::Hub(instance) => instance.clone(),
            },
            is_hub,
            parts,
            hub: hub.cloned(),
            names,
            profile: profile.map(|profile| profile.name.clone()),
            style: self.rules.names,
            steps: self.rules.steps.clone(),
            settled: self.settled,
            layouts: Default::default(),
            pages: self.pages.clone(),
        })
    }

    fn view_parts(
        &self,
        shape: &Shape,
        profile: Option<&ProfilePlan>,
        before: Option<&Arc<ViewCatalog>>,
    ) -> Vec<Arc<ViewPart>> {
        let only = match shape {
            Shape::Many { .. } => None,
            Shape::Alone(upstream) | Shape::Filtered { upstream, .. } => Some(upstream),
            Shape::Hub(None) => return Vec::new(),
            Shape::Hub(Some(instance)) => Some(instance),
        };
        let known: HashMap<*const Part, &Arc<ViewPart>> =
            before.iter().flat_map(|before| &before.parts).map(|one| (Arc::as_ptr(&one.part), one)).collect();
        let inside = self.parts.iter().filter(|part| is_inside(part, only, profile));
        let view_part = |part: &Arc<Part>| match known.get(&Arc::as_ptr(part)) {
            Some(same) => Arc::clone(same),
            None => Arc::new(ViewPart::new(part, profile, &self.rules.steps)),
        };
        inside.map(view_part).collect()
    }
}

impl Names {
    /// The names of these parts, made from those of the view before. Names that clash are rare (two hashes of 40 bits
    /// that are equal); where there are any, the table is made from the start, so that the order of upstreams
    /// decides which entry has the name.
    fn following(before: Option<&ViewCatalog>, parts: &[Arc<ViewPart>]) -> Self {
        let known = before.and_then(|before| Some((before, before.names.as_ref()?)));
        let Some((before, names)) = known.filter(|(_, names)| names.clashes.is_empty()) else {
            return Self::of(parts);
        };
        let mut names = names.clone();
        let (gone, new) = (without(&before.parts, parts), without(parts, &before.parts));
        for kind in [ListKind::Tools, ListKind::Prompts] {
            names.replace(kind, &gone, &new);
        }
        if names.clashes.is_empty() { names } else { Self::of(parts) }
    }

    fn of(parts: &[Arc<ViewPart>]) -> Self {
        let mut names = Self::default();
        for part in parts {
            for kind in [ListKind::Tools, ListKind::Prompts] {
                for new in part.fitting(kind) {
                    names.add(kind, &new);
                }
            }
        }
        names
    }

    fn table(&mut self, kind: ListKind) -> &mut NameTable {
        if kind == ListKind::Prompts { &mut self.prompts } else { &mut self.tools }
    }

    fn add(&mut self, kind: ListKind, new: &ViewEntry) {
        if let Err(first) = self.table(kind).insert(new) {
            let reason = format!("its name `{}` is taken by {}", new.entry.shown, first.canonical);
            self.clashes.push((new.entry.clone(), reason));
        }
    }

    /// Takes out what only `gone` has, and puts in what only `new` has.
    fn replace(&mut self, kind: ListKind, gone: &[&Arc<ViewPart>], new: &[&Arc<ViewPart>]) {
        let kept: HashMap<*const Entry, ViewEntry> = gone
            .iter()
            .flat_map(|part| part.fitting(kind))
            .map(|one| (Arc::as_ptr(&one.entry), one))
            .collect();
        let mut added = Vec::new();
        let mut left = kept;
        for one in new.iter().flat_map(|part| part.fitting(kind)) {
            let same =
                left.get(&Arc::as_ptr(&one.entry)).is_some_and(|old| Arc::ptr_eq(&old.chain, &one.chain));
            if same {
                left.remove(&Arc::as_ptr(&one.entry));
            } else {
                added.push(one);
            }
        }
        for old in left.values() {
            self.table(kind).remove(&old.entry);
        }
        for one in &added {
            self.add(kind, one);
        }
    }
}

/// Those of `all` that are not in `others`.
fn without<'a>(all: &'a [Arc<ViewPart>], others: &[Arc<ViewPart>]) -> Vec<&'a Arc<ViewPart>> {
    let known: std::collections::HashSet<*const ViewPart> = others.iter().map(Arc::as_ptr).collect();
    all.iter().filter(|one| !known.contains(&Arc::as_ptr(one))).collect()
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

    /// Whether entries have names that tell whose they are.
    pub(crate) fn is_namespaced(&self) -> bool {
        self.names.is_some()
    }

    /// Whether entries are as their upstream defined them, to the byte. Elsewhere an entry that clients would refuse,
    /// and the whole list with it, must not be beside others.
    pub(super) fn is_transparent(&self) -> bool {
        self.alone.is_some() && !self.is_hub
    }

    /// The upstreams in it that have reported what they offer.
    pub(crate) fn upstreams(&self) -> impl Iterator<Item = &Arc<Upstream>> {
        let own = self.hub.iter().map(|hub| &hub.part.upstream);
        own.chain(self.parts.iter().map(|part| &part.part.upstream))
    }

    /// A tool by the name that this view shows, or by its canonical id.
    pub(crate) fn tool(&self, name: &str) -> Option<ViewEntry> {
        if let Some(names) = &self.names {
            return names.tools.get(name).cloned();
        }
        self.hub.as_ref().and_then(|hub| hub.get(name).cloned()).or_else(|| self.own(ListKind::Tools, name))
    }

    pub(crate) fn prompt(&self, name: &str) -> Option<ViewEntry> {
        match &self.names {
            Some(names) => names.prompts.get(name).cloned(),
            None => self.own(ListKind::Prompts, name),
        }
    }

    fn own(&self, kind: ListKind, name: &str) -> Option<ViewEntry> {
        let by_legal_name = || self.parts.iter().find_map(|part| part.by_legal_name(kind, name));
        let found = self.parts.iter().find_map(|part| part.own(kind, name));
        let found = found.or_else(|| self.is_hub.then(by_legal_name).flatten())?;
        let is_shown =
            if self.is_transparent() { !found.entry.is_unusable } else { found.entry.fit.is_some() };
        is_shown.then_some(found)
    }

    /// A tool that the upstream of this view does not list and may know all the same. A profile shows what it names
    /// and nothing else.
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

    /// The steps of requests to an upstream that name neither tool nor prompt.
    pub(crate) fn default_chain(&self, upstream: &Arc<Upstream>) -> Chain {
        let part = self.parts.iter().find(|part| Arc::ptr_eq(&part.part.upstream, upstream));
        let of_unknown = || self.steps.default_chain(self.profile.as_deref(), upstream);
        part.map_or_else(of_unknown, |part| part.default.clone())
    }

    /// Why a name is not shown, where an upstream does define it.
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

    /// Whose resource a URI names, and the URI at its owner.
    pub(crate) fn resource(&self, shown: &str) -> Option<(Arc<Upstream>, String)> {
        if let Some(alone) = &self.alone {
            return Some((alone.clone(), shown.to_owned()));
        }
        let (id, own) = uri::from_shown(shown)?;
        self.upstream(id).map(|upstream| (upstream.clone(), own))
    }

    /// The tools that are listed, in order.
    pub(crate) fn listed_tools(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.listed_entries(ListKind::Tools)
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
    pub(crate) fn findable_tools(&self) -> impl Iterator<Item = &Arc<Entry>> {
        let parts = self.parts.iter().filter(|part| part.part.listed);
        let unlisted = parts.flat_map(move |part| part.entries(ListKind::Tools)).map(|(_, entry)| entry);
        let unlisted = unlisted.filter(|entry| entry.is_unlisted && self.fits_view(ListKind::Tools, entry));
        self.listed_tools().chain(unlisted)
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
        entry.fit.is_some() && !is_taken()
    }

    /// What a list is made of, in order.
    pub(super) fn items(&self, kind: ListKind) -> Box<dyn Iterator<Item = Item<'_>> + '_> {
        if matches!(kind, ListKind::Tools | ListKind::Prompts) {
            return Box::new(self.listed_entries(kind).map(Item::Entry));
        }
        let listed = self.parts.iter().filter(|part| part.part.listed);
        Box::new(listed.flat_map(move |part| {
            let definitions = &part.part.definitions;
            let both = definitions.list(kind).iter().zip(definitions.fits(kind));
            let shown = both.filter_map(|(raw, fit)| {
                if self.is_transparent() { (!fit.is_unusable).then_some(raw) } else { fit.entry.as_ref() }
            });
            shown.map(|raw| Item::Resource(&part.part.upstream, raw))
        }))
    }

    /// One item in the form of this view: renamed where the view is namespaced.
    pub(super) fn rendered(&self, kind: ListKind, item: &Item<'_>) -> Raw {
        match item {
            Item::Entry(entry) if self.is_transparent() => entry.own.clone(),
            Item::Entry(entry) => {
                let own = entry.fit.as_ref().unwrap_or(&entry.own);
                if !self.is_namespaced() {
                    // Clients refuse lists with other names; the instance's own name can be called as well.
                    let Cow::Owned(legal) = legal_name(&entry.own_name) else { return own.clone() };
                    return own.with("name", &Raw::from_serialize(&legal));
                }
                let renamed = own.with("name", &Raw::from_serialize(&entry.shown));
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

fn is_inside(part: &Part, only: Option<&Arc<Upstream>>, profile: Option<&ProfilePlan>) -> bool {
    let right = only.is_none_or(|only| only.id() == part.upstream.id());
    // The gateway's own tools are in a profile only where it names them.
    let named = profile.is_none_or(|profile| {
        let upstream = &part.upstream;
        let is_named = || profile.includes_upstream(upstream.kind(), upstream.id().as_str(), &part.names);
        if profile.is_choosy() { is_named() } else { !part.built_in }
    });
    right && named
}

fn is_shown(profile: &ProfilePlan, part: &Part, entry: &Entry) -> bool {
    let (kind, id) = (part.upstream.kind(), part.upstream.id().as_str());
    profile.includes(&profile.ids_of(kind, id, &part.names, &entry.own_name))
}

fn with_shown_uris(upstream: &Upstream, kind: ResultKind, raw: &Raw) -> Raw {
    map_result(kind, upstream.id(), raw.as_bytes())
        .and_then(|mapped| Raw::parse(mapped).ok())
        .unwrap_or_else(|| raw.clone())
}
