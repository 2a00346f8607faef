//! The elements of an app at one moment, and how they are found.

use std::collections::{BTreeMap, HashMap};

use crate::path::to_type_name;
use crate::{ElementBounds, ElementInfo, ElementPath};

/// How many elements a tree holds; further ones are left out, and [`Tree::is_cut`] is true.
const MOST_ELEMENTS: usize = 20_000;
/// How deep a tree goes. JSON readers refuse deeper nesting.
const DEEPEST: usize = 50;
/// How many characters of a name, type or property are kept.
const LONGEST_TEXT: usize = 1_000;

/// A toolkit's id of an element. Valid as long as the element exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ElementId(pub u64);

/// An element on its way into a [`Tree`].
#[derive(Clone, Debug, Default)]
pub struct TreeNode {
    id: Option<ElementId>,
    kind: String,
    name: Option<String>,
    bounds: ElementBounds,
    seen: Option<ElementBounds>,
    is_hidden: bool,
    properties: BTreeMap<String, String>,
    children: Vec<TreeNode>,
}

impl TreeNode {
    /// An element of this type. Letters that a path could not express are left out of it.
    pub fn new(kind: &str) -> Self {
        Self { kind: to_type_name(kind), ..Self::default() }
    }

    /// Sets the toolkit's id of the element.
    #[must_use]
    pub fn id(mut self, id: u64) -> Self {
        self.id = Some(ElementId(id));
        self
    }

    /// Its label or title.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.name = (!name.is_empty()).then(|| shortened(name));
        self
    }

    /// Sets the position and size of the element, in logical pixels of its window.
    #[must_use]
    pub fn at(mut self, x: f64, y: f64, width: f64, height: f64) -> Self {
        self.bounds = ElementBounds::new(x, y, width, height);
        self
    }

    /// The part of it that can be seen, if the elements around it show only a part, as a scrolled list does. The part
    /// outside of the window never counts.
    #[must_use]
    pub fn seen(mut self, part: ElementBounds) -> Self {
        self.seen = Some(part);
        self
    }

    /// A further fact.
    #[must_use]
    pub fn property(mut self, key: &str, value: &str) -> Self {
        self.properties.insert(key.to_owned(), shortened(value));
        self
    }

    /// Neither it nor what is inside can be seen.
    #[must_use]
    pub fn hidden(self) -> Self {
        let mut hidden = self.property("hidden", "true");
        hidden.is_hidden = true;
        hidden
    }

    /// An element inside it.
    #[must_use]
    pub fn with(mut self, child: Self) -> Self {
        self.children.push(child);
        self
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(LONGEST_TEXT).collect()
}

/// The elements of all windows at one moment, parents before children.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    elements: Vec<Element>,
    is_cut: bool,
}

#[derive(Clone, Debug)]
struct Element {
    id: ElementId,
    /// Without its children.
    info: ElementInfo,
    parent: Option<usize>,
    depth: usize,
    /// The index at which the elements inside it end.
    end: usize,
    is_hidden: bool,
    /// Whether the toolkit gave its bounds.
    has_bounds: bool,
    is_out_of_view: bool,
    /// The bounds of what is inside it and out of view.
    beyond: ElementBounds,
}

impl Element {
    fn set_out_of_view(&mut self, bounds: ElementBounds) {
        self.is_out_of_view = true;
        self.info.bounds = bounds;
        self.info.properties.insert("outOfView".to_owned(), "true".to_owned());
    }
}

impl Tree {
    /// A tree from nested elements: the windows of the app.
    pub fn from_windows(windows: Vec<TreeNode>) -> Self {
        let mut next = 0;
        Self::build(windows, |mut node| {
            next += 1;
            let children = std::mem::take(&mut node.children);
            node.id = node.id.or(Some(ElementId(next)));
            Some((next, node, children))
        })
    }

    /// A tree from a table: the windows, and what there is to know about an element, with the elements inside it. An
    /// element inside itself becomes one of the type `CircularReference`.
    pub fn from_keys<K: Copy + PartialEq>(
        windows: Vec<K>,
        mut look_up: impl FnMut(K) -> Option<(TreeNode, Vec<K>)>,
    ) -> Self {
        Self::build(windows, |key| look_up(key).map(|(node, children)| (key, node, children)))
    }

    fn build<N, K: PartialEq>(
        windows: Vec<N>,
        mut open: impl FnMut(N) -> Option<(K, TreeNode, Vec<N>)>,
    ) -> Self {
        let mut tree = Self::default();
        let mut keys: Vec<K> = Vec::new();
        let mut counts = HashMap::new();
        let mut waiting: Vec<_> = windows.into_iter().rev().map(|window| (window, None)).collect();
        while let Some((next, parent)) = waiting.pop() {
            if tree.elements.len() == MOST_ELEMENTS {
                tree.is_cut = true;
                break;
            }
            let Some((key, node, children)) = open(next) else { continue };
            let is_circle = tree.ancestors(parent).any(|ancestor| keys[ancestor] == key);
            let node = if is_circle { TreeNode::new("CircularReference") } else { node };
            let position = tree.push(node, parent, &mut counts);
            keys.push(key);
            if is_circle {
                continue;
            }
            if tree.elements[position].depth + 1 < DEEPEST {
                waiting.extend(children.into_iter().rev().map(|child| (child, Some(position))));
            } else {
                tree.is_cut |= !children.is_empty();
            }
        }
        tree.find_ends();
        tree
    }

    fn push(
        &mut self,
        node: TreeNode,
        parent: Option<usize>,
        counts: &mut HashMap<(Option<usize>, String), usize>,
    ) -> usize {
        let count = counts.entry((parent, node.kind.clone())).or_default();
        let id = node.id.unwrap_or_default();
        let index = *count;
        *count += 1;
        let above = parent.map(|parent| &self.elements[parent]);
        let segment = format!("{}[{index}]", node.kind);
        let path = above.map_or_else(|| segment.clone(), |above| format!("{}/{segment}", above.info.path));
        let info = ElementInfo {
            kind: node.kind,
            name: node.name,
            index,
            bounds: node.bounds,
            path,
            properties: node.properties,
            children: Vec::new(),
        };
        let is_hidden = node.is_hidden || above.is_some_and(|above| above.is_hidden);
        let depth = above.map_or(0, |above| above.depth + 1);
        let has_bounds = !info.bounds.is_empty();
        let seen = self.seen_part(parent, info.bounds, node.seen);
        let beyond = ElementBounds::default();
        let (end, is_out_of_view) = (0, false);
        let mut element =
            Element { id, info, parent, depth, end, is_hidden, has_bounds, is_out_of_view, beyond };
        if has_bounds && seen.is_empty() {
            element.set_out_of_view(element.info.bounds);
        } else if has_bounds {
            element.info.bounds = seen;
        }
        self.elements.push(element);
        self.elements.len() - 1
    }

    /// The visible part of an element with these bounds: the given part, cut to the window.
    fn seen_part(
        &self,
        parent: Option<usize>,
        bounds: ElementBounds,
        part: Option<ElementBounds>,
    ) -> ElementBounds {
        let seen = part.map_or(bounds, |part| part.intersection(&bounds));
        let window = parent.map(|parent| &self.elements[self.window_of(parent)].info.bounds);
        window.filter(|window| !window.is_empty()).map_or(seen, |window| seen.intersection(window))
    }

    /// Finds where each element ends; an element without bounds has those of what is inside it and in view.
    fn find_ends(&mut self) {
        for position in (0..self.elements.len()).rev() {
            let end = self.elements[position].end.max(position + 1);
            self.elements[position].end = end;
            let beyond = self.elements[position].beyond;
            if self.elements[position].info.bounds.is_empty() && !beyond.is_empty() {
                self.elements[position].set_out_of_view(beyond);
            }
            let bounds = self.elements[position].info.bounds;
            let is_out_of_view = self.elements[position].is_out_of_view;
            if let Some(parent) = self.elements[position].parent {
                let parent = &mut self.elements[parent];
                parent.end = parent.end.max(end);
                if !parent.has_bounds && is_out_of_view {
                    parent.beyond = parent.beyond.union(&bounds);
                } else if !parent.has_bounds {
                    parent.info.bounds = parent.info.bounds.union(&bounds);
                }
            }
        }
    }

    /// The position itself, its parent, and so on up to the window.
    fn ancestors(&self, from: Option<usize>) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(from, |&position| self.elements[position].parent)
    }

    /// How many elements there are.
    pub fn len(&self) -> usize {
        self.elements.len()
    }

    /// Whether the app has no window.
    pub fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }

    /// Whether elements were left out because there are too many, or because they are too deep.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// The windows.
    pub fn windows(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.elements.len()).filter(|&position| self.elements[position].parent.is_none())
    }

    /// The window that an element is in.
    pub fn window_of(&self, position: usize) -> usize {
        self.ancestors(Some(position)).last().unwrap_or(position)
    }

    /// Whether an element inside a window has the focus.
    pub fn has_focus(&self, window: usize) -> bool {
        let is_focused =
            |element: &Element| element.info.properties.get("focused").is_some_and(|is| is == "true");
        self.elements[window + 1..self.elements[window].end].iter().any(is_focused)
    }

    /// The toolkit's id of an element.
    pub fn id(&self, position: usize) -> ElementId {
        self.elements[position].id
    }

    /// The properties of an element, without its children.
    pub fn info(&self, position: usize) -> &ElementInfo {
        &self.elements[position].info
    }

    /// Whether neither the element nor one around it is hidden.
    pub fn is_visible(&self, position: usize) -> bool {
        !self.elements[position].is_hidden
    }

    /// Whether at least a part of the element is in its window, and not scrolled out of view.
    pub fn is_in_view(&self, position: usize) -> bool {
        !self.elements[position].is_out_of_view
    }

    /// An element with what is inside it, down to a depth: 1 is the element alone.
    pub fn nested(&self, position: usize, depth: usize, include_hidden: bool) -> ElementInfo {
        let mut info = self.elements[position].info.clone();
        if depth > 1 {
            let children = self.children(position).filter(|&child| include_hidden || self.is_visible(child));
            info.children = children.map(|child| self.nested(child, depth - 1, include_hidden)).collect();
        }
        info
    }

    fn children(&self, position: usize) -> impl Iterator<Item = usize> + '_ {
        let end = self.elements[position].end;
        let first = (position + 1 < end).then_some(position + 1);
        std::iter::successors(first, move |&child| Some(self.elements[child].end).filter(|&next| next < end))
    }

    /// The element at a path.
    pub fn by_path(&self, path: &ElementPath) -> Option<usize> {
        let (first, rest) = path.segments().split_first()?;
        let is_at = |position: &usize, segment: &crate::PathSegment| {
            let info = &self.elements[*position].info;
            info.kind == segment.kind && info.index == segment.index
        };
        let window = self.windows().find(|window| is_at(window, first))?;
        rest.iter().try_fold(window, |at, segment| self.children(at).find(|child| is_at(child, segment)))
    }

    /// All elements with this name, `automationId` or type, whatever its case, parents first.
    pub fn by_name<'t>(&'t self, name: &'t str, kind: Option<&'t str>) -> impl Iterator<Item = usize> + 't {
        let is_same = |text: &str| text.to_lowercase() == name.to_lowercase();
        let is_match = move |info: &ElementInfo| {
            let id = info.properties.get("automationId");
            info.name.as_deref().is_some_and(is_same)
                || id.is_some_and(|id| is_same(id))
                || is_same(&info.kind)
        };
        let is_kind = move |info: &ElementInfo| kind.is_none_or(|kind| info.kind.eq_ignore_ascii_case(kind));
        (0..self.elements.len()).filter(move |&position| {
            let info = &self.elements[position].info;
            is_kind(info) && is_match(info)
        })
    }

    /// The innermost visible element of the first window at a point.
    pub fn at(&self, x: f64, y: f64) -> Option<usize> {
        self.windows().next().and_then(|window| self.at_in(window, x, y))
    }

    /// The innermost visible element of a window at a point. Of two that overlap, the later one is on top.
    pub fn at_in(&self, window: usize, x: f64, y: f64) -> Option<usize> {
        let inside = window..self.elements.get(window)?.end;
        inside.rev().find(|&position| {
            let bounds = &self.elements[position].info.bounds;
            self.is_visible(position) && self.is_in_view(position) && bounds.contains(x, y)
        })
    }

    /// Whether one element is the other or inside it.
    pub fn is_within(&self, inner: usize, outer: usize) -> bool {
        (outer..self.elements[outer].end).contains(&inner)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_index_counts_siblings_of_the_same_type() {
        let window = TreeNode::new("Window")
            .with(TreeNode::new("Button"))
            .with(TreeNode::new("Label"))
            .with(TreeNode::new("Button").with(TreeNode::new("Button")));
        let tree = Tree::from_windows(vec![window, TreeNode::new("Window")]);
        let paths: Vec<_> = (0..tree.len()).map(|position| tree.info(position).path.clone()).collect();
        let expected = [
            "Window[0]",
            "Window[0]/Button[0]",
            "Window[0]/Label[0]",
            "Window[0]/Button[1]",
            "Window[0]/Button[1]/Button[0]",
            "Window[1]",
        ];
        assert_eq!(paths, expected);
    }

    #[test]
    fn an_element_inside_itself_ends_the_branch() {
        let tree = Tree::from_keys(vec![1], |key| {
            let children = if key == 1 { vec![2, 9] } else { vec![1] };
            (key < 9).then(|| (TreeNode::new("Group"), children))
        });
        let kinds: Vec<_> = (0..tree.len()).map(|position| tree.info(position).kind.as_str()).collect();
        assert_eq!(kinds, ["Group", "Group", "CircularReference"]);
    }

    #[test]
    fn a_tree_without_end_is_cut() {
        let deep = Tree::from_keys(vec![0], |key| Some((TreeNode::new("A"), vec![key + 1])));
        assert_eq!((deep.len(), deep.is_cut()), (DEEPEST, true));
        let wide = Tree::from_keys(vec![0], |key| {
            let children = if key == 0 { (1..1_000_000).collect() } else { vec![] };
            Some((TreeNode::new("A"), children))
        });
        assert_eq!((wide.len(), wide.is_cut()), (MOST_ELEMENTS, true));
    }

    #[test]
    fn elements_inside_a_hidden_element_are_hidden() {
        let panel = TreeNode::new("Panel").hidden().with(TreeNode::new("Button").named("Save"));
        let tree = Tree::from_windows(vec![TreeNode::new("Window").with(panel)]);
        let save = tree.by_name("save", None).next().unwrap();
        assert!(!tree.is_visible(save));
        assert!(tree.nested(0, 10, false).children.is_empty());
        assert_eq!(tree.nested(0, 10, true).children[0].children[0].name.as_deref(), Some("Save"));
    }

    #[test]
    fn bounds_are_the_part_in_view_and_what_is_beyond_is_never_hit() {
        let list = ElementBounds::new(0.0, 20.0, 100.0, 50.0);
        let row = |name: &str, top: f64| {
            TreeNode::new("Row")
                .named(name)
                .at(0.0, top, 100.0, 20.0)
                .seen(ElementBounds::new(0.0, top, 100.0, 20.0).intersection(&list))
        };
        let rows =
            TreeNode::new("List").with(row("above", -20.0)).with(row("cut", 10.0)).with(row("whole", 30.0));
        let beyond = TreeNode::new("Group").with(row("below", 90.0));
        let outside = TreeNode::new("Button").named("outside").at(150.0, 0.0, 300.0, 10.0);
        let window = TreeNode::new("Window").at(0.0, 0.0, 200.0, 100.0).with(rows).with(beyond).with(outside);
        let tree = Tree::from_windows(vec![window]);
        let find = |name: &str| tree.by_name(name, None).next().unwrap();
        for (name, is_in_view) in
            [("above", false), ("cut", true), ("whole", true), ("below", false), ("group", false)]
        {
            let found = find(name);
            assert_eq!(tree.is_in_view(found), is_in_view, "{name}");
            assert_eq!(tree.info(found).properties.contains_key("outOfView"), !is_in_view, "{name}");
            let (x, y) = tree.info(found).bounds.center();
            let hit = tree.at(x, y).is_some_and(|hit| tree.is_within(hit, found));
            assert_eq!(hit, is_in_view, "{name}");
        }
        assert_eq!(tree.info(find("cut")).bounds, ElementBounds::new(0.0, 20.0, 100.0, 10.0));
        assert_eq!(tree.info(find("outside")).bounds, ElementBounds::new(150.0, 0.0, 50.0, 10.0));
        assert_eq!(tree.info(find("list")).bounds, ElementBounds::new(0.0, 20.0, 100.0, 30.0));
    }

    #[test]
    fn a_name_an_automation_id_and_a_type_find_an_element() {
        let save = TreeNode::new("Button").named("Save").property("automationId", "save-button");
        let tree = Tree::from_windows(vec![TreeNode::new("Window").with(save)]);
        for selector in ["SAVE", "Save-Button", "button"] {
            assert_eq!(tree.by_name(selector, None).next(), Some(1), "{selector}");
        }
        assert_eq!(tree.by_name("save", Some("Label")).next(), None);
    }

    /// Elements that lie side by side within their parent, as a layout makes them.
    fn laid_out(widths: &[Vec<u8>]) -> Tree {
        let mut window = TreeNode::new("Window").at(0.0, 0.0, 10_000.0, 10_000.0);
        for (row, widths) in (0u32..).zip(widths) {
            let top = f64::from(row) * 20.0;
            let mut panel = TreeNode::new("Panel").at(0.0, top, 10_000.0, 20.0);
            let mut left = 0.0;
            for width in widths {
                let width = f64::from(*width) + 1.0;
                panel = panel.with(TreeNode::new("Button").at(left, top, width, 20.0));
                left += width;
            }
            window = window.with(panel);
        }
        Tree::from_windows(vec![window])
    }

    proptest! {
        #[test]
        fn the_centre_of_an_element_hits_it_and_its_path_finds_it(
            widths in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..8), 0..8)
        ) {
            let tree = laid_out(&widths);
            for position in 0..tree.len() {
                let info = tree.info(position);
                let path: ElementPath = info.path.parse().unwrap();
                prop_assert_eq!(tree.by_path(&path), Some(position));
                let (x, y) = info.bounds.center();
                let hit = tree.at(x, y).unwrap();
                prop_assert!(tree.is_within(hit, position));
            }
        }
    }
}
