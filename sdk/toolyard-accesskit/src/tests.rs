//! Trees as agents see them, and updates that are rejected.

use accesskit::{Affine, Node, Rect, TreeInfo, Uuid, Vec2};
use proptest::prelude::*;

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
    let mut window = WindowTree::new(id, update(nodes, 4)).unwrap();
    window.frame("Notes", (400.0, 300.0), 2.0);
    window
}

#[test]
fn bounds_are_logical_pixels_of_the_window_through_transforms_and_scale() {
    let tree = elements([&window(70)]);
    let check = tree.by_name("urgent", None).next().unwrap();
    let bounds = tree.info(check).bounds;
    assert_eq!((bounds.x, bounds.y, bounds.width, bounds.height), (10.0, 30.0, 80.0, 20.0));
    assert_eq!(tree.info(check).path, "Window[0]/CheckBox[0]", "the container without a label is left out");
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
fn an_element_that_clips_shows_only_the_part_of_its_children_inside_it() {
    let root = node(Role::Window, Some(Rect::new(0.0, 0.0, 100.0, 100.0)), &[2]);
    let mut list = node(Role::List, Some(Rect::new(0.0, 10.0, 100.0, 40.0)), &[3, 4]);
    list.set_clips_children();
    let row = |label: &str, top: f64| {
        let mut row = node(Role::ListItem, Some(Rect::new(0.0, top, 100.0, top + 20.0)), &[]);
        row.set_label(label);
        row
    };
    let nodes = vec![(1, root), (2, list), (3, row("cut", 30.0)), (4, row("below", 50.0))];
    let mut window = WindowTree::new(1, update(nodes, 1)).unwrap();
    window.frame("Notes", (100.0, 100.0), 1.0);
    let tree = elements([&window]);
    let find = |name: &str| tree.by_name(name, None).next().unwrap();
    assert_eq!(tree.info(find("cut")).bounds, ElementBounds::new(0.0, 30.0, 100.0, 10.0));
    assert!(!tree.is_in_view(find("below")) && tree.is_visible(find("below")));
}

#[test]
fn the_value_of_a_password_is_not_shown() {
    let root = node(Role::Window, None, &[2]);
    let mut field = node(Role::PasswordInput, Some(Rect::new(0.0, 0.0, 10.0, 10.0)), &[]);
    field.set_value("hunter2");
    let window = WindowTree::new(1, update(vec![(1, root), (2, field)], 1)).unwrap();
    assert!(!format!("{:?}", elements([&window])).contains("hunter2"));
}

#[test]
fn an_update_without_a_change_is_none() {
    let mut window = window(70);
    let same = window.last.clone();
    assert!(window.update(same) == Ok(false) && !window.frame("Notes", (400.0, 300.0), 2.0));
    assert!(window.frame("Notes *", (400.0, 300.0), 2.0));
}

/// Ids of elements, with those of their children.
type Ids<'a> = &'a [(u64, &'a [u64])];

/// An update with nodes of one role, without bounds, and without a new root.
fn changes(role: Role, nodes: Ids<'_>) -> TreeUpdate {
    let nodes = nodes.iter().map(|(id, children)| (*id, node(role, None, children)));
    TreeUpdate { tree: None, ..update(nodes.collect(), 1) }
}

fn first(role: Role, nodes: Ids<'_>) -> TreeUpdate {
    TreeUpdate { tree: Some(TreeInfo::new(NodeId(1))), ..changes(role, nodes) }
}

/// Both kinds of containers: those that agents see, and those that are left out.
const ROLES: [Role; 2] = [Role::List, Role::GenericContainer];

#[test]
fn a_first_update_with_an_element_inside_itself_is_rejected() {
    for role in ROLES {
        let cycle = first(role, &[(1, &[2]), (2, &[3]), (3, &[2])]);
        assert_eq!(WindowTree::new(1, cycle).unwrap_err(), InvalidUpdate::TwoParents(NodeId(2)));
    }
}

#[test]
fn an_update_that_puts_an_element_inside_itself_is_rejected_and_the_tree_stays() {
    for role in ROLES {
        let mut window = WindowTree::new(1, first(role, &[(1, &[2]), (2, &[3]), (3, &[])])).unwrap();
        let before = format!("{:?}", elements([&window]));
        for cycle in [&[(3, &[2_u64][..])][..], &[(3, &[3])], &[(3, &[1])], &[(2, &[3]), (3, &[2])]] {
            assert!(matches!(window.update(changes(role, cycle)), Err(InvalidUpdate::TwoParents(_))));
            assert!(window.has(ElementId(3)) && !window.has(ElementId(99)));
            assert_eq!(format!("{:?}", elements([&window])), before);
        }
        assert_eq!(window.update(changes(role, &[(3, &[4]), (4, &[])])), Ok(true));
        assert!(window.has(ElementId(4)), "the next valid update is applied");
    }
}

#[test]
fn an_update_that_is_incomplete_or_ambiguous_is_rejected_with_its_reason() {
    let role = Role::List;
    let mut window = WindowTree::new(1, first(role, &[(1, &[2, 3]), (2, &[]), (3, &[])])).unwrap();
    let cases: [(Ids<'_>, _); 5] = [
        (&[(2, &[4]), (3, &[4]), (4, &[])], InvalidUpdate::TwoParents(NodeId(4))),
        (&[(2, &[3])], InvalidUpdate::TwoParents(NodeId(3))),
        (&[(2, &[9])], InvalidUpdate::Missing(NodeId(9))),
        (&[(2, &[]), (9, &[])], InvalidUpdate::Detached(NodeId(9))),
        (&[(2, &[]), (2, &[])], InvalidUpdate::Twice(NodeId(2))),
    ];
    for (nodes, reason) in cases {
        assert_eq!(window.update(changes(role, nodes)), Err(reason));
    }
    let focus = TreeUpdate { focus: NodeId(9), ..changes(role, &[(2, &[])]) };
    assert_eq!(window.update(focus), Err(InvalidUpdate::Missing(NodeId(9))));
    assert_eq!(window.update(changes(role, &[(1, &[3]), (3, &[2])])), Ok(true), "a moved element is valid");
    assert_eq!(WindowTree::new(1, changes(role, &[(1, &[])])).unwrap_err(), InvalidUpdate::NoRoot);
}

#[test]
fn a_label_that_is_gone_and_an_embedded_tree_are_left_out() {
    let mut field = node(Role::TextInput, None, &[]);
    field.set_labelled_by([NodeId(9)]);
    let mut embedding = node(Role::WebView, None, &[]);
    embedding.set_tree_id(TreeId(Uuid::from_u128(1)));
    let root = node(Role::Window, None, &[2, 3]);
    let mut window = WindowTree::new(1, update(vec![(1, root), (2, field), (3, embedding)], 3)).unwrap();
    let tree = elements([&window]);
    assert_eq!(tree.info(tree.by_name("TextInput", None).next().unwrap()).name, None);
    assert_eq!(tree.len(), 3);
    let mut embedded = first(Role::Window, &[(1, &[7]), (7, &[])]);
    embedded.tree_id = TreeId(Uuid::from_u128(1));
    assert_eq!(window.update(embedded.clone()), Ok(false));
    assert_eq!(WindowTree::new(1, embedded).unwrap_err(), InvalidUpdate::NoRoot);
}

proptest! {
    /// Updates of few elements, most of which are invalid: none panics or makes a tree whose walks are endless.
    #[test]
    fn no_sequence_of_updates_panics_or_makes_an_endless_tree(
        updates in prop::collection::vec(
            (
                prop::collection::vec((1..6_u64, prop::collection::vec(1..6_u64, 0..3)), 1..4),
                prop::option::of(1..6_u64),
                1..6_u64,
                any::<bool>(),
            ),
            1..40,
        ),
    ) {
        let whole = first(Role::List, &[(1, &[2]), (2, &[3]), (3, &[4, 5]), (4, &[]), (5, &[])]);
        let mut window = WindowTree::new(1, whole).unwrap();
        for (nodes, root, focus, is_seen) in updates {
            let role = if is_seen { Role::Button } else { Role::GenericContainer };
            let nodes = nodes.iter().map(|(id, children)| (*id, node(role, None, children)));
            let tree = root.map(|root| TreeInfo::new(NodeId(root)));
            let update = TreeUpdate { tree, ..update(nodes.collect(), focus) };
            let _ = WindowTree::new(2, update.clone());
            let _ = window.update(update);
            let tree = elements([&window]);
            prop_assert!(tree.len() <= 5);
            let circles = (0..tree.len()).filter(|&at| tree.info(at).kind == "CircularReference");
            prop_assert_eq!(circles.count(), 0);
        }
    }
}
