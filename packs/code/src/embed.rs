//! What turns code and questions into vectors: a built-in model, a directory with a model2vec model, or a service.

mod model2vec;
mod remote;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use toolyard_tool::ToolError;

use crate::background::on_all_cores;
use crate::config::{Config, EmbeddingsConfig, ModelChoice, Provider};
use crate::model::Model;
use model2vec::WordVectors;
use remote::Remote;

/// A piece of code for an encoder.
#[derive(Clone, Debug)]
pub(crate) struct Passage {
    pub(crate) name: String,
    pub(crate) text: String,
}

/// Encodes on this machine, or asks a service.
#[derive(Debug)]
pub(crate) enum Encoder {
    BuiltIn { model: Box<Model>, name: &'static str, is_instant: bool },
    Directory { vectors: WordVectors, name: String },
    Service(Remote),
}

impl Encoder {
    /// The one that is used by default.
    pub(crate) fn of(config: &Config) -> Result<Arc<Self>, ToolError> {
        let encoder = match &config.embeddings {
            Some(embeddings) => Self::configured(embeddings, "[packs.code.embeddings]")?,
            None => Self::built_in(config.model)?,
        };
        Ok(Arc::new(encoder))
    }

    pub(crate) fn built_in(choice: ModelChoice) -> Result<Self, ToolError> {
        let (model, name) = match choice {
            ModelChoice::Fast => (Model::fast(), "static128"),
            ModelChoice::Precise => (Model::precise(), "tiny1x128"),
        };
        let model =
            model.map_err(|error| ToolError::new(format!("cannot read the built-in model: {error}")))?;
        let is_instant = choice == ModelChoice::Fast;
        Ok(Self::BuiltIn { model: Box::new(model), name, is_instant })
    }

    /// The one that a table of the config describes.
    pub(crate) fn configured(embeddings: &EmbeddingsConfig, table: &str) -> Result<Self, ToolError> {
        if embeddings.provider != Provider::Model2vec {
            return Ok(Self::Service(Remote::new(embeddings, table)?));
        }
        let folder = embeddings.path.as_ref().ok_or_else(|| {
            ToolError::new(format!("{table} has no `path`"))
                .hint("name the folder with `model.safetensors` and `tokenizer.json`")
        })?;
        let vectors = WordVectors::read(folder).map_err(|error| {
            ToolError::new(format!("cannot use the model in `{}`: {error}", folder.display()))
        })?;
        // Another model in the same folder has other vectors.
        let name = format!("model2vec {} {}", folder.display(), vectors.fingerprint());
        Ok(Self::Directory { vectors, name })
    }

    /// Identifies the model: vectors of different models are never compared.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::BuiltIn { name, .. } => (*name).to_owned(),
            Self::Directory { name, .. } => name.clone(),
            Self::Service(remote) => remote.name(),
        }
    }

    /// Whether encoding takes no longer than reading the code, so that an update does it at once.
    pub(crate) fn is_instant(&self) -> bool {
        match self {
            Self::BuiltIn { is_instant, .. } => *is_instant,
            Self::Directory { .. } => true,
            Self::Service(_) => false,
        }
    }

    /// How many passages are encoded at a time.
    pub(crate) fn batch(&self) -> usize {
        match self {
            Self::BuiltIn { .. } | Self::Directory { .. } => 256,
            Self::Service(_) => remote::BATCH,
        }
    }

    /// The vector of a passage, if it can be had without waiting.
    pub(crate) fn at_once(&self, passage: &Passage) -> Option<Vec<f32>> {
        match self {
            Self::BuiltIn { model, .. } => Some(model.document(&passage.name, &passage.text)),
            Self::Directory { vectors, .. } => {
                Some(vectors.encode(&format!("{} {}", passage.name, passage.text)))
            }
            Self::Service(_) => None,
        }
    }

    /// The vectors of passages, in their order.
    pub(crate) fn passages<'a>(
        &'a self,
        passages: &'a [Passage],
    ) -> BoxFuture<'a, Result<Vec<Vec<f32>>, ToolError>> {
        match self {
            Self::Service(remote) => Box::pin(remote.passages(passages)),
            Self::BuiltIn { .. } | Self::Directory { .. } => {
                let vectors = on_all_cores(passages, |passage| self.at_once(passage).unwrap_or_default());
                Box::pin(async { vectors })
            }
        }
    }

    /// The vector of a question.
    pub(crate) fn query<'a>(&'a self, text: &'a str) -> BoxFuture<'a, Result<Vec<f32>, ToolError>> {
        match self {
            Self::Service(remote) => Box::pin(remote.query(text)),
            Self::BuiltIn { model, .. } => Box::pin(async move { Ok(model.query(text)) }),
            Self::Directory { vectors, .. } => Box::pin(async move { Ok(vectors.encode(text)) }),
        }
    }
}

/// Makes a vector one long. Zeros stay zeros.
fn normalize(vector: &mut [f32]) {
    let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    if length > 0.0 {
        for x in vector {
            *x /= length;
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
