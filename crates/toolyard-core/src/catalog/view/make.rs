//! How a view is made from the one before it: parts that are the same are kept, and the name table changes by what
//! differs.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::parts::{HubEntries, ViewPart};
use super::{Shape, ViewCatalog};
use crate::catalog::lean::Lean;
use crate::catalog::names::{NameTable, ViewEntry};
use crate::catalog::pages::Pages;
use crate::catalog::part::Part;
use crate::catalog::snapshot::Views;
use crate::catalog::{Entry, ListKind};
use crate::plan::ProfilePlan;
use crate::upstream::Upstream;

static NEXT_VIEW: AtomicU64 = AtomicU64::new(1);

/// The parts that a view is made of.
pub(in crate::catalog) struct ViewParts<'a> {
    pub(in crate::catalog) rules: &'a Views,
    pub(in crate::catalog) parts: &'a [Arc<Part>],
    pub(in crate::catalog) settled: bool,
    pub(in crate::catalog) hub: Option<&'a Arc<HubEntries>>,
    pub(in crate::catalog) pages: &'a Arc<Pages>,
    /// Whether the rules are unchanged, so that the previous views can be built on.
    pub(in crate::catalog) same_rules: bool,
}

impl ViewParts<'_> {
    /// The view of this shape, or `before` where nothing in it has changed.
    pub(in crate::catalog) fn view(
        &self,
        shape: &Shape,
        before: Option<&Arc<ViewCatalog>>,
    ) -> Arc<ViewCatalog> {
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
            lean: None,
            names,
            is_bare: profile.is_some_and(|profile| profile.bare),
            profile: profile.map(|profile| profile.name.clone()),
            style: self.rules.names,
            steps: self.rules.steps.clone(),
            settled: self.settled,
            layouts: Default::default(),
            pages: self.pages.clone(),
            findable: OnceLock::new(),
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

fn is_inside(part: &Part, only: Option<&Arc<Upstream>>, profile: Option<&ProfilePlan>) -> bool {
    let right = only.is_none_or(|only| only.id() == part.upstream.id());
    // The gateway's own tools are in a profile only where it names them.
    let named = profile.is_none_or(|profile| {
        let upstream = &part.upstream;
        let is_named = || profile.includes_upstream(upstream.kind(), upstream.id().as_str(), &part.names);
        if profile.lists_upstreams() { is_named() } else { !part.built_in }
    });
    right && named
}

#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    pub(super) tools: NameTable,
    pub(super) prompts: NameTable,
    /// Entries whose shown name another upstream's entry has, with the reason.
    pub(super) clashes: Vec<(Arc<Entry>, String)>,
}

impl ViewCatalog {
    /// The same view, of which little is listed.
    pub(in crate::catalog) fn made_lean(&self, lean: Lean) -> Self {
        Self {
            id: NEXT_VIEW.fetch_add(1, Ordering::Relaxed),
            alone: None,
            is_hub: false,
            parts: self.parts.clone(),
            hub: None,
            lean: Some(lean),
            names: self.names.clone(),
            is_bare: self.is_bare,
            profile: self.profile.clone(),
            style: self.style,
            steps: self.steps.clone(),
            settled: self.settled,
            layouts: Default::default(),
            pages: self.pages.clone(),
            findable: OnceLock::new(),
        }
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

/// The parts of `all` that are not in `others`.
fn without<'a>(all: &'a [Arc<ViewPart>], others: &[Arc<ViewPart>]) -> Vec<&'a Arc<ViewPart>> {
    let known: HashSet<*const ViewPart> = others.iter().map(Arc::as_ptr).collect();
    all.iter().filter(|one| !known.contains(&Arc::as_ptr(one))).collect()
}
