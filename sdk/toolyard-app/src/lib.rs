//! Make a running app callable by agents.
//!
//! An app has a set of tools and registers it with Toolyard. It dials by itself, for ever: Toolyard may start
//! later, stop and come back, and so may the app. Nobody has to configure anything again.
//!
//! ```no_run
//! use toolyard_app::App;
//! use toolyard_tool::{ToolSet, tool};
//!
//! /// Says hello.
//! #[tool]
//! async fn hello() -> String {
//!     "Hello from the app".into()
//! }
//!
//! #[tokio::main]
//! async fn main() {
//!     App::new("Greeter", ToolSet::new("greeter", "1.0.0").with::<hello>()).run().await;
//! }
//! ```
//!
//! Instead of dialling, an app can wait to be dialled: [`App::listen`] says in a file where it is, and Toolyard
//! finds it.
//!
//! Tools are added and removed while the app runs with [`ToolSet::live`](toolyard_tool::ToolSet::live).
#![warn(missing_docs)]

mod app;
mod listen;
mod session;
mod back;
mod door;
mod instance;
mod system;
mod peer;

pub use app::{App, Running, Standing};
pub use door::Door;
pub use listen::Listening;
