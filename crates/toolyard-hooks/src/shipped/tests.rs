//! Each shipped hook on given text.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use super::{ALL, Reading, make};
use crate::{Event, HookKind, HookPlan, Hooks, OnFailure, OwnHook, Point, Runtime, Verdict};

async fn judge(name: &str, settings: Value, event: Event) -> Verdict {
    make(name, &settings).unwrap().run(event.into()).await.unwrap()
}

fn after(tool: &str, text: &str) -> Event {
    let result = json!({ "content": [{ "type": "text", "text": text }] });
    Event::new(Point::PostToolCall, Some(tool.into()), json!({ "arguments": {}, "result": result }))
}

fn before(tool: &str, arguments: &Value) -> Event {
    Event::new(Point::PreToolCall, Some(tool.into()), json!({ "arguments": arguments }))
}

fn asked(prompt: &str) -> Event {
    Event::new(Point::PreModelInvoke, Some("m".into()), json!({ "prompt": prompt }))
}

fn text(verdict: &Verdict) -> String {
    verdict.change["result"]["content"][0]["text"].as_str().unwrap().to_owned()
}

fn prompt(verdict: &Verdict) -> &str {
    verdict.change.get("prompt").and_then(Value::as_str).unwrap_or_default()
}

fn note(verdict: &Verdict) -> &str {
    verdict.note.as_deref().unwrap_or_default()
}

#[test]
fn only_hooks_that_read_files_run_under_their_time_limit() {
    for shipped in ALL {
        let reads = ["rules", "slash-skills", "directory-context"].contains(&shipped.name);
        let hook = make(shipped.name, &Value::Null).unwrap();
        assert_eq!(hook.judge(&asked("hello")).is_none(), reads, "{}", shipped.name);
    }
}

#[tokio::test]
async fn a_read_that_hangs_ends_with_the_time_of_its_hook() {
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let wait = parking_lot::Mutex::new(wait);
    let hook = Reading::new(Box::new(move |_| {
        let _ = wait.lock().recv();
        Verdict::note("late")
    }));
    let kind = HookKind::Own(OwnHook(std::sync::Arc::new(hook)));
    let plan = HookPlan {
        timeout: std::time::Duration::from_millis(50),
        on_failure: OnFailure::Block,
        ..HookPlan::new("slow", Point::PreModelInvoke, kind)
    };
    let hooks = Hooks::new(vec![plan], &Runtime::default(), &Hooks::default());
    // More events than are read for at the same time: those that wait for their place fail in time, too.
    let outcomes = futures_util::future::join_all((0..6).map(|_| hooks.run(asked("hello")))).await;
    drop(go);
    for outcome in outcomes {
        let reason = outcome.blocked.unwrap().reason;
        assert_eq!(reason, "the hook failed: it was not finished after 0.05 s");
    }
}

#[test]
fn settings_are_checked() {
    assert_eq!(ALL.len(), 18);
    assert!(ALL.iter().all(|one| make(one.name, &Value::Null).is_ok()));
    let wrong = |name: &str, settings: Value| make(name, &settings).err().unwrap();
    assert_eq!(wrong("truncate", json!({ "max": 1 })), "`max` is not a setting; there are max_chars, keep");
    assert_eq!(wrong("truncate", json!({ "max_chars": "1" })), "`max_chars` must be a number above 0");
    assert_eq!(wrong("sanitize", json!({ "a": 1 })), "`a` is not a setting: this hook has none");
    assert_eq!(wrong("nothing", json!({})), "Toolyard has no built-in hook `nothing`");
}

#[tokio::test]
async fn truncate_keeps_both_ends_or_the_tail() {
    let long = format!("{}äö{}", "a".repeat(50), "z".repeat(50));
    let ends = judge("truncate", json!({ "max_chars": 20 }), after("x:y", &long)).await;
    let left_out = "[… 82 characters left out; ask for a smaller part to see them …]";
    assert_eq!(text(&ends), format!("{}\n\n{left_out}\n\n{}", "a".repeat(10), "z".repeat(10)));
    let tail = judge("truncate", json!({ "max_chars": 20, "keep": "tail" }), after("x:y", &long)).await;
    assert!(text(&tail).ends_with(&format!("\n\n{}", "z".repeat(20))));
    assert_eq!(judge("truncate", json!({ "max_chars": 102 }), after("x:y", &long)).await, Verdict::pass());
}

#[test]
fn truncate_leaves_read_file_as_it_is_unless_the_config_names_it() {
    let kind = || HookKind::Shipped { name: "truncate".to_owned(), settings: Value::Null };
    let plan = HookPlan::new("short", Point::PostToolCall, kind());
    let is_for = |matches: &[&str], tool: &str| {
        let matches = matches.iter().map(|one| (*one).to_owned()).collect();
        let plans = vec![HookPlan { matches, ..plan.clone() }];
        let hooks = Hooks::new(plans, &Runtime::default(), &Hooks::default());
        !hooks.of(Point::PostToolCall, Some(tool)).is_empty()
    };
    for (matches, tool, expected) in [
        (&[][..], "code:grep_search", true),
        (&[], "files:read_file", true),
        (&[], "code:read_file", false),
        (&["code:*"], "code:read_file", true),
        (&["files:*"], "code:read_file", false),
    ] {
        assert_eq!(is_for(matches, tool), expected, "{matches:?} {tool}");
    }
}

#[tokio::test]
async fn redact_replaces_secrets_and_nothing_else() {
    let key = ["AKIA", "ABCDEFGHIJKLMNOP"].concat();
    let github = format!("ghp_{}", "a1B2".repeat(9));
    let given = format!(
        "id {key}; {github}; password = \"hunter22hunter\"; token count: 7; Bearer {}",
        "x".repeat(20)
    );
    let verdict = judge("redact", Value::Null, after("x:y", &given)).await;
    assert_eq!(
        text(&verdict),
        "id [redacted]; [redacted]; password = \"[redacted]\"; token count: 7; [redacted]"
    );
    let verdict = judge("redact", json!({ "with": "$1" }), asked(&format!("use {github}"))).await;
    assert_eq!(prompt(&verdict), "use $1");
    assert_eq!(judge("redact", Value::Null, asked("no secret here")).await, Verdict::pass());
    let messages = json!([{ "role": "user", "content": [{ "type": "text", "text": format!("{github}.") }] }]);
    let asked = json!({ "prompt": "fine", "system": github, "messages": messages });
    let verdict =
        judge("redact", Value::Null, Event::new(Point::PreModelInvoke, Some("m".into()), asked)).await;
    assert_eq!(verdict.change["messages"][0]["content"][0]["text"], "[redacted].");
    assert_eq!((verdict.change.get("prompt"), &verdict.change["system"]), (None, &json!("[redacted]")));
    let answer = json!({ "text": format!("it is {github}"), "thinking": format!("{github}?") });
    let answered = Event::new(Point::PostModelInvoke, Some("m".into()), answer);
    let verdict = judge("redact", Value::Null, answered).await;
    assert_eq!(
        (&verdict.change["text"], &verdict.change["thinking"]),
        (&json!("it is [redacted]"), &json!("[redacted]?"))
    );
    let mut structured = after("x:y", "fine");
    structured.data["result"]["structuredContent"] = json!({ "deep": [{ "key": key }] });
    let verdict = judge("redact", Value::Null, structured).await;
    assert_eq!(verdict.change["result"]["structuredContent"]["deep"][0]["key"], "[redacted]");
}

#[tokio::test]
async fn git_never_waits_for_a_terminal() {
    let run = async |command: &str| {
        let verdict =
            judge("git-noninteractive", Value::Null, before("x:shell", &json!({ "command": command }))).await;
        verdict.change.get("arguments").map(|arguments| arguments["command"].as_str().unwrap().to_owned())
    };
    let env = "GIT_TERMINAL_PROMPT=0 GIT_EDITOR=true GIT_PAGER=cat";
    assert_eq!(run("git log").await.unwrap(), format!("{env} git log"));
    assert_eq!(
        run("cd a && git pull; git push").await.unwrap(),
        format!("cd a && {env} git pull; {env} git push")
    );
    assert_eq!(run("echo git is nice").await, None);
    assert_eq!(run("GIT_TERMINAL_PROMPT=0 git log").await, None);
}

#[tokio::test]
async fn a_failed_edit_gets_advice() {
    let advice = async |text: &str| judge("edit-recovery", Value::Null, after("x:edit", text)).await;
    assert!(note(&advice("Error: old_string not found in file").await).contains("Read the file again"));
    assert!(note(&advice("Found multiple matches of the text").await).contains("occurs several times"));
    assert_eq!(advice("1 file changed").await, Verdict::pass());
}

#[tokio::test]
async fn code_that_is_mostly_comments_is_noted() {
    let write = async |path: &str, content: &str| {
        judge("comment-ratio", Value::Null, before("x:write", &json!({ "path": path, "content": content })))
            .await
    };
    let chatty = "// a\n// b\nlet x = 1;\n// c\nlet y = 2;\n";
    assert_eq!(
        note(&write("a.rs", chatty).await),
        "60 % of the lines are comments, more than 30 %. Keep those that give a reason"
    );
    assert_eq!(write("a.md", chatty).await, Verdict::pass());
    assert_eq!(write("a.rs", "// why\nlet a;\nlet b;\nlet c;\nlet d;\n").await, Verdict::pass());
}

fn project() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write(".claude/rules/rust.md", "---\nglobs: [\"**/*.rs\"]\npriority: 5\n---\nNo unwrap.");
    write(".claude/rules/web.md", "---\nglobs:\n  - \"*.ts\"\n---\nStrict types.");
    write(".claude/rules/off.md", "---\nenabled: false\n---\nOff.");
    write(".claude/rules/all.md", "Be brief.");
    write(".claude/commands/fix.md", "---\ndescription: d\n---\nFix issue $ARGUMENTS now.");
    write(".claude/skills/plan/SKILL.md", "Make a plan.");
    write("AGENTS.md", "Use make.\n");
    folder
}

fn asked_in(folder: &Path, prompt: &str, session: &str) -> Event {
    let data = json!({ "prompt": prompt, "project": folder, "session": session });
    Event::new(Point::PreModelInvoke, None, data)
}

#[tokio::test]
async fn rules_for_the_named_files_are_added_once_per_session() {
    let folder = project();
    let hook = make("rules", &Value::Null).unwrap();
    let run = async |prompt: &str| hook.run(asked_in(folder.path(), prompt, "s").into()).await.unwrap();
    assert_eq!(run("no file here").await, Verdict::pass());
    let first = run("change src/main.rs").await;
    let expected = "<rule name=\"rust\">\nNo unwrap.\n</rule>\n<rule name=\"all\">\nBe brief.\n</rule>\n\nchange src/main.rs";
    assert_eq!(prompt(&first), expected);
    assert_eq!(run("change src/lib.rs").await, Verdict::pass());
    assert!(prompt(&run("change app.ts").await).starts_with("<rule name=\"web\">"));
    let short = judge("rules", json!({ "max_tokens": 2 }), asked_in(folder.path(), "a.rs", "t")).await;
    assert_eq!(short, Verdict::pass(), "what does not fit is left out");
}

#[tokio::test]
async fn a_slash_at_the_start_names_a_command_or_skill() {
    let folder = project();
    let expand = async |prompt: &str| {
        let settings = json!({ "home": "/nowhere" });
        judge("slash-skills", settings, asked_in(folder.path(), prompt, "")).await
    };
    assert_eq!(prompt(&expand("/fix 12 soon").await), "Fix issue 12 soon now.");
    assert_eq!(prompt(&expand("/plan the release").await), "Make a plan.\n\nthe release");
    assert_eq!(expand("/unknown x").await, Verdict::pass());
    assert_eq!(expand("see /fix").await, Verdict::pass());
    assert_eq!(expand("/..:..:etc:passwd").await, Verdict::pass());
}

#[tokio::test]
async fn the_description_of_the_project_comes_first() {
    let folder = project();
    let verdict = judge("directory-context", Value::Null, asked_in(folder.path(), "build it", "")).await;
    assert_eq!(prompt(&verdict), "<file name=\"AGENTS.md\">\nUse make.\n</file>\n\nbuild it");
    let again = asked_in(folder.path(), prompt(&verdict), "");
    assert_eq!(judge("directory-context", Value::Null, again).await, Verdict::pass());
}

#[tokio::test]
async fn hard_questions_get_a_larger_budget() {
    let budget = async |prompt: &str| {
        judge("budget", Value::Null, asked(prompt)).await.change.remove("thinking_budget")
    };
    assert_eq!(budget("Design the architecture").await, Some(json!(16_000)));
    assert_eq!(budget("Say hello").await, Some(json!(2_000)));
    let mut set = asked("Design it");
    set.data.insert("thinking_budget".to_owned(), json!(5));
    assert_eq!(judge("budget", Value::Null, set).await, Verdict::pass());
}

#[tokio::test]
async fn keywords_add_their_mode_once() {
    let mode = async |text: &str| prompt(&judge("keyword-modes", Value::Null, asked(text)).await).to_owned();
    let given = mode("ultrawork: build it").await;
    assert!(given.starts_with("[ultrawork mode] ") && given.ends_with("\n\nultrawork: build it"), "{given}");
    assert_eq!(mode(&given).await, "");
    let both = mode("search, then give an analysis").await;
    assert!(both.contains("[search mode]") && both.contains("[analyze mode]"));
    assert_eq!(mode("hello").await, "");
}

#[tokio::test]
async fn empty_messages_and_control_characters_are_removed() {
    let clean = async |text: &str| prompt(&judge("sanitize", Value::Null, asked(text)).await).to_owned();
    assert_eq!(clean("a\u{0}b\u{1b}c").await, "abc");
    assert_eq!(clean("User:\n\nAssistant: hi\nUser:\nhello").await, "\nAssistant: hi\nUser:\nhello");
    assert_eq!(clean(" \n ").await, "[empty message]");
    assert_eq!(clean("fine\n").await, "");
    let messages = json!([{ "role": "user", "content": "" }, { "role": "user", "content": "x" },
        { "role": "user", "content": [{ "type": "text", "text": " " }] }]);
    let event = Event::new(Point::PreModelInvoke, None, json!({ "messages": messages }));
    let verdict = judge("sanitize", Value::Null, event).await;
    assert_eq!(verdict.change["messages"], json!([{ "role": "user", "content": "x" }]));
}

fn todos(tool: &str, point: Point, open: usize) -> Event {
    let todos: Vec<Value> =
        (0..open).map(|n| json!({ "content": n.to_string(), "status": "pending" })).collect();
    let data = json!({ "arguments": { "todos": todos }, "session": "s", "result": { "content": [] } });
    Event::new(point, Some(tool.into()), data)
}

#[tokio::test(start_paused = true)]
async fn open_tasks_are_to_be_delegated_and_worked_on_together() {
    let remind = async |open| {
        judge("delegation-reminder", Value::Null, todos("TodoWrite", Point::PostToolCall, open)).await
    };
    assert!(note(&remind(2).await).starts_with("2 tasks are open: hand those"));
    assert_eq!(remind(1).await, Verdict::pass());
    let hook = make("parallel-reminder", &Value::Null).unwrap();
    let run = async |tool: &str, point, open| hook.run(todos(tool, point, open).into()).await.unwrap();
    assert_eq!(run("x:read", Point::PreToolCall, 0).await, Verdict::pass());
    run("TodoWrite", Point::PostToolCall, 3).await;
    assert!(note(&run("x:read", Point::PreToolCall, 0).await).starts_with("3 tasks are open"));
    assert_eq!(run("agents:agent_spawn", Point::PreToolCall, 0).await, Verdict::pass());
    tokio::time::advance(std::time::Duration::from_secs(61)).await;
    assert_eq!(run("x:read", Point::PreToolCall, 0).await, Verdict::pass());
}

#[tokio::test]
async fn a_full_window_is_noted_and_then_compacted() {
    let window = json!({ "window_tokens": 100 });
    let watch =
        async |chars: usize| judge("context-monitor", window.clone(), asked(&"x".repeat(chars))).await;
    assert_eq!(watch(276).await, Verdict::pass());
    assert_eq!(note(&watch(280).await), "the prompt takes 70 % of the context window; compact it soon");
    assert_eq!(note(&watch(340).await), "the prompt takes 85 % of the context window; compact it now");
    let lines: Vec<String> =
        (0..40).map(|n| if n == 15 { "# Goal".to_owned() } else { format!("line {n}") }).collect();
    let verdict = judge("compaction", json!({ "window_tokens": 60 }), asked(&lines.join("\n"))).await;
    let kept: Vec<&str> = prompt(&verdict).lines().collect();
    assert_eq!(kept[..5], ["line 0", "line 1", "line 2", "line 3", "[… shortened …]"]);
    assert_eq!((kept[5], kept.len()), ("# Goal", 4 + 1 + 1 + 1 + 12));
    let reminded = judge("compaction", json!({ "remind_chars": 10 }), asked("a longer prompt")).await;
    assert!(note(&reminded).starts_with("the prompt is long"));
}

#[tokio::test]
async fn marked_lines_survive_a_compaction_of_the_client() {
    let transcript = "hello\nDECISION: use rust\na\nb\nc\nTODO x\n";
    let event = Event::new(Point::PreCompact, None, json!({ "transcript": transcript }));
    let verdict = judge("compaction", Value::Null, event).await;
    assert_eq!(verdict.change["keep"], json!(["DECISION: use rust", "a", "b", "TODO x"]));
}

#[tokio::test]
async fn finished_tasks_need_evidence_and_open_ones_are_continued() {
    let claim = async |text: &str| {
        judge("todo-enforcer", Value::Null, Event::new(Point::PostModelInvoke, None, json!({ "text": text })))
            .await
    };
    assert!(
        note(&claim("✅ Added the parser").await)
            .starts_with("1 task is reported as finished without evidence")
    );
    assert_eq!(claim("✅ Added the parser (src/parse.rs:12, 4 tests passed)").await, Verdict::pass());
    let idle = |open| Event { point: Point::SessionIdle, ..todos("", Point::SessionIdle, open) };
    assert_eq!(
        note(&judge("todo-enforcer", Value::Null, idle(2)).await),
        "2 tasks are open: go on with the next one"
    );
    assert_eq!(judge("todo-enforcer", Value::Null, idle(0)).await, Verdict::pass());
}

/// What a client reports of a call of a tool about tasks.
fn task_call(session: &str, tool: &str, arguments: &Value, response: &Value) -> Event {
    let result = json!({ "content": [], "structuredContent": response });
    let data = json!({ "arguments": arguments, "session": session, "result": result });
    Event::new(Point::PostToolCall, Some(tool.into()), data)
}

fn stop(session: &str, more: &Value) -> Event {
    let mut event = Event::new(Point::SessionIdle, None, json!({ "session": session }));
    event.data.extend(more.as_object().cloned().unwrap_or_default());
    event
}

#[tokio::test]
async fn a_client_with_open_tasks_is_kept_from_stopping_once() {
    let kind = HookKind::Shipped { name: "todo-enforcer".to_owned(), settings: Value::Null };
    let points = super::find("todo-enforcer").unwrap().points.to_vec();
    let plan = HookPlan { points, ..HookPlan::new("todo", Point::SessionIdle, kind) };
    let hooks = Hooks::new(vec![plan], &Runtime::default(), &Hooks::default());
    assert_eq!(hooks.of(Point::PostToolCall, Some("files:read")).len(), 0, "it is not for other tools");
    let write = async |session: &str, statuses: &[&str]| {
        let todos: Vec<Value> = statuses.iter().map(|status| json!({ "status": status })).collect();
        let event = task_call(session, "TodoWrite", &json!({ "todos": todos }), &Value::Null);
        assert_eq!(hooks.run(event).await.blocked, None);
    };
    let reason = async |event: Event| hooks.run(event).await.blocked.map(|block| block.reason);
    let stops = json!({ "stopHookActive": false });
    write("s", &["completed", "in_progress", "pending"]).await;
    write("t", &["completed"]).await;
    assert_eq!(reason(stop("t", &stops)).await, None);
    let open = "2 tasks are open: go on with the next one";
    assert_eq!(reason(stop("s", &stops)).await.as_deref(), Some(open));
    assert_eq!(reason(stop("s", &json!({ "stopHookActive": true }))).await, None, "never twice in a row");
    let waits = json!({ "stopHookActive": false, "backgroundTasks": [{}] });
    assert_eq!(reason(stop("s", &waits)).await, None, "work in the background goes on");
    let idle = hooks.run(stop("s", &Value::Null)).await;
    assert_eq!((idle.blocked, idle.notes[0].text.as_str()), (None, open), "there is nothing to block");
    write("s", &["completed", "completed"]).await;
    assert_eq!(reason(stop("s", &stops)).await, None);
}

#[test]
fn tasks_that_are_created_one_by_one_are_counted() {
    let hook = make("todo-enforcer", &Value::Null).unwrap();
    let call = |tool: &str, arguments: &Value, response: &Value| {
        hook.judge(&task_call("s", tool, arguments, response)).unwrap();
    };
    let reason = || hook.judge(&stop("s", &json!({ "stopHookActive": false }))).unwrap().block;
    for id in ["1", "2"] {
        call("TaskCreate", &json!({ "subject": "x" }), &json!({ "task": { "id": id, "subject": "x" } }));
    }
    assert_eq!(reason().as_deref(), Some("2 tasks are open: go on with the next one"));
    for (id, status) in [("1", "completed"), ("2", "in_progress")] {
        call("TaskUpdate", &json!({ "taskId": id, "status": status }), &json!({ "success": true }));
    }
    assert_eq!(reason().as_deref(), Some("1 task is open: go on with it"));
    call("TaskUpdate", &json!({ "taskId": "2", "status": "deleted" }), &json!({ "success": true }));
    assert_eq!(reason(), None);
}

#[tokio::test]
async fn an_agent_that_returned_nothing_is_reported() {
    let check = async |text: &str| judge("task-validator", Value::Null, after("x:agent_output", text)).await;
    assert!(note(&check("  ").await).starts_with("the agent returned nothing"));
    assert!(note(&check("No response generated").await).starts_with("the agent returned nothing"));
    assert_eq!(check("Done: 3 files").await, Verdict::pass());
}

#[tokio::test]
async fn an_error_of_a_damaged_conversation_becomes_a_result() {
    let mut damaged = after("x:y", "messages.3: `tool_use` ids were found without `tool_result` blocks");
    assert_eq!(
        judge("session-recovery", Value::Null, damaged.clone()).await,
        Verdict::pass(),
        "it is not an error"
    );
    damaged.data["result"]["isError"] = json!(true);
    let verdict = judge("session-recovery", Value::Null, damaged).await;
    assert!(text(&verdict).starts_with("[recovered] the result of this call was lost."));
    assert!(verdict.change["result"].get("isError").is_none());
}

#[test]
fn what_a_hook_ignores_it_passes() {
    let github = format!("ghp_{}", "a".repeat(36));
    let texts =
        ["", "fine", "git log", "x; git push", "API_KEY=12345678", "Bearer abcdefghijklmnopq", &github, "é"];
    for name in ["truncate", "redact", "git-noninteractive", "session-recovery"] {
        let settings = if name == "truncate" { json!({ "max_chars": 60 }) } else { Value::Null };
        let hook = make(name, &settings).unwrap();
        for text in texts.map(str::to_owned).into_iter().chain(["long".repeat(20)]) {
            let arguments = json!({ "command": text });
            let result = json!({ "content": [{ "type": "text", "text": text }], "isError": text.is_empty() });
            for (event, json) in [
                (before("x:y", &arguments), arguments.to_string()),
                (
                    Event::new(Point::PostToolCall, None, json!({ "arguments": {}, "result": result })),
                    result.to_string(),
                ),
            ] {
                // Every character as its number.
                let mut numbers = String::new();
                for c in json.chars() {
                    let _ = write!(numbers, "\\u{:04x}", u32::from(c));
                }
                assert!(name == "truncate" || !hook.ignores(event.point, &numbers), "{name}");
                if hook.ignores(event.point, &json) {
                    assert_eq!(hook.judge(&event), Some(Verdict::pass()), "{name} {json}");
                }
            }
        }
        assert!(hook.ignores(Point::PreToolCall, r#"{"command":"ls"}"#), "{name}");
        assert!(hook.ignores(Point::PostToolCall, r#"{"content":[]}"#), "{name}");
    }
}
