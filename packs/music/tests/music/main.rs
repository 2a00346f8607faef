//! The music pack as a client meets it: real files, real tags, every structured answer checked against its
//! schema.

#![expect(clippy::unwrap_used, reason = "a failed `unwrap` fails the test")]

mod audio;
mod batches;
mod client;
mod files;
mod hints;
mod hostile;
mod jailed;
mod mock;
mod offers;
mod pages;
mod plans;
mod progress;
mod services;
mod sounds;
mod tags;
mod wrong;
