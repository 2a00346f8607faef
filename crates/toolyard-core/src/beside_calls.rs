//! Work that takes long if there are many tools, done where no call waits for it.

use toolyard_model::blocking::beside_tasks;

/// With this many tools or more, work on all of them takes longer than a call may wait.
const MANY_TOOLS: usize = 200;

/// Does work on this number of tools. If there are many, another thread takes over the calls of this one in the
/// meantime.
pub(crate) fn beside_calls<T>(tools: usize, work: impl FnOnce() -> T) -> T {
    if tools < MANY_TOOLS { work() } else { beside_tasks(work) }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn other_tasks_of_the_thread_are_served_meanwhile() {
        let (sender, served) = mpsc::channel();
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(async move {
            let mut others = tokio::task::JoinSet::new();
            others.spawn(async move { sender.send(()).is_ok() });
            // The only thread of the runtime works here, so the other task needs one more.
            beside_calls(MANY_TOOLS, || served.recv_timeout(Duration::from_secs(30)).is_ok())
        });
        assert!(tasks.join_next().await.unwrap().unwrap());
    }

    #[tokio::test]
    async fn a_runtime_with_one_thread_does_the_work_itself() {
        assert_eq!(beside_calls(MANY_TOOLS, || 7), 7);
    }
}
