//! `[apps]`: where apps register, and how much of the gateway they may use.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use toolyard_core::discovery::{DiscoveredEndpoint, NamedEndpoint};
use toolyard_proto::name::UpstreamId;

use super::listen::{self, LocalDoor, read_address};
use super::reader::{Field, Reader, Section};
use super::tree::Value;

/// The address at which apps look for the gateway by default.
pub const DEFAULT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 5100);

/// No call may take longer than this.
pub(crate) const LONGEST_TIMEOUT: Duration = Duration::from_hours(1);
/// Connecting may take no longer than this.
pub(crate) const LONGEST_CONNECT: Duration = Duration::from_secs(40);
const MOST: i64 = 100_000;
/// To scan less often than this means not to scan, which has its own setting.
pub(crate) const MAX_SCAN_INTERVAL: Duration = Duration::from_hours(1);

#[derive(Clone, Debug, Default, PartialEq)]
pub struct AppsConfig {
    pub tcp: TcpDoor,
    pub local: LocalDoor,
    pub max_connections: Option<usize>,
    /// Calls under way at one app, and calls that wait for their turn.
    pub calls: Option<usize>,
    pub queue: Option<usize>,
    pub timeout: Option<Duration>,
    /// How long connecting to an app may take, and how long an app that connects may take to register.
    pub connect_timeout: Option<Duration>,
    /// Apps that listen, and are dialled.
    pub endpoints: Vec<NamedEndpoint>,
    pub scan: Scan,
    /// Whether a token may have another client id than the app's name.
    pub any_client_id: bool,
}

/// How often the environments of processes are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scan {
    Off,
    Every(Duration),
}

impl Default for Scan {
    fn default() -> Self {
        Self::Every(Duration::from_secs(5))
    }
}

/// The TCP address on which apps register.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TcpDoor {
    #[default]
    Default,
    Off,
    At(SocketAddr),
}

impl AppsConfig {
    /// No listener at all, and no outgoing connections.
    pub fn closed() -> Self {
        Self { tcp: TcpDoor::Off, local: LocalDoor::Off, scan: Scan::Off, ..Self::default() }
    }
}

/// A project file may not open doors.
pub(crate) fn refuse(root: &mut Section, reader: &mut Reader<'_>) -> Option<AppsConfig> {
    if let Some(field) = root.take("apps") {
        let help = "move it to your own config, or use this file with --config";
        field.warn(reader, "is not used: a project file cannot set where to listen", help);
    }
    None
}

pub(crate) fn read(field: Field, reader: &mut Reader<'_>) -> AppsConfig {
    let Some(mut section) = field.section(reader) else { return AppsConfig::default() };
    let tcp = section.take("listen").and_then(|field| read_tcp(reader, &field)).unwrap_or_default();
    let local = section.take("unix").and_then(|field| listen::read_local(reader, &field)).unwrap_or_default();
    let mut number = |key| section.take(key).and_then(|field| read_count(reader, &field));
    let max_connections = number("max_connections");
    let calls = number("calls");
    let queue = number("queue");
    let timeout = section.take("timeout");
    if let Some(field) = &timeout {
        reader.keep_place(field);
    }
    let timeout = timeout.and_then(|field| field.duration(reader, LONGEST_TIMEOUT));
    let connect_timeout = section.take("connect_timeout");
    let connect_timeout = connect_timeout.and_then(|field| field.duration(reader, LONGEST_CONNECT));
    let endpoints = section.take("endpoints").map(|field| read_endpoints(reader, field)).unwrap_or_default();
    let scan = section.take("scan").and_then(|field| read_scan(reader, &field)).unwrap_or_default();
    let any_client_id =
        section.take("any_client_id").and_then(|field| field.flag(reader)).unwrap_or_default();
    section.finish(reader);
    AppsConfig {
        tcp,
        local,
        max_connections,
        calls,
        queue,
        timeout,
        connect_timeout,
        endpoints,
        scan,
        any_client_id,
    }
}

/// `NAME = "tcp://…"`, or a table with `url` and `description`.
fn read_endpoints(reader: &mut Reader<'_>, field: Field) -> Vec<NamedEndpoint> {
    let fields = field.section(reader).map(Section::take_all).unwrap_or_default();
    let mut endpoints: Vec<NamedEndpoint> = Vec::new();
    for field in fields {
        let Some(id) = read_app_id(reader, &field, &field.key, &endpoints) else { continue };
        let (url, description) = if let Value::Table(_) = field.value() {
            let place = field.clone();
            let Some(mut section) = field.section(reader) else { continue };
            let (url, description) = (section.take("url"), section.take("description"));
            section.finish(reader);
            if url.is_none() {
                place.error(reader, "`url` is missing", "write url = \"tcp://127.0.0.1:5001\"");
            }
            (url, description.and_then(|field| field.text(reader)))
        } else {
            (Some(field), None)
        };
        let endpoint = url.and_then(|url| read_endpoint(reader, &url));
        endpoints.extend(endpoint.map(|endpoint| NamedEndpoint { id, endpoint, description }));
    }
    endpoints
}

/// The id of an app, which no other endpoint has.
pub(crate) fn read_app_id(
    reader: &mut Reader<'_>,
    field: &Field,
    name: &str,
    others: &[NamedEndpoint],
) -> Option<UpstreamId> {
    let id = match UpstreamId::parse(name) {
        Ok(id) => id,
        Err(error) => {
            let help = "use a letter, then letters, digits, `_` and `-`, such as `MyApp-Development`";
            field.error(reader, error.to_string(), help);
            return None;
        }
    };
    if others.iter().any(|other| other.id.fold() == id.fold()) {
        let help = "choose another name; names that differ only in case are the same";
        field.error(reader, format!("there is another endpoint of the name `{name}`"), help);
        return None;
    }
    Some(id)
}

pub(crate) fn read_endpoint(reader: &mut Reader<'_>, field: &Field) -> Option<DiscoveredEndpoint> {
    let text = field.expanded(reader)?;
    match DiscoveredEndpoint::parse(&text) {
        Ok(endpoint) => Some(endpoint),
        Err(error) => {
            let help = "write where the app listens, such as \"tcp://127.0.0.1:5001\"";
            field.error(reader, error.to_string(), help);
            None
        }
    }
}

/// A time, or `false` for never.
fn read_scan(reader: &mut Reader<'_>, field: &Field) -> Option<Scan> {
    if let Value::Flag(flag) = field.value() {
        return Some(if *flag { Scan::default() } else { Scan::Off });
    }
    field.duration(reader, MAX_SCAN_INTERVAL).map(Scan::Every)
}

/// An endpoint may not have the id of an upstream.
pub(crate) fn check_ids(reader: &mut Reader<'_>, at: usize, endpoints: &[NamedEndpoint], ids: &[String]) {
    for endpoint in endpoints {
        let name = endpoint.id.as_str();
        if ids.iter().any(|id| id.eq_ignore_ascii_case(name)) {
            let message = format!("`{name}` is an upstream already");
            let help = "choose another name, or keep the server in [upstreams] only";
            reader.error(at, &format!("apps.endpoints.{name}"), message, help);
        }
    }
}

/// An address, or `false` for none.
pub(crate) fn read_tcp(reader: &mut Reader<'_>, field: &Field) -> Option<TcpDoor> {
    if let Value::Flag(flag) = field.value() {
        return Some(if *flag { TcpDoor::Default } else { TcpDoor::Off });
    }
    let address = read_address(reader, field)?;
    if !address.ip().is_loopback() {
        let message = format!("{address} can be reached from other machines");
        field.error(reader, message, "apps register on this machine only: write 127.0.0.1 or [::1]");
        return None;
    }
    Some(TcpDoor::At(address))
}

pub(crate) fn read_count(reader: &mut Reader<'_>, field: &Field) -> Option<usize> {
    let number = field.integer(reader)?;
    let count = usize::try_from(number).ok().filter(|_| (1..=MOST).contains(&number));
    if count.is_none() {
        let message = format!("expected a number from 1 to {MOST}, found {number}");
        field.error(reader, message, "remove the key to use the default");
    }
    count
}
