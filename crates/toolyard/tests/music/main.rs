//! The music pack as the program serves it: every tool answers the same at every door and through the gateway,
//! and a process that is killed while writing leaves the old file or the new one.

#![expect(clippy::unwrap_used, reason = "a failed `unwrap` fails the test")]

mod crowd;
mod doors;
mod guide;
mod keys;
mod kills;
mod program;
mod services;
mod two_file_systems;
