//! The clients and servers of other vendors that `cargo xtask peers` installs; it passes their places in the
//! environment.
//!
//! A test that needs them is marked `#[ignore = "needs …"]`, so that a run without them does not report it as passed.

/// A Python interpreter that can import the MCP SDK.
pub(crate) fn python() -> String {
    variable("TOOLYARD_PEERS_PYTHON")
}

/// The program Node.js, and the folder that holds `node_modules`.
pub(crate) fn npm() -> (String, String) {
    (variable("TOOLYARD_PEERS_NODE"), variable("TOOLYARD_PEERS_NPM"))
}

fn variable(name: &str) -> String {
    std::env::var(name)
        .unwrap_or_else(|_| panic!("{name} is not set: run this test with `cargo xtask peers`"))
}
