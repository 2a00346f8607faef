//! Agents that agents start: how deep, how many, and for how much money. A run proves what it is by the token that it
//! calls with, so these limits do not depend on what it claims to be.

use toolyard_tool::{Context, ToolError};

use crate::agents::Agents;

impl Agents {
    /// The outermost run that a new run belongs to, if the caller is a run itself and may start another.
    pub(crate) fn tree_of(&self, context: &Context) -> Result<Option<String>, ToolError> {
        let runs = context.caller().runs;
        let (Some(root), Some(spawner)) = (runs.first(), runs.last()) else { return Ok(None) };
        let kind = self.store.type_of(spawner)?.unwrap_or_default();
        if !self.config.may_spawn(&kind) {
            return Err(ToolError::new(format!("an agent of type `{kind}` may not spawn agents"))
                .hint("do the work yourself, or report what is missing"));
        }
        if runs.len() >= self.config.depth {
            let depth = self.config.depth;
            return Err(ToolError::new(format!("agents are nested {depth} deep, which is the limit"))
                .hint("do the work yourself, or raise `depth` in [packs.agents]"));
        }
        let (count, cost) = self.store.spent(root)?;
        if count >= self.config.tree_runs {
            return Err(ToolError::new(format!(
                "{count} agents were started below `{root}`, which is the limit"
            ))
            .hint("do the work yourself, or raise `tree_runs` in [packs.agents]"));
        }
        if let Some(most) = self.config.tree_cost.filter(|most| cost >= *most) {
            return Err(ToolError::new(format!(
                "the agents of `{root}` have spent {cost:.2} USD of {most:.2} USD"
            ))
            .hint("report what is done, or raise `tree_cost` in [packs.agents]"));
        }
        Ok(Some(root.clone()))
    }
}
