//! The catalog as one view shows it: which entries, under which names, with their lists made ready.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use foldhash::fast::RandomState;

use http::HeaderValue;
use toolyard_proto::fit::Fit;
use toolyard_proto::modern::encode_header;
use toolyard_proto::name::{NameStyle, canonical, legal_name};
use toolyard_proto::uri::{self, ResultKind, map_result};
use toolyard_proto::{Raw, Revision};

use super::list::Lists;
use super::snapshot::{Part, Snapshot};
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
    /// The upstream that this view shows as if clients spoke to it directly.
    /// In the hub view, the one that stands beside the hub's own tools.
    pub(crate) alone: Option<Arc<Upstream>>,
    pub(crate) is_hub: bool,
    pub(crate) upstreams: Vec<Arc<Upstream>>,
    tools: HashMap<String, Arc<Entry>, RandomState>,
    prompts: HashMap<String, Arc<Entry>, RandomState>,
    /// Tools in list order, for search.
    pub(crate) listed_tools: Vec<Arc<Entry>>,
    /// Names that are not shown, and why.
    pub(crate) left_out: Vec<(String, String)>,
    lists: Lists,
    profile: Option<String>,
    steps: Arc<StepRules>,
}

impl ViewCatalog {
    pub(super) fn build(snapshot: &Snapshot, shape: &Shape) -> Self {
        let rules = snapshot.rules();
        let mut view = Self {
            alone: None,
            is_hub: matches!(shape, Shape::Hub(_)),
            upstreams: Vec::new(),
            tools: HashMap::default(),
            prompts: HashMap::default(),
            listed_tools: Vec::new(),
            left_out: Vec::new(),
            lists: Lists::new(snapshot.settled),
            profile: None,
            steps: rules.steps.clone(),
        };
        let (only, profile) = match shape {
            Shape::Many { profile } => (None, profile.map(|at| &rules.profiles[at])),
            Shape::Alone(upstream) => (Some(upstream), None),
            Shape::Hub(instance) => (instance.as_ref(), None),
            Shape::Filtered { upstream, profile } => (Some(upstream), Some(&rules.profiles[*profile])),
        };
        view.alone = only.cloned();
        view.profile = profile.map(|profile| profile.name.clone());
        let is_inside = |part: &&Part| match shape {
            Shape::Hub(None) => part.built_in,
            Shape::Hub(Some(instance)) => part.built_in || instance.id() == part.upstream.id(),
            _ => is_inside(part, only, profile),
        };
        for part in snapshot.parts().iter().filter(is_inside) {
            view.upstreams.push(part.upstream.clone());
            if view.is_hub && part.built_in {
                view.add_hub_tools(part, rules.names);
            } else {
                view.add(part, rules.names, profile);
            }
        }
        view
    }

    /// Whether entries go by names that say whose they are.
    pub(crate) fn is_namespaced(&self) -> bool {
        self.alone.is_none() && !self.is_hub
    }

    /// Whether entries are as their upstream said them, to the byte. Elsewhere one that clients would refuse,
    /// and the whole list with it, must not stand beside others.
    fn is_transparent(&self) -> bool {
        self.alone.is_some() && !self.is_hub
    }

    /// They come first, so nothing that an instance offers takes their names.
    fn add_hub_tools(&mut self, part: &Part, names: NameStyle) {
        for raw in hub::hub_tools() {
            self.add_entry(part, ListKind::Tools, &raw, names, None);
        }
        let aliases: Vec<(String, Arc<Entry>)> =
            self.listed_tools.iter().map(|entry| (hub::with_slash(&entry.own_name), entry.clone())).collect();
        self.tools.extend(aliases);
    }

    fn add(&mut self, part: &Part, names: NameStyle, profile: Option<&ProfilePlan>) {
        for kind in [ListKind::Tools, ListKind::Prompts] {
            for (raw, fit) in part.definitions.list(kind).iter().zip(part.definitions.fits(kind)) {
                match &fit.entry {
                    _ if self.is_transparent() => self.add_entry(part, kind, raw, names, profile),
                    Some(entry) => self.add_entry(part, kind, entry, names, profile),
                    None => self.leave_out(part, raw, fit, names),
                }
            }
        }
        if !part.listed {
            return;
        }
        for (kind, shape) in [
            (ListKind::Resources, ResultKind::ResourceEntry),
            (ListKind::Templates, ResultKind::TemplateEntry),
        ] {
            for (raw, fit) in part.definitions.list(kind).iter().zip(part.definitions.fits(kind)) {
                let Some(entry) = (if self.is_transparent() { Some(raw) } else { fit.entry.as_ref() }) else {
                    continue;
                };
                let entry =
                    if self.is_namespaced() { with_shown_uris(part, shape, entry) } else { entry.clone() };
                self.lists.push(kind, entry);
            }
        }
    }

    fn add_entry(
        &mut self,
        part: &Part,
        kind: ListKind,
        raw: &Raw,
        names: NameStyle,
        profile: Option<&ProfilePlan>,
    ) {
        let Some(own_name) = raw.member("name").and_then(|name| name.as_string()) else {
            let reason = "its definition has no name".to_owned();
            return self.left_out.push((canonical(part.upstream.id(), "?"), reason));
        };
        let entry = Arc::new(entry(part, kind, own_name, raw, names, |canonical| {
            self.steps.chain(self.profile.as_deref(), &part.upstream, canonical)
        }));
        if profile.is_some_and(|profile| !is_shown(profile, part, &entry)) {
            return;
        }
        let name = if self.is_namespaced() { entry.shown.clone() } else { entry.own_name.clone() };
        let is_namespaced = self.is_namespaced();
        let by_name = if kind == ListKind::Tools { &mut self.tools } else { &mut self.prompts };
        if let Some(first) = by_name.get(&name) {
            let reason = format!("its name `{name}` is taken by {}", first.canonical);
            return self.left_out.push((entry.canonical.to_string(), reason));
        }
        by_name.insert(name, entry.clone());
        let mut listed = if is_namespaced { entry.renamed.clone() } else { entry.own.clone() };
        if is_namespaced {
            by_name.entry(entry.canonical.to_string()).or_insert_with(|| entry.clone());
        } else if self.is_hub
            && let Cow::Owned(legal) = legal_name(&entry.own_name)
        {
            // Clients refuse lists with other names; the instance's own name can be called as well.
            listed = listed.with("name", &Raw::from_serialize(&legal));
            by_name.entry(legal).or_insert_with(|| entry.clone());
        }
        if part.listed {
            self.lists.push(kind, listed);
            if kind == ListKind::Tools {
                self.listed_tools.push(entry);
            }
        }
    }

    /// Remembers why, by both names that somebody may call it by.
    fn leave_out(&mut self, part: &Part, raw: &Raw, fit: &Fit, names: NameStyle) {
        let (id, name) = (part.upstream.id(), raw.member("name").and_then(|name| name.as_string()));
        let name = name.unwrap_or_else(|| "?".to_owned());
        let reason = fit.faults.first().map_or_else(String::new, |fault| {
            format!("upstream `{id}` defines it in a way that clients refuse: {fault}")
        });
        self.left_out.push((names.name(id, &name), reason.clone()));
        self.left_out.push((canonical(id, &name), reason));
    }

    /// The steps of requests to an upstream that name neither tool nor prompt.
    pub(crate) fn default_chain(&self, _: &Snapshot, upstream: &Upstream) -> Chain {
        self.steps.default_chain(self.profile.as_deref(), upstream)
    }

    /// A tool by the name that this view shows, or by its canonical id.
    pub(crate) fn tool(&self, name: &str) -> Option<&Arc<Entry>> {
        self.tools.get(name)
    }

    pub(crate) fn prompt(&self, name: &str) -> Option<&Arc<Entry>> {
        self.prompts.get(name)
    }

    pub(crate) fn upstream(&self, id: &str) -> Option<&Arc<Upstream>> {
        self.upstreams.iter().find(|upstream| upstream.id().as_str().eq_ignore_ascii_case(id))
    }

    /// Whose resource a URI names, and the URI at its owner.
    pub(crate) fn resource(&self, shown: &str) -> Option<(Arc<Upstream>, String)> {
        if let Some(alone) = &self.alone {
            return Some((alone.clone(), shown.to_owned()));
        }
        let (id, own) = uri::from_shown(shown)?;
        self.upstream(id).map(|upstream| (upstream.clone(), own))
    }

    /// One page of a list in the form of `revision`.
    pub(crate) fn page(
        &self,
        kind: ListKind,
        revision: Revision,
        cursor: Option<&str>,
        stamp: impl FnOnce() -> Raw,
    ) -> Option<Raw> {
        self.lists.page(kind, revision, cursor, stamp)
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

fn entry(
    part: &Part,
    kind: ListKind,
    own_name: String,
    raw: &Raw,
    names: NameStyle,
    chain: impl FnOnce(&str) -> Chain,
) -> Entry {
    let id = part.upstream.id();
    let shown = names.name(id, &own_name);
    let renamed = raw.with("name", &Raw::from_serialize(&shown));
    let renamed = if kind == ListKind::Tools {
        with_shown_uris(part, ResultKind::ToolEntry, &renamed)
    } else {
        renamed
    };
    let canonical = canonical(id, &own_name);
    let own_name_raw = Raw::from_serialize(&own_name);
    let own_name_header = HeaderValue::try_from(encode_header(&own_name)).ok();
    Entry {
        own_name_raw,
        own_name_header,
        upstream: part.upstream.clone(),
        chain: chain(&canonical),
        own_name,
        shown,
        canonical: canonical.into(),
        own: raw.clone(),
        renamed,
        headers: OnceLock::new(),
    }
}

fn with_shown_uris(part: &Part, kind: ResultKind, raw: &Raw) -> Raw {
    map_result(kind, part.upstream.id(), raw.as_bytes())
        .and_then(|mapped| Raw::parse(mapped).ok())
        .unwrap_or_else(|| raw.clone())
}
