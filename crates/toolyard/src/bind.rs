//! Opens the listener: at the address that was asked for, or at the default and, if that is taken, near it.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::net::{TcpListener, TcpSocket};

use toolyard_config::DEFAULT_ADDRESS;

/// How many ports after the default one are tried.
const MORE_PORTS: u16 = 100;
/// How long the previous user of an address may take to end.
const LONGEST_END: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(20);

/// A listener, and whether another program used the default address.
pub(crate) struct Bound {
    pub(crate) listener: TcpListener,
    pub(crate) address: SocketAddr,
    pub(crate) taken: Option<SocketAddr>,
}

pub(crate) fn bind(asked: Option<SocketAddr>) -> Result<Bound> {
    let (listener, taken) = match asked {
        Some(address) => (listen_soon(address).with_context(|| explain(address))?, None),
        None => near(DEFAULT_ADDRESS)?,
    };
    let address = listener.local_addr()?;
    Ok(Bound { listener, address, taken })
}

fn explain(address: SocketAddr) -> String {
    format!("cannot listen on {address} (choose another address with --listen, or http in [listen])")
}

/// Many clients may connect at the same moment; a refused client retries only after a second.
const WAITING: u32 = 4096;

pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(WAITING)
}

/// A gateway that was killed a moment ago may still hold the address.
fn listen_soon(address: SocketAddr) -> io::Result<TcpListener> {
    let begun = Instant::now();
    loop {
        match listen(address) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && begun.elapsed() < LONGEST_END => {
                std::thread::sleep(PAUSE);
            }
            bound => return bound,
        }
    }
}

fn near(first: SocketAddr) -> Result<(TcpListener, Option<SocketAddr>)> {
    let mut address = first;
    for port in first.port()..=first.port().saturating_add(MORE_PORTS) {
        address.set_port(port);
        match listen(address) {
            Ok(listener) => return Ok((listener, (address != first).then_some(first))),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(error).with_context(|| explain(address)),
        }
    }
    anyhow::bail!("{first} and the {MORE_PORTS} ports after it are taken: choose another with --listen")
}
