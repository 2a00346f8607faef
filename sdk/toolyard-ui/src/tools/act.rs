//! The tools that act as a user would: click, type, set, toggle, select, scroll, press, drag.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolyard_tool::{Problems, ToolError, tool};

use super::look::require_selector;
use super::place::Place;
use super::{Operator, Selector, Stop};
use crate::{Action, ElementId, MouseButton, Tree};

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Click {
    /// How far from the left edge of the window, in logical pixels.
    x: Option<f64>,
    /// How far from its top edge.
    y: Option<f64>,
    /// The path of the window that `x` and `y` are in; the first one if it is left out.
    window: Option<String>,
    /// The path of the element to click in the middle of.
    path: Option<String>,
    /// Its name, automation id or type.
    name: Option<String>,
    /// Which button.
    #[serde(default)]
    button: MouseButton,
    /// How often; 2 is a double click.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 10))]
    count: u32,
}

fn one() -> u32 {
    1
}

pub(super) fn click_has_place(args: &Click, problems: &mut Problems) {
    require_place((args.x, args.y), args.path.as_ref(), args.name.as_ref(), problems);
    require_point(args.x, args.window.as_ref(), problems);
}

fn require_point(x: Option<f64>, window: Option<&String>, problems: &mut Problems) {
    if window.is_some() && x.is_none() {
        problems.add("window", "`window` belongs to `x` and `y`; a path begins with its window");
    }
}

fn require_place(
    (x, y): (Option<f64>, Option<f64>),
    path: Option<&String>,
    name: Option<&String>,
    problems: &mut Problems,
) {
    let ways =
        usize::from(x.is_some() || y.is_some()) + usize::from(path.is_some()) + usize::from(name.is_some());
    if x.is_some() != y.is_some() {
        problems.add("x", "Missing x or y coordinates: both are needed");
    } else if ways != 1 {
        problems.add(
            "x",
            "Missing x or y coordinates: give `x` and `y`, or `path`, or `name`, and only one of them",
        );
    }
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct ClickAnswer {
    /// Where, in logical pixels of the window.
    #[serde(skip_serializing_if = "Option::is_none")]
    x: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    y: Option<f64>,
    /// Whether there was an element to click.
    clicked: bool,
    /// Why there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// Clicks at a point of the window, or in the middle of an element, which is scrolled into view if need be.
///
/// If there is no such element, or none at the point, nothing happens and `clicked` is false.
#[tool(
    name = "ClickElement",
    check = click_has_place,
    rule = "Give `x` and `y`, or `path`, or `name`, and only one of them."
)]
pub(crate) async fn click_element(operator: &Operator, args: Click) -> Result<ClickAnswer, ToolError> {
    match click(operator, &args).await {
        Ok((x, y)) => Ok(ClickAnswer { x: Some(x), y: Some(y), clicked: true, reason: None }),
        Err(stop) => stop.answer(|reason| {
            let reason = Some(reason);
            ClickAnswer { x: args.x, y: args.y, clicked: false, reason }
        }),
    }
}

/// Returns where it has clicked.
pub(super) async fn click(operator: &Operator, args: &Click) -> Result<(f64, f64), Stop> {
    let selector = Selector::new(args.path.as_ref(), args.name.as_ref(), None);
    let (tree, place) = Place::find(operator, (args.x, args.y), args.window.as_ref(), &selector).await?;
    let click = Action::Click { window: place.window, at: place.at, button: args.button, count: args.count };
    operator.perform(click).await?;
    let path = &tree.info(place.element).path;
    operator.record("ClickElement", json!({ "path": path, "button": args.button, "count": args.count }));
    Ok(place.at)
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TypeText {
    /// What to type.
    text: String,
    /// Remove what is there first.
    #[serde(default)]
    clear_first: bool,
    /// Click here first, so that the element has the focus: how far from the left edge of the window.
    x: Option<f64>,
    /// How far from its top edge.
    y: Option<f64>,
    /// The path of the window that `x` and `y` are in; the first one if it is left out.
    window: Option<String>,
    /// Click the element at this path first.
    path: Option<String>,
}

pub(super) fn type_has_place(args: &TypeText, problems: &mut Problems) {
    if args.x.is_some() || args.y.is_some() || args.path.is_some() {
        require_place((args.x, args.y), args.path.as_ref(), None, problems);
    }
    require_point(args.x, args.window.as_ref(), problems);
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct TypeAnswer {
    /// The text of the call.
    text: String,
    /// Whether there was an element to type into.
    typed: bool,
    /// Why there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// Types text into the element that has the focus, or into the element at a place.
///
/// If several windows have one, the window of the last action counts. If there is no such element, nothing is typed
/// and `typed` is false.
#[tool(name = "TypeText", check = type_has_place, rule = "Give `x` and `y`, or `path`, or neither.")]
pub(crate) async fn type_text(operator: &Operator, args: TypeText) -> Result<TypeAnswer, ToolError> {
    let typed = type_into(operator, &args).await;
    let answer = |reason: Option<String>| TypeAnswer { text: args.text, typed: reason.is_none(), reason };
    match typed {
        Ok(()) => Ok(answer(None)),
        Err(stop) => stop.answer(|reason| answer(Some(reason))),
    }
}

pub(super) async fn type_into(operator: &Operator, args: &TypeText) -> Result<(), Stop> {
    let mut recorded = json!({ "text": args.text, "clearFirst": args.clear_first });
    if args.x.is_some() || args.path.is_some() {
        let selector = Selector::new(args.path.as_ref(), None, None);
        let (tree, place) = Place::find(operator, (args.x, args.y), args.window.as_ref(), &selector).await?;
        recorded["path"] = json!(tree.info(place.element).path);
        let click = Action::Click { window: place.window, at: place.at, button: MouseButton::Left, count: 1 };
        operator.perform(click).await?;
    }
    let tree = operator.tree().await?;
    let window = operator.keyboard_window(&tree)?;
    if !tree.has_focus(window) {
        return Err(Stop::Missing("no element has the focus".to_owned()));
    }
    let window = tree.id(window);
    let typing = Action::Type { window, text: args.text.clone(), clear_first: args.clear_first };
    operator.perform(typing).await?;
    operator.record("TypeText", recorded);
    Ok(())
}

/// The answer of a tool that has nothing else to report.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Acted {
    /// Whether it was done.
    done: bool,
    /// Why not: the element does not exist, or is hidden.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl Acted {
    fn answer(acted: Result<(), Stop>) -> Result<Self, ToolError> {
        match acted {
            Ok(()) => Ok(Self { done: true, reason: None }),
            Err(stop) => stop.answer(|reason| Self { done: false, reason: Some(reason) }),
        }
    }
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct SetValue {
    /// The path of the field, slider or list.
    path: Option<String>,
    /// Its name, automation id or type.
    name: Option<String>,
    /// The new value, in words or digits.
    value: String,
}

pub(super) fn set_has_selector(args: &SetValue, problems: &mut Problems) {
    require_selector(args.path.as_ref(), args.name.as_ref(), problems);
}

/// Sets the value of a field, slider or list without typing.
#[tool(name = "SetValue", check = set_has_selector, rule = "Give either `path` or `name`.")]
pub(crate) async fn set_value(operator: &Operator, args: SetValue) -> Result<Acted, ToolError> {
    Acted::answer(set(operator, &args).await)
}

pub(super) async fn set(operator: &Operator, args: &SetValue) -> Result<(), Stop> {
    let tree = operator.tree().await?;
    let element = Selector::new(args.path.as_ref(), args.name.as_ref(), None).require(&tree)?;
    let window = tree.id(tree.window_of(element));
    let value = args.value.clone();
    operator.perform(Action::SetValue { window, element: tree.id(element), value }).await?;
    operator.record("SetValue", json!({ "path": tree.info(element).path, "value": args.value }));
    Ok(())
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Toggle {
    /// The path of the check box or switch.
    path: Option<String>,
    /// Its name, automation id or type.
    name: Option<String>,
    /// The state it should have afterwards; without it, the other one.
    on: Option<bool>,
}

pub(super) fn toggle_has_selector(args: &Toggle, problems: &mut Problems) {
    require_selector(args.path.as_ref(), args.name.as_ref(), problems);
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct ToggleAnswer {
    /// Whether it has the state now.
    done: bool,
    /// Whether it had to be clicked.
    clicked: bool,
    /// Why it was not done: the element does not exist, or is hidden.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// Turns a check box or switch on or off.
#[tool(name = "ToggleElement", check = toggle_has_selector, rule = "Give either `path` or `name`.")]
pub(crate) async fn toggle_element(operator: &Operator, args: Toggle) -> Result<ToggleAnswer, ToolError> {
    match toggle(operator, &args).await {
        Ok(clicked) => Ok(ToggleAnswer { done: true, clicked, reason: None }),
        Err(stop) => stop.answer(|reason| ToggleAnswer { done: false, clicked: false, reason: Some(reason) }),
    }
}

/// Returns whether it had to be clicked.
pub(super) async fn toggle(operator: &Operator, args: &Toggle) -> Result<bool, Stop> {
    let tree = operator.tree().await?;
    let selector = Selector::new(args.path.as_ref(), args.name.as_ref(), None);
    let element = selector.require(&tree)?;
    let Some(checked) = tree.info(element).properties.get("checked") else {
        let why = format!("the element {} cannot be turned on and off", selector.words());
        return Err(ToolError::new(why).into());
    };
    let is_right = args.on.is_some_and(|on| (checked == "true") == on);
    if !is_right {
        click_middle(operator, &selector).await?;
    }
    operator.record("ToggleElement", json!({ "path": tree.info(element).path, "on": args.on }));
    Ok(!is_right)
}

async fn click_middle(operator: &Operator, selector: &Selector<'_>) -> Result<(), Stop> {
    let (tree, element) = operator.reach(selector).await?;
    let place = Place::of_element(&tree, element)?;
    let click = Action::Click { window: place.window, at: place.at, button: MouseButton::Left, count: 1 };
    Ok(operator.perform(click).await?)
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Select {
    /// The path of the tab, list item or option.
    path: Option<String>,
    /// Its name, automation id or type.
    name: Option<String>,
}

pub(super) fn select_has_selector(args: &Select, problems: &mut Problems) {
    require_selector(args.path.as_ref(), args.name.as_ref(), problems);
}

/// Selects a tab, list item or option.
#[tool(name = "SelectElement", check = select_has_selector, rule = "Give either `path` or `name`.")]
pub(crate) async fn select_element(operator: &Operator, args: Select) -> Result<Acted, ToolError> {
    Acted::answer(select(operator, &args).await)
}

pub(super) async fn select(operator: &Operator, args: &Select) -> Result<(), Stop> {
    let tree = operator.tree().await?;
    let selector = Selector::new(args.path.as_ref(), args.name.as_ref(), None);
    let element = selector.require(&tree)?;
    let selected = tree.info(element).properties.get("selected");
    if selected.is_none_or(|selected| selected != "true") {
        click_middle(operator, &selector).await?;
    }
    operator.record("SelectElement", json!({ "path": tree.info(element).path }));
    Ok(())
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Scroll {
    /// The path of the element to scroll in.
    path: Option<String>,
    /// Its name, automation id or type.
    name: Option<String>,
    /// How far to the right, in logical pixels.
    #[serde(default)]
    dx: f64,
    /// How far down, in logical pixels.
    #[serde(default)]
    dy: f64,
}

pub(super) fn scroll_has_selector(args: &Scroll, problems: &mut Problems) {
    require_selector(args.path.as_ref(), args.name.as_ref(), problems);
}

/// Scrolls what is inside an element.
#[tool(name = "ScrollElement", check = scroll_has_selector, rule = "Give either `path` or `name`.")]
pub(crate) async fn scroll_element(operator: &Operator, args: Scroll) -> Result<Acted, ToolError> {
    Acted::answer(scroll(operator, &args).await)
}

pub(super) async fn scroll(operator: &Operator, args: &Scroll) -> Result<(), Stop> {
    let selector = Selector::new(args.path.as_ref(), args.name.as_ref(), None);
    let (tree, element) = operator.reach(&selector).await?;
    let place = Place::of_element(&tree, element)?;
    let scroll = Action::Scroll { window: place.window, at: place.at, by: (args.dx, args.dy) };
    operator.perform(scroll).await?;
    operator
        .record("ScrollElement", json!({ "path": tree.info(element).path, "dx": args.dx, "dy": args.dy }));
    Ok(())
}

#[derive(Deserialize, Serialize, JsonSchema)]
pub(crate) struct Press {
    /// The key: `Enter`, `Escape`, `Tab`, `Backspace`, `ArrowDown`, `F5`, `a` …
    #[schemars(length(min = 1, max = 20))]
    key: String,
    /// Keys that are held down: `ctrl`, `shift`, `alt`, `command`.
    #[serde(default)]
    #[schemars(length(max = 4))]
    modifiers: Vec<Modifier>,
    /// The path of the element that gets the focus first; the key goes to the one that has it if this is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
}

#[derive(Clone, Copy, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Modifier {
    Ctrl,
    Shift,
    Alt,
    Command,
}

impl Modifier {
    fn name(self) -> String {
        let name = match self {
            Self::Ctrl => "ctrl",
            Self::Shift => "shift",
            Self::Alt => "alt",
            Self::Command => "command",
        };
        name.to_owned()
    }
}

/// Presses and releases a key, with other keys held down if need be.
///
/// Without a path the key goes to the element that has the focus. If several windows have one, the window of the last
/// action counts.
#[tool(name = "PressKey")]
pub(crate) async fn press_key(operator: &Operator, args: Press) -> Result<Acted, ToolError> {
    Acted::answer(press(operator, &args).await)
}

pub(super) async fn press(operator: &Operator, args: &Press) -> Result<(), Stop> {
    let modifiers = args.modifiers.iter().map(|modifier| modifier.name()).collect();
    let window = if let Some(path) = &args.path {
        focus(operator, path).await?
    } else {
        let tree = operator.tree().await?;
        tree.id(operator.keyboard_window(&tree)?)
    };
    operator.perform(Action::Press { window, key: args.key.clone(), modifiers }).await?;
    operator.record("PressKey", serde_json::to_value(args).unwrap_or_default());
    Ok(())
}

/// Gives the focus to an element. Returns its window.
async fn focus(operator: &Operator, path: &str) -> Result<ElementId, Stop> {
    let selector = Selector::at(path);
    let has_focus = |tree: &Tree, element: usize| {
        tree.info(element).properties.get("focused").is_some_and(|focused| focused == "true")
    };
    let tree = operator.tree().await?;
    let element = selector.require(&tree)?;
    let window = tree.id(tree.window_of(element));
    if !has_focus(&tree, element) {
        operator.perform(Action::Focus { window, element: tree.id(element) }).await?;
        let tree = operator.tree().await?;
        if !has_focus(&tree, selector.require(&tree)?) {
            let why = format!("the element at `{path}` does not take the focus");
            return Err(ToolError::new(why).into());
        }
    }
    Ok(window)
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Drag {
    /// The path of the element to drag.
    from: String,
    /// The path of the element to drop it on.
    to: String,
}

/// Drags one element onto another.
#[tool(name = "DragElement")]
pub(crate) async fn drag_element(operator: &Operator, args: Drag) -> Result<Acted, ToolError> {
    Acted::answer(drag(operator, &args).await)
}

pub(super) async fn drag(operator: &Operator, args: &Drag) -> Result<(), Stop> {
    operator.reach(&Selector::at(&args.to)).await?;
    let (tree, _) = operator.reach(&Selector::at(&args.from)).await?;
    let at = |path: &str| {
        let element = Selector::at(path).require(&tree)?;
        if !tree.is_in_view(element) {
            return Err(Stop::from(ToolError::new("the two elements are not in view at the same time")));
        }
        Ok(Place::of_element(&tree, element)?)
    };
    let (from, to) = (at(&args.from)?, at(&args.to)?);
    if from.window != to.window {
        return Err(ToolError::new("an element can only be dragged within its window").into());
    }
    operator.perform(Action::Drag { window: from.window, from: from.at, to: to.at }).await?;
    operator.record("DragElement", json!({ "from": args.from, "to": args.to }));
    Ok(())
}
