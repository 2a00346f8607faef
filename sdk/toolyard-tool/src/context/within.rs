//! Bounds on the time of work that may ask the client. The client may take its time to answer, so the time in which it
//! is asked does not count.

use std::pin::pin;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::Context;

/// The questions to the client, in time.
#[derive(Debug, Default)]
pub(super) struct Questioning {
    /// How many questions wait for an answer.
    open: usize,
    /// When the first of them was asked.
    since: Option<Instant>,
    /// For how long the client was asked before. Overlapping questions count once.
    ended: Duration,
}

impl Questioning {
    fn total(&self) -> Duration {
        self.ended + self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

/// A question that waits for its answer until this is dropped.
pub(super) struct Asking(Context);

impl Context {
    /// Runs `work` for at most this time: its result, or nothing if the time was up and `work` was dropped. The time in
    /// which the client is asked, by this call or by a tool that it calls, does not count.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use toolyard_tool::{Context, ToolError, schemars::JsonSchema, tool};
    /// #[derive(serde::Deserialize, JsonSchema)]
    /// struct Confirm {
    ///     /// Really deploy it?
    ///     sure: bool,
    /// }
    ///
    /// /// Deploys the project within a minute, after asking.
    /// #[tool(destructive)]
    /// async fn deploy(context: &Context) -> Result<&'static str, ToolError> {
    ///     let work = async {
    ///         let answer = context.ask::<Confirm>("This goes live.").await?.accepted()?;
    ///         Ok::<_, ToolError>(if answer.sure { "deployed" } else { "kept" })
    ///     };
    ///     let done = context.within(Duration::from_secs(60), work).await;
    ///     done.unwrap_or_else(|| Err(ToolError::new("it took longer than a minute")))
    /// }
    /// ```
    pub async fn within<T>(&self, limit: Duration, work: impl Future<Output = T>) -> Option<T> {
        let work = pin!(work);
        tokio::select! {
            biased;
            done = work => Some(done),
            () = self.passed(limit) => None,
        }
    }

    /// Waits until this much time has passed in which the client was not asked.
    async fn passed(&self, limit: Duration) {
        let begun = Instant::now();
        let mut questioning = self.questioning().subscribe();
        let before = questioning.borrow().total();
        loop {
            // The sender is in this context, so it is still there.
            let _ = questioning.wait_for(|questioning| questioning.open == 0).await;
            let asked = questioning.borrow().ended.saturating_sub(before);
            let due = limit.checked_add(asked).and_then(|time| begun.checked_add(time));
            match due {
                Some(due) if due <= Instant::now() => return,
                Some(due) => sleep_until(due).await,
                None => std::future::pending().await,
            }
        }
    }

    /// The client is asked until the returned value is dropped.
    pub(super) fn asking(&self) -> Asking {
        self.questioning().send_modify(|questioning| {
            questioning.open += 1;
            questioning.since.get_or_insert_with(Instant::now);
        });
        Asking(self.clone())
    }

    fn questioning(&self) -> &watch::Sender<Questioning> {
        self.0.questioning.get_or_init(watch::Sender::default)
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.questioning().send_modify(|questioning| {
            questioning.open -= 1;
            if questioning.open == 0 {
                questioning.ended = questioning.total();
                questioning.since = None;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;
    use tokio::time::sleep;
    use toolyard_model::{Ask, AskError, Back, BoxFuture, ClientKey, Origin, Peer, Principal, Request, View};
    use toolyard_proto::{Id, Method, Notification, Params, Raw, Revision};

    use super::*;
    use crate::context::Surroundings;

    /// Names no folder, after five minutes.
    struct Slow;

    impl Back for Slow {
        fn notify(&self, _: Notification) {}

        fn ask(&self, _: Ask) -> BoxFuture<Result<Raw, AskError>> {
            Box::pin(async {
                sleep(Duration::from_mins(5)).await;
                Ok(json!({ "roots": [] }).into())
            })
        }
    }

    fn context() -> Context {
        let (principal, client) = (Principal::local(), ClientKey::Connection(1));
        let origin = Origin::new(View::Everything, principal, client, Revision::V2025_11_25);
        let origin = Arc::new(origin.with_capabilities(json!({ "roots": {} }).into()));
        let request = Request::new(origin, Id::number(1), Method::TOOLS_CALL, Params::none());
        Context::new(&request, Peer::new(Arc::new(Slow)), Arc::new(Surroundings::new("t".into())))
    }

    const MINUTE: Duration = Duration::from_mins(1);

    #[tokio::test(start_paused = true)]
    async fn the_time_in_which_the_client_is_asked_does_not_count() {
        let (context, begun) = (context(), Instant::now());
        let work = async {
            sleep(MINUTE / 2).await;
            // Questions at the same time count once.
            let (one, other) = tokio::join!(context.roots(), async {
                sleep(MINUTE).await;
                context.roots().await
            });
            one.unwrap();
            other.unwrap();
            sleep(MINUTE / 4).await;
        };
        assert_eq!(context.within(MINUTE, work).await, Some(()));
        assert_eq!(begun.elapsed(), MINUTE * 6 + MINUTE * 3 / 4);
    }

    #[tokio::test(start_paused = true)]
    async fn work_ends_when_its_own_time_is_up_before_and_after_a_question() {
        let (context, begun) = (context(), Instant::now());
        assert_eq!(context.within(MINUTE, sleep(MINUTE * 2)).await, None);
        assert_eq!(begun.elapsed(), MINUTE);
        let asked_first = async {
            context.roots().await.unwrap();
            sleep(MINUTE * 2).await;
        };
        assert_eq!(context.within(MINUTE, asked_first).await, None);
        assert_eq!(begun.elapsed(), MINUTE * 7);
        // A question that was given up counts until then.
        let given_up = async {
            assert!(tokio::time::timeout(MINUTE * 3, context.roots()).await.is_err());
            sleep(MINUTE * 2).await;
        };
        assert_eq!(context.within(MINUTE, given_up).await, None);
        assert_eq!(begun.elapsed(), MINUTE * 11);
        assert_eq!(context.within(Duration::MAX, async { 7 }).await, Some(7));
    }
}
