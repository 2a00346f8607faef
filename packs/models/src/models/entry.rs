//! The row of a request, which is written however the request ends: with an answer, with an error, or because its caller
//! has gone or its time was up.

use tokio::time::Instant;

use super::exchange::Failed;
use super::{Invocation, Models, Target};
use crate::conversation::{Reply, Usage};
use crate::ledger::Row;
use crate::trouble::Trouble;

/// A request that is running. If it is dropped before it is closed, its row has the status `cancelled`.
pub(super) struct Entry<'a> {
    models: &'a Models,
    target: &'a Target<'a>,
    invocation: &'a Invocation,
    begun: Instant,
    /// The tokens that the provider has reported by now.
    pub(super) usage: Option<Usage>,
    is_closed: bool,
}

impl<'a> Entry<'a> {
    pub(super) fn open(models: &'a Models, target: &'a Target<'a>, invocation: &'a Invocation) -> Self {
        Self { models, target, invocation, begun: Instant::now(), usage: None, is_closed: false }
    }

    /// Writes the row of a request that has ended.
    pub(super) async fn close(mut self, result: &Result<Reply, Failed>) {
        let status = match result {
            Ok(_) => "ok".to_owned(),
            Err(Failed { trouble: Trouble::Status { status, .. }, .. }) => status.to_string(),
            Err(_) => "failed".to_owned(),
        };
        self.usage = result.as_ref().map_or(self.usage, |reply| reply.usage);
        // The tokens of an answer that broke off are less than what it costs.
        let cost = self.usage.filter(|_| result.is_ok()).and_then(|usage| self.target.settings?.cost(usage));
        let row = self.row(status, cost);
        self.is_closed = true;
        self.models.ledger.record(row).await;
    }

    fn row(&self, status: String, cost: Option<f64>) -> Row {
        let agent = &self.invocation.agent;
        Row {
            tool: self.invocation.tool,
            provider: self.target.service.name.clone(),
            model: self.target.model.to_owned(),
            principal: self.invocation.principal.to_string(),
            agent_type: agent.agent_type.clone(),
            task_id: agent.task_id.clone(),
            session_id: agent.session_id.clone(),
            status,
            duration: self.begun.elapsed(),
            usage: self.usage,
            cost,
            priced: self.target.settings.and_then(|settings| settings.priced.clone()),
        }
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        if !self.is_closed {
            self.models.ledger.record_later(self.row("cancelled".to_owned(), None));
        }
    }
}
