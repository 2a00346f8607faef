//! The server on the Python SDK, which speaks both eras.

use std::process::Command;

use super::gateway::Reach;
use super::installed;
use super::program::Program;

pub(crate) fn serve_python() -> (Program, Reach) {
    let (program, origin) = Program::serve(Command::new(installed::python()).args([&server(), "http"]));
    (program, Reach::Url(format!("{origin}/mcp")))
}

pub(crate) fn python_child() -> Reach {
    Reach::Child(vec![installed::python(), server(), "stdio".to_owned()])
}

fn server() -> String {
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/server.py").to_owned()
}
