//! Which requests are plain.

use super::*;

/// A request with `lines` in its head; the body that is taken, if it is plain.
fn check(first: &str, lines: &[&str], body: &str, expected: Option<&str>) {
    let bytes = format!("{first}\r\n{}\r\n\r\n{body}", lines.join("\r\n"));
    let mut space = space();
    let read = PlainRequest::read(bytes.as_bytes(), &mut space);
    let got = read.map(|request| std::str::from_utf8(request.body).unwrap());
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
