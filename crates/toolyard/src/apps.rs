//! The listeners for apps. An address that another program uses is tried again until it is free;
//! everything else is served meanwhile.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use parking_lot::Mutex;
use tokio::net::TcpListener;
use toolyard_config::{AppsConfig, DEFAULT_APPS, LocalDoor, TcpDoor};
use toolyard_core::{AppOptions, Apps, Gateway, Timeouts};
use toolyard_model::Scope;
use toolyard_serve::admit::Signed;

use crate::address_file::OwnAddresses;
use crate::bind::listen;
use crate::doors::{Local, open_local};

/// How often an address that another program uses is tried.
const AGAIN: Duration = Duration::from_secs(5);

pub(crate) struct AppDoors {
    tcp: Option<Tcp>,
    local: Local,
}

enum Tcp {
    Open(TcpListener, SocketAddr),
    /// Another program uses it.
    Taken(SocketAddr),
}

impl AppDoors {
    /// An address that was asked for must be usable; the default one may be in use by another gateway, or by the
    /// program that Toolyard replaces.
    pub(crate) fn open(config: &AppsConfig, local: Option<&Path>) -> Result<Self> {
        let local = local.map_or(Ok(Local::Shut), |path| open_local(path, &config.local, "apps"))?;
        let tcp = match config.tcp {
            TcpDoor::Off => None,
            TcpDoor::Default => Some(open_tcp(DEFAULT_APPS)?),
            TcpDoor::At(address) => Some(open_tcp(address)?),
        };
        Ok(Self { tcp, local })
    }

    /// The addresses at which apps can connect now.
    pub(crate) fn addresses(&self) -> (Option<String>, Option<PathBuf>) {
        let tcp = match &self.tcp {
            Some(Tcp::Open(_, address)) => Some(format!("tcp://{address}")),
            _ => None,
        };
        (tcp, self.local.path())
    }

    /// The address that another program uses.
    pub(crate) fn taken(&self) -> Option<SocketAddr> {
        match &self.tcp {
            Some(Tcp::Taken(address)) => Some(*address),
            _ => None,
        }
    }

    /// Accepts apps, and reports the state of these listeners.
    pub(crate) fn serve(self, gateway: &Gateway, apps: &Apps, own_addresses: &OwnAddresses, scope: &Scope) {
        let taken = Arc::new(Mutex::new(self.taken()));
        let reported = taken.clone();
        gateway.report_on("doors", move || {
            let taken = *reported.lock();
            serde_json::json!({ "appsTaken": taken.map(|address| address.to_string()) })
        });
        if let Some(tcp) = self.tcp {
            let apps = apps.clone();
            let own_addresses = own_addresses.clone();
            let inner = scope.clone();
            scope.spawn(async move {
                let listener = match tcp {
                    Tcp::Open(listener, _) => listener,
                    Tcp::Taken(address) => {
                        let listener = wait_for(address).await;
                        own_addresses.change(|own| own.apps = Some(format!("tcp://{address}")));
                        listener
                    }
                };
                *taken.lock() = None;
                apps.serve_tcp(listener, inner).await;
            });
        }
        let apps = apps.clone();
        let own_addresses = own_addresses.clone();
        let inner = scope.clone();
        scope.spawn(async move {
            let Some(listener) = self.local.listener().await else { return };
            own_addresses.change(|own| own.apps_socket = Some(listener.path().to_owned()));
            apps.serve_local(listener, inner).await;
        });
    }
}

pub(crate) fn apps(gateway: &Gateway, config: &AppsConfig, signed: Option<Signed>, scope: &Scope) -> Apps {
    let usual = AppOptions::default();
    let options = AppOptions {
        connections: config.max_connections.unwrap_or(usual.connections),
        calls: config.calls.unwrap_or(usual.calls),
        queue: config.queue.unwrap_or(usual.queue),
        timeouts: Timeouts { idle: config.timeout.unwrap_or(usual.timeouts.idle), ..usual.timeouts },
        patience: config.connect_timeout.unwrap_or(usual.patience),
        signed,
        any_client_id: config.any_client_id,
        ..usual
    };
    Apps::new(gateway.clone(), options, scope)
}

fn open_tcp(address: SocketAddr) -> Result<Tcp> {
    match listen(address) {
        Ok(listener) => {
            let address = listener.local_addr()?;
            Ok(Tcp::Open(listener, address))
        }
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            tracing::warn!(
                "apps cannot register at {address}: another program has it; it is tried again every {} s \
                 (choose another with `listen` in [apps], or `listen = false`)",
                AGAIN.as_secs()
            );
            Ok(Tcp::Taken(address))
        }
        Err(error) => Err(error).with_context(|| {
            format!("cannot listen for apps on {address} (choose another address for listen in [apps])")
        }),
    }
}

async fn wait_for(address: SocketAddr) -> TcpListener {
    loop {
        tokio::time::sleep(AGAIN).await;
        if let Ok(listener) = listen(address) {
            tracing::info!("apps can register at {address} now");
            return listener;
        }
    }
}

/// The local socket for apps: beside that for clients.
pub(crate) fn path(door: &LocalDoor, beside: &Path) -> Option<PathBuf> {
    match door {
        LocalDoor::Off => None,
        LocalDoor::At(path) => Some(path.clone()),
        LocalDoor::Default => Some(beside.with_file_name("apps.sock")),
    }
}
