//! Agents that agents start: how deep, how many, and for how much money. A run proves what it is by the token that it
//! calls with, so these limits do not depend on what it claims to be.

use toolyard_tool::{Context, ToolError};

use crate::agents::Agents;
use crate::config::TypeConfig;
use crate::store::Spent;

impl Agents {
    /// The type of the run that calls, if it is one. A run that was removed has none, which may do nothing.
    pub(crate) fn type_of_caller(&self, context: &Context) -> Result<Option<String>, ToolError> {
        let runs = context.caller().runs;
        let Some(spawner) = runs.last() else { return Ok(None) };
        Ok(Some(self.store.type_of(spawner)?.unwrap_or_default()))
    }

    /// The outermost run that a new run of this type belongs to, if the caller is a run itself and may start another.
    pub(crate) fn tree_of(&self, context: &Context, of: &TypeConfig) -> Result<Option<String>, ToolError> {
        let Some(kind) = self.type_of_caller(context)? else { return Ok(None) };
        let runs = context.caller().runs;
        let Some(root) = runs.first() else { return Ok(None) };
        if !self.config.may_spawn(&kind) {
            return Err(ToolError::new(format!("an agent of type `{kind}` may not spawn agents"))
                .hint("do the work yourself, or report what is missing"));
        }
        if runs.len() >= self.config.depth {
            let depth = self.config.depth;
            return Err(ToolError::new(format!("agents are nested {depth} deep, which is the limit"))
                .hint("do the work yourself, or raise `depth` in [packs.agents]"));
        }
        self.check_profile(&kind, of)?;
        let Spent { runs: count, cost, unknown } = self.store.spent(root)?;
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
        if self.config.tree_cost.is_some() && unknown > 0 {
            return Err(ToolError::new(format!(
                "the cost of {unknown} agents of `{root}` is not known, so `tree_cost` cannot be kept"
            ))
            .hint("report what is done; `price_in` and `price_out` of the types give tokens a cost"));
        }
        Ok(Some(root.clone()))
    }

    /// A run is bound to its profile, and so are those that it starts: else it could read the token of another profile
    /// from an agent that it has started.
    fn check_profile(&self, kind: &str, of: &TypeConfig) -> Result<(), ToolError> {
        let own = self.config.types.get(kind).and_then(|own| own.profile.as_deref());
        match of.profile.as_deref() {
            Some(wanted) if own != Some(wanted) => Err(ToolError::new(format!(
                "an agent of type `{kind}` may not start agents with the profile `{wanted}`, which is not its own"
            ))
            .hint("start another type, or give both types the same `profile` in [packs.agents.types]")),
            _ => Ok(()),
        }
    }
}
