//! Requests without a body.

use std::io::Write as _;
use std::net::TcpStream;
use std::time::Duration;

use super::http::{Reply, read};

/// Asks for `http://ADDRESS/PATH`, or for `/mcp` if the URL has no path.
pub(crate) fn get(url: &str) -> Reply {
    read(request(url, "GET", &[]))
}

/// Sends a request and leaves the answer for later.
pub(crate) fn request(url: &str, method: &str, headers: &[(&str, &str)]) -> TcpStream {
    let rest = url.strip_prefix("http://").unwrap();
    let (address, path) = rest.split_once('/').unwrap_or((rest, "mcp"));
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let own: Vec<String> = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let own = own.concat();
    let head = format!("{method} /{path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{own}\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    stream
}
