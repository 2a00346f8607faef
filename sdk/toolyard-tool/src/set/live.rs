//! The items of a set while it is served: read by every request, changed through the handle.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use super::items::{Items, Taken};
use crate::ToolSet;
use crate::changes::{Change, Changes};

#[derive(Debug)]
pub(crate) struct Offer {
    items: ArcSwap<Items>,
    /// One change at a time.
    changing: Mutex<()>,
    is_live: AtomicBool,
    changes: Changes,
}

impl Offer {
    pub(super) fn new(changes: Changes) -> Self {
        let (items, changing) = (ArcSwap::default(), Mutex::new(()));
        Self { items, changing, is_live: AtomicBool::new(false), changes }
    }

    /// The current items; requests that have begun keep those of their start.
    pub(crate) fn items(&self) -> Arc<Items> {
        self.items.load_full()
    }

    /// Whether anything can still be added or removed.
    pub(crate) fn is_live(&self) -> bool {
        self.is_live.load(Ordering::Relaxed)
    }

    /// Makes all of the change, or nothing if it fails.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Items) -> Result<T, Taken>) -> Result<T, Taken> {
        let _alone = self.changing.lock();
        let mut items = Items::clone(&self.items.load());
        let outcome = change(&mut items)?;
        self.items.store(Arc::new(items));
        Ok(outcome)
    }
}

/// Changes what a set offers while it is served; clients that listen are notified that their lists have
/// changed. Calls under way are not disturbed. Cloning is cheap, and clones change the same set.
///
/// ```
/// use toolyard_tool::{ToolSet, tool};
///
/// /// Opens the door.
/// #[tool]
/// async fn open_door() {}
///
/// /// Closes the door.
/// #[tool]
/// async fn close_door() {}
///
/// let set = ToolSet::new("house", "1.0.0").with::<open_door>();
/// let live = set.live();
/// // `set` may be served by now.
/// live.add(ToolSet::new("more", "1.0.0").with::<close_door>())?;
/// assert_eq!(live.tool_names(), ["open_door", "close_door"]);
/// assert!(live.remove_tool("open_door"));
/// assert!(!live.remove_tool("open_door"), "it is gone already");
/// # Ok::<(), toolyard_tool::Taken>(())
/// ```
#[derive(Clone, Debug)]
pub struct Live(Arc<Offer>);

impl Live {
    pub(super) fn new(offer: Arc<Offer>) -> Self {
        offer.is_live.store(true, Ordering::Relaxed);
        Self(offer)
    }

    /// Adds everything that another set offers; its state stays its own. Nothing is added if anything of it
    /// has a name that is taken.
    pub fn add<T>(&self, other: ToolSet<T>) -> Result<(), Taken> {
        let ToolSet { offer, .. } = other;
        let others = offer.items();
        self.change(|items| items.join(&others))
    }

    /// Removes a tool; false if there is none of that name.
    pub fn remove_tool(&self, name: &str) -> bool {
        self.remove(|items| items.remove_tool(name))
    }

    /// Removes a prompt; false if there is none of that name.
    pub fn remove_prompt(&self, name: &str) -> bool {
        self.remove(|items| items.remove_prompt(name))
    }

    /// Removes the resource at a URI, or a template; false if there is none.
    pub fn remove_resource(&self, uri: &str) -> bool {
        self.remove(|items| items.remove_resource(uri))
    }

    /// The names of the tools, in order.
    pub fn tool_names(&self) -> Vec<&'static str> {
        self.0.items().tool_names()
    }

    /// Whether anything was removed.
    fn remove(&self, remove: impl FnOnce(&mut Items)) -> bool {
        let removed = self.change(|items| {
            let before = counts(items);
            remove(items);
            Ok(counts(items) != before)
        });
        removed.unwrap_or(false)
    }

    fn change<T>(&self, change: impl FnOnce(&mut Items) -> Result<T, Taken>) -> Result<T, Taken> {
        let (outcome, before, after) = self.0.change(|items| {
            let before = counts(items);
            let outcome = change(items)?;
            Ok((outcome, before, counts(items)))
        })?;
        let kinds = [Change::Tools, Change::Prompts, Change::Resources];
        for (kind, _) in kinds.into_iter().zip(before.iter().zip(after)).filter(|(_, (old, new))| *old != new)
        {
            self.0.changes.announce(kind);
        }
        Ok(outcome)
    }
}

/// How many tools, prompts and resources there are. A change adds or removes, never both.
fn counts(items: &Items) -> [usize; 3] {
    [items.tools.len(), items.prompts.len(), items.resources.len() + items.templates.len()]
}
