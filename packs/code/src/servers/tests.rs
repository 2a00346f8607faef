//! The pool over scripted servers that run in this process, with virtual time.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};
use tokio::sync::watch;
use toolyard_tool::host::{Child, ChildCommand, ChildControl, Children, Scope};
use toolyard_tool::{Changes, Host, ToolSet};

use super::*;
use crate::project::{Project, Projects};

type Boxed<T> = std::pin::Pin<Box<dyn Future<Output = T> + Send>>;

/// How the servers behave, and what they received.
#[derive(Clone, Default)]
struct Script {
    started: Arc<AtomicU32>,
    received: Arc<Mutex<Vec<Value>>>,
    /// Ends, with a line on the error output, when it gets this request.
    crashes_on: Option<&'static str>,
    is_trusted: bool,
    /// Its process is the one of the test, which uses some memory.
    has_memory: bool,
}

struct Control {
    pid: u32,
    ended: watch::Receiver<bool>,
}

impl ChildControl for Control {
    fn pid(&self) -> u32 {
        self.pid
    }

    fn wait(&mut self) -> Boxed<io::Result<Option<i32>>> {
        let mut ended = self.ended.clone();
        Box::pin(async move {
            let _ = ended.wait_for(|ended| *ended).await;
            Ok(Some(1))
        })
    }

    fn stop(&mut self) -> Boxed<()> {
        Box::pin(async {})
    }
}

impl Children for Script {
    fn trusts(&self, _: &Path) -> bool {
        self.is_trusted
    }

    fn start(&self, _: &str, _: ChildCommand, _: &Scope) -> Boxed<io::Result<Child>> {
        // Far above the ids of real processes.
        let number = 1 << 30 | (self.started.fetch_add(1, Ordering::SeqCst) + 1);
        let pid = if self.has_memory { std::process::id() } else { number };
        let ((stdin, input), (stdout, output), (stderr, errors)) =
            (tokio::io::duplex(1 << 16), tokio::io::duplex(1 << 16), tokio::io::duplex(1 << 16));
        let (end, ended) = watch::channel(false);
        let serving = self.clone().serve(BufReader::new(input), output, errors, end);
        #[expect(clippy::disallowed_methods, reason = "the far end of a test")]
        tokio::spawn(serving);
        let control = Box::new(Control { pid, ended });
        let child =
            Child { stdin: Box::new(stdin), stdout: Box::new(stdout), stderr: Box::new(stderr), control };
        Box::pin(async { Ok(child) })
    }
}

impl Script {
    async fn serve(
        self,
        mut input: BufReader<DuplexStream>,
        mut output: DuplexStream,
        mut errors: DuplexStream,
        end: watch::Sender<bool>,
    ) {
        while let Some(message) = read(&mut input).await {
            let method = message["method"].as_str().unwrap_or_default().to_owned();
            self.received.lock().push(message.clone());
            if self.crashes_on == Some(method.as_str()) {
                errors.write_all(b"thread panicked: out of cheese\n").await.unwrap();
                break;
            }
            if method == "exit" {
                break;
            }
            if message["id"].is_null() {
                continue;
            }
            let result = match method.as_str() {
                "initialize" => json!({ "capabilities": { "hoverProvider": true } }),
                "textDocument/hover" => json!({ "contents": "a word" }),
                _ => Value::Null,
            };
            let body = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }).to_string();
            let frame = format!("Content-Length: {}\r\n\r\n{body}", body.len());
            output.write_all(frame.as_bytes()).await.unwrap();
        }
        let _ = end.send(true);
    }

    fn started(&self) -> u32 {
        self.started.load(Ordering::SeqCst)
    }

    fn received(&self, method: &str) -> usize {
        self.received.lock().iter().filter(|message| message["method"] == method).count()
    }
}

async fn read(input: &mut BufReader<DuplexStream>) -> Option<Value> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if input.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        match line.trim().strip_prefix("Content-Length: ") {
            Some(number) => length = number.parse().unwrap(),
            None if line.trim().is_empty() => break,
            None => {}
        }
    }
    let mut body = vec![0; length];
    input.read_exact(&mut body).await.ok()?;
    serde_json::from_slice(&body).ok()
}

struct Scene {
    folder: tempfile::TempDir,
    script: Script,
    pool: Pool,
    changes: Changes,
}

/// `/bin/sh` is a program that exists: what is started is the script.
fn servers_of_test() -> Vec<Server> {
    let server = |ending: &str| json!({ "command": ["/bin/sh"], "extensions": [ending] });
    let mut config = json!({ "one": server("one"), "two": server("two"), "runner": server("run") });
    config["runner"]["runs_project_code"] = json!(true);
    super::servers(&serde_json::from_value(config).unwrap())
}

fn scene(script: Script, limits: Limits) -> Scene {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.one"), "first").unwrap();
    let host = Host::builder("code").children(Arc::new(script.clone())).build();
    let pool = Pool::new(host, servers_of_test(), limits);
    Scene { folder, script, pool, changes: ToolSet::new("test", "1").changes() }
}

const LIMITS: Limits = Limits { idle: Duration::from_mins(5), memory_mb: 4096, most: 8 };

impl Scene {
    fn project(&self) -> Project {
        let folder = self.folder.path().to_owned();
        Projects::new(vec![folder], false).locate(".", None).unwrap().project
    }

    async fn running(&self, server: &str) -> Result<Arc<Running>, String> {
        let server = self.pool.servers().iter().find(|known| known.name == server).unwrap();
        let running = self.pool.running(server, &self.project(), &self.changes).await;
        running.map_err(|error| error.message().to_owned())
    }

    fn states(&self) -> Vec<(String, &'static str)> {
        self.pool.statuses().into_iter().map(|status| (status.server, status.state)).collect()
    }

    fn path(&self) -> PathBuf {
        self.project().root().join("a.one")
    }
}

async fn hover(running: &Running) -> Result<Value, toolyard_lsp::LspError> {
    running.session.request("textDocument/hover", json!({}), Duration::from_secs(5)).await
}

#[tokio::test(start_paused = true)]
async fn requests_at_the_same_time_share_one_server_and_so_do_later_ones() {
    let scene = scene(Script::default(), LIMITS);
    let (first, second) = tokio::join!(scene.running("one"), scene.running("one"));
    assert_eq!(first.unwrap().pid, second.unwrap().pid);
    let third = scene.running("one").await.unwrap();
    assert_eq!(hover(&third).await.unwrap()["contents"], "a word");
    assert_eq!((scene.script.started(), scene.script.received("initialize")), (1, 1));
    assert_eq!(scene.states(), [("one".to_owned(), "running")]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_crashes_is_started_again_after_growing_pauses() {
    let scene = scene(Script { crashes_on: Some("textDocument/hover"), ..Script::default() }, LIMITS);
    for crashes in 1..=3_u32 {
        let before = tokio::time::Instant::now();
        let running = scene.running("one").await.unwrap();
        let pause = before.elapsed().as_secs();
        assert_eq!(
            (pause, scene.script.started()),
            (if crashes == 1 { 0 } else { 1 << (crashes - 2) }, crashes)
        );
        assert!(matches!(hover(&running).await, Err(toolyard_lsp::LspError::Closed(_))));
    }
    // Each request waited for the next start until the pause got too long.
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(scene.states(), [("one".to_owned(), "failed")]);
    scene.running("one").await.unwrap();
    hover(&scene.running("one").await.unwrap()).await.unwrap_err();
    tokio::time::sleep(Duration::from_millis(10)).await;
    let error = scene.running("one").await.unwrap_err();
    assert_eq!(
        error,
        "cannot use the language server `one`: the server closed its output; its last error output: thread \
         panicked: out of cheese"
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_start_fails_the_request_with_the_reason() {
    let scene = scene(Script { crashes_on: Some("initialize"), ..Script::default() }, LIMITS);
    let error = scene.running("one").await.unwrap_err();
    assert!(error.ends_with("out of cheese"), "{error}");
    assert_eq!(scene.script.started(), 1, "it is not tried over and over by one request");
}

#[tokio::test(start_paused = true)]
async fn an_unused_server_is_shut_down_and_started_by_the_next_request() {
    let scene = scene(Script::default(), LIMITS);
    scene.running("one").await.unwrap();
    tokio::time::sleep(Duration::from_mins(4)).await;
    scene.running("one").await.unwrap();
    tokio::time::sleep(Duration::from_mins(4)).await;
    assert_eq!(scene.states(), [("one".to_owned(), "running")], "it was used four minutes ago");
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(scene.states(), [("one".to_owned(), "stopped")]);
    assert_eq!((scene.script.received("shutdown"), scene.script.received("exit")), (1, 1));
    scene.running("one").await.unwrap();
    assert_eq!(scene.script.started(), 2);
}

#[cfg(target_os = "linux")]
#[tokio::test(start_paused = true)]
async fn a_server_that_uses_too_much_memory_is_stopped_and_the_next_request_starts_it() {
    let script = Script { has_memory: true, ..Script::default() };
    let scene = scene(script, Limits { memory_mb: 0, ..LIMITS });
    scene.running("one").await.unwrap();
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(scene.states(), [("one".to_owned(), "failed")]);
    let reason = scene.pool.statuses()[0].note.clone().unwrap();
    assert!(reason.ends_with("MB of memory and was stopped"), "{reason}");
    scene.running("one").await.unwrap();
    assert_eq!(scene.script.started(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_server_used_least_recently_makes_room() {
    let scene = scene(Script::default(), Limits { most: 1, ..LIMITS });
    scene.running("one").await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    scene.running("two").await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(scene.states(), [("one".to_owned(), "stopped"), ("two".to_owned(), "running")]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_runs_project_code_does_not_start_in_an_untrusted_project() {
    let scene = scene(Script::default(), LIMITS);
    let error = scene.running("runner").await.unwrap_err();
    assert!(error.contains("it runs code of the project"), "{error}");
    assert_eq!(scene.script.started(), 0);
    let trusting = self::scene(Script { is_trusted: true, ..Script::default() }, LIMITS);
    assert!(trusting.running("runner").await.is_ok());
}

#[tokio::test]
async fn a_file_that_changes_on_the_disk_changes_in_the_server() {
    let scene = scene(Script::default(), LIMITS);
    let running = scene.running("one").await.unwrap();
    running.session.sync(&scene.path(), "one", "first").unwrap();
    hover(&running).await.unwrap();
    // The watch starts after the server: write until it is noticed.
    for attempt in 0..100 {
        std::fs::write(scene.path(), format!("text {attempt}")).unwrap();
        tokio::time::sleep(Duration::from_millis(300)).await;
        if scene.script.received("textDocument/didChange") > 0 {
            break;
        }
    }
    assert!(scene.script.received("workspace/didChangeWatchedFiles") > 0);
    assert!(scene.script.received("textDocument/didChange") > 0);
}

#[test]
fn a_resource_names_the_diagnostics_of_a_file() {
    assert_eq!(run::diagnostics_uri(Path::new("/a b/c.rs")), "code://diagnostics/a%20b/c.rs");
}
