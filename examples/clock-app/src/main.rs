//! An app with two tools: `cargo run -p clock-app`, and any agent behind Toolyard can ask it for the time.
//! `cargo run -p clock-app -- ADDRESS` if Toolyard lets apps in elsewhere.

use std::time::{SystemTime, UNIX_EPOCH};

use toolyard_app::{App, Door};
use toolyard_tool::{ToolSet, tool};

/// Tells the time, in seconds since 1970.
#[tool(read_only)]
async fn now() -> String {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs().to_string()
}

/// Rings the bell, which this clock does not have.
#[tool]
async fn ring() -> Result<String, std::io::Error> {
    Err(std::io::Error::other("the bell is missing"))
}

#[tokio::main]
async fn main() {
    let door = std::env::args().nth(1).and_then(|address| address.parse().ok()).map(Door::Tcp);
    let tools = ToolSet::new("clock", "1.0.0").with::<now>().with::<ring>();
    App::new("RustClock", tools).at(door.unwrap_or_default()).run().await;
}
