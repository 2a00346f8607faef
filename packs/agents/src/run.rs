//! One run of an agent from its start to its end: a process under the guard, its output, its questions, its time.

pub(crate) mod acp;
mod lines;
pub(crate) mod worktree;

use std::convert::Infallible;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::sync::{Notify, oneshot, watch};
use toolyard_tool::Host;
use toolyard_tool::host::{Child, Delegation};

use crate::command::{Speech, command};
use crate::config::{Tokens, TypeConfig};
use crate::store::{End, Output, Run, Status, Store, shortened};

const MOST_STDERR: usize = 16 << 10;
/// The maximum length of a line in an event.
const MOST_PUBLISHED: usize = 2 << 10;
/// How long the output of a program that has ended is read.
const LAST_OUTPUT: Duration = Duration::from_secs(1);
/// How long an agent that speaks a protocol may take to end by itself when its input is closed.
const LAST_EXIT: Duration = Duration::from_millis(1500);

/// The public state of a run while it is under way.
#[derive(Debug)]
pub(crate) struct Live {
    /// The principal that it is to this gateway, below that of the caller that started it.
    principal: String,
    /// Why it is cancelled, once it is.
    cancel: watch::Sender<Option<&'static str>>,
    /// Changes when the run ends.
    ended: watch::Sender<bool>,
    question: Mutex<Option<Question>>,
    /// Notified when there is a question.
    pub(crate) asked: Notify,
}

/// Something that the agent must be allowed.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) text: String,
    pub(crate) reply: oneshot::Sender<bool>,
}

impl Live {
    pub(crate) fn new(run: &Run) -> Self {
        Self {
            principal: format!("{}/{}", run.owner, run.id),
            cancel: watch::Sender::new(None),
            ended: watch::Sender::new(false),
            question: Mutex::default(),
            asked: Notify::new(),
        }
    }

    /// Whether the agent of `other` started it, or an agent below that one did.
    pub(crate) fn is_below(&self, other: &Self) -> bool {
        self.principal.strip_prefix(&other.principal).is_some_and(|rest| rest.starts_with('/'))
    }

    pub(crate) fn cancel(&self, reason: &'static str) {
        self.cancel.send_if_modified(|known| {
            let is_first = known.is_none();
            known.get_or_insert(reason);
            is_first
        });
    }

    async fn cancelled(&self) -> &'static str {
        let mut cancelled = self.cancel.subscribe();
        let reason = cancelled.wait_for(Option::is_some).await;
        // The sender lives as long as `self`.
        reason.ok().and_then(|reason| *reason).unwrap_or_default()
    }

    pub(crate) async fn ended(&self) {
        // The sender lives as long as `self`.
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
    }

    /// The question that waits for an answer.
    pub(crate) fn take_question(&self) -> Option<Question> {
        self.question.lock().take()
    }

    pub(crate) fn waits_for(&self) -> Option<String> {
        let question = self.question.lock();
        question.as_ref().map(|question| question.text.clone())
    }

    fn ask(&self, text: String) -> oneshot::Receiver<bool> {
        let (reply, answer) = oneshot::channel();
        *self.question.lock() = Some(Question { text, reply });
        self.asked.notify_one();
        answer
    }
}

/// Everything that one run needs.
pub(crate) struct Job {
    pub(crate) run: Run,
    pub(crate) of: TypeConfig,
    pub(crate) store: Arc<Store>,
    pub(crate) host: Host,
    pub(crate) live: Arc<Live>,
    /// The principal whose agents started it, or who did so itself.
    pub(crate) user: String,
    /// To the profile of this gateway that the type names.
    pub(crate) access: Option<Delegation>,
}

/// The result of an agent so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    pub(crate) text: String,
    pub(crate) error: Option<String>,
    pub(crate) cost: Option<f64>,
    pub(crate) tokens: Option<Tokens>,
    /// The message whose tokens were counted last.
    message: Option<String>,
}

impl Report {
    /// The tokens of a message, of which programs may send several parts with the same count.
    fn add_message(&mut self, id: Option<String>, usage: Option<&Value>) {
        if id.is_some() && id == self.message {
            return;
        }
        self.message = id;
        self.add_tokens(usage, "");
    }

    /// Tokens as the provider counts them. `cached` is the key of those among the input that were cached; without one
    /// they are beside the input, as Anthropic counts.
    fn add_tokens(&mut self, usage: Option<&Value>, cached: &str) {
        let number = |key: &str| usage.and_then(|usage| usage.get(key)).and_then(Value::as_f64);
        let (Some(input), Some(output)) = (number("input_tokens"), number("output_tokens")) else { return };
        let beside = |key| number(key).unwrap_or_default();
        let tokens = if cached.is_empty() {
            let read = beside("cache_read_input_tokens");
            Tokens { input: input + read + beside("cache_creation_input_tokens"), cached: read, output }
        } else {
            Tokens { input, cached: beside(cached), output }
        };
        *self.tokens.get_or_insert_default() += tokens;
    }

    /// Tokens as an answer of the Agent Client Protocol reports them, or as Gemini CLI adds them to it.
    fn add_usage(&mut self, ended: &Value) {
        let usage = &ended["usage"];
        let read = usage["cachedReadTokens"].as_f64().unwrap_or_default();
        let counts = &ended["_meta"]["quota"]["token_count"];
        let tokens = match (usage["inputTokens"].as_f64(), usage["outputTokens"].as_f64()) {
            (Some(input), Some(output)) => Some(Tokens { input: input + read, cached: read, output }),
            _ => counts["input_tokens"].as_f64().zip(counts["output_tokens"].as_f64()).map(
                |(input, output)| Tokens {
                    input,
                    cached: counts["cached_tokens"].as_f64().unwrap_or_default(),
                    output,
                },
            ),
        };
        if let Some(tokens) = tokens {
            *self.tokens.get_or_insert_default() += tokens;
        }
    }

    /// The reported cost, or the price of the tokens; `None` if neither is known.
    fn cost(&self, of: &TypeConfig) -> Option<f64> {
        self.cost.or_else(|| self.tokens.and_then(|tokens| of.price_of(tokens)))
    }
}

impl Job {
    /// Runs the agent and writes down how it ended.
    pub(crate) async fn work(self) {
        let live = self.live.clone();
        let (status, end) = self.outcome().await;
        if let Err(error) = self.store.end(&self.run.id, status, &end) {
            tracing::error!(target: "agents", error = %error.message(), "could not record the end of an agent");
        }
        let about = json!({ "agent": self.run.id, "type": self.run.agent_type, "status": status.as_str() });
        self.host.publish(&self.user, about);
        tracing::info!(target: "agents", agent = %self.run.id, kind = %self.run.agent_type, status = status.as_str(), "an agent ended");
        live.ended.send_replace(true);
    }

    async fn outcome(&self) -> (Status, End) {
        let project = PathBuf::from(&self.run.folder);
        // A program that was not started has cost nothing.
        let failed =
            |error: String| (Status::Failed, End { error: Some(error), cost: Some(0.0), ..End::default() });
        let place = match worktree::prepare(self, &project).await {
            Ok(place) => place,
            Err(error) => return failed(error),
        };
        let command = command(&self.of, self.run.model.as_deref(), place.folder(), self.access.as_ref());
        let program = command.program.to_string_lossy().into_owned();
        let child = match self.host.child(command).await {
            Ok(child) => child,
            Err(error) => {
                place.finish(self).await;
                return failed(format!("cannot start `{program}`: {error}"));
            }
        };
        let (status, mut end) = self.supervise(child, place.folder()).await;
        end.worktree = place.finish(self).await;
        (status, end)
    }

    /// Until the agent, its time or a cancel ends it.
    async fn supervise(&self, child: Child, folder: &std::path::Path) -> (Status, End) {
        let Child { stdin, stdout, stderr, mut control } = child;
        let output = match self.store.output(&self.run.id) {
            Ok(output) => Arc::new(Mutex::new(output.seen_by(self.publisher()))),
            Err(error) => return (Status::Failed, End { error: Some(error.to_string()), ..End::default() }),
        };
        let (errors, mut stderr) = (Mutex::new(Vec::new()), stderr);
        let report = Mutex::new(Report::default());
        let talk = async {
            match self.of.program.speech() {
                Speech::Lines => lines::talk(self, stdin, stdout, &output, &report).await,
                Speech::Acp => acp::talk(self, folder, stdin, stdout, &output, &report).await,
            }
        };
        let mut limit = pin!(self.limit());
        let talked = tokio::select! {
            () = talk => Ok(()),
            stop = &mut limit => Err(stop),
            never = keep_reading(&mut stderr, &errors) => match never {},
        };
        let ended = match (talked, self.of.program.speech()) {
            // One that has closed its output may go on for long.
            (Ok(()), Speech::Lines) => tokio::select! {
                code = control.wait() => {
                    // A process that it started may hold its stderr open.
                    let _ = tokio::time::timeout(LAST_OUTPUT, keep_last(&mut stderr, &errors)).await;
                    return concluded(&report.lock(), &self.of, code.ok().flatten(), &text(&errors));
                }
                stop = &mut limit => Err(stop),
                never = keep_reading(&mut stderr, &errors) => match never {},
            },
            // An agent that speaks a protocol may stay until it is stopped.
            (Ok(()), Speech::Acp) => {
                tokio::select! {
                    _ = control.wait() => {}
                    _ = &mut limit => {}
                    () = tokio::time::sleep(LAST_EXIT) => {}
                    never = keep_reading(&mut stderr, &errors) => match never {},
                }
                Ok(())
            }
            (Err(stopped), _) => Err(stopped),
        };
        control.stop().await;
        let report = report.lock();
        match ended {
            Ok(()) => concluded(&report, &self.of, Some(0), &text(&errors)),
            Err((status, error)) => {
                let result = Some(report.text.clone()).filter(|text| !text.is_empty());
                (status, End { error: Some(error), result, cost: report.cost(&self.of), worktree: None })
            }
        }
    }

    /// Puts lines of the agent on the gateway's event stream.
    fn publisher(&self) -> impl Fn(&str) + Send + 'static {
        let host = self.host.clone();
        let id = self.run.id.clone();
        let kind = self.run.agent_type.clone();
        let user = self.user.clone();
        move |line| {
            let line = shortened(line, MOST_PUBLISHED);
            host.publish(&user, json!({ "agent": id, "type": kind, "line": line }));
        }
    }

    /// Waits until the agent must be stopped: the status it ends with, and why.
    async fn limit(&self) -> (Status, String) {
        tokio::select! {
            reason = self.live.cancelled() => (Status::Cancelled, reason.to_owned()),
            () = tokio::time::sleep(Duration::from_secs(self.run.timeout)) => {
                (Status::Failed, format!("timed out after {} s", self.run.timeout))
            }
        }
    }

    pub(crate) fn prompt(&self) -> String {
        match &self.of.instructions {
            Some(instructions) => format!("{instructions}\n\n---\n\n{}", self.run.prompt),
            None => self.run.prompt.clone(),
        }
    }

    /// Asks the user, whose next look at this run answers it.
    pub(crate) async fn ask(&self, text: String) -> bool {
        self.live.ask(text).await.unwrap_or(false)
    }
}

fn concluded(report: &Report, of: &TypeConfig, code: Option<i32>, errors: &str) -> (Status, End) {
    let error = match (&report.error, code) {
        (Some(error), _) => Some(error.clone()),
        (None, Some(0)) => None,
        (None, Some(code)) => Some(format!("exited with {code}: {}", errors.trim())),
        (None, None) => Some(format!("was ended by a signal: {}", errors.trim())),
    };
    let status = if error.is_some() { Status::Failed } else { Status::Completed };
    (status, End { result: Some(report.text.clone()), error, cost: report.cost(of), worktree: None })
}

fn text(kept: &Mutex<Vec<u8>>) -> String {
    String::from_utf8_lossy(&kept.lock()).into_owned()
}

/// Like [`keep_last`], and does not end with stderr.
async fn keep_reading(stderr: &mut (impl AsyncRead + Unpin), kept: &Mutex<Vec<u8>>) -> Infallible {
    keep_last(stderr, kept).await;
    std::future::pending().await
}

/// Keeps the end of what a program writes to stderr.
async fn keep_last(stderr: &mut (impl AsyncRead + Unpin), kept: &Mutex<Vec<u8>>) {
    let mut buffer = vec![0; 4096];
    while let Ok(count @ 1..) = stderr.read(&mut buffer).await {
        let mut kept = kept.lock();
        kept.extend_from_slice(&buffer[..count]);
        let excess = kept.len().saturating_sub(MOST_STDERR);
        kept.drain(..excess);
    }
}

/// Adds a line to the output of a run.
fn write(output: &Mutex<Output>, line: &str) {
    output.lock().line(&shortened(line, 64 << 10));
}
