//! Opens the listeners: HTTP, TCP and the local socket for newline JSON-RPC, and the one for questions to models.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use tokio::net::TcpListener;
use toolyard_config::socket;
use toolyard_config::standby::Standby;
use toolyard_config::state_dir::Addresses;
use toolyard_config::{ListenConfig, LocalDoor};
use toolyard_model::Scope;
use toolyard_model::local::LocalListener;
use toolyard_serve::{Endpoint, PlainCall, serve_http, serve_local, serve_plain_calls, serve_tcp};

use crate::address_file::{AGAIN, OwnAddresses};
use crate::bind::{Bound, bind, listen};

pub(crate) struct Doors {
    http: Bound,
    tcp: Option<(TcpListener, SocketAddr)>,
    models: Option<(TcpListener, SocketAddr)>,
    local: Local,
}

/// The calls for programs without MCP, at the paths of the proxy of Stravinsky.
const MODEL_CALLS: &[PlainCall] = &[
    PlainCall { path: "/v1/gemini/generate", tool: "models__invoke_gemini" },
    PlainCall { path: "/v1/gemini/agentic", tool: "models__invoke_gemini_agentic" },
    PlainCall { path: "/v1/openai/chat", tool: "models__invoke_openai" },
];

/// A socket for programs on this machine.
pub(crate) enum Local {
    Open(LocalListener),
    /// Another gateway of this config has it; this one has announced that it waits for it.
    Taken(PathBuf, Option<Standby>),
    Shut,
}

impl Local {
    /// Its path, if it is open.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        match self {
            Self::Open(listener) => Some(listener.path().to_owned()),
            Self::Taken(..) | Self::Shut => None,
        }
    }

    /// Its listener, as soon as the other gateway has freed it.
    pub(crate) async fn listener(self) -> Option<LocalListener> {
        let (path, _standby) = match self {
            Self::Open(listener) => return Some(listener),
            Self::Taken(path, standby) => (path, standby),
            Self::Shut => return None,
        };
        loop {
            tokio::time::sleep(AGAIN).await;
            let path = path.clone();
            let bound = tokio::task::spawn_blocking(move || LocalListener::bind(&path)).await;
            if let Ok(Ok(listener)) = bound {
                tracing::info!("{} is free, and is this gateway's now", listener.path().display());
                return Some(listener);
            }
        }
    }
}

impl Doors {
    /// Addresses that were asked for must open; default ones may fail, with a message.
    pub(crate) fn open(
        http: Option<SocketAddr>,
        config: &ListenConfig,
        local: Option<&Path>,
    ) -> Result<Self> {
        let local = local.map_or(Ok(Local::Shut), |path| open_local(path, &config.local, "listen"))?;
        let http = bind(http.or(config.http))?;
        let (tcp, models) = (open_tcp(config.tcp, "tcp")?, open_tcp(config.models, "models")?);
        Ok(Self { http, tcp, models, local })
    }

    pub(crate) fn addresses(&self) -> Addresses {
        Addresses {
            http: format!("http://{}", self.http.address),
            tcp: self.tcp.as_ref().map(|(_, address)| format!("tcp://{address}")),
            models: self.models.as_ref().map(|(_, address)| format!("http://{address}")),
            socket: self.local.path(),
            ..Addresses::default()
        }
    }

    /// The default address, if another program uses it.
    pub(crate) fn taken(&self) -> Option<SocketAddr> {
        self.http.taken
    }

    /// Whether clients on this machine find the gateway by its config.
    pub(crate) fn has_local(&self) -> bool {
        matches!(self.local, Local::Open(_))
    }

    /// Accepts clients.
    pub(crate) fn serve(self, endpoint: &Arc<Endpoint>, own_addresses: &OwnAddresses, scope: &Scope) {
        scope.spawn(serve_http(self.http.listener, endpoint.clone(), scope.clone()));
        if let Some((listener, _)) = self.tcp {
            scope.spawn(serve_tcp(listener, endpoint.clone(), scope.clone()));
        }
        if let Some((listener, _)) = self.models {
            scope.spawn(serve_plain_calls(listener, endpoint.clone(), MODEL_CALLS, scope.clone()));
        }
        let endpoint = endpoint.clone();
        let own_addresses = own_addresses.clone();
        let inner = scope.clone();
        scope.spawn(async move {
            let Some(listener) = self.local.listener().await else { return };
            own_addresses.change(|addresses| addresses.socket = Some(listener.path().to_owned()));
            serve_local(listener, endpoint, inner).await;
        });
    }
}

/// `key` is the key of `[listen]` in which the address can be changed.
fn open_tcp(asked: Option<SocketAddr>, key: &str) -> Result<Option<(TcpListener, SocketAddr)>> {
    let Some(asked) = asked else { return Ok(None) };
    let failed = || format!("cannot listen on {asked} (choose another address for {key} in [listen])");
    let listener = listen(asked).with_context(failed)?;
    let address = listener.local_addr().with_context(failed)?;
    Ok(Some((listener, address)))
}

/// `section` is the section of the config in which the path can be changed.
pub(crate) fn open_local(path: &Path, door: &LocalDoor, section: &str) -> Result<Local> {
    match socket::make_folder(path).and_then(|()| LocalListener::bind(path)) {
        Ok(listener) => Ok(Local::Open(listener)),
        Err(error) if *door != LocalDoor::Default => {
            let what =
                format!("cannot listen on {} (choose another path for unix in [{section}])", path.display());
            Err(error).context(what)
        }
        Err(error) if section == "apps" => {
            tracing::warn!("apps cannot register at {}: {error}", path.display());
            let is_taken = error.kind() == ErrorKind::AddrInUse;
            Ok(if is_taken { taken(path) } else { Local::Shut })
        }
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            tracing::warn!(
                "another gateway serves this config already; `toolyard stdio` reaches that one ({})",
                path.display()
            );
            Ok(taken(path))
        }
        Err(error) => {
            tracing::warn!("`toolyard stdio` cannot reach this gateway: {}: {error}", path.display());
            Ok(Local::Shut)
        }
    }
}

fn taken(path: &Path) -> Local {
    let standby = Standby::new(path);
    if let Err(error) = &standby {
        tracing::debug!("other processes cannot see that this gateway waits for {}: {error}", path.display());
    }
    Local::Taken(path.to_owned(), standby.ok())
}
