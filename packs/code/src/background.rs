//! Work that must not slow down calls: threads that compute run with a low priority.

#[cfg(unix)]
#[path = "background/unix.rs"]
mod system;
#[cfg(windows)]
#[path = "background/windows.rs"]
mod system;

use std::any::Any;
use std::thread::ScopedJoinHandle;

use tokio::runtime::Handle;
use toolyard_tool::ToolError;

/// Runs something on a thread of its own with a low priority and in the caller's runtime, and waits for it.
pub(crate) fn run<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let runtime = Handle::try_current().ok();
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let _entered = runtime.as_ref().map(Handle::enter);
            system::lower_priority();
            work()
        });
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Maps a list with one thread of a low priority per core, in order. Fails if `map` panics: a list with gaps would
/// assign results to the wrong items.
pub(crate) fn on_all_cores<T: Sync, U: Send>(
    list: &[T],
    map: impl Fn(&T) -> U + Sync,
) -> Result<Vec<U>, ToolError> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from).min(4);
    let share = list.len().div_ceil(cores).max(1);
    let work = |share: &[T]| {
        system::lower_priority();
        share.iter().map(&map).collect::<Vec<_>>()
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = list.chunks(share).map(|share| scope.spawn(move || work(share))).collect();
        // All are joined before the first failure ends this: the scope panics for a thread that was not joined.
        let shares: Vec<_> = workers.into_iter().map(ScopedJoinHandle::join).collect();
        let mut results = Vec::with_capacity(list.len());
        for share in shares {
            results.extend(share.map_err(|panic| panicked(panic.as_ref()))?);
        }
        Ok(results)
    })
}

fn panicked(panic: &(dyn Any + Send)) -> ToolError {
    let literal = panic.downcast_ref::<&str>().copied();
    let reason = literal.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    ToolError::new(format!("a computation panicked: {}", reason.unwrap_or("for an unknown reason")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_mapped_in_order_and_results_are_returned() {
        let numbers: Vec<usize> = (0..101).collect();
        assert_eq!(on_all_cores(&numbers, |n| n + 1).unwrap(), (1..102).collect::<Vec<_>>());
        assert_eq!(on_all_cores(&[] as &[usize], |n| n + 1).unwrap(), Vec::<usize>::new());
        assert_eq!(run(|| numbers.len()), 101);
    }

    #[test]
    fn a_panic_fails_the_whole_computation() {
        let numbers: Vec<usize> = (0..101).collect();
        for bad in [0, 50, 100] {
            let error = on_all_cores(&numbers, |n| {
                assert!(*n != bad, "{n} is bad");
                *n
            });
            assert_eq!(error.unwrap_err().message(), format!("a computation panicked: {bad} is bad"));
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn only_the_thread_that_computes_has_a_low_priority() {
        // The 19th field of `stat`, after a name in brackets.
        let nice = || -> i32 {
            let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
            stat.rsplit_once(") ").unwrap().1.split(' ').nth(16).unwrap().parse().unwrap()
        };
        let before = nice();
        assert_eq!(run(nice), before.max(10));
        assert!(on_all_cores(&[(); 9], |()| nice()).unwrap().iter().all(|nice| *nice == before.max(10)));
        assert_eq!(nice(), before);
    }
}
