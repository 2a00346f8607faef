//! A config that changes while the gateway runs: what changed is applied without dropping a call, and a config
//! with mistakes is not applied at all.
//!
//! The files are looked at every second. File events would be quicker, but editors replace files,
//! network folders send no events, and a second is fast enough for a person who edits by hand. A program that
//! cannot wait sends a signal, where there are signals.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::timeout;
use toolyard_config::{AppsConfig, Config, Found, ListenConfig, ResourceConfig, Trusted, unused_hint};
use toolyard_core::discovery::Endpoints;
use toolyard_core::plan::Pings;
use toolyard_core::{Gateway, Reloaded};
use toolyard_proto::token::Rules;

use super::Orders;
use crate::cli::Common;
use crate::connect::ConnectContext;
use crate::known_listeners::KnownListeners;
use crate::plan::plan;
use crate::settings;
use crate::stop::Nudge;

const PAUSE: Duration = Duration::from_secs(1);

/// The inputs for building the gateway's plan again.
pub(super) struct Reload {
    pub(super) common: Common,
    pub(super) gateway: Gateway,
    pub(super) context: ConnectContext,
    pub(super) state_dir: Option<PathBuf>,
    pub(super) listen: ListenConfig,
    pub(super) apps: AppsConfig,
    pub(super) endpoints: Endpoints,
    pub(super) known: KnownListeners,
    /// Whether apps are disabled, regardless of the config.
    pub(super) no_apps: bool,
    pub(super) pings: Pings,
    pub(super) auth: Option<Rules>,
    pub(super) oauth: Option<ResourceConfig>,
    pub(super) orders: Arc<Orders>,
}

impl Reload {
    /// Watches the files until it is dropped.
    pub(super) async fn watch(mut self, found: Found) {
        let (mut watched, set) = (files_of(&found), found.set());
        let mut applied = stamps(&watched);
        let Ok(mut nudge) = Nudge::new() else { return };
        loop {
            let is_requested = timeout(PAUSE, async {
                tokio::select! {
                    () = nudge.received() => {}
                    () = self.orders.reload.notified() => {}
                }
            })
            .await
            .is_ok();
            self.endpoints.try_again();
            let now = stamps(&watched);
            if now == applied && !is_requested {
                continue;
            }
            if !is_requested {
                // A file that is still being written is read again a moment later.
                tokio::time::sleep(PAUSE / 4).await;
            }
            if is_requested || stamps(&watched) == now {
                let files = files_of(&self.apply(&set));
                // Changes during the reading are noticed the next time.
                applied = if files == watched { now } else { stamps(&files) };
                watched = files;
            }
        }
    }

    /// `set` is the config set that the gateway was started with: other files would be another gateway.
    fn apply(&mut self, set: &[PathBuf]) -> Found {
        // A config may run commands for its values.
        let (found, loaded) = tokio::task::block_in_place(|| settings::look(&self.common));
        if found.set() != set {
            if let Some((file, standing)) = &found.unused {
                tracing::warn!("nothing is applied: {}", unused_hint(file, standing));
            } else {
                tracing::warn!("other config files are in force now: restart the gateway to use them");
            }
            return found;
        }
        let Some(config) = loaded.config else {
            for problem in &loaded.problems {
                tracing::error!("the changed config is not applied: {problem}");
            }
            return found;
        };
        if config.listen != self.listen {
            tracing::warn!("a change of [listen] takes effect when the gateway is started again");
        }
        if config.pings != self.pings {
            tracing::warn!("a change of [health] takes effect when the gateway is started again");
        }
        if config.auth != self.auth || config.oauth != self.oauth {
            tracing::warn!("a change of [auth] takes effect when the gateway is started again");
        }
        let done = self.gateway.reload(plan(&config, self.state_dir.clone(), &self.context));
        let Reloaded { added, changed, removed } = &done;
        tracing::info!(?added, ?changed, ?removed, "the changed config is applied");
        // Only now the names of removed servers are free.
        self.apply_apps(&config);
        found
    }
}

impl Reload {
    /// The endpoints to dial can change; listeners and limits stay as they were opened.
    fn apply_apps(&mut self, config: &Config) {
        let new = if self.no_apps { &AppsConfig::closed() } else { &config.apps };
        self.known.renew(config, new);
        if self.no_apps {
            return;
        }
        self.endpoints.set(&new.endpoints);
        let old = AppsConfig { endpoints: new.endpoints.clone(), ..self.apps.clone() };
        if *new != old {
            tracing::warn!("a change of [apps] takes effect when the gateway is started again");
        }
    }
}

/// The files in force, the user file and a project file that may be created or trusted later, and the secrets.
fn files_of(found: &Found) -> Vec<PathBuf> {
    let mut files = found.files();
    files.extend(found.user_file.clone().filter(|file| !files.contains(file)));
    if let Some((project, _)) = &found.unused {
        files.push(project.clone());
    }
    files.extend(Trusted::read(&settings::variable).path);
    files.extend(settings::secrets().map(|store| store.sealed()));
    files
}

/// The modification time and length of each; `None` if it does not exist.
fn stamps(files: &[PathBuf]) -> Vec<Option<(SystemTime, u64)>> {
    let stamp = |file: &PathBuf| {
        let about = std::fs::metadata(file).ok()?;
        Some((about.modified().ok()?, about.len()))
    };
    files.iter().map(stamp).collect()
}
