//! The tools that only look: tree, find, wait, screenshot.

use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolyard_tool::{Content, Problems, ToolError, clamp, tool};

use super::{Operator, Selector, Stop, no_window};
use crate::{ElementBounds, ElementInfo, Picture, Tree};

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GetTree {
    /// How many levels to show, the window being the first.
    #[serde(default = "ten")]
    #[schemars(range(min = 1, max = 50), transform = clamp)]
    max_depth: usize,
    /// Also show what cannot be seen.
    #[serde(default)]
    include_hidden: bool,
    /// Only the element at this path, and what is inside it.
    path: Option<String>,
}

fn ten() -> usize {
    10
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TreeAnswer {
    /// Whether there is an element at the path.
    found: bool,
    /// Why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// The window, or the element that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    root: Option<ElementInfo>,
    /// The paths of all windows, if there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    windows: Vec<String>,
    /// Elements were left out, because there are more than 20,000 or because they are nested too deeply.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_cut: bool,
}

/// Shows the elements of the app: type, name, bounds, path and properties.
///
/// Bounds are logical pixels of the window, as `ClickElement` takes them, of the part that is in view. An element that
/// is scrolled out of view has the property `outOfView`. No element at the path is an answer, not a failure.
#[tool(name = "GetElementTree", read_only)]
pub(crate) async fn get_element_tree(operator: &Operator, args: GetTree) -> Result<TreeAnswer, ToolError> {
    let tree = operator.tree().await?;
    let windows: Vec<_> = tree.windows().collect();
    let root = match &args.path {
        Some(path) => Selector::at(path).find(&tree)?,
        None => Some(*windows.first().ok_or_else(no_window)?),
    };
    let paths = windows.iter().map(|&window| tree.info(window).path.clone());
    let missing = args.path.as_deref().filter(|_| root.is_none());
    Ok(TreeAnswer {
        found: root.is_some(),
        reason: missing.map(|path| Selector::at(path).missing()),
        root: root.map(|root| tree.nested(root, args.max_depth, args.include_hidden)),
        windows: if windows.len() > 1 { paths.collect() } else { Vec::new() },
        is_cut: tree.is_cut(),
    })
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Find {
    /// The path of the element, for instance `Window[0]/Button[2]`.
    path: Option<String>,
    /// Its name, automation id or type, in any case. The first in the tree counts, a control before its label.
    #[serde(alias = "selector")]
    name: Option<String>,
    /// Only elements of this type.
    #[serde(rename = "type")]
    kind: Option<String>,
}

fn find_has_selector(args: &Find, problems: &mut Problems) {
    require_selector(args.path.as_ref(), args.name.as_ref(), problems);
}

pub(super) fn require_selector(path: Option<&String>, name: Option<&String>, problems: &mut Problems) {
    if path.is_some() == name.is_some() {
        problems.add("path", "Selector parameter is required: give either `path` or `name`");
    }
}

#[derive(Default, Serialize, JsonSchema)]
pub(crate) struct FindAnswer {
    /// Whether there is such an element.
    found: bool,
    /// Its type.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    /// Its label or title.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// Its position among the siblings of the same type.
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<usize>,
    /// Where it is in its window.
    #[serde(skip_serializing_if = "Option::is_none")]
    bounds: Option<ElementBounds>,
    /// Its path.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    /// Whether it is shown. It may still be scrolled out of view: then it has the property `outOfView`.
    #[serde(skip_serializing_if = "Option::is_none")]
    visible: Option<bool>,
    /// Further facts about it.
    #[serde(skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    properties: std::collections::BTreeMap<String, String>,
}

impl FindAnswer {
    fn new(tree: &Tree, position: usize) -> Self {
        let info = tree.info(position).clone();
        Self {
            found: true,
            kind: Some(info.kind),
            name: info.name,
            index: Some(info.index),
            bounds: Some(info.bounds),
            path: Some(info.path),
            visible: Some(tree.is_visible(position)),
            properties: info.properties,
        }
    }
}

/// Finds one element by path or name. No such element is an answer, not a failure.
#[tool(name = "FindElement", read_only, check = find_has_selector, rule = "Give either `path` or `name`.")]
pub(crate) async fn find_element(operator: &Operator, args: Find) -> Result<FindAnswer, ToolError> {
    let tree = operator.tree().await?;
    let found = Selector::new(args.path.as_ref(), args.name.as_ref(), args.kind.as_ref()).find(&tree)?;
    Ok(found.map_or_else(FindAnswer::default, |position| FindAnswer::new(&tree, position)))
}

#[derive(Deserialize, Serialize, JsonSchema)]
pub(crate) struct Wait {
    /// The path of the element.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    /// Its name, automation id or type.
    #[serde(alias = "selector", skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// Only elements of this type.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    /// Wait until it is shown, even if it is scrolled out of view; `false` waits until it is gone or hidden.
    #[serde(default = "yes")]
    visible: bool,
    /// How long to wait, in milliseconds.
    #[serde(default = "five_seconds", alias = "timeoutMs")]
    #[schemars(range(min = 100, max = 60_000), transform = clamp)]
    timeout: u64,
}

fn yes() -> bool {
    true
}

fn five_seconds() -> u64 {
    5_000
}

pub(super) fn wait_has_selector(args: &Wait, problems: &mut Problems) {
    require_selector(args.path.as_ref(), args.name.as_ref(), problems);
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct WaitAnswer {
    /// Whether what was waited for happened in time.
    found: bool,
    /// Whether the element is shown now.
    visible: bool,
    /// How long it took, in milliseconds.
    elapsed: u64,
}

impl WaitAnswer {
    /// Fails if what was waited for did not happen.
    pub(super) fn require(&self) -> Result<(), ToolError> {
        let state = if self.visible { "still visible" } else { "not visible" };
        let late = || ToolError::new(format!("the element is {state} after {} ms", self.elapsed));
        self.found.then_some(()).ok_or_else(late)
    }
}

/// Waits until an element appears, or until it is gone. A wait that ends without that is an answer, not a failure.
#[tool(name = "WaitForElement", read_only, check = wait_has_selector, rule = "Give either `path` or `name`.")]
pub(crate) async fn wait_for_element(operator: &Operator, args: Wait) -> Result<WaitAnswer, ToolError> {
    let started = Instant::now();
    let deadline = tokio::time::Instant::now() + Duration::from_millis(args.timeout);
    let mut changes = operator.ui.changes();
    let selector = Selector::new(args.path.as_ref(), args.name.as_ref(), args.kind.as_ref());
    let mut visible = !args.visible;
    let mut has_looked = false;
    loop {
        changes.mark_unchanged();
        // The first look has the time that any look has; later ones must not outlast the wait.
        let tree = if has_looked {
            let Ok(tree) = tokio::time::timeout_at(deadline, operator.tree()).await else { break };
            tree?
        } else {
            operator.tree().await?
        };
        has_looked = true;
        visible = selector.find(&tree)?.is_some_and(|position| tree.is_visible(position));
        // An app that changes all the time is always ready to be looked at again.
        if visible == args.visible || tokio::time::Instant::now() >= deadline {
            break;
        }
        match tokio::time::timeout_at(deadline, changes.changed()).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return Err(crate::UiError::closed().into()),
            Err(_) => break,
        }
    }
    let found = visible == args.visible;
    if found {
        operator.record("WaitForElement", serde_json::to_value(&args).unwrap_or_default());
    }
    let elapsed = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    Ok(WaitAnswer { found, visible, elapsed })
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Capture {
    /// The format of the picture.
    #[serde(default)]
    format: Format,
    /// The quality of a JPEG picture.
    #[serde(default = "ninety")]
    #[schemars(range(min = 1, max = 100), transform = clamp)]
    quality: u8,
    /// Only this element, or the window at this path.
    path: Option<String>,
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Format {
    #[default]
    Png,
    #[serde(alias = "jpg")]
    Jpeg,
}

fn ninety() -> u8 {
    90
}

/// Takes a picture of the window, or of one element.
///
/// Its pixels are the logical pixels of bounds and clicks, whatever the scale of the display. No element at the path
/// is an answer, not a failure.
#[tool(name = "CaptureScreenshot", read_only)]
pub(crate) async fn capture_screenshot(operator: &Operator, args: Capture) -> Result<Content, ToolError> {
    let missing = |reason: String| {
        let answer = json!({ "found": false, "reason": reason });
        Content::new().text(reason).structured(&answer)
    };
    capture(operator, args).await.or_else(|stop| stop.answer(missing))
}

async fn capture(operator: &Operator, args: Capture) -> Result<Content, Stop> {
    let tree = operator.tree().await?;
    let element = match &args.path {
        Some(path) => Selector::at(path).require(&tree)?,
        None => tree.windows().next().ok_or_else(no_window)?,
    };
    if !tree.is_in_view(element) {
        return Err(ToolError::new("the element is scrolled out of view")
            .hint("scroll to it with `ScrollElement`, or take a picture of the window")
            .into());
    }
    let window = tree.window_of(element);
    let picture = operator.screenshot(tree.id(window)).await?;
    let part = (element != window).then(|| tree.info(element).bounds);
    Ok(encoded(&picture, part, &args)?)
}

/// The picture, or a part of it, as a file in an answer.
fn encoded(picture: &Picture, part: Option<ElementBounds>, args: &Capture) -> Result<Content, ToolError> {
    let mut picture = picture.logical()?;
    if let Some(bounds) = part {
        picture = picture.cut(&bounds)?;
    }
    Ok(match args.format {
        Format::Png => Content::new().image("image/png", &picture.png()?),
        Format::Jpeg => Content::new().image("image/jpeg", &picture.jpeg(args.quality)?),
    })
}
