//! Decides whether a request is plain, so that it can be served from the buffer, or is left to hyper.
//!
//! A plain request is a POST that came whole, with a length, and with no field that changes how the connection is used.
//! Nothing is refused here: any other request, rare or invalid, is read by hyper from its first byte.

use std::mem::MaybeUninit;

use http::header::{CONNECTION, CONTENT_LENGTH, EXPECT, HeaderName, ORIGIN, TRANSFER_ENCODING, UPGRADE};
use httparse::{Header, Status};

use crate::fields::Fields;

/// A request with more fields than this is not plain.
const MOST_FIELDS: usize = 64;
/// A length with more digits cannot be that of a body in a buffer.
const MOST_DIGITS: usize = 9;

/// Space for the fields of one request.
pub(super) type Space<'b> = [MaybeUninit<Header<'b>>; MOST_FIELDS];

pub(super) fn space<'b>() -> Space<'b> {
    [const { MaybeUninit::uninit() }; MOST_FIELDS]
}

pub(super) struct PlainRequest<'b> {
    pub(super) path: &'b str,
    pub(super) fields: Fields<'b>,
    pub(super) body: &'b [u8],
    /// Where the next request begins.
    pub(super) end: usize,
}

impl<'b> PlainRequest<'b> {
    pub(super) fn read(bytes: &'b [u8], space: &'b mut Space<'b>) -> Option<Self> {
        let mut request = httparse::Request::new(&mut []);
        let Ok(Status::Complete(start)) = request.parse_with_uninit_headers(bytes, space) else {
            return None;
        };
        let is_usual = request.method == Some("POST") && request.version == Some(1);
        let path = request.path.filter(|path| is_usual && is_plain(path))?;
        let fields: &'b [Header<'b>] = request.headers;
        let end = start.checked_add(body_length(fields)?)?;
        let body = bytes.get(start..end)?;
        Some(Self { path, fields: Fields::Lines(fields), body, end })
    }
}

/// Whether a target is a path that needs no decoding and has no query.
fn is_plain(path: &str) -> bool {
    path.starts_with('/') && path.bytes().all(|b| b.is_ascii_alphanumeric() || b"/-_.".contains(&b))
}

fn body_length(fields: &[Header<'_>]) -> Option<usize> {
    let mut length = None;
    for field in fields {
        let is = |name: &HeaderName| field.name.eq_ignore_ascii_case(name.as_str());
        if is(&CONTENT_LENGTH) {
            if length.is_some() {
                return None;
            }
            length = Some(number(field.value)?);
        } else if is(&CONNECTION) {
            if !field.value.eq_ignore_ascii_case(b"keep-alive") {
                return None;
            }
        } else if is(&TRANSFER_ENCODING) || is(&EXPECT) || is(&UPGRADE) || is(&ORIGIN) {
            return None;
        }
    }
    length
}

fn number(value: &[u8]) -> Option<usize> {
    let is_number = value.len() <= MOST_DIGITS && value.iter().all(u8::is_ascii_digit);
    if is_number { std::str::from_utf8(value).ok()?.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request with `lines` in its head; the body that is taken, if it is plain.
    fn check(first: &str, lines: &[&str], body: &str, expected: Option<&str>) {
        let bytes = format!("{first}\r\n{}\r\n\r\n{body}", lines.join("\r\n"));
        let mut space = space();
        let read = PlainRequest::read(bytes.as_bytes(), &mut space);
        let got = read.map(|usual| std::str::from_utf8(usual.body).unwrap());
        assert_eq!(got, expected, "{bytes}");
    }

    const POST: &str = "POST /mcp HTTP/1.1";

    #[test]
    fn a_whole_post_with_a_length_is_plain() {
        check(POST, &["content-length: 2"], "{}", Some("{}"));
        check(POST, &["Host: a", "CONTENT-LENGTH:  2 "], "{}POST", Some("{}"));
        check("POST /mcp/p/my-profile HTTP/1.1", &["content-length: 0"], "", Some(""));
        check(POST, &["content-length: 2", "Connection: Keep-Alive"], "{}", Some("{}"));
    }

    #[test]
    fn every_other_form_is_left_to_hyper() {
        check(POST, &["content-length: 3"], "{}", None);
        check(POST, &["host: a"], "{}", None);
        check("GET /mcp HTTP/1.1", &["content-length: 2"], "{}", None);
        check("POST /mcp HTTP/1.0", &["content-length: 2"], "{}", None);
        for target in ["http://a/mcp", "*", "/mcp?x", "/mcp%2f", "mcp", "/mcp#a"] {
            check(&format!("POST {target} HTTP/1.1"), &["content-length: 2"], "{}", None);
        }
        for length in ["", "+2", "-2", "0x2", "2, 2", "2 2", "9999999999", "18446744073709551617"] {
            check(POST, &[&format!("content-length: {length}")], "{}", None);
        }
        for line in [
            "Content-Length: 2",
            "transfer-encoding: chunked",
            "Transfer-Encoding: identity",
            "expect: 100-continue",
            "upgrade: h2c",
            "origin: http://localhost",
            "connection: close",
            "connection: keep-alive, upgrade",
            "no colon",
            "bad name: 1",
        ] {
            check(POST, &["content-length: 2", line], "{}", None);
        }
    }

    #[test]
    fn a_head_that_has_not_ended_is_left_to_hyper() {
        let bytes = b"POST /mcp HTTP/1.1\r\ncontent-length: 0\r\n\r\n";
        for end in 0..bytes.len() {
            assert!(PlainRequest::read(&bytes[..end], &mut space()).is_none(), "{end}");
        }
        assert!(PlainRequest::read(bytes, &mut space()).is_some());
    }
}
