//! Clients and servers of different eras through a whole gateway: what must be refused, what must end, and what
//! must not stay behind.

#![expect(clippy::unwrap_used, reason = "a failed `unwrap` fails the test")]

mod world;

mod left_behind;
mod long_calls;
mod nested;
mod rounds;
mod states;
mod statuses;
mod tasks;
mod views;
mod visits;
mod wakes;
