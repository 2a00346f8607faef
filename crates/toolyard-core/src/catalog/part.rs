//! The part of the catalog that comes from one upstream. Parts are shared by pointer between snapshots and views; a
//! change of an upstream makes a new part of that upstream and of no other.

use std::sync::{Arc, OnceLock};

use http::HeaderValue;
use toolyard_policy::pin::Held;
use toolyard_policy::rules::Kind;
use toolyard_proto::Raw;
use toolyard_proto::app::UNLISTED;
use toolyard_proto::modern::encode_header;
use toolyard_proto::name::{NameStyle, UpstreamId, canonical};
use toolyard_proto::sanitize::Sanitized;

use super::names::OwnNames;
use super::{Definitions, Entry, ListKind};
use crate::pins;
use crate::plan::Timeouts;
use crate::tool_switch;
use crate::upstream::Upstream;
use crate::{hub, lean};

/// One upstream in a snapshot.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) upstream: Arc<Upstream>,
    /// The upstream's names beside its id, which may change while it runs.
    pub(crate) names: Vec<String>,
    pub(crate) listed: bool,
    /// Offered by the gateway itself.
    pub(crate) built_in: bool,
    /// From its policy when the part was made; the chains of its entries follow from it.
    pub(super) timeouts: Timeouts,
    pub(crate) definitions: Arc<Definitions>,
    pub(super) offer: Arc<Offer>,
}

/// The tools and prompts of an upstream, made once for its definitions.
#[derive(Debug)]
pub(super) struct Offer {
    pub(super) tools: Entries,
    pub(super) prompts: Entries,
    /// The definitions that views of many upstreams leave out, and why.
    pub(super) left_out: Vec<LeftOut>,
}

/// Something that is not shown.
#[derive(Debug)]
pub(super) struct LeftOut {
    pub(super) own_name: String,
    pub(super) shown: String,
    pub(super) canonical: String,
    pub(super) reason: String,
}

/// Tools or prompts in the order of the upstream, each name once.
#[derive(Debug, Default)]
pub(super) struct Entries {
    pub(super) all: Vec<Arc<Entry>>,
    places: OwnNames,
}

impl Entries {
    /// The place of the entry with this own name.
    pub(super) fn place(&self, own_name: &str) -> Option<usize> {
        self.places
            .find(own_name, |place| self.all.get(place).is_some_and(|entry| entry.own_name == own_name))
    }
}

impl Part {
    /// The part of an upstream as it is now: `before` itself if nothing has changed, and otherwise with as much of
    /// it as is unchanged. `None` while the upstream's definitions are unknown.
    pub(super) fn now(
        upstream: &Arc<Upstream>,
        style: NameStyle,
        before: Option<&Arc<Self>>,
    ) -> Option<Arc<Self>> {
        let definitions = upstream.definitions()?;
        let (names, listed) = (upstream.other_names(), upstream.is_listed());
        let timeouts = upstream.timeouts();
        let is_same_offer = |before: &&Arc<Self>| Arc::ptr_eq(&before.definitions, &definitions);
        let offer = match before.filter(is_same_offer) {
            Some(before)
                if before.listed == listed && before.names == names && before.timeouts == timeouts =>
            {
                return Some(before.clone());
            }
            Some(before) => before.offer.clone(),
            None => Arc::new(Offer::new(upstream, &definitions, style, before.map(|before| &*before.offer))),
        };
        let built_in = *upstream.id() == UpstreamId::yard();
        let upstream = upstream.clone();
        Some(Arc::new(Self { upstream, names, listed, built_in, timeouts, definitions, offer }))
    }

    pub(super) fn entries(&self, kind: ListKind) -> &Entries {
        if kind == ListKind::Prompts { &self.offer.prompts } else { &self.offer.tools }
    }
}

impl Offer {
    fn new(
        upstream: &Arc<Upstream>,
        definitions: &Definitions,
        style: NameStyle,
        before: Option<&Self>,
    ) -> Self {
        let mut left_out = Vec::new();
        let mut entries = |kind: ListKind, before: Option<&Entries>| {
            let is_tools = kind == ListKind::Tools;
            let held = if is_tools { &definitions.held()[..] } else { &[] };
            let off = if is_tools { &definitions.off()[..] } else { &[] };
            let of_kind = if is_tools { Kind::Tool } else { Kind::Prompt };
            let made = Maker { upstream, style, kind: of_kind, before, held, off };
            made.entries(definitions.list(kind), definitions.sanitized_list(kind), &mut left_out)
        };
        let tools = entries(ListKind::Tools, before.map(|before| &before.tools));
        let prompts = entries(ListKind::Prompts, before.map(|before| &before.prompts));
        Self { tools, prompts, left_out }
    }
}

/// Makes entries of definitions. An entry whose definition is what it was is kept.
struct Maker<'a> {
    upstream: &'a Arc<Upstream>,
    style: NameStyle,
    kind: Kind,
    before: Option<&'a Entries>,
    /// Tools that are not offered.
    held: &'a [Held],
    /// The own names of tools that are switched off.
    off: &'a [String],
}

impl Maker<'_> {
    fn entries(&self, list: &[Raw], sanitized_list: &[Sanitized], left_out: &mut Vec<LeftOut>) -> Entries {
        let mut all: Vec<Arc<Entry>> = Vec::with_capacity(list.len());
        let mut taken = std::collections::HashSet::with_capacity_and_hasher(
            list.len(),
            foldhash::fast::RandomState::default(),
        );
        for (raw, sanitized) in list.iter().zip(sanitized_list) {
            let Some(own_name) = raw.member("name").and_then(|name| name.as_string()) else {
                left_out.push(self.left_out("?", "its definition has no name".to_owned()));
                continue;
            };
            if !taken.insert(own_name.clone()) {
                let first = canonical(self.upstream.id(), &own_name);
                left_out.push(self.left_out(&own_name, format!("`{first}` is defined more than once")));
                continue;
            }
            if let Some(held) = self.held.iter().find(|held| held.tool == own_name) {
                left_out.push(self.left_out(&own_name, pins::reason(self.upstream.id(), held)));
                continue;
            }
            if self.off.contains(&own_name) {
                left_out.push(self.left_out(&own_name, tool_switch::reason(self.upstream.id(), &own_name)));
                continue;
            }
            if sanitized.entry.is_none() {
                left_out.push(self.refused(&own_name, sanitized));
            }
            all.push(self.entry(own_name, raw, sanitized));
        }
        let places = OwnNames::of(all.iter().map(|entry| entry.own_name.as_str()));
        Entries { all, places }
    }

    fn entry(&self, own_name: String, raw: &Raw, sanitized: &Sanitized) -> Arc<Entry> {
        let before = self.before.and_then(|before| before.all.get(before.place(&own_name)?));
        if let Some(before) =
            before.filter(|before| before.own == *raw && before.sanitized == sanitized.entry)
        {
            return before.clone();
        }
        let id = self.upstream.id();
        Arc::new(Entry {
            upstream: self.upstream.clone(),
            kind: self.kind,
            own_name_raw: Raw::from_serialize(&own_name),
            own_name_header: HeaderValue::try_from(encode_header(&own_name)).ok(),
            shown: self.style.name(id, &own_name),
            canonical: canonical(id, &own_name).into(),
            own_name,
            own: raw.clone(),
            sanitized: sanitized.entry.clone(),
            is_unusable: sanitized.is_unusable,
            is_unlisted: is_unlisted(raw),
            headers: OnceLock::new(),
            annotations: OnceLock::new(),
            schemas: OnceLock::new(),
        })
    }

    fn refused(&self, own_name: &str, sanitized: &Sanitized) -> LeftOut {
        let reason = sanitized.faults.first().map_or_else(String::new, |fault| {
            format!("upstream `{}` defines it in a way that clients refuse: {fault}", self.upstream.id())
        });
        self.left_out(own_name, reason)
    }

    fn left_out(&self, own_name: &str, reason: String) -> LeftOut {
        let id = self.upstream.id();
        let (shown, canonical) = (self.style.name(id, own_name), canonical(id, own_name));
        LeftOut { own_name: own_name.to_owned(), shown, canonical, reason }
    }
}

/// A tool that its upstream does not list.
pub(super) fn unlisted_entry(upstream: &Arc<Upstream>, style: NameStyle, name: &str) -> Arc<Entry> {
    let raw = Raw::empty_object().with("name", &Raw::from_serialize(&name));
    let sanitized = Sanitized { entry: None, faults: Vec::new(), is_unusable: false };
    let maker = Maker { upstream, style, kind: Kind::Tool, before: None, held: &[], off: &[] };
    maker.entry(name.to_owned(), &raw, &sanitized)
}

/// A tool of a pack that the pack does not list. The search for the key is much cheaper than reading every definition.
fn is_unlisted(raw: &Raw) -> bool {
    let key = UNLISTED.as_bytes();
    raw.as_bytes().windows(key.len()).any(|window| window == key)
        && raw.at(&["_meta", UNLISTED]).is_some_and(|value| value.as_bytes() == b"true")
}

/// The tools about instances, as the hub view has them.
pub(super) fn hub_entries(yard: &Arc<Upstream>, style: NameStyle) -> Vec<Arc<Entry>> {
    let list = hub::hub_tools();
    let sanitized_list: Vec<Sanitized> = list.iter().map(toolyard_proto::sanitize::tool).collect();
    let maker = Maker { upstream: yard, style, kind: Kind::Tool, before: None, held: &[], off: &[] };
    maker.entries(&list, &sanitized_list, &mut Vec::new()).all
}

/// The tools of a lean view, under their plain names.
pub(super) fn lean_entries(yard: &Arc<Upstream>, style: NameStyle) -> Vec<Arc<Entry>> {
    let list = lean::tools();
    let sanitized_list: Vec<Sanitized> = list.iter().map(toolyard_proto::sanitize::tool).collect();
    let made = Maker { upstream: yard, style, kind: Kind::Tool, before: None, held: &[], off: &[] };
    let entries =
        made.entries(&list, &sanitized_list, &mut Vec::new()).all.into_iter().filter_map(Arc::into_inner);
    entries.map(|entry| Arc::new(Entry { shown: entry.own_name.clone(), ..entry })).collect()
}
