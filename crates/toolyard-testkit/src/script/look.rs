//! What a test may see of the scripted server from outside.

use serde_json::Value;

use super::Server;

impl Server {
    /// How often a tool was called.
    pub fn called(&self, tool: &str) -> usize {
        self.state().called.get(tool).copied().unwrap_or_default()
    }

    /// How many requests it has not answered.
    pub fn open_calls(&self) -> usize {
        self.state().open
    }

    /// How many of its requests were cancelled.
    pub fn cancelled(&self) -> usize {
        self.state().cancelled
    }

    /// The number of its unanswered questions.
    pub fn open_asks(&self) -> usize {
        self.state().asks.len()
    }

    /// What it was answered to its questions, results and errors alike.
    pub fn answers(&self) -> Vec<Value> {
        self.state().answers.clone()
    }

    /// How often a notification came.
    pub fn noticed(&self, method: &str) -> usize {
        self.state().noticed.iter().filter(|noticed| *noticed == method).count()
    }

    /// Sessions over HTTP that are open.
    pub fn sessions(&self) -> usize {
        self.state().sessions.len()
    }

    /// How many tasks it has made, and how many of them were cancelled.
    pub fn tasks(&self) -> (usize, usize) {
        self.state().tasks.counts()
    }

    pub(super) fn open_session(&self) -> String {
        let mut state = self.state();
        state.sessions_made += 1;
        let id = format!("s{}", state.sessions_made);
        state.sessions.insert(id.clone());
        id
    }
}
