//! Which requests a listener accepts at all: the Host and Origin checks that keep web pages away from it.

use std::net::{Ipv4Addr, Ipv6Addr};

use http::header::{HOST, HeaderName, ORIGIN};
use http::uri::Authority;
use tokio::net::TcpListener;

use super::endpoint::Options;
use super::fields::{Fields, text};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// What a listener accepts. Names are compared without their port.
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
    /// What this listener accepts.
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
    use http::HeaderMap;

    use super::*;

    fn check(host: &str, origin: Option<&str>, accepted: bool) {
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
        check("127.0.0.1:7777", None, true);
        check("localhost:1", None, true);
        check("[::1]:7777", None, true);
        check("YARD.example:80", None, true);
        check("evil.example", None, false);
        check("127.0.0.1.evil.example", None, false);
        check("localhost@evil.example", None, false);
        check("127.0.0.1", Some("http://127.0.0.1:7777"), true);
        check("127.0.0.1", Some("http://localhost"), true);
        check("127.0.0.1", Some("https://app.example"), true);
        check("127.0.0.1", Some("http://evil.example"), false);
        check("127.0.0.1", Some("http://localhost.evil.example"), false);
        check("127.0.0.1", Some("null"), false);
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
