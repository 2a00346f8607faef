//! AccessKit trees as elements that agents can see and operate.
//!
//! Every toolkit that publishes [AccessKit](https://accesskit.dev) trees for screen readers can be driven by agents
//! in the same way. An adapter keeps one tree per window up to date ([`WindowTree::update`]) and hands all of them to
//! [`elements`].
#![warn(missing_docs)]

mod check;

use std::collections::{HashMap, HashSet};

use accesskit::{NodeId, Role, Toggled, TreeId, TreeUpdate};
use accesskit_consumer::{FullNodeId, NodeRef, Tree as ConsumerTree, TreeChangeHandler};
use toolyard_ui::{ElementBounds, ElementId, Tree, TreeNode};

pub use accesskit;
pub use check::InvalidUpdate;

/// How many elements around one are looked at.
const DEEPEST: usize = 200;

/// The accessible tree of one window.
pub struct WindowTree {
    id: ElementId,
    title: String,
    /// Its width and height, in logical pixels.
    size: (f64, f64),
    /// How many pixels of the tree's coordinates make one logical pixel.
    scale: f64,
    tree: ConsumerTree,
    last: TreeUpdate,
    /// The part of each element that can be seen, as far as the adapter knows it.
    seen: HashMap<NodeId, ElementBounds>,
}

impl std::fmt::Debug for WindowTree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WindowTree").field("id", &self.id).field("title", &self.title).finish_non_exhaustive()
    }
}

impl WindowTree {
    /// The tree of a window from its first update, which must be complete. `id` is what the adapter calls the window.
    pub fn new(id: u64, mut update: TreeUpdate) -> Result<Self, InvalidUpdate> {
        if update.tree_id != TreeId::ROOT {
            return Err(InvalidUpdate::NoRoot);
        }
        without_embedded_trees(&mut update);
        check::check(None, &update)?;
        let tree = ConsumerTree::new(update.clone(), true);
        let (title, seen) = (String::new(), HashMap::new());
        Ok(Self { id: ElementId(id), title, size: (0.0, 0.0), scale: 1.0, tree, last: update, seen })
    }

    /// The title of the window, its size in logical pixels, and how many pixels of the tree's coordinates make one of
    /// them. Returns whether anything is different from before.
    pub fn frame(&mut self, title: &str, size: (f64, f64), scale: f64) -> bool {
        let scale = if scale.is_finite() && scale > 0.0 { scale } else { 1.0 };
        let bits = |(width, height): (f64, f64), scale: f64| [width, height, scale].map(f64::to_bits);
        let is_new = title != self.title || bits(size, scale) != bits(self.size, self.scale);
        title.clone_into(&mut self.title);
        (self.size, self.scale) = (size, scale);
        is_new
    }

    /// How many pixels of the tree's coordinates make one logical pixel.
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// The part of each element that can be seen, in logical pixels of the window, for toolkits that do not mark the
    /// elements which clip what is inside them. Returns whether anything is different from before.
    pub fn seen(&mut self, parts: HashMap<NodeId, ElementBounds>) -> bool {
        let is_new = parts != self.seen;
        self.seen = parts;
        is_new
    }

    /// Applies an update. Returns whether anything is different from before. An invalid update changes nothing.
    ///
    /// An update with another root must be complete. Trees that are embedded in the tree of the window are left out.
    pub fn update(&mut self, mut update: TreeUpdate) -> Result<bool, InvalidUpdate> {
        if update.tree_id != TreeId::ROOT {
            return Ok(false);
        }
        without_embedded_trees(&mut update);
        let is_new = update != self.last;
        if is_new {
            let root = self.tree.state().root().locate().0;
            if update.tree.as_ref().is_some_and(|tree| tree.root != root) {
                // The consumer removes elements that it still needs if an element of its tree becomes the root.
                check::check(None, &update)?;
                self.tree = ConsumerTree::new(update.clone(), true);
            } else {
                check::check(Some(self.tree.state()), &update)?;
                self.tree.update_and_process_changes(update.clone(), &mut Ignore);
            }
            self.last = update;
        }
        Ok(is_new)
    }

    /// The id of the window's root element.
    pub fn id(&self) -> ElementId {
        self.id
    }

    /// Whether an element with this id is in the window.
    pub fn has(&self, element: ElementId) -> bool {
        self.tree.state().node_by_tree_local_id(NodeId(element.0), TreeId::ROOT).is_some()
    }

    /// The part of an element that the elements around it show.
    fn seen_part(&self, node: &NodeRef<'_>) -> Option<ElementBounds> {
        let own = self.seen.get(&node.locate().0).copied();
        let around = std::iter::successors(node.parent(), NodeRef::parent).take(DEEPEST);
        let clips = around.filter(NodeRef::clips_children).filter_map(|around| self.bounds(&around));
        clips.chain(own).reduce(|one, other| one.intersection(&other))
    }

    /// Where an element is, in logical pixels of the window.
    fn bounds(&self, node: &NodeRef<'_>) -> Option<ElementBounds> {
        // Computing the bounds takes a step for each element around this one.
        if std::iter::successors(node.parent(), NodeRef::parent).nth(DEEPEST).is_some() {
            return None;
        }
        let bounds = node.bounding_box()?;
        let [x, y, width, height] =
            [bounds.x0, bounds.y0, bounds.width(), bounds.height()].map(|length| length / self.scale);
        Some(ElementBounds::new(x, y, width, height))
    }
}

/// Makes elements that embed another tree empty: the ids of that tree are not unique in the window.
fn without_embedded_trees(update: &mut TreeUpdate) {
    for (_, node) in &mut update.nodes {
        if node.tree_id().is_some() {
            node.clear_tree_id();
        }
    }
}

struct Ignore;

impl TreeChangeHandler for Ignore {
    fn node_added(&mut self, _node: &NodeRef<'_>) {}
    fn node_updated(&mut self, _old: &NodeRef<'_>, _new: &NodeRef<'_>) {}
    fn focus_moved(&mut self, _old: Option<&NodeRef<'_>>, _new: Option<&NodeRef<'_>>) {}
    fn node_removed(&mut self, _node: &NodeRef<'_>) {}
}

/// All elements of an app, in the coordinates of their windows.
///
/// The id of an element is its AccessKit id; that of a window is the one that the adapter gave it. Containers without
/// a label say nothing and are left out: what is inside them belongs to the next element around them.
pub fn elements<'a>(windows: impl IntoIterator<Item = &'a WindowTree>) -> Tree {
    let windows: Vec<&WindowTree> = windows.into_iter().collect();
    let roots = windows.iter().enumerate().map(|(window, tree)| (window, tree.tree.state().root_id()));
    Tree::from_keys(roots.collect(), |(window, id)| {
        let shown = windows[window];
        let node = shown.tree.state().node_by_id(id)?;
        let children = shown_children(&node).into_iter().map(|child| (window, child)).collect();
        Some((shown.describe(&node), children))
    })
}

/// The direct children of an element, as an agent sees them.
fn shown_children(node: &NodeRef<'_>) -> Vec<FullNodeId> {
    let mut shown = Vec::new();
    let mut opened = HashSet::new();
    let mut waiting: Vec<NodeRef<'_>> = node.children().rev().collect();
    while let Some(child) = waiting.pop() {
        match child.role() {
            // The lines of a text, which its element already has as its value.
            Role::TextRun => {}
            Role::GenericContainer | Role::Unknown if !is_labelled(&child) && child.author_id().is_none() => {
                if opened.insert(child.id()) {
                    waiting.extend(child.children().rev());
                }
            }
            _ => shown.push(child.id()),
        }
    }
    shown
}

/// Whether the consumer can look up the label of an element: it panics if the label is another element that is gone.
fn has_known_labels(node: &NodeRef<'_>) -> bool {
    let state = node.tree_state;
    node.data().labelled_by().iter().all(|label| state.node_by_tree_local_id(*label, TreeId::ROOT).is_some())
}

fn is_labelled(node: &NodeRef<'_>) -> bool {
    node.data().label().is_some() || (has_known_labels(node) && node.has_label())
}

impl WindowTree {
    fn describe(&self, node: &NodeRef<'_>) -> TreeNode {
        let mut element = TreeNode::new(&format!("{:?}", node.role())).id(node.locate().0.0);
        if let Some(ElementBounds { x, y, width, height }) = self.bounds(node) {
            element = element.at(x, y, width, height);
        }
        if let Some(part) = self.seen_part(node) {
            element = element.seen(part);
        }
        let label = if is_labelled(node) { node.label() } else { None };
        let own = if node.label_comes_from_value() { node.value() } else { None };
        element = element.named(&label.or(own).unwrap_or_default());
        for (key, value) in properties(node) {
            element = element.property(key, &value);
        }
        if node.is_root() {
            let (width, height) = self.size;
            element = element.id(self.id.0).at(0.0, 0.0, width, height);
            if !self.title.is_empty() {
                element = element.named(&self.title);
            }
        }
        if node.is_hidden() { element.hidden() } else { element }
    }
}

/// Further facts about an element, as far as they are known.
fn properties(node: &NodeRef<'_>) -> Vec<(&'static str, String)> {
    let mut known = Vec::new();
    let mut add = |key, value: Option<String>| known.extend(value.map(|value| (key, value)));
    let is_secret = node.is_password_input();
    add("value", node.value().filter(|_| !is_secret && !node.label_comes_from_value()));
    add("number", node.numeric_value().map(|number| number.to_string()));
    add("checked", node.toggled().map(|state| toggled(state).to_owned()));
    add("selected", node.is_selected().map(|selected| selected.to_string()));
    add("disabled", node.is_disabled().then(|| "true".to_owned()));
    add("focused", node.is_focused().then(|| "true".to_owned()));
    add("automationId", node.author_id().map(str::to_owned));
    add("placeholder", node.placeholder().filter(|text| !text.is_empty()).map(str::to_owned));
    add("description", node.description());
    known
}

fn toggled(state: Toggled) -> &'static str {
    match state {
        Toggled::True => "true",
        Toggled::False => "false",
        Toggled::Mixed => "mixed",
    }
}

#[cfg(test)]
mod tests;
