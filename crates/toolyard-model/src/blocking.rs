//! Work that blocks its thread, such as writing to the disk, done where no call waits for it.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Does work that blocks. In a runtime with several threads, another thread takes over the tasks of this one in the
/// meantime.
pub fn beside_tasks<T>(work: impl FnOnce() -> T) -> T {
    let has_other_threads =
        Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread);
    if has_other_threads { tokio::task::block_in_place(work) } else { work() }
}
