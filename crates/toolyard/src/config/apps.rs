//! `[apps]`: where apps register, and how much of the gateway they may use.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use super::listen::{self, LocalDoor, read_address};
use super::reader::{Field, Reader, Section};
use super::tree::Value;

/// Where apps look for the gateway when nothing else is said.
pub(crate) const DEFAULT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 5100);

/// No call may take longer than this.
const LONGEST_TIMEOUT: Duration = Duration::from_hours(1);
const MOST: i64 = 100_000;

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct AppsConfig {
    pub(crate) tcp: TcpDoor,
    pub(crate) local: LocalDoor,
    pub(crate) max_connections: Option<usize>,
    /// Calls under way at one app, and calls that wait for their turn.
    pub(crate) calls: Option<usize>,
    pub(crate) queue: Option<usize>,
    pub(crate) timeout: Option<Duration>,
}

/// Where apps dial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TcpDoor {
    #[default]
    Usual,
    Off,
    At(SocketAddr),
}

impl AppsConfig {
    /// No door at all.
    pub(crate) fn closed() -> Self {
        Self { tcp: TcpDoor::Off, local: LocalDoor::Off, ..Self::default() }
    }
}

/// A project file may not open doors.
pub(super) fn refuse(root: &mut Section, reader: &mut Reader<'_>) -> Option<AppsConfig> {
    if let Some(field) = root.take("apps") {
        let help = "move it to your own config, or use this file with --config";
        field.warn(reader, "is not used: a project file does not say where to listen", help);
    }
    None
}

pub(super) fn read(field: Field, reader: &mut Reader<'_>) -> AppsConfig {
    let Some(mut section) = field.section(reader) else { return AppsConfig::default() };
    let tcp = section.take("listen").and_then(|field| read_tcp(reader, &field)).unwrap_or_default();
    let local = section.take("unix").and_then(|field| listen::read_local(reader, &field)).unwrap_or_default();
    let mut number = |key| section.take(key).and_then(|field| read_count(reader, &field));
    let (max_connections, calls, queue) = (number("max_connections"), number("calls"), number("queue"));
    let timeout = section.take("timeout").and_then(|field| field.duration(reader, LONGEST_TIMEOUT));
    section.finish(reader);
    AppsConfig { tcp, local, max_connections, calls, queue, timeout }
}

/// An address, or `false` for none.
fn read_tcp(reader: &mut Reader<'_>, field: &Field) -> Option<TcpDoor> {
    if let Value::Flag(flag) = field.value() {
        return Some(if *flag { TcpDoor::Usual } else { TcpDoor::Off });
    }
    let address = read_address(reader, field)?;
    if !address.ip().is_loopback() {
        let message = format!("{address} can be reached from other machines");
        field.error(reader, message, "apps register on this machine only: write 127.0.0.1 or [::1]");
        return None;
    }
    Some(TcpDoor::At(address))
}

fn read_count(reader: &mut Reader<'_>, field: &Field) -> Option<usize> {
    let number = field.integer(reader)?;
    let count = usize::try_from(number).ok().filter(|_| (1..=MOST).contains(&number));
    if count.is_none() {
        let message = format!("expected a number from 1 to {MOST}, found {number}");
        field.error(reader, message, "remove the key for the usual number");
    }
    count
}
