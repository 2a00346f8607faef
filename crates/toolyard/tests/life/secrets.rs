//! Secrets, and what listing packs leaves on the disk: nothing.

use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use serde_json::json;

use crate::http;
use crate::yard::{Yard, soon};

/// Long enough that it is found wherever it is.
const SECRET: &str = "hunter2-5f1c9e77a0b34d21";

/// All places of a config that take a secret.
const CONFIG: &str = "\
[upstreams.wiki]
url = \"http://127.0.0.1:9/mcp?key=${secret:one}\"
headers = { Authorization = \"Bearer ${secret:one}\", X-Api-Key = \"${secret:one}\" }
spare = { headers = { Authorization = \"Bearer ${secret:one}\" } }
[upstreams.forks]
command = \"sh\"
args = [\"upstream.sh\", \"forks\", \"--token=${secret:one}\"]
env = { SERVICE_TOKEN = \"${secret:one}\" }
era = \"legacy\"
[packs.models.providers.here]
kind = \"compatible\"
base_url = \"http://127.0.0.1:9/v1\"
key = \"${secret:one}\"
[hooks.web]
on = \"post_tool_call\"
url = \"http://127.0.0.1:9/?key=${secret:one}\"
headers = { Authorization = \"Bearer ${secret:one}\" }
";

fn files_below(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => files_below(&path, found),
            Ok(kind) if kind.is_file() => found.push(path),
            _ => {}
        }
    }
}

#[test]
fn no_secret_is_in_any_output_log_or_file() {
    let yard = Yard::new(&[]);
    let mut storing = yard.toolyard().args(["secret", "set", "one"]).stdin(Stdio::piped()).spawn().unwrap();
    storing.stdin.take().unwrap().write_all(SECRET.as_bytes()).unwrap();
    assert!(storing.wait().unwrap().success());
    yard.also(CONFIG);
    let gateway = yard.start_with(&["--log-level", "trace"]);
    soon("the server", || match gateway.go("forks") {
        (false, _) => Ok(()),
        (true, why) => Err(why),
    });
    let mut outputs = Vec::new();
    for call in [
        json!({ "name": "wiki__any" }),
        json!({ "name": "models__ask_model", "arguments": { "prompt": "hi" } }),
    ] {
        outputs.push(http::read(http::modern(gateway.url(), "tools/call", call)).body);
    }
    for arguments in [
        "list",
        "list --json",
        "doctor",
        "doctor --json",
        "get wiki",
        "get wiki --json",
        "get forks",
        "get forks --json",
        "explain forks:go",
        "explain wiki:any",
        "tools list",
        "tools list --json",
        "tools call forks__go",
        "validate",
        "secret list",
        "secret list --json",
        "gateways",
        "gateways --json",
        "schema",
        "logs",
        "audit",
        "stop --help",
    ] {
        let mut command = yard.toolyard();
        command.args(arguments.split(' ')).args(["--config", "config.toml", "--state-dir", "state", "-vv"]);
        let output = command.stdin(Stdio::null()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(!text.is_empty(), "`toolyard {arguments}` prints something");
        outputs.push(format!("toolyard {arguments}: {text}"));
    }
    gateway.signal(nix::sys::signal::Signal::SIGTERM);
    let log = gateway.wait();
    assert!(log.contains("forks"), "the log is there: {log}");
    outputs.push(log);
    let mut files = Vec::new();
    files_below(yard.folder(), &mut files);
    assert!(files.len() > 3, "{files:?}");
    outputs.extend(files.iter().map(|file| {
        let bytes = std::fs::read(file).unwrap_or_default();
        format!("{}: {}", file.display(), String::from_utf8_lossy(&bytes))
    }));
    for output in outputs {
        assert!(!output.contains(SECRET), "a secret is shown: {output}");
    }
}

#[test]
fn listing_packs_makes_no_folder_no_file_and_no_process() {
    let yard = Yard::new(&[]);
    let project = tempfile::tempdir().unwrap();
    let folder = toml::Value::from(project.path().to_str().unwrap());
    yard.also(&format!(
        "[listen]\ntoken = \"user\"\n[packs.code]\nprojects = [{folder}]\nwrite = true\n[packs.sessions]\nprograms = [\"claude\"]\n\
         [packs.scripts]\nroot = {folder}\n[packs.agents]\nprojects = [{folder}]\n\
         [packs.agents.types.explore]\nprogram = \"command\"\ncommand = [\"sh\", \"-c\", \"echo\"]\n\
         [packs.models.providers.here]\nkind = \"compatible\"\nbase_url = \"http://127.0.0.1:9/v1\"\n"
    ));
    let gateway = yard.start();
    let listed = http::read(http::modern_with(
        gateway.url(),
        &[("authorization", "Bearer user")],
        "tools/list",
        json!({}),
    ));
    let names = listed.tool_names();
    for pack in ["agents", "code", "models", "scripts", "sessions"] {
        assert!(names.iter().any(|name| name.starts_with(&format!("{pack}__"))), "{pack}: {names:?}");
    }
    assert_eq!(yard.processes().len(), 1, "only the gateway runs");
    assert!(!yard.folder().join("state/packs").exists());
    assert!(!yard.folder().join(".cache").exists());
    assert_eq!(std::fs::read_dir(project.path()).unwrap().count(), 0);
}
