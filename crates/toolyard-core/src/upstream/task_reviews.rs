//! Pending work on the results of tasks: a call that became a task has no result yet, so the steps that
//! process results leave their work here, and it is done when the client fetches the result.
//!
//! Kept for the life of the gateway only: the result of a task that outlives it is returned unprocessed.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use toolyard_model::BoxFuture;
use toolyard_proto::{CallError, Method, Raw};

use crate::call::Call;
use crate::tasks;

/// How many tasks are known; the oldest makes room.
const MOST: usize = 10_000;

/// Looks at a result, and gives it on as it is, changed, or not at all.
pub(crate) type Review = Arc<dyn Fn(Raw) -> BoxFuture<Result<Raw, CallError>> + Send + Sync>;

#[derive(Default)]
pub(crate) struct TaskReviews(Mutex<KnownTasks>);

#[derive(Default)]
struct KnownTasks {
    tasks: HashMap<String, OfTask>,
    /// In the order they were made.
    order: VecDeque<String>,
}

struct OfTask {
    /// The call that made it: a restarted upstream may assign an id a second time.
    call: u64,
    /// In the order in which results pass.
    reviews: Vec<Review>,
}

impl TaskReviews {
    /// Leaves a review if the answer to this call is a task; whether it is one.
    pub(crate) fn leave(&self, call: &Call, answer: &Raw, review: impl FnOnce() -> Review) -> bool {
        let Some(id) = task_made(call, answer) else { return false };
        let mut known = self.0.lock();
        let KnownTasks { tasks, order } = &mut *known;
        let number = call.trace.call;
        let task = tasks.entry(id.clone()).or_insert_with(|| {
            order.push_back(id);
            OfTask { call: number, reviews: Vec::new() }
        });
        if task.call != number {
            *task = OfTask { call: number, reviews: Vec::new() };
        }
        task.reviews.push(review());
        if order.len() > MOST
            && let Some(oldest) = order.pop_front()
        {
            tasks.remove(&oldest);
        }
        true
    }

    /// The reviews that the answer to this request must pass: none unless it may carry the result of a task.
    pub(crate) fn of(&self, call: &Call) -> Vec<Review> {
        if call.method != Method::TASKS_GET && call.method != Method::TASKS_RESULT {
            return Vec::new();
        }
        let id = call.params.member("taskId").and_then(|id| id.as_string()).unwrap_or_default();
        let known = self.0.lock();
        known.tasks.get(&id).map(|task| task.reviews.clone()).unwrap_or_default()
    }

    /// The status of a task for its subscribers, without a result that hooks have not reviewed yet.
    pub(crate) fn status(&self, params: &Raw) -> Raw {
        let id = params.member("taskId").and_then(|id| id.as_string()).unwrap_or_default();
        let is_reviewed = self.0.lock().tasks.contains_key(&id);
        if is_reviewed { params.without(&["result"]) } else { params.clone() }
    }
}

/// The upstream's own id of a task that answers a call.
fn task_made(call: &Call, answer: &Raw) -> Option<String> {
    if answer.member("content").is_some() {
        return None;
    }
    let id = answer.member("taskId").or_else(|| answer.at(&["task", "taskId"]))?.as_string()?;
    if call.edits.tasks { tasks::own(&id).map(|(_, own)| own.to_owned()) } else { Some(id) }
}

/// An answer with its result as the reviews leave it.
pub(crate) async fn reviewed(reviews: Vec<Review>, answer: Raw) -> Raw {
    let is_result = answer.member("content").is_some();
    let nested = || answer.member("result").filter(|result| result.member("content").is_some());
    let found = if is_result { Some(answer.clone()) } else { nested() };
    let Some(mut result) = found else { return answer };
    for review in reviews {
        match review(result).await {
            Ok(passed) => result = passed,
            Err(error) => {
                result = error.to_tool_result();
                break;
            }
        }
    }
    if !is_result {
        return answer.with("result", &result);
    }
    let place = ["_meta", tasks::RELATED_TASK];
    match answer.at(&place) {
        Some(related) => result.with_path(&place, &related),
        None => result,
    }
}
