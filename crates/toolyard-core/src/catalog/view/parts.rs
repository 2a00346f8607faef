//! A part of the catalog as one view has it: which of its entries the view shows, and the steps of their calls.

use std::sync::Arc;

use toolyard_proto::name::legal_name;

use crate::catalog::names::ViewEntry;
use crate::catalog::part::{Part, hub_entries};
use crate::catalog::snapshot::Views;
use crate::catalog::{Entry, ListKind};
use crate::hub;
use crate::pipeline::{Chain, StepRules};
use crate::plan::ProfilePlan;

/// A part as one view has it.
#[derive(Debug)]
pub(in crate::catalog) struct ViewPart {
    pub(in crate::catalog) part: Arc<Part>,
    tools: Picked,
    prompts: Picked,
    /// The chain of requests that name neither a tool nor a prompt.
    pub(super) default: Chain,
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
    pub(super) fn new(part: &Arc<Part>, profile: Option<&ProfilePlan>, steps: &StepRules) -> Self {
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
    pub(super) fn entries(&self, kind: ListKind) -> impl Iterator<Item = (usize, &Arc<Entry>)> {
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
    pub(super) fn own(&self, kind: ListKind, name: &str) -> Option<ViewEntry> {
        let entries = self.part.entries(kind);
        let place = entries.place(name).filter(|place| self.picked(kind).has(*place))?;
        Some(self.view_entry(kind, place, &entries.all[place]))
    }

    /// An entry by the name that replaces its own for clients that accept no such names. Used only in the hub, after
    /// its own name was not found.
    pub(super) fn by_legal_name(&self, kind: ListKind, name: &str) -> Option<ViewEntry> {
        let mut entries = self.entries(kind);
        let (place, entry) = entries.find(|(_, entry)| legal_name(&entry.own_name) == name)?;
        Some(self.view_entry(kind, place, entry))
    }

    /// The entries that a list with entries of several upstreams can show.
    pub(super) fn fitting(&self, kind: ListKind) -> impl Iterator<Item = ViewEntry> {
        let fitting = self.entries(kind).filter(|(_, entry)| entry.sanitized.is_some());
        fitting.map(move |(place, entry)| self.view_entry(kind, place, entry))
    }
}

/// The hub's own tools, by their names and their names with a slash.
#[derive(Debug)]
pub(in crate::catalog) struct HubEntries {
    pub(super) part: Arc<Part>,
    pub(super) entries: Vec<ViewEntry>,
}

impl HubEntries {
    /// The hub's tools, or `before` where they are the same.
    pub(in crate::catalog) fn now(
        rules: &Views,
        parts: &[Arc<Part>],
        before: Option<&Arc<Self>>,
    ) -> Option<Arc<Self>> {
        let part = parts.iter().find(|part| part.built_in)?;
        if let Some(before) = before.filter(|before| Arc::ptr_eq(&before.part, part)) {
            return Some(before.clone());
        }
        let chain = |entry: &Arc<Entry>| rules.steps.chain(None, &part.upstream, &entry.canonical);
        let entries = hub_entries(&part.upstream, rules.names).into_iter();
        let entries = entries.map(|entry| ViewEntry { chain: chain(&entry), entry }).collect();
        Some(Arc::new(Self { part: part.clone(), entries }))
    }

    pub(super) fn get(&self, name: &str) -> Option<&ViewEntry> {
        let is_it = |own: &str| own == name || hub::with_slash(own) == name;
        self.entries.iter().find(|one| is_it(&one.entry.own_name))
    }
}

fn is_shown(profile: &ProfilePlan, part: &Part, entry: &Entry) -> bool {
    let (kind, id) = (part.upstream.kind(), part.upstream.id().as_str());
    profile.includes(&profile.ids_of(kind, id, &part.names, &entry.own_name))
}
