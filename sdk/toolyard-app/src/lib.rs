//! Make a running app callable by agents.
//!
//! An app has a set of tools and registers it with Toolyard. It reconnects automatically and never gives up: Toolyard
//! and the app can start, stop and restart in any order, without reconfiguration.
//!
//! ```
//! use toolyard_app::{App, Door};
//! use toolyard_tool::{ToolSet, tool};
//!
//! /// Greets the user.
//! #[tool]
//! async fn hello() -> String {
//!     "Hello from the app".into()
//! }
//!
//! # use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # // Plays the role of Toolyard: accepts the registration, calls the tool and reads its answer.
//! # let toolyard = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
//! # let door = Door::Tcp(toolyard.local_addr()?);
//! let app = App::new("Greeter", ToolSet::new("greeter", "1.0.0").with::<hello>());
//! # let app = app.at(door);
//! # tokio::select! {
//! # () = async {
//! app.run().await;
//! # } => panic!("it never ends"),
//! # answered = async {
//! #     let (mut stream, _) = toolyard.accept().await?;
//! #     let (read, mut write) = stream.split();
//! #     let mut lines = BufReader::new(read).lines();
//! #     let registration = lines.next_line().await?.unwrap_or_default();
//! #     assert!(registration.contains(r#""appName":"Greeter""#), "{registration}");
//! #     write.write_all(b"{\"type\":\"registered\"}\n").await?;
//! #     write.write_all(b"{\"type\":\"toolInvocation\",\"correlationId\":1,\"tool\":\"hello\",\"parameters\":{}}\n").await?;
//! #     lines.next_line().await
//! # } => assert!(answered?.unwrap_or_default().contains("Hello from the app")),
//! # }
//! # Ok(())
//! # }
//! ```
//!
//! Instead of dialling, an app can listen: on TCP ([`App::listen`]), on a local socket ([`App::listen_local`]) or as
//! an MCP server on HTTP ([`App::listen_http`]). A file names its endpoint, and Toolyard finds it there.
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

pub use app::{App, AppStatus, Running};
pub use door::Door;
pub use listen::Listening;
