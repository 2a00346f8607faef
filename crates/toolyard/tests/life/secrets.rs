//! Secrets, and what listing packs leaves on the disk: nothing.

use std::io::Write as _;
use std::net::TcpStream;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use crate::http;
use crate::provider::Refusing;
use crate::yard::{Gateway, OPERATOR, Yard, soon};

/// Long enough that it is found wherever it is. It has a character that is different in an address.
const SECRET: &str = "hunter2+5f1c9e77a0b34d21";

/// All places of a config that take a secret. The server at `{refusing}` refuses every request and quotes it.
const CONFIG: &str = "\
[listen]
token = \"{token}\"
[audit]
[metrics]
tools = true
[upstreams.wiki]
url = \"{refusing}/401/mcp?key=${secret:one}\"
headers = { Authorization = \"Bearer ${secret:one}\", X-Api-Key = \"${secret:one}\" }
spare = { headers = { Authorization = \"Bearer ${secret:one}\" } }
[upstreams.forks]
command = \"sh\"
args = [\"upstream.sh\", \"forks\", \"--token=${secret:one}\"]
env = { SERVICE_TOKEN = \"${secret:one}\" }
era = \"legacy\"
[packs.models.providers.locked]
kind = \"compatible\"
base_url = \"{refusing}/401/v1\"
key = \"${secret:one}\"
headers = { X-Account = \"${secret:one}\" }
[packs.models.providers.wrong]
kind = \"compatible\"
base_url = \"{refusing}/422/v1?account=${secret:one}\"
key = \"${secret:one}\"
[packs.models.providers.gone]
kind = \"compatible\"
base_url = \"http://127.0.0.1:9/v1\"
key = \"${secret:one}\"
[hooks.web]
on = \"post_tool_call\"
url = \"{refusing}/500/hook?key=${secret:one}\"
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

fn get(gateway: &Gateway, path: &str) -> http::Reply {
    let address = gateway.url().strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let credential = format!("authorization: Bearer {OPERATOR}\r\nconnection: close");
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\n{credential}\r\n\r\n").unwrap();
    http::read(stream)
}

/// What every path of the control API answers that reads something, and ends.
fn control_api(gateway: &Gateway) -> Vec<String> {
    let described = get(gateway, "/api/v1/openapi.json");
    let described: Value = serde_json::from_str(&described.body).unwrap();
    let paths = described["paths"].as_object().unwrap().iter();
    let reads = paths.filter(|(path, methods)| {
        methods.get("get").is_some() && !["/events", "/live"].contains(&path.as_str())
    });
    let mut answers = Vec::new();
    for (path, _) in reads {
        for id in ["wiki", "forks", "models", "1"] {
            let place = path.split('/').map(|part| if part.starts_with('{') { id } else { part });
            let path = format!("/api/v1{}", place.collect::<Vec<_>>().join("/"));
            answers.push(format!("GET {path}: {}", get(gateway, &path).body));
        }
    }
    assert!(answers.len() > 20, "the control API was read: {answers:?}");
    answers
}

/// Output of the commands that describe a gateway.
fn commands(yard: &Yard) -> Vec<String> {
    let mut outputs = Vec::new();
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
        "tools call models:ask_model prompt=hi model=locked/m",
        "validate",
        "secret list",
        "secret list --json",
        "gateways",
        "gateways --json",
        "schema",
        "logs",
        "audit",
        "audit --json",
        "pack models --help",
        "stop --help",
    ] {
        let mut command = yard.toolyard();
        command.args(arguments.split(' '));
        if !arguments.starts_with("pack") {
            command.args(["--config", "config.toml", "--state-dir", "state", "-vv"]);
        }
        let output = command.stdin(Stdio::null()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(!text.is_empty(), "`toolyard {arguments}` prints something");
        outputs.push(format!("toolyard {arguments}: {text}"));
    }
    outputs
}

#[test]
fn no_secret_is_in_any_output_log_or_file() {
    let (yard, refusing) = (Yard::new(&[]), Refusing::start());
    let mut storing = yard.toolyard().args(["secret", "set", "one"]).stdin(Stdio::piped()).spawn().unwrap();
    storing.stdin.take().unwrap().write_all(SECRET.as_bytes()).unwrap();
    assert!(storing.wait().unwrap().success());
    yard.also(&CONFIG.replace("{refusing}", &refusing.url).replace("{token}", OPERATOR));
    let gateway = yard.start_with(&["--log-level", "trace"]);
    let call = |tool: &str, arguments: Value| http::read(gateway.begin_as_operator(tool, &arguments));
    soon("the server", || match call("forks__go", json!({})).message()["result"].clone() {
        result if result["content"][0]["text"] == "well" => Ok(()),
        result => Err(result.to_string()),
    });
    let mut outputs = vec![call("wiki__any", json!({})).body];
    for model in ["locked/m", "wrong/m", "gone/m"] {
        let reply = call("models__ask_model", json!({ "prompt": "hi", "model": model }));
        assert_eq!(reply.message()["result"]["isError"], true, "{model}: {}", reply.body);
        outputs.push(reply.body);
    }
    outputs.extend(commands(&yard));
    outputs.extend(control_api(&gateway));
    let metrics = get(&gateway, "/metrics");
    assert!(metrics.body.contains("toolyard_"), "the metrics were read: {}", metrics.body);
    outputs.push(metrics.body);
    for path in ["/401/mcp", "/401/v1/", "/422/v1", "/500/hook"] {
        let heads = refusing.heads(path);
        assert!(heads.iter().any(|head| head.contains(SECRET)), "the secret was sent to {path}: {heads:?}");
    }
    gateway.signal(nix::sys::signal::Signal::SIGTERM);
    let log = gateway.wait();
    assert!(log.contains("forks"), "the log is there: {log}");
    outputs.push(log);
    let mut files = Vec::new();
    files_below(yard.folder(), &mut files);
    assert!(files.iter().any(|file| file.to_string_lossy().contains("audit")), "{files:?}");
    outputs.extend(files.iter().map(|file| {
        let bytes = std::fs::read(file).unwrap_or_default();
        format!("{}: {}", file.display(), String::from_utf8_lossy(&bytes))
    }));
    let forms = forms_of(SECRET);
    for output in outputs {
        let shown = forms.iter().find(|form| output.contains(form.as_str()));
        assert_eq!(shown, None, "a secret is shown: {output}");
    }
}

/// The secret as it may occur in a text: plain, percent-encoded, and encoded in base64 or base64url alone or as a part of
/// something longer. What surrounds a secret changes the first and last characters of its base64, so they are left out.
fn forms_of(secret: &str) -> Vec<String> {
    let mut forms = vec![secret.to_owned(), secret.replace('+', "%2B"), secret.replace('+', "%2b")];
    for before in ["", "x", "xx"] {
        for encoding in [data_encoding::BASE64_NOPAD, data_encoding::BASE64URL_NOPAD] {
            let encoded = encoding.encode(format!("{before}{secret}").as_bytes());
            let changing = (before.len() * 8).div_ceil(6);
            forms.push(encoded[changing..encoded.len() - 1].to_owned());
        }
    }
    forms
}

#[test]
fn a_secret_is_found_in_every_form() {
    let is_found = |text: &str| forms_of(SECRET).iter().any(|form| text.contains(form.as_str()));
    for around in ["", "a", "ab", "abc", "user:"] {
        let text = format!("{around}{SECRET}{around}");
        assert!(is_found(&text), "{text}");
        assert!(is_found(&data_encoding::BASE64.encode(text.as_bytes())), "{text}");
        assert!(is_found(&data_encoding::BASE64URL.encode(text.as_bytes())), "{text}");
    }
    assert!(is_found("?key=hunter2%2B5f1c9e77a0b34d21") && !is_found("?key=hunter2"));
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
