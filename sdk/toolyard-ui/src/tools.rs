//! The tools over a [`Ui`]: what every call does first, and the set.

mod act;
mod assert;
mod look;
mod place;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use toolyard_model::BoxFuture;
use toolyard_tool::{ToolError, ToolSet};

use crate::recording::{self, Recorder, Step, arguments};
use crate::{Action, ElementId, ElementPath, Picture, Tree, Ui, UiError};

/// How long an app may take for one action.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long an app may take to show an element after it was asked to scroll to it.
const SCROLLING: Duration = Duration::from_secs(2);

/// The tools for seeing and operating an app.
///
/// ```
/// # use std::sync::Arc;
/// # fn example(ui: Arc<dyn toolyard_ui::Ui>) {
/// let set = toolyard_ui::tools(ui);
/// assert!(set.definition("ClickElement").is_some());
/// # }
/// ```
pub fn tools(ui: Arc<dyn Ui>) -> ToolSet<Operator> {
    ToolSet::new("ui", env!("CARGO_PKG_VERSION"))
        .state(Operator::new(ui))
        .with::<look::get_element_tree>()
        .with::<look::find_element>()
        .with::<look::wait_for_element>()
        .with::<look::capture_screenshot>()
        .with::<act::click_element>()
        .with::<act::type_text>()
        .with::<act::set_value>()
        .with::<act::toggle_element>()
        .with::<act::select_element>()
        .with::<act::scroll_element>()
        .with::<act::press_key>()
        .with::<act::drag_element>()
        .with::<assert::assert_element>()
        .with::<recording::record_steps>()
        .with::<recording::replay_steps>()
}

/// Does a recorded step: the same functions that calls use. A missing element fails the step.
pub(crate) async fn run_step(operator: &Operator, step: &Step) -> Result<(), ToolError> {
    let done = match step.tool.as_str() {
        "ClickElement" => act::click(operator, &arguments(step, Some(act::click_has_place))?).await.map(drop),
        "TypeText" => act::type_into(operator, &arguments(step, Some(act::type_has_place))?).await,
        "SetValue" => act::set(operator, &arguments(step, Some(act::set_has_selector))?).await,
        "ToggleElement" => {
            act::toggle(operator, &arguments(step, Some(act::toggle_has_selector))?).await.map(drop)
        }
        "SelectElement" => act::select(operator, &arguments(step, Some(act::select_has_selector))?).await,
        "ScrollElement" => act::scroll(operator, &arguments(step, Some(act::scroll_has_selector))?).await,
        "PressKey" => act::press(operator, &arguments(step, None)?).await,
        "DragElement" => act::drag(operator, &arguments(step, None)?).await,
        "AssertElement" => {
            let assertion = arguments(step, Some(assert::assert_has_selector))?;
            return assert::assert_element(operator, assertion).await.map(drop);
        }
        "WaitForElement" => {
            let wait = arguments(step, Some(look::wait_has_selector))?;
            return look::wait_for_element(operator, wait).await?.require();
        }
        other => return Err(ToolError::new(format!("`{other}` is not a step that can be replayed"))),
    };
    Ok(done?)
}

/// Why an element cannot be operated.
pub(crate) enum Stop {
    /// It does not exist, or is hidden. For an agent that is an answer with this reason, not a failure.
    Missing(String),
    Failed(ToolError),
}

impl Stop {
    /// What a tool returns: an answer with the reason, or the failure.
    fn answer<T>(self, missing: impl FnOnce(String) -> T) -> Result<T, ToolError> {
        match self {
            Self::Missing(reason) => Ok(missing(reason)),
            Self::Failed(error) => Err(error),
        }
    }
}

impl From<ToolError> for Stop {
    fn from(error: ToolError) -> Self {
        Self::Failed(error)
    }
}

impl From<Stop> for ToolError {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Missing(reason) => Self::new(reason),
            Stop::Failed(error) => error,
        }
    }
}

/// The state that all tools share: the app, and the steps that are being recorded.
pub struct Operator {
    pub(crate) ui: Arc<dyn Ui>,
    recorder: Mutex<Recorder>,
    /// The window of the last action.
    last_window: Mutex<Option<ElementId>>,
}

impl std::fmt::Debug for Operator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Operator")
    }
}

impl Operator {
    pub(crate) fn new(ui: Arc<dyn Ui>) -> Self {
        Self { ui, recorder: Mutex::default(), last_window: Mutex::default() }
    }

    pub(crate) async fn tree(&self) -> Result<Tree, ToolError> {
        in_time("show its elements", self.ui.tree()).await
    }

    async fn perform(&self, action: Action) -> Result<(), ToolError> {
        *self.last_window.lock() = Some(action.window());
        in_time("carry out the action", self.ui.perform(action)).await
    }

    /// The window that text and keys go to: the one of the last action, unless only another one has an element with
    /// the focus.
    fn keyboard_window(&self, tree: &Tree) -> Result<usize, ToolError> {
        let last = *self.last_window.lock();
        let last = tree.windows().find(|&window| Some(tree.id(window)) == last);
        let focused = |window: &usize| tree.has_focus(*window);
        let window = last.filter(focused).or_else(|| tree.windows().find(focused));
        window.or(last).or_else(|| tree.windows().next()).ok_or_else(no_window)
    }

    /// An element that must exist and be visible, with the tree in which it is in view: what is around it is scrolled
    /// if need be.
    async fn reach(&self, selector: &Selector<'_>) -> Result<(Tree, usize), Stop> {
        let tree = self.tree().await?;
        let element = selector.require(&tree)?;
        if tree.is_in_view(element) {
            return Ok((tree, element));
        }
        let mut changes = self.ui.changes();
        let window = tree.id(tree.window_of(element));
        self.perform(Action::ScrollIntoView { window, element: tree.id(element) }).await?;
        let deadline = tokio::time::Instant::now() + SCROLLING;
        loop {
            changes.mark_unchanged();
            let tree = self.tree().await?;
            let element = selector.require(&tree)?;
            if tree.is_in_view(element) {
                return Ok((tree, element));
            }
            let waited = tokio::time::timeout_at(deadline, changes.changed()).await;
            if waited.is_err() || tokio::time::Instant::now() >= deadline {
                let why = format!(
                    "the element {} is scrolled out of view, and the app did not scroll to it",
                    selector.words()
                );
                let hint = "scroll an element around it with `ScrollElement`, and try again";
                return Err(ToolError::new(why).hint(hint).into());
            }
        }
    }

    async fn screenshot(&self, window: ElementId) -> Result<Picture, ToolError> {
        let picture = in_time("draw its window", self.ui.screenshot(window)).await;
        picture.map_err(|error| ToolError::new(format!("Failed to capture screenshot: {error}")))
    }

    pub(crate) fn recorder(&self) -> parking_lot::MutexGuard<'_, Recorder> {
        self.recorder.lock()
    }

    /// Notes a step that was carried out, if steps are being recorded.
    pub(crate) fn record(&self, tool: &str, arguments: Value) {
        self.recorder().add(Step { tool: tool.to_owned(), arguments });
    }
}

pub(crate) fn no_window() -> ToolError {
    ToolError::new("the app has no window at the moment")
}

async fn in_time<T>(what: &str, work: BoxFuture<Result<T, UiError>>) -> Result<T, ToolError> {
    let Ok(done) = tokio::time::timeout(PATIENCE, work).await else {
        let seconds = PATIENCE.as_secs();
        let why = format!("the app did not {what} within {seconds} s; it may be busy, or hang");
        return Err(ToolError::new(why));
    };
    done.map_err(ToolError::from)
}

/// The properties by which an agent names an element.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Selector<'a> {
    pub(crate) path: Option<&'a str>,
    pub(crate) name: Option<&'a str>,
    pub(crate) kind: Option<&'a str>,
}

impl<'a> Selector<'a> {
    pub(crate) fn new(path: Option<&'a String>, name: Option<&'a String>, kind: Option<&'a String>) -> Self {
        Self {
            path: path.map(String::as_str),
            name: name.map(String::as_str),
            kind: kind.map(String::as_str),
        }
    }

    pub(crate) fn at(path: &'a str) -> Self {
        Self { path: Some(path), ..Self::default() }
    }

    /// The element. A visible one counts before a hidden one, and a control before the label that names it.
    pub(crate) fn find(&self, tree: &Tree) -> Result<Option<usize>, ToolError> {
        let is_kind = |position: &usize| {
            self.kind.is_none_or(|kind| tree.info(*position).kind.eq_ignore_ascii_case(kind))
        };
        if let Some(path) = self.path {
            let path: ElementPath = path.parse()?;
            return Ok(tree.by_path(&path).filter(is_kind));
        }
        let named = |name: &'a str| {
            let all = || tree.by_name(name, self.kind);
            let visible = || all().filter(|&position| tree.is_visible(position));
            visible()
                .find(|&position| tree.info(position).kind != "Label")
                .or(visible().next())
                .or(all().next())
        };
        Ok(self.name.and_then(named))
    }

    /// The element, which must exist and be visible.
    pub(crate) fn require(&self, tree: &Tree) -> Result<usize, Stop> {
        let position = self.find(tree)?.ok_or_else(|| Stop::Missing(self.missing()))?;
        if tree.is_visible(position) {
            return Ok(position);
        }
        Err(Stop::Missing(format!("the element {} is hidden", self.words())))
    }

    /// Why it is not found.
    pub(crate) fn missing(&self) -> String {
        format!("there is no element {}; `GetElementTree` lists the elements with their paths", self.words())
    }

    /// How the element was named, for messages.
    pub(crate) fn words(&self) -> String {
        match (self.path, self.name) {
            (Some(path), _) => format!("at `{path}`"),
            (None, Some(name)) => format!("named `{name}`"),
            (None, None) => String::from("of that description"),
        }
    }
}
