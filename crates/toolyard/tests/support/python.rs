//! The server on the Python SDK, which speaks both eras. `cargo xtask peers` installs the SDK and says so in the
//! environment.

use std::process::Command;

use super::gateway::Reach;
use super::program::{Program, say};

/// A Python that has the SDK; nothing, and a word about it, where there is none.
pub(crate) fn interpreter() -> Option<String> {
    let python = std::env::var("TOOLYARD_PEERS_PYTHON").ok();
    if python.is_none() {
        say("skipped: the Python SDK is not here; `cargo xtask peers` brings it");
    }
    python
}

pub(crate) fn serve_python(python: &str) -> (Program, Reach) {
    let (program, origin) = Program::serve(Command::new(python).args([&server(), "http"]));
    (program, Reach::Url(format!("{origin}/mcp")))
}

pub(crate) fn python_child(python: &str) -> Reach {
    Reach::Child(vec![python.to_owned(), server(), "stdio".to_owned()])
}

fn server() -> String {
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/server.py").to_owned()
}
