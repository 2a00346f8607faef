//! A configured provider: its models, its credentials, and which of them rest after a refusal.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use toolyard_tool::{Host, Secret};

use crate::config::{Kind, ModelConfig, ProviderConfig};
use crate::conversation::Usage;
use crate::provider::Auth;
use crate::trouble::Trouble;

/// For how long a credential rests that was refused for too many requests, if there is another one.
pub(crate) const COOL_DOWN: Duration = Duration::from_mins(5);

#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) base_url: String,
    pub(crate) headers: BTreeMap<String, Secret>,
    pub(crate) models: BTreeMap<String, ModelConfig>,
    /// In the order in which they are used.
    sources: Vec<Source>,
    /// Until when each of them rests.
    resting: Mutex<Vec<Option<Instant>>>,
}

#[derive(Debug)]
enum Source {
    Login(String),
    Key(Secret),
    File(PathBuf),
}

impl Service {
    pub(crate) fn new(name: &str, config: ProviderConfig) -> Self {
        let login = config.login.map(Source::Login);
        let key = config.key.map(Source::Key);
        let file = config.key_file.map(Source::File);
        let sources: Vec<Source> = [login, key, file].into_iter().flatten().collect();
        let default_url = || config.kind.default_url().unwrap_or_default().to_owned();
        Self {
            name: name.to_owned(),
            kind: config.kind,
            base_url: config.base_url.unwrap_or_else(default_url),
            headers: config.headers,
            models: config.models,
            resting: Mutex::new(vec![None; sources.len()]),
            sources,
        }
    }

    /// Whether it can be asked for a model of this name.
    pub(crate) fn offers(&self, model: &str) -> bool {
        self.models.is_empty() || self.models.contains_key(model)
    }

    /// The credential to use now: the first that does not rest. The last one never rests.
    pub(crate) async fn auth(&self, host: &Host) -> Result<(usize, Auth), Trouble> {
        if self.sources.is_empty() {
            return match self.kind {
                Kind::Compatible => Ok((0, Auth::None)),
                _ => Err(Trouble::NoCredential("none is configured".into())),
            };
        }
        let mut why = String::new();
        for (at, source) in self.sources.iter().enumerate() {
            if self.rests(at) {
                continue;
            }
            match source.auth(host).await {
                Ok(auth) => return Ok((at, auth)),
                Err(reason) => why = reason,
            }
        }
        Err(Trouble::NoCredential(why))
    }

    fn rests(&self, at: usize) -> bool {
        let resting = self.resting.lock();
        resting.get(at).copied().flatten().is_some_and(|until| Instant::now() < until)
    }

    /// Lets a credential rest, if there is another one to use.
    pub(crate) fn cool_down(&self, at: usize) -> bool {
        let has_next = at + 1 < self.sources.len();
        if has_next {
            let mut resting = self.resting.lock();
            resting[at] = Some(Instant::now() + COOL_DOWN);
        }
        has_next
    }
}

impl Source {
    async fn auth(&self, host: &Host) -> Result<Auth, String> {
        match self {
            Self::Login(account) => {
                let token = host.credentials(account).await.map_err(|error| error.to_string())?;
                Ok(Auth::Login(Secret::new(token)))
            }
            Self::Key(key) if key.expose().is_empty() => Err("the key is empty".into()),
            Self::Key(key) => Ok(Auth::Key(key.clone())),
            Self::File(path) => {
                let text = tokio::fs::read_to_string(path).await;
                let text = text.map_err(|error| format!("cannot read `{}`: {error}", path.display()))?;
                match text.trim() {
                    "" => Err(format!("`{}` is empty", path.display())),
                    key => Ok(Auth::Key(Secret::new(key))),
                }
            }
        }
    }
}

impl ModelConfig {
    /// What these tokens cost; nothing if a price that is needed is unknown.
    #[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
    pub(crate) fn cost(&self, usage: Usage) -> Option<f64> {
        let cached = usage.cached_tokens.min(usage.input_tokens);
        let price_in = self.price_in?;
        let sent = (usage.input_tokens - cached) as f64 * price_in;
        let cached = cached as f64 * self.price_cached.unwrap_or(price_in);
        let received = usage.output_tokens as f64 * self.price_out?;
        Some((sent + cached + received) / 1e6)
    }
}
