//! AccessKit trees as elements that agents can see and operate.
//!
//! Every toolkit that publishes [AccessKit](https://accesskit.dev) trees for screen readers can be driven by agents
//! in the same way. An adapter keeps one tree per window up to date ([`WindowTree::update`]) and hands all of them to
//! [`elements`].
#![warn(missing_docs)]

use accesskit::{NodeId, Role, Toggled, TreeUpdate};
use accesskit_consumer::{FullNodeId, NodeRef, Tree as ConsumerTree, TreeChangeHandler};
use toolyard_ui::{ElementId, Tree, TreeNode};

pub use accesskit;

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
}

impl std::fmt::Debug for WindowTree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WindowTree").field("id", &self.id).field("title", &self.title).finish_non_exhaustive()
    }
}

impl WindowTree {
    /// The tree of a window from its first update, which must be complete. `id` is what the adapter calls the window.
    pub fn new(id: u64, update: TreeUpdate) -> Self {
        let tree = ConsumerTree::new(update.clone(), true);
        Self { id: ElementId(id), title: String::new(), size: (0.0, 0.0), scale: 1.0, tree, last: update }
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

    /// Applies an update. Returns whether anything is different from before.
    pub fn update(&mut self, update: TreeUpdate) -> bool {
        let is_new = update != self.last;
        if is_new {
            self.last = update.clone();
            self.tree.update_and_process_changes(update, &mut Ignore);
        }
        is_new
    }

    /// What the adapter calls the window.
    pub fn id(&self) -> ElementId {
        self.id
    }

    /// Whether an element with this id is in the window.
    pub fn has(&self, element: ElementId) -> bool {
        let mut waiting = vec![self.tree.state().root()];
        while let Some(node) = waiting.pop() {
            if node.locate().0 == NodeId(element.0) {
                return true;
            }
            waiting.extend(node.children());
        }
        false
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

/// What is directly inside an element, as an agent sees it.
fn shown_children(node: &NodeRef<'_>) -> Vec<FullNodeId> {
    let mut shown = Vec::new();
    let mut waiting: Vec<NodeRef<'_>> = node.children().rev().collect();
    while let Some(child) = waiting.pop() {
        match child.role() {
            // The lines of a text, which its element already has as its value.
            Role::TextRun => {}
            Role::GenericContainer | Role::Unknown if !child.has_label() && child.author_id().is_none() => {
                waiting.extend(child.children().rev());
            }
            _ => shown.push(child.id()),
        }
    }
    shown
}

impl WindowTree {
    fn describe(&self, node: &NodeRef<'_>) -> TreeNode {
        let mut element = TreeNode::new(&format!("{:?}", node.role())).id(node.locate().0.0);
        if let Some(bounds) = node.bounding_box() {
            let [x, y] = [bounds.x0, bounds.y0].map(|edge| edge / self.scale);
            element = element.at(x, y, bounds.width() / self.scale, bounds.height() / self.scale);
        }
        let own = if node.label_comes_from_value() { node.value() } else { None };
        element = element.named(&node.label().or(own).unwrap_or_default());
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
mod tests {
    use accesskit::{Affine, Node, Rect, TreeId, TreeInfo, Vec2};

    use super::*;

    fn node(role: Role, bounds: Option<Rect>, children: &[u64]) -> Node {
        let mut node = Node::new(role);
        if let Some(bounds) = bounds {
            node.set_bounds(bounds);
        }
        node.set_children(children.iter().copied().map(NodeId).collect::<Vec<_>>());
        node
    }

    fn update(nodes: Vec<(u64, Node)>, focus: u64) -> TreeUpdate {
        let nodes = nodes.into_iter().map(|(id, node)| (NodeId(id), node)).collect();
        let tree = Some(TreeInfo::new(NodeId(1)));
        TreeUpdate { nodes, tree, tree_id: TreeId::ROOT, focus: NodeId(focus) }
    }

    /// A window at twice the scale, with a scrolled list that has a check box, a field and something hidden.
    fn window(id: u64) -> WindowTree {
        let mut root = node(Role::Window, Some(Rect::new(0.0, 0.0, 400.0, 300.0)), &[2]);
        root.set_transform(Affine::scale(2.0));
        let mut moved = node(Role::GenericContainer, None, &[3, 4, 5]);
        moved.set_transform(Affine::translate(Vec2::new(10.0, -20.0)));
        let mut check = node(Role::CheckBox, Some(Rect::new(0.0, 50.0, 80.0, 70.0)), &[]);
        check.set_label("Urgent");
        check.set_toggled(Toggled::True);
        check.set_author_id("urgent");
        let mut field = node(Role::TextInput, Some(Rect::new(0.0, 80.0, 80.0, 100.0)), &[]);
        field.set_value("Milk");
        let mut hidden = node(Role::Button, Some(Rect::new(0.0, 110.0, 80.0, 130.0)), &[]);
        hidden.set_label("Secret");
        hidden.set_hidden();
        let nodes = vec![(1, root), (2, moved), (3, check), (4, field), (5, hidden)];
        let mut window = WindowTree::new(id, update(nodes, 4));
        window.frame("Notes", (400.0, 300.0), 2.0);
        window
    }

    #[test]
    fn bounds_are_logical_pixels_of_the_window_through_transforms_and_scale() {
        let tree = elements([&window(70)]);
        let check = tree.by_name("urgent", None).next().unwrap();
        let bounds = tree.info(check).bounds;
        assert_eq!((bounds.x, bounds.y, bounds.width, bounds.height), (10.0, 30.0, 80.0, 20.0));
        assert_eq!(
            tree.info(check).path,
            "Window[0]/CheckBox[0]",
            "the container without a label is left out"
        );
    }

    #[test]
    fn properties_are_what_a_user_sees() {
        let tree = elements([&window(70)]);
        let properties = |name: &str| tree.info(tree.by_name(name, None).next().unwrap()).properties.clone();
        assert_eq!(properties("urgent")["checked"], "true");
        assert_eq!(properties("urgent")["automationId"], "urgent");
        assert_eq!(properties("TextInput")["value"], "Milk");
        assert_eq!(properties("TextInput")["focused"], "true");
        let hidden = tree.by_name("Secret", None).next().unwrap();
        assert!(!tree.is_visible(hidden));
    }

    #[test]
    fn several_windows_keep_their_own_ids() {
        let (first, second) = (window(70), window(71));
        let tree = elements([&first, &second]);
        let windows: Vec<_> =
            tree.windows().map(|window| (tree.id(window).0, tree.info(window).path.clone())).collect();
        assert_eq!(windows, [(70, "Window[0]".to_owned()), (71, "Window[1]".to_owned())]);
        assert!(first.has(ElementId(4)) && !first.has(ElementId(99)));
    }

    #[test]
    fn the_value_of_a_password_is_not_shown() {
        let root = node(Role::Window, None, &[2]);
        let mut field = node(Role::PasswordInput, Some(Rect::new(0.0, 0.0, 10.0, 10.0)), &[]);
        field.set_value("hunter2");
        let window = WindowTree::new(1, update(vec![(1, root), (2, field)], 1));
        assert!(!format!("{:?}", elements([&window])).contains("hunter2"));
    }

    #[test]
    fn an_update_without_a_change_is_none() {
        let mut window = window(70);
        let same = window.last.clone();
        assert!(!window.update(same) && !window.frame("Notes", (400.0, 300.0), 2.0));
        assert!(window.frame("Notes *", (400.0, 300.0), 2.0));
    }
}
