//! Lists as bytes. A page is assembled when it is first requested, kept as long as its view, and served unchanged; the
//! bytes of all views together are bounded. What a class of principals sees is a filter that applies when a page is
//! assembled.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::OnceCell;
use toolyard_policy::rules::{Annotations, Kind, Target};
use toolyard_proto::name::canonical;
use toolyard_proto::splice::members;
use toolyard_proto::{Raw, Revision, legacy};

use super::view::Item;
use super::{CacheHints, Entry, ListKind, ViewCatalog};
use crate::beside_calls::beside_calls;
use crate::pipeline::policy;
use crate::upstream::Upstream;
use crate::{greet, lean};

const PAGE_ENTRIES: usize = 5_000;
const PAGE_BYTES: usize = 8 * 1024 * 1024;
/// How long clients may rely on a list; changes are announced anyway.
const TTL_MS: u64 = 60_000;
/// How many bytes of pages are kept.
const KEPT_BYTES: usize = 64 * 1024 * 1024;
/// A page with more entries is joined on a thread of its own, where no call waits.
const MANY: usize = 200;

/// Whether a class of principals does not see something.
type Hidden = Arc<dyn Fn(&Target<'_>) -> bool + Send + Sync>;

/// The part of a view that a class of principals sees.
#[derive(Clone, Default)]
pub(crate) struct Visibility {
    /// Equal for principals that see the same.
    class: u32,
    hidden: Option<Hidden>,
    /// Whether a cache must not give the list to other principals.
    is_private: bool,
}

impl Visibility {
    /// A class that does not see what is `hidden`.
    pub(crate) fn new(class: u32, hidden: impl Fn(&Target<'_>) -> bool + Send + Sync + 'static) -> Self {
        Self { class, hidden: Some(Arc::new(hidden)), is_private: true }
    }

    /// The same for a principal that had to authenticate: private.
    pub(crate) fn private(self) -> Self {
        Self { is_private: true, ..self }
    }

    pub(crate) fn hides(&self, entry: &Entry) -> bool {
        let hidden = self.hidden.as_ref().filter(|_| !lean::is_call(entry));
        hidden.is_some_and(|hidden| hidden(&policy::target(entry)))
    }

    /// Whether a resource, or a template by its text, is not shown.
    pub(crate) fn hides_resource(&self, upstream: &Upstream, raw: &Raw) -> bool {
        if self.hidden.is_none() {
            return false;
        }
        let uri = raw.member("uri").or_else(|| raw.member("uriTemplate"));
        let uri = uri.and_then(|uri| uri.as_string()).unwrap_or_default();
        self.hides_named(Kind::Resource, upstream, &uri)
    }

    /// Whether a tool is not shown, by its definition.
    pub(crate) fn hides_tool(&self, upstream: &Upstream, name: &str, definition: &Raw) -> bool {
        let Some(hidden) = &self.hidden else { return false };
        let canonical = canonical(upstream.id(), name);
        let annotations = Annotations::of(&definition.read().unwrap_or_default());
        hidden(&Target { kind: Kind::Tool, annotations, ..policy::resource(upstream, &canonical) })
    }

    /// Whether something that is not a tool is not shown.
    pub(crate) fn hides_named(&self, kind: Kind, upstream: &Upstream, name: &str) -> bool {
        let Some(hidden) = &self.hidden else { return false };
        let canonical = canonical(upstream.id(), name);
        hidden(&Target { kind, ..policy::resource(upstream, &canonical) })
    }

    fn shows(&self, item: &Item<'_>) -> bool {
        match item {
            Item::Entry(entry) => !self.hides(entry),
            Item::Resource(upstream, raw) => !self.hides_resource(upstream, raw),
        }
    }
}

impl fmt::Debug for Visibility {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Visibility({})", self.class)
    }
}

/// The positions at which the pages of one list begin.
#[derive(Debug)]
pub(super) struct Layout {
    starts: Vec<usize>,
    total: usize,
}

impl Layout {
    fn of(view: &ViewCatalog, kind: ListKind) -> Self {
        let mut starts = vec![0];
        let mut size = 0;
        let mut total = 0;
        for item in view.items(kind) {
            let start = starts.last().copied().unwrap_or_default();
            if total > start && (total - start == PAGE_ENTRIES || size + item.size() > PAGE_BYTES) {
                starts.push(total);
                size = 0;
            }
            size += item.size() + 1;
            total += 1;
        }
        Self { starts, total }
    }

    /// A cursor contains the length of the list, so that one from another time is recognised.
    fn cursor(&self, page: usize) -> String {
        format!("{page}-{}", self.total)
    }

    fn page_number(&self, cursor: &str) -> Option<usize> {
        let page = cursor.split('-').next()?.parse().ok()?;
        (self.cursor(page) == cursor && page < self.starts.len()).then_some(page)
    }

    fn len(&self, page: usize) -> usize {
        self.starts.get(page + 1).unwrap_or(&self.total) - self.starts[page]
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct PageKey {
    view: u64,
    kind: ListKind,
    revision: Revision,
    class: u32,
    is_private: bool,
    page: usize,
}

/// The pages that were joined, the least recently used of which go when there are too many bytes.
#[derive(Debug, Default)]
pub(super) struct Pages(Mutex<PageCache>);

#[derive(Debug, Default)]
struct PageCache {
    pages: HashMap<PageKey, KeptPage>,
    uses: u64,
}

#[derive(Debug)]
struct KeptPage {
    bytes: Arc<OnceCell<Raw>>,
    used: u64,
}

impl Pages {
    fn kept(&self) -> MutexGuard<'_, PageCache> {
        self.0.lock()
    }

    fn cell(&self, key: PageKey) -> Arc<OnceCell<Raw>> {
        let mut kept = self.kept();
        kept.uses += 1;
        let used = kept.uses;
        let page = kept.pages.entry(key).or_insert_with(|| KeptPage { bytes: Arc::default(), used });
        page.used = used;
        page.bytes.clone()
    }

    /// Drops the least recently used pages beyond the limit.
    fn trim(&self) {
        let mut kept = self.kept();
        let size = |page: &KeptPage| page.bytes.get().map_or(0, Raw::len);
        let mut total: usize = kept.pages.values().map(size).sum();
        while total > KEPT_BYTES && kept.pages.len() > 1 {
            let oldest = kept.pages.iter().min_by_key(|(_, page)| page.used).map(|(key, _)| *key);
            let Some(page) = oldest.and_then(|key| kept.pages.remove(&key)) else { return };
            total -= size(&page);
        }
    }

    /// Drops the pages of all other views.
    pub(super) fn keep_only(&self, views: &HashSet<u64>) {
        let mut kept = self.kept();
        let gone: Vec<KeptPage> =
            kept.pages.extract_if(|key, _| !views.contains(&key.view)).map(|(_, page)| page).collect();
        drop(kept);
        drop(gone);
    }
}

impl ViewCatalog {
    fn layout(&self, kind: ListKind) -> &Layout {
        self.layouts[kind.index()].get_or_init(|| {
            let items = self.parts.iter().map(|part| part.part.definitions.list(kind).len()).sum();
            beside_calls(items, || Layout::of(self, kind))
        })
    }

    /// How long all that is in a list may be kept, and whether for one principal alone.
    fn hints(&self, kind: ListKind) -> CacheHints {
        let listed = self.parts.iter().filter(|part| part.part.listed);
        listed.fold(CacheHints::default(), |all, part| all.and(part.part.definitions.hints(kind)))
    }

    /// The `_meta` of a list, where it is that of one upstream.
    fn list_meta(&self, kind: ListKind) -> Option<Raw> {
        let part = self.parts.first().filter(|_| self.is_transparent())?;
        part.part.definitions.meta(kind).cloned()
    }

    /// One page of a list in the form of `revision`; `None` where `cursor` names none. `meta` is the `_meta` of the
    /// result, where the revision has one.
    pub(crate) async fn page(
        self: Arc<Self>,
        kind: ListKind,
        revision: Revision,
        cursor: Option<&str>,
        visibility: &Visibility,
        meta: impl FnOnce(&Self) -> Raw,
    ) -> Option<Raw> {
        let layout = self.layout(kind);
        let page = cursor.map_or(Some(0), |cursor| layout.page_number(cursor))?;
        let Visibility { class, is_private, .. } = *visibility;
        let key = PageKey { view: self.id, kind, revision, class, is_private, page };
        let cell = self.pages.cell(key);
        if let Some(bytes) = cell.get() {
            return Some(bytes.clone());
        }
        let joined = cell.get_or_init(|| async {
            let meta = meta(&self);
            if layout.len(page) <= MANY {
                return self.join(key, visibility, &meta);
            }
            let (view, seen) = (self.clone(), visibility.clone());
            let joining = tokio::task::spawn_blocking(move || view.join(key, &seen, &meta));
            joining.await.unwrap_or_else(|_| Raw::empty_object())
        });
        let bytes = joined.await.clone();
        self.pages.trim();
        Some(bytes)
    }

    fn join(&self, key: PageKey, visibility: &Visibility, meta: &Raw) -> Raw {
        let PageKey { kind, revision, page, .. } = key;
        let layout = self.layout(kind);
        let items = self.items(kind).skip(layout.starts[page]).take(layout.len(page));
        let shown = items.filter(|item| visibility.shows(item));
        let mut out = Vec::new();
        out.extend_from_slice(format!(r#"{{"{}":["#, kind.key()).as_bytes());
        for (at, item) in shown.enumerate() {
            if at > 0 {
                out.push(b',');
            }
            out.extend_from_slice(converted(kind, revision, &self.rendered(kind, &item)).as_bytes());
        }
        out.push(b']');
        if page + 1 < layout.starts.len() {
            out.extend_from_slice(format!(r#","nextCursor":"{}""#, layout.cursor(page + 1)).as_bytes());
        }
        let own_meta = greet::with_gateways(self, self.list_meta(kind));
        if revision.has_result_stamps() {
            let CacheHints { ttl_ms, is_private } = self.hints(kind);
            let ttl = if self.settled { ttl_ms.unwrap_or(TTL_MS).min(TTL_MS) } else { 0 };
            let scope = if is_private || key.is_private { "private" } else { "public" };
            let stamps = format!(r#","resultType":"complete","ttlMs":{ttl},"cacheScope":"{scope}","_meta":"#);
            out.extend_from_slice(stamps.as_bytes());
            out.extend_from_slice(merged(own_meta, meta).as_bytes());
        } else if let Some(own) = own_meta {
            out.extend_from_slice(br#","_meta":"#);
            out.extend_from_slice(own.as_bytes());
        }
        out.push(b'}');
        Raw::assembled(out)
    }
}

/// The `_meta` that an upstream gave with its list, and the gateway's own members.
fn merged(own: Option<Raw>, ours: &Raw) -> Raw {
    let Some(own) = own else { return ours.clone() };
    let members = members(ours.as_bytes());
    members.fold(own, |meta, member| match ours.slice(member.key.at.clone()).as_string() {
        Some(key) => meta.with(&key, &ours.slice(member.value)),
        None => meta,
    })
}

fn converted(kind: ListKind, revision: Revision, raw: &Raw) -> Raw {
    if kind == ListKind::Tools { legacy::tool_for(revision, raw) } else { legacy::entry_for(revision, raw) }
}
