//! Vectors from a service: Ollama, an OpenAI-compatible one, Gemini, or Hugging Face.

use std::sync::OnceLock;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, USER_AGENT};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use toolyard_dial::Dialer;
use toolyard_tool::{Secret, ToolError};

use super::{Passage, normalize};
use crate::config::{EmbeddingsConfig, Provider};

/// How many passages a request has.
pub(crate) const BATCH: usize = 32;
/// Characters of a passage that are sent.
const MOST_CHARACTERS: usize = 8_000;
/// A longer answer is an error.
const MOST_BYTES: usize = 64 << 20;
/// How long the service may take for a request.
const WITHIN: Duration = Duration::from_mins(1);

#[derive(Debug)]
pub(crate) struct Remote {
    provider: Provider,
    base_url: String,
    model: String,
    key: Option<Secret>,
    query_prefix: String,
    passage_prefix: String,
    client: OnceLock<Connections>,
}

type Connections = Client<HttpsConnector<Dialer>, Full<Bytes>>;

/// Whether a text is a question or what is searched: some models want to know.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Query,
    Passage,
}

impl Remote {
    pub(crate) fn new(config: &EmbeddingsConfig, table: &str) -> Result<Self, ToolError> {
        let missing = |key: &str| ToolError::new(format!("{table} has no `{key}`"));
        let default = match config.provider {
            Provider::Ollama => Some("http://127.0.0.1:11434"),
            Provider::Openai => Some("https://api.openai.com/v1"),
            Provider::Gemini => Some("https://generativelanguage.googleapis.com/v1beta"),
            Provider::Huggingface | Provider::Model2vec => None,
        };
        let base_url = config.base_url.as_deref().or(default).ok_or_else(|| missing("base_url"))?;
        let model = config.model.clone().ok_or_else(|| missing("model"))?;
        let (query, passage) = prefixes(&model);
        Ok(Self {
            provider: config.provider,
            base_url: base_url.trim_end_matches('/').to_owned(),
            key: config.key.clone(),
            query_prefix: config.query_prefix.clone().unwrap_or_else(|| query.to_owned()),
            passage_prefix: config.passage_prefix.clone().unwrap_or_else(|| passage.to_owned()),
            model,
            client: OnceLock::new(),
        })
    }

    pub(crate) fn name(&self) -> String {
        let Self { provider, base_url, model, passage_prefix, .. } = self;
        format!("{provider:?} {base_url} {model} {passage_prefix}")
    }

    pub(crate) async fn passages(&self, passages: &[Passage]) -> Result<Vec<Vec<f32>>, ToolError> {
        let text = |passage: &Passage| format!("{}{}\n{}", self.passage_prefix, passage.name, passage.text);
        let mut vectors = Vec::with_capacity(passages.len());
        for batch in passages.chunks(BATCH) {
            vectors.extend(self.encode(batch.iter().map(text).collect(), Side::Passage).await?);
        }
        Ok(vectors)
    }

    pub(crate) async fn query(&self, text: &str) -> Result<Vec<f32>, ToolError> {
        let mut vectors = self.encode(vec![format!("{}{text}", self.query_prefix)], Side::Query).await?;
        vectors.pop().ok_or_else(|| self.failed("it returned no vector"))
    }

    async fn encode(&self, mut texts: Vec<String>, side: Side) -> Result<Vec<Vec<f32>>, ToolError> {
        for text in &mut texts {
            if let Some((end, _)) = text.char_indices().nth(MOST_CHARACTERS) {
                text.truncate(end);
            }
        }
        let count = texts.len();
        let (url, body) = self.request(&texts, side);
        let answer = tokio::time::timeout(WITHIN, self.post(&url, body.to_string()));
        let answer = answer.await.map_err(|_| self.failed("it did not answer within a minute"))??;
        let mut vectors =
            vectors(self.provider, &answer).ok_or_else(|| self.failed("its answer has no vectors"))?;
        let dimensions = vectors.first().map_or(0, Vec::len);
        if vectors.len() != count || dimensions == 0 || vectors.iter().any(|one| one.len() != dimensions) {
            return Err(self.failed("its answer does not have one vector for each text"));
        }
        for vector in &mut vectors {
            normalize(vector);
        }
        Ok(vectors)
    }

    fn request(&self, texts: &[String], side: Side) -> (String, Value) {
        let Self { base_url, model, .. } = self;
        match self.provider {
            Provider::Ollama => (format!("{base_url}/api/embed"), json!({ "model": model, "input": texts })),
            Provider::Openai => {
                let body = json!({ "model": model, "input": texts, "encoding_format": "float" });
                (format!("{base_url}/embeddings"), body)
            }
            Provider::Gemini => {
                let task = if side == Side::Query { "CODE_RETRIEVAL_QUERY" } else { "RETRIEVAL_DOCUMENT" };
                let one = |text: &String| {
                    json!({
                        "model": format!("models/{model}"), "taskType": task,
                        "content": { "parts": [{ "text": text }] },
                    })
                };
                let body = json!({ "requests": texts.iter().map(one).collect::<Vec<_>>() });
                (format!("{base_url}/models/{model}:batchEmbedContents"), body)
            }
            Provider::Huggingface | Provider::Model2vec => (base_url.clone(), json!({ "inputs": texts })),
        }
    }

    async fn post(&self, url: &str, body: String) -> Result<Value, ToolError> {
        let mut request = http::Request::post(url)
            .header(USER_AGENT, concat!("toolyard/", env!("CARGO_PKG_VERSION")))
            .header(CONTENT_TYPE, "application/json");
        if let Some(key) = &self.key {
            let (name, value) = match self.provider {
                Provider::Gemini => (HeaderName::from_static("x-goog-api-key"), key.expose().to_owned()),
                _ => (AUTHORIZATION, format!("Bearer {}", key.expose())),
            };
            let mut value = http::HeaderValue::from_str(&value)
                .map_err(|_| self.failed("`key` has characters that a header cannot have"))?;
            value.set_sensitive(true);
            request = request.header(name, value);
        }
        let request =
            request.body(Full::new(body.into())).map_err(|error| self.failed(&error.to_string()))?;
        let response = self.client()?.request(request).await.map_err(|error| self.failed(&causes(&error)))?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MOST_BYTES).collect().await;
        let body = body.map_err(|error| self.failed(&error.to_string()))?.to_bytes();
        if !status.is_success() {
            return Err(self.failed(&format!("it answered with status {status}")));
        }
        serde_json::from_slice(&body).map_err(|_| self.failed("its answer is not JSON"))
    }

    fn client(&self) -> Result<&Connections, ToolError> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let connector = toolyard_dial::https_or_http()
            .map_err(|error| self.failed(&format!("the certificates of this system: {error}")))?;
        Ok(self.client.get_or_init(|| Client::builder(TokioExecutor::new()).build(connector)))
    }

    fn failed(&self, why: &str) -> ToolError {
        ToolError::new(format!("cannot get vectors of `{}` from {}: {why}", self.model, self.base_url))
    }
}

/// What these models were trained to see before a question and before a passage.
fn prefixes(model: &str) -> (&'static str, &'static str) {
    let model = model.rsplit('/').next().unwrap_or(model);
    if model.starts_with("nomic-embed-text") {
        ("search_query: ", "search_document: ")
    } else if model.starts_with("mxbai-embed") {
        ("Represent this sentence for searching relevant passages: ", "")
    } else {
        ("", "")
    }
}

fn vectors(provider: Provider, answer: &Value) -> Option<Vec<Vec<f32>>> {
    let list = match provider {
        Provider::Ollama => answer.get("embeddings")?.as_array()?.iter().collect(),
        Provider::Gemini => answer
            .get("embeddings")?
            .as_array()?
            .iter()
            .map(|one| one.get("values"))
            .collect::<Option<Vec<_>>>()?,
        Provider::Openai => {
            let mut list: Vec<&Value> = answer.get("data")?.as_array()?.iter().collect();
            list.sort_by_key(|one| one["index"].as_u64());
            list.into_iter().map(|one| one.get("embedding")).collect::<Option<Vec<_>>>()?
        }
        Provider::Huggingface | Provider::Model2vec => answer.as_array()?.iter().collect(),
    };
    list.into_iter().map(numbers).collect()
}

#[expect(clippy::cast_possible_truncation, reason = "vectors are stored with less precision anyway")]
fn numbers(vector: &Value) -> Option<Vec<f32>> {
    vector.as_array()?.iter().map(|x| Some(x.as_f64()? as f32)).collect()
}

fn causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |error| error.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
