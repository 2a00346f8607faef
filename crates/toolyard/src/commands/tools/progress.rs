//! Shows a call while it is under way: the reports of its tool and, on a terminal, the elapsed time.

use std::io::IsTerminal;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, interval};
use toolyard_model::{Ask, AskError, Back, BoxFuture};
use toolyard_proto::{Notification, Raw};

use crate::say;

/// A call that ends before that needs no progress line.
const PATIENCE: Duration = Duration::from_secs(2);
const PROGRESS: &str = "notifications/progress";

pub(super) struct Progress {
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
    pub(super) fn new(quiet: bool) -> Arc<Self> {
        let kind = match (quiet, std::io::stderr().is_terminal()) {
            (true, _) => Kind::Silent,
            (false, true) => Kind::Terminal,
            (false, false) => Kind::Lines,
        };
        Arc::new(Self { latest: Mutex::default(), kind })
    }

    /// Waits for a call and shows meanwhile how far it is.
    pub(super) async fn watch<T>(&self, name: &str, call: impl Future<Output = T>) -> T {
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
                _ = tick.tick() => self.show(name, started.elapsed()),
            }
        }
    }

    fn show(&self, name: &str, elapsed: Duration) {
        let latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner).clone();
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
        let text = words(&params);
        if self.kind == Kind::Lines {
            say::line(format_args!("progress: {text}"));
        }
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
    }

    fn ask(&self, _: Ask) -> BoxFuture<Result<Raw, AskError>> {
        Box::pin(async { Err(AskError::Unsupported("the command line cannot ask its user".into())) })
    }
}

fn words(params: &Value) -> String {
    let done = &params["progress"];
    let total = params.get("total").map(|total| format!(" of {total}")).unwrap_or_default();
    let message = params["message"].as_str().map(|message| format!(": {message}")).unwrap_or_default();
    format!("{done}{total}{message}")
}
