//! What a set promises, shown in memory: one client, one handler, nothing between them.

mod answers;
mod asks;
mod calls;
mod items;
mod state;
mod support;
mod tasks;
