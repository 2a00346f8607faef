//! Runs of agents with scripts in the place of real programs.

#![cfg(unix)]

mod kept;
mod permissions;

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::sync::watch;
use toolyard_tool::host::{BoxFuture, Child, ChildCommand, ChildControl, Children, FoldersIn, Scope};
use toolyard_tool::{Context, Host, ToolError};

use crate::agents::{Agents, Wanted};
use crate::store::{Run, Status};
use crate::tools::{look, spawn, tasks};

/// Starts processes without a guard.
struct Processes;

struct Process {
    id: u32,
    stop: watch::Sender<bool>,
    ended: watch::Receiver<Option<std::process::ExitStatus>>,
}

impl Children for Processes {
    fn start(&self, _: &str, command: ChildCommand, owner: &Scope) -> BoxFuture<std::io::Result<Child>> {
        let owner = owner.clone();
        Box::pin(async move {
            let mut process = tokio::process::Command::new(&command.program);
            process.args(&command.args).envs(command.env).kill_on_drop(true);
            process.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            if let Some(folder) = command.folder {
                process.current_dir(folder);
            }
            let mut child = process.spawn()?;
            let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
            let (stop, mut stopped) = watch::channel(false);
            let (end, ended) = watch::channel(None);
            let id = child.id().unwrap_or_default();
            owner.spawn(async move {
                tokio::select! {
                    _ = child.wait() => {}
                    // Also if the control is dropped.
                    () = async { drop(stopped.wait_for(|stop| *stop).await) } => {}
                }
                let _ = child.start_kill();
                let status = child.wait().await;
                end.send_replace(status.ok());
            });
            Ok(Child {
                stdin: Box::new(stdin.unwrap()),
                stdout: Box::new(stdout.unwrap()),
                stderr: Box::new(stderr.unwrap()),
                control: Box::new(Process { id, stop, ended }),
            })
        })
    }

    fn trusts(&self, _: &Path) -> bool {
        true
    }
}

impl ChildControl for Process {
    fn pid(&self) -> u32 {
        self.id
    }

    fn wait(&mut self) -> BoxFuture<std::io::Result<Option<i32>>> {
        let mut ended = self.ended.clone();
        Box::pin(async move {
            let ended = ended.wait_for(Option::is_some).await;
            Ok(ended.ok().and_then(|status| status.as_ref().and_then(std::process::ExitStatus::code)))
        })
    }

    fn stop(&mut self) -> BoxFuture<()> {
        self.stop.send_replace(true);
        let waiting = self.wait();
        Box::pin(async move { drop(waiting.await) })
    }
}

struct Bench {
    folder: TempDir,
    agents: Agents,
}

/// Who calls without a client.
fn owner() -> String {
    Context::detached().caller().principal
}

fn host(folder: &Path) -> Host {
    let folders = FoldersIn::new(folder.join("state"), folder.join("cache"));
    Host::builder("agents").folders(Arc::new(folders)).children(Arc::new(Processes)).build()
}

/// Waits for a bounded time until it is so.
async fn until(is_so: impl Fn() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), waiting).await.unwrap();
}

impl Bench {
    /// With one type, `explore`, that runs this script.
    fn new(script: &str) -> Self {
        Self::with(json!({ "program": "command", "command": ["sh", "-c", script] }))
    }

    #[expect(clippy::needless_pass_by_value, reason = "written with `json!`")]
    fn with(explore: Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path().join("project");
        std::fs::create_dir_all(&project).unwrap();
        let config = json!({ "types": { "explore": explore }, "projects": [project], "concurrent": 2 });
        assert_eq!(crate::pack().check(&config), []);
        let agents = Agents::new(serde_json::from_value(config).unwrap(), host(folder.path())).unwrap();
        Self { folder, agents }
    }

    fn start(&self, prompt: &str, timeout: u64) -> Result<Run, ToolError> {
        let folder = self.agents.project(None)?;
        let wanted = Wanted {
            prompt: prompt.into(),
            agent_type: "explore".into(),
            description: None,
            model: None,
            timeout,
            folder,
        };
        self.agents.start(&Context::detached(), wanted)
    }

    async fn run(&self, prompt: &str, timeout: u64) -> Run {
        let run = self.start(prompt, timeout).unwrap();
        self.agents.wait(&Context::detached(), &run).await.unwrap()
    }

    /// As after a kill of the gateway of the runs so far: nothing is written down any more, and its lock is free.
    fn lose_gateway(&self) {
        std::fs::remove_dir_all(self.agents.store.folder().join("gateways")).unwrap();
    }

    /// Another gateway with the same state directory and config.
    fn another(&self) -> Agents {
        Agents::new(self.agents.config.clone(), host(self.folder.path())).unwrap()
    }

    async fn spawn(&self, arguments: Value) -> Result<Value, String> {
        let args = serde_json::from_value(arguments).unwrap();
        let answer = spawn::agent_spawn(&self.agents, &Context::detached(), args).await;
        answer.map(|shown| json!(shown.value())).map_err(|error| error.to_string())
    }
}

#[tokio::test]
async fn the_prompt_is_on_stdin_and_the_output_is_the_result() {
    let bench = Bench::new("echo \"$0 $*\"; cat");
    let run = bench.run("find the door", 60).await;
    assert_eq!(run.status, Status::Completed, "{run:?}");
    assert_eq!(run.result.as_deref(), Some("sh\nfind the door\n"));
}

#[tokio::test]
async fn an_agent_that_exits_with_an_error_has_failed_with_its_stderr_output() {
    let run = Bench::new("echo half; echo broken >&2; exit 3").run("x", 60).await;
    assert_eq!((run.status, run.error.as_deref()), (Status::Failed, Some("exited with 3: broken")));
    assert_eq!(run.result.as_deref(), Some("half\n"));
    let missing =
        Bench::with(json!({ "program": "command", "command": ["no-such-program"] })).run("x", 60).await;
    assert!(missing.error.unwrap().starts_with("cannot start `no-such-program`"));
}

#[tokio::test]
async fn output_is_there_while_the_agent_runs() {
    let bench = Bench::new("echo one; while [ ! -e go ]; do sleep 0.05; done; echo two");
    let run = bench.start("x", 60).unwrap();
    until(|| bench.agents.store.tail(&run.id, 5) == ["one"]).await;
    assert_eq!(bench.agents.store.get(&owner(), &run.id).unwrap().status, Status::Running);
    std::fs::write(bench.folder.path().join("project/go"), "").unwrap();
    let run = bench.agents.wait(&Context::detached(), &run).await.unwrap();
    assert_eq!(bench.agents.store.tail(&run.id, 5), ["one", "two"]);
}

#[tokio::test]
async fn a_cancelled_agent_and_one_whose_time_is_up_are_stopped() {
    let bench = Bench::new("echo one; exec sleep 1000");
    let run = bench.start("x", 60).unwrap();
    let args = serde_json::from_value(json!({ "task_id": run.id })).unwrap();
    let cancelled = look::agent_cancel(&bench.agents, &Context::detached(), args).await.unwrap();
    assert_eq!(cancelled.value().status, Status::Cancelled);
    let run = bench.run("x", 1).await;
    assert_eq!((run.status, run.error.as_deref()), (Status::Failed, Some("timed out after 1 s")));
}

#[tokio::test]
async fn an_agent_that_closes_its_output_and_lives_on_is_cancelled_and_timed_out() {
    let bench = Bench::new("echo one; exec >&- 2>&-; exec sleep 1000");
    let run = bench.run("x", 1).await;
    assert_eq!((run.status, run.error.as_deref()), (Status::Failed, Some("timed out after 1 s")));
    assert_eq!(run.result.as_deref(), Some("one\n"), "what it has written stays");
    let run = bench.start("x", 60).unwrap();
    until(|| bench.agents.store.tail(&run.id, 5) == ["one"]).await;
    bench.agents.cancel(&run);
    let run = bench.agents.wait(&Context::detached(), &run).await.unwrap();
    assert_eq!(run.status, Status::Cancelled);
}

#[tokio::test]
async fn a_model_cannot_be_an_option_of_the_program() {
    let bench = Bench::new("cat");
    let error = bench.spawn(json!({ "prompt": "x", "model": "--yolo" })).await.unwrap_err();
    assert!(error.starts_with("`--yolo` is not the name of a model"), "{error}");
}

#[tokio::test]
async fn connections_that_do_not_prove_their_user_start_no_agents() {
    let folder = tempfile::tempdir().unwrap();
    let config =
        json!({ "types": { "explore": { "program": "command", "command": ["cat"] } }, "projects": [] });
    let set = crate::tools(serde_json::from_value(config).unwrap(), host(folder.path()));
    let server =
        toolyard_tool::Server::start(set, [toolyard_tool::Door::Tcp("127.0.0.1:0".into())]).await.unwrap();
    let stream = tokio::net::TcpStream::connect(server.addresses()[0]).await.unwrap();
    let (read, mut write) = stream.into_split();
    let about = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {} });
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "agent_list", "arguments": {}, "_meta": about } });
    write.write_all(format!("{call}\n").as_bytes()).await.unwrap();
    let answer = BufReader::new(read).lines().next_line().await.unwrap().unwrap();
    assert!(answer.contains("only connections that prove their user"), "{answer}");
    assert!(answer.contains("\"isError\":true"), "{answer}");
}

#[tokio::test]
async fn agents_of_others_are_not_found() {
    let bench = Bench::new("cat");
    let run = bench.run("x", 60).await;
    let error = bench.agents.store.get("mallory", &run.id).unwrap_err().to_string();
    assert!(error.starts_with("no agent `agent_"), "{error}");
}

#[tokio::test]
async fn more_agents_than_the_limit_are_refused() {
    let bench = Bench::new("exec sleep 1000");
    let (first, _second) = (bench.start("x", 60).unwrap(), bench.start("x", 60).unwrap());
    let error = bench.start("x", 60).unwrap_err().to_string();
    assert!(error.starts_with("2 agents are running, which is the limit"), "{error}");
    bench.agents.cancel(&first);
    bench.agents.wait(&Context::detached(), &first).await.unwrap();
    bench.start("x", 60).unwrap();
}

#[tokio::test]
async fn a_run_that_was_under_way_when_the_gateway_ended_has_failed_after_the_restart() {
    let bench = Bench::new("exec sleep 1000");
    let run = bench.start("x", 60).unwrap();
    let again = crate::store::Store::open(&host(bench.folder.path())).unwrap();
    let seen = again.get(&owner(), &run.id).unwrap();
    assert_eq!(seen.status, Status::Running, "the gateway of the run is still there");
    // As after a kill: nothing is written down any more, and the lock is free.
    bench.lose_gateway();
    let again = crate::store::Store::open(&host(bench.folder.path())).unwrap();
    let run = again.get(&owner(), &run.id).unwrap();
    assert_eq!((run.status, run.error.as_deref()), (Status::Failed, Some("the gateway was restarted")));
}

#[tokio::test]
async fn gateways_with_one_state_directory_leave_each_others_runs_alone() {
    let bench = Bench::new("while [ ! -e go ]; do sleep 0.05; done; echo done");
    let lost = bench.start("x", 60).unwrap();
    bench.lose_gateway();
    let other = Bench { folder: tempfile::tempdir().unwrap(), agents: bench.another() };
    let kept = other.start("x", 60).unwrap();
    let third = bench.another();
    let status = |run: &Run| third.store.get(&owner(), &run.id).unwrap().status;
    assert_eq!((status(&lost), status(&kept)), (Status::Failed, Status::Running));
    let args = read(json!({ "task_id": kept.id }));
    let refused = look::agent_cancel(&third, &Context::detached(), args).await.map(|_| ());
    assert!(refused.unwrap_err().to_string().contains("runs at another gateway"));
    std::fs::write(bench.folder.path().join("project/go"), "").unwrap();
    let kept = third.wait(&Context::detached(), &kept).await.unwrap();
    assert_eq!((kept.status, kept.result.as_deref()), (Status::Completed, Some("done\n")), "{kept:?}");
}

#[tokio::test]
async fn worktrees_of_a_killed_gateway_are_removed_at_the_next_start_or_named_if_they_have_changes() {
    let script = "read word; [ $word = change ] && echo new > made; echo ready; exec sleep 1000";
    let bench = Bench::with(json!({ "program": "command", "command": ["sh", "-c", script], "write": true }));
    let project = bench.folder.path().join("project");
    git(&project, &["init", "-q"]);
    git(&project, &["commit", "-q", "--allow-empty", "-m", "first"]);
    let runs = ["change\n", "nothing\n"].map(|prompt| bench.start(prompt, 60).unwrap());
    for run in &runs {
        until(|| bench.agents.store.tail(&run.id, 5) == ["ready"]).await;
    }
    let folders = || std::fs::read_dir(bench.agents.store.folder().join("worktrees")).unwrap().count();
    assert_eq!(folders(), 2);
    bench.lose_gateway();
    let again = bench.another();
    let named = |run: &Run| again.store.get(&owner(), &run.id).unwrap().worktree;
    until(|| folders() == 1 && named(&runs[0]).is_some()).await;
    let kept = named(&runs[0]).unwrap();
    assert_eq!(std::fs::read_to_string(Path::new(&kept).join("made")).unwrap(), "new\n");
    assert_eq!(named(&runs[1]), None);
    let clean = async || {
        let args = read(json!({ "max_age_minutes": 0, "statuses": ["failed"] }));
        look::agent_cleanup(&again, &Context::detached(), args).await.unwrap()
    };
    assert_eq!(clean().await, format!("Removed 2 agents\nA worktree with changes stays: {kept}"));
    std::fs::remove_file(Path::new(&kept).join("made")).unwrap();
    assert_eq!(clean().await, "Removed 0 agents");
    assert_eq!(folders(), 0, "without changes it is removed");
}

#[tokio::test]
async fn a_failed_and_a_cancelled_run_are_run_again() {
    let bench = Bench::new("[ -e go ] && exec cat; [ -e wait ] && exec sleep 1000; exit 3");
    let project = bench.folder.path().join("project");
    let failed = bench.run("again", 60).await;
    assert_eq!(failed.status, Status::Failed);
    std::fs::write(project.join("wait"), "").unwrap();
    let cancelled = bench.start("again", 60).unwrap();
    bench.agents.cancel(&cancelled);
    let cancelled = bench.agents.wait(&Context::detached(), &cancelled).await.unwrap();
    assert_eq!((cancelled.status, cancelled.error.as_deref()), (Status::Cancelled, Some("by request")));
    std::fs::write(project.join("go"), "").unwrap();
    for ended in [failed, cancelled] {
        let args = read(json!({ "task_id": ended.id }));
        let retried = spawn::agent_retry(&bench.agents, &Context::detached(), args).await.unwrap();
        let retried = bench.agents.wait(&Context::detached(), retried.value()).await.unwrap();
        assert_eq!((retried.status, retried.result.as_deref()), (Status::Completed, Some("again\n")));
        assert_ne!(retried.id, ended.id);
    }
}

#[tokio::test]
async fn a_model_is_passed_on_where_the_command_has_a_place_for_it_or_refused() {
    let bench = Bench::new("cat");
    let error = bench.spawn(json!({ "prompt": "x", "model": "m" })).await.unwrap_err();
    assert!(error.starts_with("agents of the type `explore` take no model, and `m` was passed"), "{error}");
    let placed = json!({ "program": "command", "command": ["echo", "model={model}"] });
    let bench = Bench::with(placed);
    let run = bench.spawn(json!({ "prompt": "x", "model": "m", "blocking": true })).await.unwrap();
    assert_eq!(run["result"], "model=m\n");
    let error = bench.spawn(json!({ "prompt": "x" })).await.unwrap_err();
    assert!(error.starts_with("the command of the type `explore` needs a model"), "{error}");
}

#[test]
fn a_limit_that_cannot_be_kept_and_a_model_without_effect_are_problems_of_the_config() {
    let problems = |explore: Value| {
        let config = json!({ "types": { "explore": explore }, "projects": [], "tree_cost": 1.0 });
        let problems = crate::pack().check(&config);
        problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    };
    for program in ["codex", "gemini", "opencode"] {
        let found = problems(json!({ "program": program }));
        assert!(found.contains("`types.explore.price_in` is needed with `price_out`"), "{program}: {found}");
        assert_eq!(problems(json!({ "program": program, "price_in": 1.0, "price_out": 5.0 })), "");
    }
    assert_eq!(problems(json!({ "program": "claude" })), "");
    let found = problems(json!({ "program": "command", "command": ["cat"], "model": "m" }));
    assert!(found.contains("`types.explore.model` has no effect"), "{found}");
}

#[tokio::test]
async fn tokens_have_the_cost_of_the_configured_prices_also_if_the_run_is_cancelled() {
    let usage = r#"{"type":"turn.completed","usage":{"input_tokens":3000000,"cached_input_tokens":1000000,"output_tokens":1000000}}"#;
    let script = format!("echo '{usage}'; exec sleep 1000");
    let with = |more: Value| {
        let mut of = json!({ "program": "command", "command": ["sh", "-c", script] });
        of.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        Bench::with(of)
    };
    for (prices, expected) in
        [(json!({ "price_in": 1.0, "price_cached": 0.5, "price_out": 10.0 }), Some(12.5)), (json!({}), None)]
    {
        let run = with(prices).run("x", 1).await;
        assert_eq!((run.status, run.cost), (Status::Failed, expected), "{run:?}");
    }
}

#[tokio::test]
async fn tasks_are_views_of_the_same_runs() {
    let bench = Bench::new("cat");
    let context = Context::detached();
    let spawned = tasks::task_spawn(&bench.agents, &context, read(json!({ "prompt": "x" }))).await.unwrap();
    let id = &spawned.value().id;
    let run = bench.agents.wait(&context, spawned.value()).await.unwrap();
    assert_eq!((run.status, run.result.as_deref()), (Status::Completed, Some("x\n")));
    let by_task = tasks::task_status(&bench.agents, &context, read(json!({ "task_id": id }))).unwrap();
    let by_agent = look::agent_output(&bench.agents, &context, read(json!({ "task_id": id }))).await.unwrap();
    assert_eq!(json!(by_task.value()), json!(by_agent.value()));
    let agent = bench.run("y", 60).await;
    let listed = tasks::task_list(&bench.agents, &context).unwrap();
    let mut listed: Vec<&str> = listed.value().iter().map(|run| run.id.as_str()).collect();
    let mut expected = [id.as_str(), agent.id.as_str()];
    listed.sort_unstable();
    expected.sort_unstable();
    assert_eq!(listed, expected, "a run that was started as an agent is a task, too");
}

fn read<T: serde::de::DeserializeOwned>(arguments: Value) -> T {
    serde_json::from_value(arguments).unwrap()
}

#[tokio::test]
async fn workers_may_not_spawn_and_leads_must_state_why() {
    let bench = Bench::new("cat");
    let check = async |arguments: Value, expected: &str| {
        let error = bench.spawn(arguments).await.unwrap_err();
        assert!(error.starts_with(expected), "{error}");
    };
    check(
        json!({ "prompt": "x", "spawning_agent": "dewey" }),
        "an agent of type `dewey` may not spawn agents",
    )
    .await;
    check(
        json!({ "prompt": "x", "spawning_agent": "research-lead" }),
        "an agent that spawns another must pass delegation_reason, expected_outcome, required_tools",
    )
    .await;
    let full = |tools: Value| {
        json!({ "prompt": "x", "spawning_agent": "research-lead", "delegation_reason": "r", "expected_outcome": "o",
            "required_tools": tools, "blocking": true })
    };
    check(full(json!(["Edit"])), "an agent of type `explore` does not have Edit").await;
    assert_eq!(bench.spawn(full(json!(["Read"]))).await.unwrap()["status"], "completed");
    check(json!({ "prompt": "x", "agent_type": "ghost" }), "there is no type of agent `ghost`").await;
    check(json!({ "prompt": "x", "project_path": "/etc" }), "agents may not work in `/etc`").await;
}

/// An agent that speaks the protocol, asks for a permission and reports what it got.
const ACP: &str = r#"
read line; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}'
read line; echo '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s"}}'
read line
echo '{"jsonrpc":"2.0","method":"session/update","params":{"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Hello. "}}}}'
echo '{"jsonrpc":"2.0","id":9,"method":"session/request_permission","params":{"toolCall":{"title":"rm x","kind":"execute"},"options":[{"optionId":"y","kind":"allow_once"},{"optionId":"n","kind":"reject_once"}]}}'
read answer
case "$answer" in *'"optionId":"y"'*) word=allowed;; *'"optionId":"n"'*) word=rejected;; *) word=lost;; esac
echo '{"jsonrpc":"2.0","method":"session/update","params":{"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"'$word'"}}}}'
echo '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}'
exec sleep 1000
"#;

#[tokio::test]
async fn an_agent_that_speaks_the_protocol_asks_its_owner() {
    let bench = Bench::with(json!({ "program": "acp", "command": ["sh", "-c", ACP] }));
    // A client that cannot be asked allows nothing.
    let run = bench.run("x", 60).await;
    assert_eq!((run.status, run.result.as_deref()), (Status::Completed, Some("Hello. rejected")), "{run:?}");
    let run = bench.start("x", 60).unwrap();
    let live = bench.agents.under_way(&run).unwrap();
    live.asked.notified().await;
    let text = live.waits_for().unwrap();
    assert!(text.ends_with("(explore) asks to run: rm x (execute)"), "{text}");
    live.take_question().unwrap().reply.send(true).unwrap();
    let run = bench.agents.wait(&Context::detached(), &run).await.unwrap();
    assert_eq!(run.result.as_deref(), Some("Hello. allowed"));
    assert_eq!(bench.agents.store.tail(&run.id, 5), ["[asks] rm x", "Hello. allowed"]);
}

/// An agent that speaks the protocol, offers models, uses the one that is set, and reports its tokens.
const ACP_MODELS: &str = r#"
read line; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}'
read line; echo '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s"'$MODELS'}}'
read chosen
case "$chosen" in *'"session/set_model"'*'"modelId":"big"'*) word=big;; *) word=none;; esac
echo '{"jsonrpc":"2.0","id":3,"result":{}}'
read line
echo '{"jsonrpc":"2.0","method":"session/update","params":{"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"'$word'"}}}}'
echo '{"jsonrpc":"2.0","id":4,"result":{"stopReason":"end_turn","usage":{"inputTokens":500000,"outputTokens":100000}}}'
exec sleep 1000
"#;

#[tokio::test]
async fn an_agent_that_speaks_the_protocol_gets_its_model_or_the_run_fails() {
    let with = |models: &str| {
        Bench::with(json!({ "program": "acp", "command": ["sh", "-c", ACP_MODELS], "model": "big",
            "env": { "MODELS": models }, "price_in": 2.0, "price_out": 10.0 }))
    };
    let run = with(r#","models":{"currentModelId":"small"}"#).run("x", 60).await;
    assert_eq!((run.result.as_deref(), run.cost), (Some("big"), Some(2.0)), "{run:?}");
    let run = with("").run("x", 60).await;
    let error = run.error.unwrap();
    assert!(error.starts_with("the agent lets its client choose no model"), "{error}");
}

/// Writes a line of 5 MiB that is not a message, a chunk of 300 KiB without a line break, 300 times, and ends well.
const ENDLESS_ACP: &str = r#"
big=$(head -c 300000 /dev/zero | tr '\0' x)
read line; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}'
read line; echo '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s"}}'
read line
head -c 5242880 /dev/zero | tr '\0' y; echo
for i in $(seq 30); do
  echo '{"jsonrpc":"2.0","method":"session/update","params":{"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"'$big'"}}}}'
done
echo '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}'
exec sleep 1000
"#;

#[tokio::test]
async fn an_agent_that_writes_without_end_takes_bounded_memory_and_disk() {
    let bench = Bench::with(json!({ "program": "acp", "command": ["sh", "-c", ENDLESS_ACP] }));
    let run = bench.run("x", 60).await;
    assert_eq!(run.status, Status::Completed, "{:?}", run.error);
    let result = run.result.unwrap();
    assert_eq!(result.len(), (1 << 20) + '…'.len_utf8());
    let output = bench.agents.store.folder().join("runs").join(format!("{}.log", run.id));
    let text = std::fs::read_to_string(output).unwrap();
    let longest = text.lines().map(str::len).max().unwrap();
    assert!(longest <= (64 << 10) + '…'.len_utf8(), "a line of {longest} bytes is shown");
    assert!(!text.contains('y'), "anything but a message is not shown");
}

fn git(folder: &Path, arguments: &[&str]) {
    let config = ["-c", "user.name=a", "-c", "user.email=a@b"];
    let done =
        std::process::Command::new("git").args(config).args(arguments).current_dir(folder).output().unwrap();
    assert!(done.status.success(), "{done:?}");
}

#[tokio::test]
async fn an_agent_that_writes_has_a_worktree_which_stays_only_with_changes() {
    for (script, is_kept) in [("echo new > made", true), ("cat > /dev/null", false)] {
        let bench =
            Bench::with(json!({ "program": "command", "command": ["sh", "-c", script], "write": true }));
        let project = bench.folder.path().join("project");
        git(&project, &["init", "-q"]);
        git(&project, &["commit", "-q", "--allow-empty", "-m", "first"]);
        let run = bench.run("x", 60).await;
        assert_eq!(run.status, Status::Completed, "{run:?}");
        assert_eq!(run.worktree.is_some(), is_kept, "{run:?}");
        assert!(!project.join("made").exists(), "the project itself is untouched");
        if let Some(worktree) = run.worktree {
            assert_eq!(std::fs::read_to_string(Path::new(&worktree).join("made")).unwrap(), "new\n");
        }
    }
}

#[tokio::test]
async fn filters_and_hooks_of_a_repository_are_not_run_for_a_worktree() {
    // The agent points its worktree to a repository of its own, which has a filter, too.
    let script = "printf changed > file; git init -q other; git -C other config filter.evil.clean 'touch ../ran; cat'; \
        cp -r other/.git/config stolen; printf 'gitdir: %s/other/.git' \"$PWD\" > .git";
    let bench = Bench::with(json!({ "program": "command", "command": ["sh", "-c", script], "write": true }));
    let project = bench.folder.path().join("project");
    let ran = bench.folder.path().join("ran");
    git(&project, &["init", "-q"]);
    std::fs::write(project.join(".gitattributes"), "* filter=evil\n").unwrap();
    std::fs::write(project.join("file"), "text").unwrap();
    git(&project, &["add", "."]);
    git(&project, &["commit", "-q", "-m", "first"]);
    let evil = format!("touch {}; cat", ran.display());
    for key in ["filter.evil.clean", "filter.evil.smudge", "core.fsmonitor"] {
        git(&project, &["config", key, &evil]);
    }
    let hook = project.join(".git/hooks/post-checkout");
    std::fs::write(&hook, format!("#!/bin/sh\n{evil}\n")).unwrap();
    std::fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let run = bench.run("x", 60).await;
    assert_eq!(run.status, Status::Completed, "{run:?}");
    assert!(run.worktree.is_some(), "it has changes: {run:?}");
    assert!(!ran.exists(), "code of the repository was run");
}

#[tokio::test]
async fn cleaning_up_removes_runs_that_have_ended_with_their_output() {
    let bench = Bench::new("cat");
    let run = bench.run("x", 60).await;
    let clean = async |minutes: u32| {
        let args = read(json!({ "max_age_minutes": minutes }));
        look::agent_cleanup(&bench.agents, &Context::detached(), args).await.unwrap()
    };
    assert_eq!(clean(30).await, "Removed 0 agents");
    assert_eq!(clean(0).await, "Removed 1 agents");
    assert!(bench.agents.store.get(&owner(), &run.id).is_err());
    assert_eq!(bench.agents.store.tail(&run.id, 5), Vec::<String>::new());
}
