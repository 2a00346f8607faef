//! How many requests may run: a semaphore for each model, and behind it a window over all of them. A request holds its
//! place at the model while it waits for the window.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use toolyard_limits::{Keyed, Limit, Limiter, MODEL_PRESETS, Permit, Refusal, Window, global_model_window};

use crate::config::{Config, ModelConfig};
use crate::trouble::Trouble;

/// Requests to a model without a limit of its own that may run at once.
const USUAL: usize = 5;
/// The longest that a request waits at one limit.
const LONGEST_WAIT: Duration = Duration::from_mins(10);
const MINUTE: Duration = Duration::from_mins(1);

#[derive(Debug)]
pub(crate) struct Gate {
    /// By the name of the model: those of the config and those with a preset.
    models: HashMap<String, Limiter>,
    others: Keyed,
    window: Option<Limiter>,
}

/// Held while a request runs.
#[derive(Debug)]
pub(crate) struct Pass {
    _window: Option<Permit>,
    _model: Permit,
}

impl Gate {
    pub(crate) fn new(config: &Config) -> Self {
        let mut models: HashMap<String, Limiter> =
            MODEL_PRESETS.iter().map(|preset| (preset.model.to_owned(), limiter(preset.limit()))).collect();
        for (name, model) in config.providers.values().flat_map(|provider| &provider.models) {
            if let Some(limit) = limit_of(name, model) {
                models.insert(name.clone(), limiter(limit));
            }
        }
        let window = Limit::window(config.per_minute, MINUTE);
        debug_assert_eq!(global_model_window().window.map(|window| window.per), Some(MINUTE));
        Self {
            models,
            others: Keyed::new(patient(Limit::concurrent(USUAL))),
            window: (config.per_minute > 0).then(|| limiter(window)),
        }
    }

    /// Waits for both limits, the model's first. `report` gets what is waited for and how many are ahead.
    pub(crate) async fn enter(
        &self,
        model: &str,
        client: &Arc<str>,
        report: impl Fn(&str, usize),
    ) -> Result<Pass, Trouble> {
        let at_model = self.limiter(model);
        let permit = at_model.acquire(client, |ahead| report(model, ahead)).await.map_err(refused)?;
        let window = match &self.window {
            Some(window) => {
                Some(window.acquire(client, |ahead| report("all models", ahead)).await.map_err(refused)?)
            }
            None => None,
        };
        Ok(Pass { _window: window, _model: permit })
    }

    fn limiter(&self, model: &str) -> Limiter {
        let known = self.models.get(model).or_else(|| self.models.get(preset_of(model)?));
        known.cloned().unwrap_or_else(|| self.others.of(&model.into()))
    }

    #[cfg(test)]
    pub(crate) fn running(&self, model: &str) -> usize {
        self.limiter(model).usage().running
    }
}

/// What the config sets for a model; what it leaves open is taken from the preset.
fn limit_of(name: &str, model: &ModelConfig) -> Option<Limit> {
    if model.concurrent.is_none() && model.per_minute.is_none() {
        return None;
    }
    let preset = MODEL_PRESETS.iter().find(|preset| Some(preset.model) == preset_of(name));
    let concurrent = model.concurrent.unwrap_or(preset.map_or(USUAL, |preset| preset.concurrent));
    let window = model.per_minute.map(|count| Window { count, per: MINUTE });
    Some(Limit { window, ..Limit::concurrent(concurrent) })
}

/// The preset for a model: its own name, or the longest that its name begins with.
fn preset_of(model: &str) -> Option<&'static str> {
    let fits =
        |name: &&str| model.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'));
    MODEL_PRESETS.iter().map(|preset| preset.model).filter(fits).max_by_key(|name| name.len())
}

fn limiter(limit: Limit) -> Limiter {
    Limiter::new(patient(limit))
}

fn patient(mut limit: Limit) -> Limit {
    limit.max_wait = LONGEST_WAIT;
    limit
}

fn refused(refusal: Refusal) -> Trouble {
    Trouble::Limited { reason: refusal.to_string(), retry_after: refusal.retry_after() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variant_of_a_model_has_the_limit_of_the_longest_name_it_begins_with() {
        let check = |model, preset| assert_eq!(preset_of(model), preset, "{model}");
        check("gemini-3-flash", Some("gemini-3-flash"));
        check("gemini-3-pro-high", Some("gemini-3-pro-high"));
        check("gemini-3-pro-low", Some("gemini-3-pro"));
        check("gpt-5.2-codex", Some("gpt-5.2"));
        check("gpt-5.20", None);
        check("qwen3", None);
    }
}
