//! Priorities of threads. Only Linux has them per thread; elsewhere the whole process would be slowed down.

/// The niceness of threads that compute.
#[cfg(target_os = "linux")]
const NICE: i32 = 10;

/// Lowers the priority of this thread for good. A thread that stays as it is only competes more.
pub(super) fn lower_priority() {
    #[cfg(target_os = "linux")]
    if let Ok(now) = rustix::process::getpriority_process(None) {
        let _ = rustix::process::setpriority_process(None, now.max(NICE));
    }
}
