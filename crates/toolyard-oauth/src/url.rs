//! The few operations on URLs that OAuth needs. Identifiers are compared as strings and never normalised, except where
//! a function documents it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::Uri;

/// A URL with `pairs` added to its query.
pub(crate) fn with_query(url: &str, pairs: &[(&str, &str)]) -> String {
    let separator = if url.contains('?') { '&' } else { '?' };
    format!("{url}{separator}{}", form(pairs))
}

/// The body of a form. Parameters without a value are left out, which means the same in OAuth.
pub(crate) fn form(pairs: &[(&str, &str)]) -> String {
    let given = pairs.iter().filter(|(_, value)| !value.is_empty());
    form_urlencoded::Serializer::new(String::new()).extend_pairs(given).finish()
}

/// The value of `key` in a query. A duplicate key counts as missing, because it is unclear which value is meant.
pub(crate) fn query_value(query: &str, key: &str) -> Option<String> {
    let mut values = form_urlencoded::parse(query.as_bytes()).filter(|(name, _)| name == key);
    let first = values.next()?.1.into_owned();
    values.next().is_none().then_some(first)
}

/// Scheme and authority, such as `https://example.com:8443`.
pub(crate) fn origin(url: &Uri) -> Option<String> {
    Some(format!("{}://{}", url.scheme_str()?, url.authority()?))
}

/// The identifier of the resource at `url`: without query and fragment, and without the slash of an empty path.
pub(crate) fn resource(url: &Uri) -> Option<String> {
    let path = if url.path() == "/" { "" } else { url.path() };
    Some(format!("{}{path}", origin(url)?))
}

/// A well-known URL whose suffix is put between the authority and the path (RFC 8414, RFC 9728).
pub(crate) fn well_known(base: &Uri, suffix: &str, with_path: bool) -> Option<String> {
    let path = if with_path { base.path().trim_end_matches('/') } else { "" };
    Some(format!("{}/.well-known/{suffix}{path}", origin(base)?))
}

/// Whether `resource`, as a server names it, covers `url`: the same origin, and a path that is the same or above.
pub(crate) fn covers(resource: &str, url: &Uri) -> bool {
    let Ok(resource) = resource.parse::<Uri>() else { return false };
    let same_origin = resource.scheme() == url.scheme()
        && host(&resource) == host(url)
        && port(&resource) == port(url)
        && resource.host().is_some();
    let (above, path) = (resource.path().trim_end_matches('/'), url.path());
    let below = path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    same_origin && below
}

fn host(url: &Uri) -> Option<String> {
    url.host().map(str::to_ascii_lowercase)
}

fn port(url: &Uri) -> Option<u16> {
    url.port_u16().or(match url.scheme_str() {
        Some("https") => Some(443),
        Some("http") => Some(80),
        _ => None,
    })
}

/// Whether tokens may be sent there: over TLS, or to this machine.
pub(crate) fn is_secure(url: &Uri) -> bool {
    match url.scheme_str() {
        Some("https") => url.host().is_some_and(|host| !host.is_empty()),
        Some("http") => is_local(url),
        _ => false,
    }
}

/// Whether the address is on this machine.
pub(crate) fn is_local(url: &Uri) -> bool {
    let host = url.host().unwrap_or_default();
    host.eq_ignore_ascii_case("localhost") || ip(host).is_some_and(|ip| ip.is_loopback())
}

/// Whether the address is on this machine or in a private network. Only a server that is itself there may name one.
pub(crate) fn is_private(url: &Uri) -> bool {
    let host = url.host().unwrap_or_default();
    let private = |ip: Ipv4Addr| ip.is_private() || ip.is_link_local() || ip.is_unspecified();
    is_local(url)
        || host.to_ascii_lowercase().ends_with(".localhost")
        || match ip(host) {
            Some(IpAddr::V4(ip)) => private(ip),
            Some(IpAddr::V6(ip)) => {
                ip.is_unique_local()
                    || ip.is_unicast_link_local()
                    || ip.is_unspecified()
                    || ip.to_ipv4_mapped().is_some_and(|ip| ip.is_loopback() || private(ip))
            }
            None => false,
        }
}

fn ip(host: &str) -> Option<IpAddr> {
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    match bare {
        Some(inner) => inner.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        None => host.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_covers_its_own_path_and_those_below() {
        let check = |resource: &str, url: &str, expected: bool| {
            assert_eq!(covers(resource, &url.parse().unwrap()), expected, "{resource} {url}");
        };
        check("https://a.example/mcp", "https://a.example/mcp", true);
        check("https://a.example", "https://a.example/mcp", true);
        check("https://A.example:443/", "https://a.example/mcp", true);
        check("https://a.example/mc", "https://a.example/mcp", false);
        check("https://a.example/mcp/x", "https://a.example/mcp", false);
        check("https://evil.example/mcp", "https://a.example/mcp", false);
        check("http://a.example/mcp", "https://a.example/mcp", false);
        check("mcp", "https://a.example/mcp", false);
    }

    #[test]
    fn tokens_go_over_tls_or_to_this_machine() {
        let check =
            |url: &str, expected: bool| assert_eq!(is_secure(&url.parse().unwrap()), expected, "{url}");
        check("https://a.example/token", true);
        check("http://127.0.0.1:3000/token", true);
        check("http://[::1]:3000/token", true);
        check("http://localhost:3000", true);
        check("http://a.example/token", false);
        check("http://10.0.0.1/token", false);
        check("ftp://a.example", false);
    }

    #[test]
    fn private_addresses_are_recognised() {
        for url in
            ["https://192.168.0.1", "http://localhost", "https://[fd00::1]/", "https://[::ffff:10.0.0.1]/"]
        {
            assert!(is_private(&url.parse().unwrap()), "{url}");
        }
        assert!(!is_private(&Uri::from_static("https://a.example")));
        assert!(!is_private(&Uri::from_static("https://8.8.8.8")));
    }

    #[test]
    fn a_parameter_that_comes_twice_counts_as_missing() {
        assert_eq!(query_value("code=a%20b&state=s", "code").as_deref(), Some("a b"));
        assert_eq!(query_value("state=a&state=b", "state"), None);
        assert_eq!(with_query("https://a/x?y=1", &[("s", "a b")]), "https://a/x?y=1&s=a+b");
    }
}
