//! The address of a listener: `tcp://HOST:PORT`, `unix:///PATH`, `pipe://NAME`, or an `http` URL.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

use http::Uri;
use http::uri::Authority;
use toolyard_link::SocketSpec;
use toolyard_model::local::LONGEST_PATH;

use super::port::{Holder, holder};

/// The prefix by which .NET makes a pipe's name a socket in the temp directory.
const PIPE: &str = "CoreFxPipe_";

/// An address that was checked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DiscoveredEndpoint {
    /// Lines over TCP: host and port.
    Tcp(String),
    /// Lines over a Unix socket.
    Local(PathBuf),
    /// Lines over a named pipe, which is a Unix socket in the temp directory on other systems than Windows.
    Pipe(String),
    /// MCP over HTTP.
    Http(Uri),
}

/// Why a text is not an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadEndpoint {
    #[error("expected tcp://HOST:PORT, unix:///PATH, pipe://NAME or http://HOST:PORT/PATH")]
    Scheme,
    #[error("expected tcp://HOST:PORT")]
    Tcp,
    #[error("expected unix:// and an absolute path of at most {LONGEST_PATH} bytes")]
    Local,
    #[error("expected pipe:// and a name without `/`, of at most 64 bytes")]
    Pipe,
    #[error("expected an http URL with a host and without a user name")]
    Http,
}

impl DiscoveredEndpoint {
    pub fn parse(text: &str) -> Result<Self, BadEndpoint> {
        let (scheme, rest) = text.trim().split_once("://").ok_or(BadEndpoint::Scheme)?;
        match scheme {
            "tcp" => parse_tcp(rest).ok_or(BadEndpoint::Tcp),
            "unix" => {
                let is_good = rest.starts_with('/') && rest.len() <= LONGEST_PATH && !rest.contains('\0');
                if is_good { Ok(Self::Local(rest.into())) } else { Err(BadEndpoint::Local) }
            }
            "pipe" => {
                let is_good = !rest.is_empty() && rest.len() <= 64 && !rest.contains(['/', '\\', '\0']);
                if is_good { Ok(Self::Pipe(rest.to_owned())) } else { Err(BadEndpoint::Pipe) }
            }
            "http" | "https" => parse_http(text.trim()).ok_or(BadEndpoint::Http),
            _ => Err(BadEndpoint::Scheme),
        }
    }

    /// MCP over HTTP at a port of this machine.
    pub(super) fn at_port(port: u16) -> Self {
        let authority = format!("127.0.0.1:{port}");
        let url = Uri::builder().scheme("http").authority(authority).path_and_query("/mcp").build();
        Self::Http(url.expect("a number is a port"))
    }

    /// Whether the address can only belong to this machine.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Tcp(_) | Self::Http(_) => self.place().is_some_and(|(host, _)| is_loopback(&host)),
            Self::Local(_) | Self::Pipe(_) => true,
        }
    }

    /// Equal for two endpoints that lead to the same listener, whatever the protocol is.
    pub fn listener(&self) -> String {
        match (self, self.place()) {
            (_, Some((host, port))) => format!("{}:{port}", name_of(&host)),
            (Self::Local(path), _) => path.display().to_string(),
            (Self::Pipe(name), _) => pipe(name).display().to_string(),
            (Self::Tcp(_) | Self::Http(_), None) => self.to_string(),
        }
    }

    /// Whether a listener at this address is reached through the other one.
    pub fn is_reached_at(&self, other: &Self) -> bool {
        let is_everywhere = |host: &str| addresses_of(host).first().is_some_and(IpAddr::is_unspecified);
        match (self.place(), other.place()) {
            (Some((host, port)), Some((_, at))) if is_everywhere(&host) => port == at && other.is_local(),
            _ => self.listener() == other.listener(),
        }
    }

    /// Host and port, where it has them.
    fn place(&self) -> Option<(String, u16)> {
        match self {
            Self::Tcp(address) => {
                let address = address.parse::<Authority>().ok()?;
                Some((address.host().to_owned(), address.port_u16()?))
            }
            Self::Http(url) => {
                let usual = if url.scheme_str() == Some("https") { 443 } else { 80 };
                Some((url.host()?.to_owned(), url.port_u16().unwrap_or(usual)))
            }
            Self::Local(_) | Self::Pipe(_) => None,
        }
    }

    /// The socket to open, where it is one.
    pub fn socket(&self) -> Option<SocketSpec> {
        match self {
            Self::Tcp(address) => Some(SocketSpec::Tcp(address.clone())),
            Self::Local(path) => Some(SocketSpec::Local(path.clone())),
            Self::Pipe(name) => Some(SocketSpec::Local(pipe(name))),
            Self::Http(_) => None,
        }
    }

    /// The URL, where it is one.
    pub fn url(&self) -> Option<Uri> {
        if let Self::Http(url) = self { Some(url.clone()) } else { None }
    }

    /// Which user listens there now, as far as that can be seen without connecting. Reads files.
    pub(crate) fn holder(&self) -> Holder {
        match self {
            Self::Local(path) => holder_of_file(path),
            Self::Pipe(name) => holder_of_file(&pipe(name)),
            Self::Tcp(_) | Self::Http(_) => {
                let place = self.place().filter(|_| self.is_local());
                place.map_or(Holder::Unknown, |(host, port)| holder(&addresses_of(&host), port))
            }
        }
    }

    /// Whether other users could have created it first, so that the process that answers must belong to our user.
    pub(crate) fn is_in_the_open(&self) -> bool {
        matches!(self, Self::Pipe(_))
    }
}

/// Its owner shows when it is opened.
fn holder_of_file(path: &Path) -> Holder {
    if path.symlink_metadata().is_ok() { Holder::Unknown } else { Holder::None }
}

fn pipe(name: &str) -> PathBuf {
    if cfg!(windows) {
        return PathBuf::from(format!(r"\\.\pipe\{name}"));
    }
    Path::new(&std::env::temp_dir()).join(format!("{PIPE}{name}"))
}

fn parse_tcp(rest: &str) -> Option<DiscoveredEndpoint> {
    let address = rest.trim_end_matches('/');
    let authority = address.parse::<Authority>().ok()?;
    let is_good = !authority.host().is_empty()
        && authority.port_u16().is_some_and(|port| port > 0)
        && !address.contains('@');
    is_good.then(|| DiscoveredEndpoint::Tcp(address.to_owned()))
}

/// Without a path it is `/mcp`, the usual one.
fn parse_http(text: &str) -> Option<DiscoveredEndpoint> {
    let url = text.parse::<Uri>().ok()?;
    let authority = url.authority()?;
    if authority.host().is_empty() || authority.as_str().contains('@') {
        return None;
    }
    if url.path() != "/" || url.query().is_some() {
        return Some(DiscoveredEndpoint::Http(url));
    }
    format!("{}://{authority}/mcp", url.scheme_str()?).parse().ok().map(DiscoveredEndpoint::Http)
}

fn is_loopback(host: &str) -> bool {
    let addresses = addresses_of(host);
    !addresses.is_empty() && addresses.iter().all(IpAddr::is_loopback)
}

/// The addresses of a host, where that is known without a lookup: an address is itself, and `localhost`
/// is either of two.
pub(super) fn addresses_of(host: &str) -> Vec<IpAddr> {
    if host.eq_ignore_ascii_case("localhost") {
        return vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    }
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare.parse().into_iter().collect()
}

/// The first loopback address equals `localhost` in either address family, and is the one that is reached through
/// the unspecified address.
fn name_of(host: &str) -> String {
    let addresses = addresses_of(host);
    let is_first = |ip: &IpAddr| {
        ip.is_unspecified() || [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()].contains(ip)
    };
    let is_own_name = !addresses.is_empty() && addresses.iter().all(is_first);
    if is_own_name { "localhost".to_owned() } else { host.to_ascii_lowercase() }
}

impl fmt::Display for DiscoveredEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "tcp://{address}"),
            Self::Local(path) => write!(f, "unix://{}", path.display()),
            Self::Pipe(name) => write!(f, "pipe://{name}"),
            // A query may be a secret.
            Self::Http(url) => write!(
                f,
                "{}://{}{}",
                url.scheme_str().unwrap_or("http"),
                url.authority().map_or("", Authority::as_str),
                url.path()
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<(&str, bool), BadEndpoint>) {
        let got = DiscoveredEndpoint::parse(text).map(|endpoint| (endpoint.to_string(), endpoint.is_local()));
        assert_eq!(got, expected.map(|(shown, local)| (shown.to_owned(), local)), "{text}");
    }

    #[test]
    fn every_way_to_write_an_endpoint_is_read_and_nothing_else() {
        check("tcp://localhost:5001", Ok(("tcp://localhost:5001", true)));
        check("tcp://[::1]:5001/", Ok(("tcp://[::1]:5001", true)));
        check("tcp://10.0.0.7:5001", Ok(("tcp://10.0.0.7:5001", false)));
        check("tcp://localhost.evil.example:1", Ok(("tcp://localhost.evil.example:1", false)));
        check("unix:///run/a.sock", Ok(("unix:///run/a.sock", true)));
        check("pipe://MyApp.Mcp", Ok(("pipe://MyApp.Mcp", true)));
        check(" http://127.0.0.1:80 ", Ok(("http://127.0.0.1:80/mcp", true)));
        check("http://127.0.0.1:80/x?key=secret", Ok(("http://127.0.0.1:80/x", true)));
        check("https://app.example/", Ok(("https://app.example/mcp", false)));
        for text in ["", "localhost:1", "ftp://x:1", "TCP"] {
            check(text, Err(BadEndpoint::Scheme));
        }
        for text in ["tcp://", "tcp://localhost", "tcp://:1", "tcp://a@b:1", "tcp://a:0", "tcp://a:1/b"] {
            check(text, Err(BadEndpoint::Tcp));
        }
        check("unix://a.sock", Err(BadEndpoint::Local));
        check("pipe://../x", Err(BadEndpoint::Pipe));
        check("http://user@localhost/", Err(BadEndpoint::Http));
        check("http://", Err(BadEndpoint::Http));
    }

    #[test]
    fn endpoints_of_one_listener_are_known_to_be_so() {
        let listener = |text: &str| DiscoveredEndpoint::parse(text).unwrap().listener();
        assert_eq!(listener("tcp://localhost:5001"), listener("http://127.0.0.1:5001/mcp"));
        assert_eq!(listener("http://[::1]"), listener("tcp://127.0.0.1:80"));
        assert_ne!(listener("tcp://127.0.0.1:1"), listener("tcp://127.0.0.1:2"));
        assert_ne!(listener("tcp://127.0.0.1:1"), listener("tcp://10.0.0.1:1"));
        assert_eq!(listener("tcp://a.example:1"), listener("http://A.Example:1/mcp"));
        // The unspecified address reaches the first.
        assert_eq!(listener("tcp://0.0.0.0:1"), listener("tcp://localhost:1"));
        assert_eq!(listener("tcp://[::]:1"), listener("tcp://[::1]:1"));
        // Each of the others may belong to another program.
        assert_ne!(listener("tcp://127.0.0.2:1"), listener("tcp://127.0.0.1:1"));
        assert_ne!(listener("tcp://127.0.0.2:1"), listener("tcp://127.0.0.3:1"));
        assert_eq!(listener("tcp://127.0.0.2:1"), listener("http://127.0.0.2:1/mcp"));
        let pipe = listener("pipe://a");
        assert_eq!(pipe, listener(&format!("unix://{pipe}")));
    }

    #[test]
    fn a_listener_at_all_addresses_is_reached_at_each_of_this_machine() {
        let meets = |own: &str, other: &str| {
            let [own, other] = [own, other].map(|text| DiscoveredEndpoint::parse(text).unwrap());
            own.is_reached_at(&other)
        };
        for own in ["http://0.0.0.0:1", "tcp://[::]:1"] {
            for other in ["tcp://localhost:1", "http://127.0.0.1:1", "tcp://[::1]:1", "tcp://127.0.0.2:1"] {
                assert!(meets(own, other), "{own} {other}");
            }
            for other in ["tcp://localhost:2", "tcp://10.0.0.1:1", "unix:///1"] {
                assert!(!meets(own, other), "{own} {other}");
            }
        }
        assert!(meets("http://127.0.0.1:1", "tcp://[::1]:1"));
        assert!(!meets("http://127.0.0.1:1", "tcp://127.0.0.2:1"));
        assert!(meets("unix:///run/a", "unix:///run/a"));
    }
}
