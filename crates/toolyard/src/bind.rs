//! Opens the listener: at the address that was asked for, or at the default and, if that is taken, near it.

use std::io;
use std::net::SocketAddr;

use anyhow::{Context, Result};
use tokio::net::TcpListener;

use crate::config::DEFAULT_ADDRESS;

/// How many ports after the default one are tried.
const MORE_PORTS: u16 = 100;

/// A listener, and whether somebody else had the place first.
pub(crate) struct Bound {
    pub(crate) listener: TcpListener,
    pub(crate) address: SocketAddr,
    pub(crate) taken: Option<SocketAddr>,
}

pub(crate) async fn bind(asked: Option<SocketAddr>) -> Result<Bound> {
    let (listener, taken) = match asked {
        Some(address) => (TcpListener::bind(address).await.with_context(|| explain(address))?, None),
        None => near(DEFAULT_ADDRESS).await?,
    };
    let address = listener.local_addr().context("ask where the listener is")?;
    Ok(Bound { listener, address, taken })
}

fn explain(address: SocketAddr) -> String {
    format!("cannot listen on {address} (choose another address with --listen, or http in [listen])")
}

async fn near(first: SocketAddr) -> Result<(TcpListener, Option<SocketAddr>)> {
    let mut address = first;
    for port in first.port()..=first.port().saturating_add(MORE_PORTS) {
        address.set_port(port);
        match TcpListener::bind(address).await {
            Ok(listener) => return Ok((listener, (address != first).then_some(first))),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(error).with_context(|| explain(address)),
        }
    }
    anyhow::bail!("{first} and the {MORE_PORTS} ports after it are taken: choose another with --listen")
}
