//! An app, or an instance with its file, that reports its identity. Tests start many of them and kill them.
//!
//! `mortal app ADDRESS NAME` · `mortal instance FOLDER NAME`

use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use toolyard_app::{App, Door};
use toolyard_tool::schemars::JsonSchema;
use toolyard_tool::{Content, Server, ToolSet, tool};

static NAME: OnceLock<String> = OnceLock::new();

fn identity() -> String {
    format!("{} {}", NAME.get().map_or("", String::as_str), std::process::id())
}

#[derive(Deserialize, JsonSchema)]
#[schemars(crate = "toolyard_tool::schemars")]
struct Asked {
    /// Comes back with the answer.
    word: String,
    /// How long to wait before it does, in milliseconds.
    #[serde(default)]
    wait: u64,
}

/// Returns its name, its process and the word it was given.
#[tool(read_only)]
async fn who(args: Asked) -> String {
    tokio::time::sleep(Duration::from_millis(args.wait)).await;
    format!("{} {}", identity(), args.word)
}

#[derive(Deserialize, JsonSchema)]
#[schemars(crate = "toolyard_tool::schemars")]
struct Size {
    /// How many bytes the picture has.
    bytes: usize,
}

/// A picture of that size.
#[tool(read_only)]
async fn picture(args: Size) -> Content {
    Content::new().image("image/png", &vec![7; args.bytes])
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [role, place, name] = words.as_slice() else { return Err("mortal app|instance PLACE NAME".into()) };
    NAME.get_or_init(|| name.clone());
    let tools = ToolSet::new(name, "1.0.0").with::<who>().with::<picture>();
    if role == "app" {
        let door = Door::Tcp(place.parse()?);
        App::new(name, tools).at(door).first_wait(Duration::from_millis(100)).run().await;
        return Ok(());
    }
    let server = Server::start(tools, [toolyard_tool::Door::Http("127.0.0.1:0".into())]).await?;
    write_file(Path::new(place), name, server.addresses()[0].port())?;
    std::future::pending().await
}

/// As instances do once they listen: in one piece.
fn write_file(folder: &Path, name: &str, port: u16) -> std::io::Result<()> {
    let about = json!({ "id": name, "name": name, "directory": "/srv", "port": port,
        "process_info": { "pid": std::process::id(), "executable": "mortal" } });
    let draft = folder.join(format!(".tmp-{name}-{}", std::process::id()));
    std::fs::write(&draft, about.to_string())?;
    std::fs::rename(draft, folder.join(format!("{name}.json")))
}
