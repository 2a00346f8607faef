//! Let agents see and operate a running app: its element tree, clicks, text, keys, screenshots.
//!
//! The crate does not depend on a toolkit. An adapter implements [`Ui`], which has four methods, and [`tools`] turns it into the
//! tools that agents call. Everything uses one coordinate system: logical pixels, with the origin at the top left
//! corner of the window.
//!
//! ```
//! use toolyard_ui::{ElementPath, Tree, TreeNode};
//!
//! let save = TreeNode::new("Button").named("Save").at(10.0, 20.0, 80.0, 24.0);
//! let tree = Tree::from_windows(vec![TreeNode::new("Window").at(0.0, 0.0, 640.0, 480.0).with(save)]);
//!
//! let path: ElementPath = "Window/Button[0]".parse().unwrap();
//! let found = tree.by_path(&path).unwrap();
//! assert_eq!(tree.info(found).bounds.center(), (50.0, 32.0));
//! assert_eq!(tree.at(50.0, 32.0), Some(found));
//! ```
#![warn(missing_docs)]

mod element;
mod embedded;
mod path;
mod picture;
mod recording;
mod tools;
mod tree;
mod ui;

pub use element::{ElementBounds, ElementInfo};
pub use embedded::{Background, Embedded, Started, Transport};
pub use path::{ElementPath, InvalidSegment, PathSegment};
pub use picture::Picture;
pub use recording::{Step, StepFailed, replay};
pub use tools::{Operator, tools};
pub use toolyard_app::Door;
pub use tree::{ElementId, Tree, TreeNode};
pub use ui::{Action, MouseButton, Ui, UiError};
