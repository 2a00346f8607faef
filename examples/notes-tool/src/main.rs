//! The notebook as a program: `notes-tool` on stdio, or `--http`, `--tcp`, `--unix`.

use std::process::ExitCode;

fn main() -> ExitCode {
    toolyard_tool::run(notes_tool::tools())
}
