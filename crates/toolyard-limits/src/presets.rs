//! Limits that model calls start with; the configuration can replace each.

use std::time::Duration;

use crate::Limit;

/// How many calls of a model may run at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelPreset {
    pub model: &'static str,
    pub concurrent: usize,
}

impl ModelPreset {
    pub fn limit(self) -> Limit {
        Limit::concurrent(self.concurrent)
    }
}

pub const MODEL_PRESETS: [ModelPreset; 4] = [
    ModelPreset { model: "gemini-3-flash", concurrent: 10 },
    ModelPreset { model: "gemini-3-pro", concurrent: 5 },
    ModelPreset { model: "gemini-3-pro-high", concurrent: 3 },
    ModelPreset { model: "gpt-5.2", concurrent: 3 },
];

/// The window over the calls of all models. A call enters it while it holds the permit of its model.
pub fn global_model_window() -> Limit {
    Limit::window(30, Duration::from_mins(1))
}
