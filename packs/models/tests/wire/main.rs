//! The pack as a client sees it, in front of scripted providers on this machine: answers, and a table of faults for each
//! kind of provider.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod answers;
mod client;
mod faults;
mod provider;
