//! The testkit's fixture as a program of its own.

mod testkit;

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use super::gateway::Reach;
use super::program::Program;

/// The program.
pub(crate) fn fixture() -> String {
    static FIXTURE: OnceLock<PathBuf> = OnceLock::new();
    FIXTURE
        .get_or_init(|| testkit::build("fixture"))
        .to_str()
        .expect("the path of the fixture is text")
        .to_owned()
}

/// The fixture behind HTTP, speaking the eras that `era` names: `legacy`, `modern` or `both`.
pub(crate) fn serve_fixture(era: &str) -> (Program, Reach) {
    let (program, origin) = serve_fixture_at(&["--listen", "127.0.0.1:0"], era);
    (program, Reach::Url(format!("{origin}/mcp")))
}

/// The fixture behind a door that `arguments` open, speaking the eras that `era` names; gives its origin.
pub(crate) fn serve_fixture_at(arguments: &[&str], era: &str) -> (Program, String) {
    Program::serve(Command::new(fixture()).args(arguments).args(["--era", era]))
}

/// The fixture as a child process.
pub(crate) fn fixture_child(era: &str) -> Reach {
    Reach::Child([fixture().as_str(), "--stdio", "--era", era].map(str::to_owned).to_vec())
}
