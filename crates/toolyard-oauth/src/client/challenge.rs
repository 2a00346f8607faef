//! Reads the `WWW-Authenticate` of a server that refuses a request.

use http::header::WWW_AUTHENTICATE;
use http::{HeaderMap, StatusCode};

use super::split_scopes;

/// A refusal that a token, or one with more rights, could lift.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Challenge {
    /// Where the metadata of the protected resource is.
    pub resource_metadata: Option<String>,
    pub scopes: Vec<String>,
    /// The token is valid, but does not allow this.
    pub needs_more_scopes: bool,
}

impl Challenge {
    /// Reads the challenge of a response. `None` if the refusal is not about a token: a 403 counts only with
    /// `insufficient_scope`.
    pub fn read(status: StatusCode, headers: &HeaderMap) -> Option<Self> {
        let values = headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok());
        let bearer = values.flat_map(bearer_parameters).collect::<Vec<_>>();
        let value = |name: &str| {
            bearer.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.clone())
        };
        let needs_more_scopes = value("error").as_deref() == Some("insufficient_scope");
        if status != StatusCode::UNAUTHORIZED && !(status == StatusCode::FORBIDDEN && needs_more_scopes) {
            return None;
        }
        let scopes = value("scope").map(|text| split_scopes(&text)).unwrap_or_default();
        let needs_more_scopes = needs_more_scopes && status == StatusCode::FORBIDDEN;
        Some(Self { resource_metadata: value("resource_metadata"), scopes, needs_more_scopes })
    }
}

/// The parameters of the `Bearer` challenge in a header value, which may hold several challenges.
fn bearer_parameters(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let (mut rest, mut is_bearer) = (text.trim_start(), false);
    while !rest.is_empty() {
        let end = rest.find([' ', '=', ',', '\t']).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        if let Some(value) = after.trim_start().strip_prefix('=') {
            let (value, after) = read_value(value.trim_start());
            if is_bearer {
                found.push((word.to_owned(), value));
            }
            rest = after;
        } else {
            // A word without a value names a scheme; the slice may be empty at a comma.
            if !word.is_empty() {
                is_bearer = word.eq_ignore_ascii_case("bearer");
            }
            rest = after;
        }
        rest = rest.trim_start_matches([' ', ',', '\t', '=']);
    }
    found
}

/// A token or a quoted string, and what follows.
fn read_value(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([',', ' ', '\t']).unwrap_or(text.len());
        return (text[..end].to_owned(), &text[end..]);
    };
    let (mut value, mut chars) = (String::new(), quoted.char_indices());
    while let Some((at, character)) = chars.next() {
        match character {
            '"' => return (value, &quoted[at + 1..]),
            '\\' => value.extend(chars.next().map(|(_, escaped)| escaped)),
            _ => value.push(character),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(status: u16, value: &str) -> Option<Challenge> {
        let headers = HeaderMap::from_iter([(WWW_AUTHENTICATE, value.parse().unwrap())]);
        Challenge::read(StatusCode::from_u16(status).unwrap(), &headers)
    }

    #[test]
    fn parameters_of_the_bearer_challenge_are_found_among_others() {
        let challenge =
            read(401, r#"Basic realm="a, b=c", Bearer scope="x y",resource_metadata="https://a/\"m""#);
        let expected = Challenge {
            resource_metadata: Some("https://a/\"m".into()),
            scopes: vec!["x".into(), "y".into()],
            needs_more_scopes: false,
        };
        assert_eq!(challenge, Some(expected));
        assert_eq!(read(401, "Basic realm=x").unwrap(), Challenge::default());
        assert_eq!(read(401, "bearer").unwrap(), Challenge::default());
    }

    #[test]
    fn a_403_is_about_a_token_only_if_it_names_the_scope() {
        assert!(read(403, r#"Bearer error="insufficient_scope", scope="w""#).unwrap().needs_more_scopes);
        assert_eq!(read(403, "Bearer"), None);
        assert_eq!(read(500, r#"Bearer error="insufficient_scope""#), None);
        assert_eq!(Challenge::read(StatusCode::UNAUTHORIZED, &HeaderMap::new()), Some(Challenge::default()));
    }
}
