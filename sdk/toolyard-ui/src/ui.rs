//! The trait that an adapter for a toolkit implements.

use std::fmt;

use tokio::sync::watch;
use toolyard_model::BoxFuture;

use crate::{ElementBounds, ElementId, Picture, Tree};

/// A user interface that can be seen and operated.
///
/// Every method may be called from any thread and may wait until the thread of the interface has time for it. The
/// tools put a deadline on each call.
pub trait Ui: Send + Sync + 'static {
    /// The elements of all windows as they are now.
    fn tree(&self) -> BoxFuture<Result<Tree, UiError>>;

    /// Does what a user could do. Returns once the interface has handled it.
    fn perform(&self, action: Action) -> BoxFuture<Result<(), UiError>>;

    /// A picture of a window as it is now.
    fn screenshot(&self, window: ElementId) -> BoxFuture<Result<Picture, UiError>>;

    /// A number that grows whenever the tree may have changed.
    fn changes(&self) -> watch::Receiver<u64>;
}

/// Something that a user could do.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Press and release a button of the mouse, `count` times.
    Click {
        /// The window.
        window: ElementId,
        /// Where, in its logical pixels.
        at: (f64, f64),
        /// Which button.
        button: MouseButton,
        /// 2 for a double click.
        count: u32,
    },
    /// Press the left button at one point, move, and release it at another.
    Drag {
        /// The window.
        window: ElementId,
        /// Where it starts.
        from: (f64, f64),
        /// Where it ends.
        to: (f64, f64),
    },
    /// Turn the wheel over a point. Positive numbers show what is further right and further down.
    Scroll {
        /// The window.
        window: ElementId,
        /// Where the mouse is.
        at: (f64, f64),
        /// How far, in logical pixels.
        by: (f64, f64),
    },
    /// Scroll what is around an element until the element is in view.
    ScrollIntoView {
        /// The window.
        window: ElementId,
        /// The element.
        element: ElementId,
    },
    /// Give the focus to an element.
    Focus {
        /// The window.
        window: ElementId,
        /// The element.
        element: ElementId,
    },
    /// Type into the element of a window that has the focus.
    Type {
        /// The window.
        window: ElementId,
        /// What to type.
        text: String,
        /// Remove what is there first.
        clear_first: bool,
    },
    /// Press and release a key.
    Press {
        /// The window.
        window: ElementId,
        /// Its name: `Enter`, `Escape`, `Tab`, `ArrowDown`, `F5`, `a` …
        key: String,
        /// `ctrl`, `shift`, `alt`, `command`.
        modifiers: Vec<String>,
    },
    /// Set the value of a field, slider or list.
    SetValue {
        /// The window.
        window: ElementId,
        /// The element.
        element: ElementId,
        /// The new value, in words or digits.
        value: String,
    },
}

impl Action {
    /// The window that it is for.
    pub fn window(&self) -> ElementId {
        match self {
            Self::Click { window, .. }
            | Self::Drag { window, .. }
            | Self::Scroll { window, .. }
            | Self::ScrollIntoView { window, .. }
            | Self::Focus { window, .. }
            | Self::Type { window, .. }
            | Self::Press { window, .. }
            | Self::SetValue { window, .. } => *window,
        }
    }
}

/// A button of the mouse.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum MouseButton {
    /// The one for almost everything.
    #[default]
    Left,
    /// The one for menus.
    Right,
    /// The wheel.
    Middle,
}

/// Why an app could not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UiError(String);

impl UiError {
    /// The reason, as a sentence for the agent.
    pub fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }

    /// The thread that owns the interface has ended.
    pub fn closed() -> Self {
        Self::new("the app's user interface has ended")
    }
}

impl fmt::Display for UiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UiError {}

/// The whole area of a picture, in logical pixels.
pub(crate) fn area_of(picture: &Picture) -> ElementBounds {
    let (width, height) = (f64::from(picture.width()), f64::from(picture.height()));
    ElementBounds::new(0.0, 0.0, width / picture.scale(), height / picture.scale())
}
