//! Serves the pack on stdio with the sessions below a folder: `serve_sessions HOME`. `cargo xtask bench --sessions` runs
//! it to measure how long transcripts are searched and read.

use std::process::ExitCode;

use serde_json::json;
use toolyard_tool::{Door, run_on};

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let home = std::env::args().nth(1).ok_or("usage: serve_sessions HOME")?;
    let config = json!({ "programs": ["claude", "codex", "gemini"], "home": home, "everywhere": true });
    let set = toolyard_pack_sessions::pack().tools(config).map_err(|error| error.to_string())?;
    run_on(set, &[Door::Stdio])?;
    Ok(ExitCode::SUCCESS)
}
