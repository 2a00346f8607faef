//! The additions of a lean view to the view that it is made of: its own two tools, and which others it lists.

use std::sync::Arc;

use super::Entry;
use super::names::ViewEntry;
use super::part::{Part, lean_entries};
use super::snapshot::Views;
use super::view::{Shape, ViewCatalog, ViewParts};
use crate::plan::{Exposure, ProfilePlan};
use crate::settings::Pattern;

/// A lean view shows little of what can be found and called in it.
#[derive(Debug)]
pub(super) struct Lean {
    /// The view that is searched.
    pub(super) whole: Arc<ViewCatalog>,
    /// The gateway's own part, which search and call belong to.
    part: Arc<Part>,
    pub(super) entries: Vec<ViewEntry>,
    /// Patterns over the canonical ids of tools that are listed as well.
    listed: Vec<Pattern>,
}

impl Lean {
    pub(super) fn own(&self, name: &str) -> Option<&ViewEntry> {
        self.entries.iter().find(|one| one.entry.own_name == name)
    }

    fn is_own(&self, entry: &Entry) -> bool {
        self.entries.iter().any(|one| one.entry.canonical == entry.canonical)
    }

    /// The tools that are listed, in order.
    pub(super) fn listed_tools(&self) -> impl Iterator<Item = &Arc<Entry>> {
        let is_listed =
            |entry: &&Arc<Entry>| self.listed.iter().any(|pattern| pattern.matches(&entry.canonical));
        let others = self.whole.listed_tools().filter(is_listed).filter(|entry| !self.is_own(entry));
        self.entries.iter().map(|one| &one.entry).chain(others)
    }

    /// The tools that search finds: all of the view but the two that every client of it knows.
    pub(super) fn findable_tools(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.whole.findable_tools().filter(|entry| !self.is_own(entry))
    }

    pub(super) fn upstream(&self) -> &Arc<crate::upstream::Upstream> {
        &self.part.upstream
    }
}

/// The profile at `at`, where it is exposed by search.
pub(super) fn is_exposed_by_search(profile: &ProfilePlan) -> bool {
    profile.exposure == Exposure::Search
}

impl ViewParts<'_> {
    /// The lean form of a view, or `before` where nothing in it has changed. Before the gateway's own tools are there,
    /// the view itself.
    pub(super) fn lean(
        &self,
        whole: Arc<ViewCatalog>,
        profile: Option<&ProfilePlan>,
        before: Option<&Arc<ViewCatalog>>,
    ) -> Arc<ViewCatalog> {
        let Some(part) = self.parts.iter().find(|part| part.built_in) else { return whole };
        let is_as = |before: &&Arc<ViewCatalog>| {
            let same = |lean: &Lean| Arc::ptr_eq(&lean.whole, &whole) && Arc::ptr_eq(&lean.part, part);
            self.same_rules && before.lean.as_ref().is_some_and(same)
        };
        if let Some(before) = before.filter(is_as) {
            return before.clone();
        }
        let name = profile.map(|profile| profile.name.as_str());
        let chain = |entry: &Arc<Entry>| self.rules.steps.chain(name, &part.upstream, &entry.canonical);
        let entries = lean_entries(&part.upstream, self.rules.names).into_iter();
        let entries = entries.map(|entry| ViewEntry { chain: chain(&entry), entry }).collect();
        let listed = profile.map_or(&self.rules.lean, |profile| &profile.listed).clone();
        let lean = Lean { part: part.clone(), entries, listed, whole: whole.clone() };
        Arc::new(whole.made_lean(lean))
    }

    /// The view of a profile, lean where it is exposed by search.
    pub(super) fn profile(
        &self,
        shape: &Shape,
        profile: &ProfilePlan,
        before: Option<&Arc<ViewCatalog>>,
    ) -> Arc<ViewCatalog> {
        if !is_exposed_by_search(profile) || !matches!(shape, Shape::Many { .. }) {
            return self.view(shape, before.filter(|before| before.lean.is_none()));
        }
        let whole_before = before.and_then(|before| before.lean.as_ref()).map(|lean| &lean.whole);
        self.lean(self.view(shape, whole_before), Some(profile), before)
    }

    /// The view at `/mcp/lean`, made of the one at `/mcp` where that shows many upstreams.
    pub(super) fn lean_of_everything(
        &self,
        everything: &Arc<ViewCatalog>,
        before: Option<&Arc<ViewCatalog>>,
    ) -> Arc<ViewCatalog> {
        if everything.is_namespaced() {
            return self.lean(everything.clone(), None, before);
        }
        let whole_before = before.and_then(|before| before.lean.as_ref()).map(|lean| &lean.whole);
        self.lean(self.view(&Shape::Many { profile: None }, whole_before), None, before)
    }
}

impl Views {
    /// The upstream that has the path of the lean view, from before that was reserved.
    pub(super) fn named_lean(&self) -> Option<&Arc<crate::upstream::Upstream>> {
        self.upstreams.iter().find(|upstream| upstream.id().as_str() == toolyard_proto::name::LEAN)
    }
}
