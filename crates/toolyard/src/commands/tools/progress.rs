//! Shows a call while it is under way: the reports and questions of its tool and, on a terminal, the elapsed time.

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::{Instant, interval};
use toolyard_model::{Ask, AskError, Back, BoxFuture};
use toolyard_proto::app::PARTIAL;
use toolyard_proto::{Notification, Raw};

use super::ask;
use crate::say;

/// A call that ends before that needs no progress line.
const PATIENCE: Duration = Duration::from_secs(2);
const PROGRESS: &str = "notifications/progress";
const ELICIT: &str = "elicitation/create";

pub(super) struct Progress {
    /// The tool that is called.
    name: String,
    /// Whether the user is asked; only at a terminal.
    can_ask: bool,
    /// Whether the user is being asked. One question at a time.
    asking: Arc<tokio::sync::Mutex<()>>,
    latest: Mutex<Option<String>>,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// One line that changes.
    Terminal,
    /// A line for each report.
    Lines,
    Silent,
}

impl Progress {
    pub(super) fn new(name: &str, quiet: bool) -> Arc<Self> {
        let kind = match (quiet, std::io::stderr().is_terminal()) {
            (true, _) => Kind::Silent,
            (false, true) => Kind::Terminal,
            (false, false) => Kind::Lines,
        };
        let can_ask = std::io::stdin().is_terminal();
        Arc::new(Self {
            name: name.to_owned(),
            can_ask,
            asking: Arc::default(),
            latest: Mutex::default(),
            kind,
        })
    }

    /// The questions that the user can answer.
    pub(super) fn capabilities(&self) -> Raw {
        if self.can_ask {
            json!({ "elicitation": { "form": {}, "url": {} } }).into()
        } else {
            Raw::empty_object()
        }
    }

    /// Waits for a call and shows its progress.
    pub(super) async fn watch<T>(&self, call: impl Future<Output = T>) -> T {
        let (mut call, started) = (std::pin::pin!(call), Instant::now());
        let mut tick = interval(Duration::from_millis(250));
        loop {
            tokio::select! {
                biased;
                answer = &mut call => {
                    if self.kind == Kind::Terminal {
                        say::passing("");
                    }
                    return answer;
                }
                _ = tick.tick() => self.show(started.elapsed()),
            }
        }
    }

    fn show(&self, elapsed: Duration) {
        if self.asking.try_lock().is_err() {
            return;
        }
        let name = &self.name;
        let latest = self.latest.lock().clone();
        if self.kind == Kind::Terminal && (latest.is_some() || elapsed >= PATIENCE) {
            let latest = latest.map(|text| format!(" {text},")).unwrap_or_default();
            say::passing(format_args!("{name}:{latest} {} s (Ctrl-C cancels)", elapsed.as_secs()));
        }
    }
}

impl Back for Progress {
    fn notify(&self, notification: Notification) {
        if notification.method.as_str() != PROGRESS {
            return;
        }
        let params: Value = notification.params.and_then(|params| params.read().ok()).unwrap_or_default();
        let Some(text) = words(&params) else { return };
        if self.kind == Kind::Lines {
            say::line(format_args!("progress: {text}"));
        }
        *self.latest.lock() = Some(text);
    }

    fn ask(&self, ask: Ask) -> BoxFuture<Result<Raw, AskError>> {
        if !self.can_ask || ask.method.as_str() != ELICIT {
            let reason =
                format!("`{}` can only be answered by a client, not on the command line", ask.method);
            return Box::pin(async { Err(AskError::Unsupported(reason)) });
        }
        let name = self.name.clone();
        let asking = self.asking.clone();
        let clears = self.kind == Kind::Terminal;
        Box::pin(async move {
            let _asking = asking.lock().await;
            if clears {
                say::passing("");
            }
            let params: Value = ask.params.and_then(|params| params.read().ok()).unwrap_or_default();
            let answer = tokio::task::spawn_blocking(move || ask::at_terminal(&name, &params));
            answer.await.map(Raw::from).map_err(|_| AskError::Gone)
        })
    }
}

/// A report in words. A part of the answer needs none: the answer is printed at the end.
fn words(params: &Value) -> Option<String> {
    if params["_meta"].get(PARTIAL).is_some() {
        return None;
    }
    let total = params.get("total").map(|total| format!(" of {total}")).unwrap_or_default();
    let message = params["message"].as_str();
    // Reports between two steps have numbers just above the first; those before the first step are negative.
    let done = (params["progress"].as_f64().unwrap_or_default() * 1000.0).round() / 1000.0;
    match message {
        Some(message) if done < 0.0 => Some(message.to_owned()),
        Some(message) => Some(format!("{done}{total}: {message}")),
        None => Some(format!("{done}{total}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_of_progress_have_readable_numbers_and_parts_of_the_answer_are_no_reports() {
        let check = |params: Value, expected: Option<&str>| assert_eq!(words(&params).as_deref(), expected);
        check(json!({ "progress": 1e-6, "_meta": { PARTIAL: [] } }), None);
        check(json!({ "progress": 2, "total": 5, "message": "half" }), Some("2 of 5: half"));
        check(json!({ "progress": 0.5, "total": 1 }), Some("0.5 of 1"));
        check(json!({ "progress": 3.000_001, "message": "still there" }), Some("3: still there"));
        check(json!({ "progress": -0.5, "message": "waiting for a limit" }), Some("waiting for a limit"));
    }
}
