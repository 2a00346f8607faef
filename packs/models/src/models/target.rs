//! Which provider and model a name means.

use toolyard_tool::ToolError;

use super::Models;
use crate::config::{Kind, ModelConfig};
use crate::service::Service;

/// A model at a provider.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'a> {
    pub(crate) service: &'a Service,
    /// As the config names it.
    pub(crate) model: &'a str,
    /// Nothing if the provider takes any name.
    pub(crate) settings: Option<&'a ModelConfig>,
}

impl Target<'_> {
    /// What the provider calls the model.
    pub(crate) fn id(&self) -> &str {
        self.settings.and_then(|settings| settings.id.as_deref()).unwrap_or(self.model)
    }
}

impl Models {
    /// The model `MODEL` of the first provider that has it, or `PROVIDER/MODEL`.
    pub(crate) fn target<'a>(&'a self, name: &'a str, kinds: &[Kind]) -> Result<Target<'a>, ToolError> {
        let fits = |service: &&Service| kinds.is_empty() || kinds.contains(&service.kind);
        let all: Vec<&Service> = self.services.iter().filter(fits).collect();
        if all.is_empty() {
            let kinds: Vec<String> = kinds.iter().map(|kind| format!("`{}`", kind.as_str())).collect();
            return Err(ToolError::new(format!("no provider of kind {} is configured", kinds.join(" or ")))
                .hint("add one as [packs.models.providers.NAME], or use `ask_model` with another model"));
        }
        let qualified = name.split_once('/').and_then(|(provider, model)| {
            let service = all.iter().find(|service| service.name == provider && service.offers(model))?;
            Some((*service, model))
        });
        // A provider that names the model comes before one that takes any.
        let named = || all.iter().find(|service| service.models.contains_key(name));
        let any = || all.iter().find(|service| service.models.is_empty());
        let (service, model) = match qualified {
            Some(found) => found,
            None => (*named().or_else(any).ok_or_else(|| unknown(name, &all))?, name),
        };
        if !is_safe(model) {
            return Err(ToolError::new(format!("`{model}` is not a valid name of a model")));
        }
        Ok(Target { service, model, settings: service.models.get(model) })
    }

    /// The models that can be named.
    pub(crate) fn names(&self) -> Vec<String> {
        let names = self
            .services
            .iter()
            .flat_map(|service| service.models.keys().map(move |model| format!("{}/{model}", service.name)));
        names.collect()
    }
}

fn unknown(name: &str, services: &[&Service]) -> ToolError {
    let names = services.iter().flat_map(|service| service.models.keys().map(String::as_str));
    let names: Vec<&str> = names.take(20).collect();
    ToolError::new(format!("no configured provider has a model `{name}`"))
        .hint(format!("use one of {}, or add it to [packs.models.providers.NAME.models]", names.join(", ")))
}

/// The name becomes part of a path.
fn is_safe(model: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/@+".contains(c);
    !model.is_empty() && model.len() <= 200 && model.chars().all(is_plain) && !model.contains("..")
}

impl Kind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Gemini => "gemini",
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
            Self::Compatible => "compatible",
        }
    }
}
