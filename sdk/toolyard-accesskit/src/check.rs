//! Checks an update before it reaches AccessKit's consumer.
//!
//! The consumer panics on some invalid updates, on the thread that draws the app. It accepts others that put an
//! element inside itself, and then every walk over the tree is endless. So an update is accepted only if each element
//! of the tree that it results in is below exactly one other.

use std::collections::{HashMap, HashSet};
use std::fmt::{self, Display, Formatter};

use accesskit::{Node, NodeId, TreeId, TreeUpdate};
use accesskit_consumer::TreeState;

/// Why an update was rejected. The tree is as it was before.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidUpdate {
    /// The first update has no root, or belongs to a tree inside another one.
    NoRoot,
    /// The update has two versions of an element.
    Twice(NodeId),
    /// An element is below two others, twice below one, or inside itself.
    TwoParents(NodeId),
    /// The tree refers to an element that does not exist.
    Missing(NodeId),
    /// The update has an element that is not in the tree.
    Detached(NodeId),
}

impl Display for InvalidUpdate {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRoot => f.write_str("the first update of the window has no root"),
            Self::Twice(node) => write!(f, "the update has two versions of element {}", node.0),
            Self::TwoParents(node) => write!(f, "element {} is below two others or inside itself", node.0),
            Self::Missing(node) => write!(f, "element {} does not exist", node.0),
            Self::Detached(node) => write!(f, "element {} is not in the tree", node.0),
        }
    }
}

impl std::error::Error for InvalidUpdate {}

/// Checks the tree that results from applying `update` to `known`, whose root stays.
pub(crate) fn check(known: Option<&TreeState>, update: &TreeUpdate) -> Result<(), InvalidUpdate> {
    let known_root = known.map(|known| known.root().locate().0);
    let root = update.tree.as_ref().map(|tree| tree.root).or(known_root).ok_or(InvalidUpdate::NoRoot)?;
    let mut updated: HashMap<NodeId, &Node> = HashMap::with_capacity(update.nodes.len());
    for (id, node) in &update.nodes {
        if updated.insert(*id, node).is_some() {
            return Err(InvalidUpdate::Twice(*id));
        }
    }
    let look_up = |id: NodeId| {
        let existing = || known.and_then(|known| known.node_by_tree_local_id(id, TreeId::ROOT));
        updated.get(&id).copied().or_else(|| existing().map(|node| node.data()))
    };
    let reached = reach(root, look_up)?;
    if !reached.contains(&update.focus) {
        return Err(InvalidUpdate::Missing(update.focus));
    }
    match update.nodes.iter().find(|(id, _)| !reached.contains(id)) {
        Some((id, _)) => Err(InvalidUpdate::Detached(*id)),
        None => Ok(()),
    }
}

/// All elements of a tree.
fn reach<'a>(
    root: NodeId,
    look_up: impl Fn(NodeId) -> Option<&'a Node>,
) -> Result<HashSet<NodeId>, InvalidUpdate> {
    let mut reached = HashSet::new();
    let mut waiting = vec![root];
    while let Some(id) = waiting.pop() {
        if !reached.insert(id) {
            return Err(InvalidUpdate::TwoParents(id));
        }
        let node = look_up(id).ok_or(InvalidUpdate::Missing(id))?;
        waiting.extend(node.children());
    }
    Ok(reached)
}
