//! The head of a request: its header fields, whether hyper or the fast path has read them, and the Host and Origin checks
//! that keep web pages away from a listener.

use std::net::{Ipv4Addr, Ipv6Addr};

use http::header::{HOST, HeaderName, ORIGIN, ValueIter};
use http::uri::Authority;
use http::{HeaderMap, HeaderValue};
use tokio::net::TcpListener;

use super::endpoint::Options;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The header fields of a request.
#[derive(Clone, Copy)]
pub(crate) enum Fields<'a> {
    Map(&'a HeaderMap),
    /// The lines of the request, as the fast path parsed them.
    Lines(&'a [httparse::Header<'a>]),
}

impl<'a> Fields<'a> {
    pub(crate) fn all(self, name: &HeaderName) -> Values<'a, '_> {
        match self {
            Self::Map(map) => Values::Map(map.get_all(name).iter()),
            Self::Lines(lines) => Values::Lines(lines, name.as_str()),
        }
    }

    pub(crate) fn first(self, name: &HeaderName) -> Option<&'a [u8]> {
        match self {
            Self::Map(map) => map.get(name).map(HeaderValue::as_bytes),
            Self::Lines(lines) => {
                let name = name.as_str();
                lines.iter().find(|line| is(line, name)).map(|line| line.value)
            }
        }
    }

    /// The value of a field that may occur only once.
    pub(crate) fn once(self, name: &HeaderName) -> Result<Option<&'a [u8]>, Twice> {
        let mut found = None;
        let mut add = |value| if found.replace(value).is_some() { Err(Twice) } else { Ok(()) };
        match self {
            Self::Map(map) => map.get_all(name).iter().try_for_each(|value| add(value.as_bytes()))?,
            Self::Lines(lines) => {
                let name = name.as_str();
                lines.iter().filter(|line| is(line, name)).try_for_each(|line| add(line.value))?;
            }
        }
        Ok(found)
    }

    /// The first value of a field, if it is plain text.
    pub(crate) fn text(self, name: &HeaderName) -> Option<&'a str> {
        self.first(name).and_then(text)
    }

    /// The fields whose names start with `prefix`, if there are any.
    pub(crate) fn starting(self, prefix: &str) -> Option<Box<HeaderMap>> {
        let begins =
            |name: &str| name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
        let mut out: Option<Box<HeaderMap>> = None;
        let mut add = |name: HeaderName, value: HeaderValue| {
            out.get_or_insert_default().append(name, value);
        };
        match self {
            Self::Map(map) => map
                .iter()
                .filter(|(name, _)| begins(name.as_str()))
                .for_each(|(name, value)| add(name.clone(), value.clone())),
            Self::Lines(lines) => lines
                .iter()
                .filter(|line| begins(line.name))
                .filter_map(owned)
                .for_each(|(name, value)| add(name, value)),
        }
        out
    }

    pub(crate) fn to_map(self) -> HeaderMap {
        match self {
            Self::Map(map) => map.clone(),
            Self::Lines(lines) => lines.iter().filter_map(owned).collect(),
        }
    }
}

/// A duplicate header field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Twice;

/// Compares the lengths first: most names differ in length.
fn is(line: &httparse::Header<'_>, name: &str) -> bool {
    line.name.len() == name.len() && line.name.eq_ignore_ascii_case(name)
}

/// Name and value of a line, as owned values. `httparse` accepts nothing that these types reject.
fn owned(line: &httparse::Header<'_>) -> Option<(HeaderName, HeaderValue)> {
    let name = HeaderName::from_bytes(line.name.as_bytes()).ok()?;
    Some((name, HeaderValue::from_bytes(line.value).ok()?))
}

/// A value as text, if it is ASCII. Other bytes are allowed in a header, but their encoding is unknown.
pub(crate) fn text(value: &[u8]) -> Option<&str> {
    if value.is_ascii() { std::str::from_utf8(value).ok() } else { None }
}

/// The values of one name, in their order.
pub(crate) enum Values<'a, 'n> {
    Map(ValueIter<'a, HeaderValue>),
    Lines(&'a [httparse::Header<'a>], &'n str),
}

impl<'a> Iterator for Values<'a, '_> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        match self {
            Self::Map(values) => values.next().map(HeaderValue::as_bytes),
            Self::Lines(lines, name) => loop {
                let (line, rest) = lines.split_first()?;
                *lines = rest;
                if is(line, name) {
                    return Some(line.value);
                }
            },
        }
    }
}

/// The hosts and origins that a listener accepts. Names are compared without their port.
#[derive(Clone, Debug, Default)]
pub(crate) struct Guard {
    /// Whether the Host header is checked: on loopback always (DNS rebinding), elsewhere if names are set.
    pub(crate) check_host: bool,
    pub(crate) hosts: Vec<String>,
    /// The listener's own loopback address, if it has one.
    pub(crate) own_address: Option<String>,
    /// Whole origins (`https://app.example`), beside those on loopback.
    pub(crate) origins: Vec<String>,
}

impl Guard {
    /// The hosts and origins that this listener accepts.
    pub(crate) fn of(listener: &TcpListener, options: &Options) -> Self {
        let own_address = listener.local_addr().ok().filter(|address| address.ip().is_loopback());
        Self {
            check_host: own_address.is_some() || !options.hosts.is_empty(),
            hosts: options.hosts.clone(),
            own_address: own_address.map(|address| address.to_string()),
            origins: options.origins.clone(),
        }
    }

    /// Why a request with these headers is refused, if it is.
    pub(crate) fn refusal(&self, target: Option<&Authority>, fields: Fields<'_>) -> Option<&'static str> {
        if self.check_host && !self.host_fits(target, fields) {
            return Some("the Host header names neither loopback nor a configured host");
        }
        let foreign = |origin| !text(origin).is_some_and(|origin| self.origin_fits(origin));
        fields.all(&ORIGIN).any(foreign).then_some("requests from this Origin are not accepted")
    }

    /// Why a page of another origin is refused at paths for the gateway's own pages, if it is. Other programs
    /// on this machine have loopback origins, too.
    pub(crate) fn refusal_of_other_pages(&self, fields: Fields<'_>) -> Option<&'static str> {
        let host = fields.first(&HOST).and_then(text);
        let is_own = |origin: &str| {
            let authority = origin.split_once("://").map(|(_, authority)| authority);
            self.origins.iter().any(|known| known.eq_ignore_ascii_case(origin))
                || authority.is_some_and(|own| host.is_some_and(|host| host.eq_ignore_ascii_case(own)))
        };
        match fields.first(&ORIGIN) {
            Some(origin) if !text(origin).is_some_and(is_own) => {
                Some("the control API is only for pages of this gateway")
            }
            None if matches!(fields.text(&SEC_FETCH_SITE), Some("cross-site" | "same-site")) => {
                Some("the control API is only for pages of this gateway")
            }
            _ => None,
        }
    }

    fn host_fits(&self, target: Option<&Authority>, fields: Fields<'_>) -> bool {
        let Ok(Some(host)) = fields.once(&HOST) else { return false };
        // Nearly every client names the very address it connected to.
        let own_address = self.own_address.as_deref().map(str::as_bytes);
        if target.is_none() && own_address == Some(host) {
            return true;
        }
        let known = |authority: &Authority| {
            let name = authority.host();
            is_loopback(name) || self.hosts.iter().any(|host| host.eq_ignore_ascii_case(name))
        };
        let named = text(host).and_then(|text| text.parse::<Authority>().ok());
        named.as_ref().is_some_and(known) && target.is_none_or(known)
    }

    fn origin_fits(&self, origin: &str) -> bool {
        if self.origins.iter().any(|known| known.eq_ignore_ascii_case(origin)) {
            return true;
        }
        let Some((scheme, rest)) = origin.split_once("://") else { return false };
        matches!(scheme, "http" | "https")
            && rest.parse::<Authority>().is_ok_and(|authority| is_loopback(authority.host()))
    }
}

fn is_loopback(name: &str) -> bool {
    if let Some(inner) = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return inner.parse::<Ipv6Addr>().is_ok_and(|address| address.is_loopback());
    }
    name.eq_ignore_ascii_case("localhost")
        || name.to_ascii_lowercase().ends_with(".localhost")
        || name.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: HeaderName = HeaderName::from_static("mcp-name");

    /// Checks the same lines in both forms.
    fn check_fields(lines: &[(&str, &[u8])], values: &[&[u8]], first_text: Option<&str>, of_prefix: usize) {
        let lines: Vec<_> = lines.iter().map(|&(name, value)| httparse::Header { name, value }).collect();
        let map = Fields::Lines(&lines).to_map();
        for fields in [Fields::Lines(&lines), Fields::Map(&map)] {
            assert_eq!(fields.all(&NAME).collect::<Vec<_>>(), values);
            assert_eq!(fields.first(&NAME), values.first().copied());
            let once = if values.len() > 1 { Err(Twice) } else { Ok(values.first().copied()) };
            assert_eq!(fields.once(&NAME), once);
            assert_eq!(fields.text(&NAME), first_text);
            assert_eq!(fields.starting("mcp-param-").map_or(0, |found| found.len()), of_prefix);
            assert_eq!(fields.to_map(), map);
        }
    }

    #[test]
    fn fields_are_the_same_in_both_forms() {
        check_fields(&[], &[], None, 0);
        check_fields(&[("Mcp-Name", b"echo"), ("accept", b"*/*")], &[b"echo"], Some("echo"), 0);
        check_fields(&[("mcp-name", b"a"), ("MCP-NAME", b"b")], &[b"a", b"b"], Some("a"), 0);
        check_fields(&[("mcp-name", b"\xc3\xa4")], &[b"\xc3\xa4"], None, 0);
        check_fields(&[("mcp-name", b"a\tb c")], &[b"a\tb c"], Some("a\tb c"), 0);
        check_fields(&[("Mcp-Param-A", b"1"), ("mcp-param-a", b"2"), ("mcp-param", b"3")], &[], None, 2);
    }

    fn check_guard(host: &str, origin: Option<&str>, accepted: bool) {
        let guard = Guard {
            check_host: true,
            hosts: vec!["yard.example".into()],
            own_address: Some("127.0.0.1:7777".into()),
            origins: vec!["https://app.example".into()],
        };
        let mut headers = HeaderMap::new();
        headers.insert(HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(ORIGIN, origin.parse().unwrap());
        }
        let refusal = guard.refusal(None, Fields::Map(&headers));
        assert_eq!(refusal.is_none(), accepted, "{host} {origin:?}: {refusal:?}");
    }

    #[test]
    fn only_loopback_and_configured_names_may_speak() {
        check_guard("127.0.0.1:7777", None, true);
        check_guard("localhost:1", None, true);
        check_guard("[::1]:7777", None, true);
        check_guard("YARD.example:80", None, true);
        check_guard("evil.example", None, false);
        check_guard("127.0.0.1.evil.example", None, false);
        check_guard("localhost@evil.example", None, false);
        check_guard("127.0.0.1", Some("http://127.0.0.1:7777"), true);
        check_guard("127.0.0.1", Some("http://localhost"), true);
        check_guard("127.0.0.1", Some("https://app.example"), true);
        check_guard("127.0.0.1", Some("http://evil.example"), false);
        check_guard("127.0.0.1", Some("http://localhost.evil.example"), false);
        check_guard("127.0.0.1", Some("null"), false);
    }

    #[test]
    fn the_control_api_is_for_pages_of_this_gateway_only() {
        let guard = Guard { origins: vec!["https://app.example".into()], ..Guard::default() };
        let check = |name: &str, value: &str, is_refused: bool| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, "127.0.0.1:7777".parse().unwrap());
            headers.insert(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
            let refusal = guard.refusal_of_other_pages(Fields::Map(&headers));
            assert_eq!(refusal.is_some(), is_refused, "{name}: {value}");
        };
        check("origin", "http://127.0.0.1:7777", false);
        check("origin", "http://127.0.0.1:3000", true);
        check("origin", "http://localhost:7777", true);
        check("origin", "https://app.example", false);
        check("origin", "null", true);
        check("sec-fetch-site", "same-origin", false);
        check("sec-fetch-site", "same-site", true);
        check("sec-fetch-site", "cross-site", true);
        check("sec-fetch-site", "none", false);
    }

    #[test]
    fn a_host_without_a_name_is_refused() {
        let guard = Guard { check_host: true, hosts: vec!["yard.example".into()], ..Guard::default() };
        for (host, is_refused) in [("", true), (":80", true), ("yard.example", false)] {
            let headers = HeaderMap::from_iter([(HOST, host.parse().unwrap())]);
            assert_eq!(guard.refusal(None, Fields::Map(&headers)).is_some(), is_refused, "{host:?}");
        }
    }

    #[test]
    fn a_second_host_is_refused() {
        let guard = Guard { check_host: true, ..Guard::default() };
        let mut headers = HeaderMap::new();
        headers.append(HOST, "localhost".parse().unwrap());
        headers.append(HOST, "localhost".parse().unwrap());
        assert!(guard.refusal(None, Fields::Map(&headers)).is_some());
    }
}
