//! An app with two tools: `cargo run -p clock-app`, and any agent behind Toolyard can ask it for the time.
//! `cargo run -p clock-app -- ADDRESS` if Toolyard accepts apps elsewhere; `-- --listen [ADDRESS]` waits to be
//! found and dialled instead.

use std::time::{SystemTime, UNIX_EPOCH};

use toolyard_app::{App, Door};
use toolyard_tool::{ToolSet, tool};

/// Returns the time, in seconds since 1970.
#[tool(read_only)]
async fn now() -> String {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs().to_string()
}

/// Rings the bell, which this clock does not have.
#[tool]
async fn ring() -> Result<String, std::io::Error> {
    Err(std::io::Error::other("the bell is missing"))
}

/// What the clock can do.
pub(crate) fn tools() -> ToolSet {
    ToolSet::new("clock", "1.0.0").with::<now>().with::<ring>()
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let app = App::new("RustClock", tools());
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        Some("--listen") => {
            let address = arguments.next().unwrap_or_else(|| "127.0.0.1:0".into());
            let listening = app.listen(address).await?;
            tokio::signal::ctrl_c().await?;
            listening.end().await;
        }
        Some(address) => app.at(Door::Tcp(address.parse().map_err(std::io::Error::other)?)).run().await,
        None => app.run().await,
    }
    Ok(())
}
