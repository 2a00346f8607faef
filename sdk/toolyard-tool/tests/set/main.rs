//! What a set promises, shown in memory: one client, one handler, nothing between them.

#![expect(clippy::unwrap_used, reason = "a failed `unwrap` fails the test")]

mod answers;
mod asks;
mod asks_first;
mod calls;
mod doors;
mod guide;
mod host;
mod items;
mod lasting;
mod live;
mod owners;
mod pack;
mod parked;
mod rounds;
mod state;
mod support;
mod tasks;
mod threads;
mod validation;
