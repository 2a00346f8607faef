//! `[listen]`: where clients are accepted, and who may come in.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use toolyard_model::local::LONGEST_PATH;

use super::problem::{Problem, ProblemKind};
use super::reach::absolute;
use super::reader::{Field, Reader, Section};
use super::tree::Value;

/// The default address of the gateway.
pub const DEFAULT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7777);

const LONGEST_KEEP_ALIVE: Duration = Duration::from_hours(1);

const ADDRESS_HELP: &str = "write an address and a port, such as \"127.0.0.1:7777\" or \"[::1]:7777\"";

#[derive(Default, PartialEq)]
pub struct ListenConfig {
    pub http: Option<SocketAddr>,
    /// For newline JSON-RPC.
    pub tcp: Option<SocketAddr>,
    /// For programs that ask models without MCP.
    pub models: Option<SocketAddr>,
    pub local: LocalDoor,
    pub token: Option<String>,
    /// Makes its bearer an operator, who may change things through the control API.
    pub operator_token: Option<String>,
    /// Host names accepted beside loopback.
    pub hosts: Vec<String>,
    /// Origins accepted beside those on loopback.
    pub origins: Vec<String>,
    /// How clients and browsers reach the gateway from outside, without a slash at the end.
    pub public_url: Option<String>,
    /// After how long without a message a client over HTTP is sent a keep-alive.
    pub keep_alive: Option<Duration>,
}

/// The token is a secret.
impl fmt::Debug for ListenConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListenConfig")
            .field("http", &self.http)
            .field("tcp", &self.tcp)
            .field("models", &self.models)
            .finish_non_exhaustive()
    }
}

/// The place of the local socket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LocalDoor {
    #[default]
    Default,
    Off,
    At(PathBuf),
}

/// A project file may not open doors.
pub(crate) fn refuse(root: &mut Section, reader: &mut Reader<'_>) -> Option<ListenConfig> {
    if let Some(field) = root.take("listen") {
        let help = "move it to your own config, or use this file with --config";
        field.warn(reader, "is not used: a project file cannot set where to listen", help);
    }
    None
}

/// `has_issuers`: clients present tokens of an issuer.
pub(crate) fn read(field: Field, reader: &mut Reader<'_>, has_issuers: bool) -> ListenConfig {
    let Some(mut section) = field.section(reader) else { return ListenConfig::default() };
    let http_field = section.take("http");
    let http = http_field.as_ref().and_then(|field| read_address(reader, field));
    let token_field = section.take("token");
    let token = token_field.as_ref().and_then(|field| read_token(reader, field));
    let operator_token = section.take("operator_token").and_then(|field| read_token(reader, &field));
    let hosts = section.take("hosts").map(|field| read_hosts(reader, &field)).unwrap_or_default();
    let origins = section.take("origins").map(|field| read_origins(reader, &field)).unwrap_or_default();
    let tcp_field = section.take("tcp");
    let tcp = tcp_field.as_ref().and_then(|field| read_address(reader, field));
    let models_field = section.take("models");
    let models = models_field.as_ref().and_then(|field| read_address(reader, field));
    let local = section.take("unix").and_then(|field| read_local(reader, &field)).unwrap_or_default();
    for key in ["port", "host", "address"] {
        if let Some(field) = section.take_other(key) {
            field.error(
                reader,
                "is not a key of [listen]",
                format!("write {}", reader.example("http", "\"127.0.0.1:7777\"")),
            );
        }
    }
    let public_url = section.take("public_url").and_then(|field| read_public_url(reader, &field));
    let keep_alive = section.take("keep_alive").and_then(|field| field.duration(reader, LONGEST_KEEP_ALIVE));
    section.finish(reader);
    for (field, address) in [(&http_field, http), (&tcp_field, tcp), (&models_field, models)] {
        let (Some(field), Some(address)) = (field, address) else { continue };
        // A token that is there but wrong has been reported already.
        if let Some(problem) = needs_token("", address, token_field.is_some() || has_issuers) {
            field.error(reader, problem.message, problem.help);
        }
        if has_issuers && public_url.is_none() && !address.ip().is_loopback() {
            let help = "set `public_url` to the address that clients use, such as \"https://yard.example\"";
            field.error(reader, "tokens of an issuer are for an address, and `public_url` is missing", help);
        }
    }
    ListenConfig { http, tcp, models, local, token, operator_token, hosts, origins, public_url, keep_alive }
}

/// An address that is not on loopback needs a token: without one, every user of the network could call the tools.
pub fn needs_token(key: &str, address: SocketAddr, has_token: bool) -> Option<Problem> {
    if address.ip().is_loopback() || has_token {
        return None;
    }
    Some(Problem::error(
        key,
        format!("{address} can be reached from other machines, and no token is set"),
        "set `token = \"${TOOLYARD_TOKEN}\"` in [listen], or listen on 127.0.0.1",
    ))
}

/// `localhost` is the one name that needs no resolver.
pub fn parse_address(text: &str) -> Option<SocketAddr> {
    match text.rsplit_once(':') {
        Some(("localhost", port)) => Some(SocketAddr::new(DEFAULT.ip(), port.parse().ok()?)),
        _ => text.parse().ok(),
    }
}

/// An address with a port.
pub(crate) fn read_address(reader: &mut Reader<'_>, field: &Field) -> Option<SocketAddr> {
    if let Value::Integer(port) = field.value() {
        let example = field.example(reader, &format!("\"127.0.0.1:{port}\""));
        let message = "expected ADDRESS:PORT, found a number".to_owned();
        let help = format!("write {example}");
        reader.error_of(Some(ProblemKind::WrongKind), field.at, &field.path, message, help);
        return None;
    }
    let text = field.text(reader)?;
    let address = parse_address(&text);
    if address.is_none() {
        let (message, help) = wrong_address(&text);
        field.error(reader, message, help);
    }
    address
}

/// The message about an invalid address, and the advice.
fn wrong_address(text: &str) -> (String, String) {
    let (host, port) = text.rsplit_once(':').unwrap_or((text, ""));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if text.contains("://") {
        let bare = text.split_once("://").map_or(text, |(_, rest)| rest).trim_end_matches('/');
        let bare = bare.split('/').next().unwrap_or_default();
        return (format!("expected ADDRESS:PORT, found the URL \"{text}\""), format!("write \"{bare}\""));
    }
    if is_number(port) && port.parse::<u16>().is_err() {
        return (
            format!("there is no port {port}"),
            "ports go from 0 to 65535; 0 lets the system choose".into(),
        );
    }
    if is_number(text) || (host.is_empty() && is_number(port)) {
        let port = if port.is_empty() { text } else { port };
        return (
            format!("the address before the port {port} is missing"),
            format!("write \"127.0.0.1:{port}\""),
        );
    }
    if port.is_empty() && (text.parse::<IpAddr>().is_ok() || text == "localhost") {
        let shown = if text.contains(':') { format!("[{text}]") } else { text.to_owned() };
        return (format!("the port after {text} is missing"), format!("write \"{shown}:7777\""));
    }
    if is_number(port) && !host.contains(['[', ']', ':']) && host.contains(|c: char| c.is_ascii_alphabetic())
    {
        let message = format!("`{host}` is a name, and only an IP address can be listened on");
        let help =
            format!("write \"127.0.0.1:{port}\", or \"0.0.0.0:{port}\" for all addresses of this machine");
        return (message, help);
    }
    (format!("expected ADDRESS:PORT, found \"{text}\""), ADDRESS_HELP.into())
}

fn read_token(reader: &mut Reader<'_>, field: &Field) -> Option<String> {
    let token = field.expanded(reader)?;
    let is_sendable = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_sendable {
        let help = "make one with `openssl rand -hex 32` and pass it by a variable: \"${TOOLYARD_TOKEN}\"";
        field.error(reader, "expected a token of visible ASCII characters without spaces", help);
        return None;
    }
    Some(token)
}

/// Scheme and host, as the reverse proxy in front shows them.
fn read_public_url(reader: &mut Reader<'_>, field: &Field) -> Option<String> {
    let text = field.expanded(reader)?;
    let bare = text.trim_end_matches('/');
    let is_origin = bare.split_once("://").is_some_and(|(scheme, rest)| {
        matches!(scheme, "http" | "https")
            && rest.parse::<http::uri::Authority>().is_ok_and(|a| a.as_str() == rest)
    });
    if !is_origin {
        let help = "write scheme and host without a path, such as \"https://yard.example\"";
        field.error(reader, format!("expected the address of the gateway, found \"{text}\""), help);
        return None;
    }
    Some(bare.to_owned())
}

fn read_hosts(reader: &mut Reader<'_>, field: &Field) -> Vec<String> {
    let (items, mut hosts) = (field.items(reader), Vec::new());
    for item in items {
        let Some(host) = item.text(reader) else { continue };
        let is_bare = host.parse::<http::uri::Authority>().is_ok_and(|authority| authority.host() == host);
        if is_bare {
            hosts.push(host);
        } else {
            let help = "write it as clients send it, without scheme, port and path";
            item.error(reader, format!("expected a host name, found \"{host}\""), help);
        }
    }
    hosts
}

fn read_origins(reader: &mut Reader<'_>, field: &Field) -> Vec<String> {
    let (items, mut origins) = (field.items(reader), Vec::new());
    for item in items {
        let Some(origin) = item.text(reader) else { continue };
        let is_origin = origin.split_once("://").is_some_and(|(scheme, rest)| {
            !scheme.is_empty() && rest.parse::<http::uri::Authority>().is_ok_and(|a| a.as_str() == rest)
        });
        if is_origin {
            origins.push(origin);
        } else {
            let help = "write scheme and host without a path, such as \"https://app.example\"";
            item.error(reader, format!("expected an origin, found \"{origin}\""), help);
        }
    }
    origins
}

/// A path, or `false` for none.
pub(crate) fn read_local(reader: &mut Reader<'_>, field: &Field) -> Option<LocalDoor> {
    if let Value::Flag(flag) = field.value() {
        return Some(if *flag { LocalDoor::Default } else { LocalDoor::Off });
    }
    let text = field.expanded(reader)?;
    if text.is_empty() {
        let help = "name the socket file, or write `unix = false` to have none";
        field.error(reader, "expected a path, found an empty string", help);
        return None;
    }
    let path = absolute(&reader.file.folder().join(text));
    if path.as_os_str().len() > LONGEST_PATH {
        let message = format!("the path is longer than the {LONGEST_PATH} bytes that a socket can have");
        field.error(reader, message, "choose a shorter one, or remove the key");
        return None;
    }
    Some(LocalDoor::At(path))
}
