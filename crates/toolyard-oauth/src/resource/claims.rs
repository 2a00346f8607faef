//! The claims of a token whose origin is proven: whether it is for this gateway and valid now, and what it states about
//! its bearer.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use toolyard_serve::admit::Refusal;

use crate::client::split_scopes;

/// How far clocks may be apart.
const LEEWAY: u64 = 60;
/// Bounds for what a token may bring into the gateway.
const LONGEST_SUBJECT: usize = 256;
const LONGEST_ROLE: usize = 256;
const MOST_ROLES: usize = 200;

/// The requirements for tokens.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) base: String,
    pub(super) audience: Vec<String>,
    pub(super) scopes: Vec<String>,
    pub(super) role_claims: Vec<String>,
}

/// The claims of a token, or the answer of an introspection.
pub(super) struct Claims<'c>(pub(super) &'c Value);

/// The rights of the bearer of an accepted token.
#[derive(Debug)]
pub(super) struct Accepted<'c> {
    pub(super) subject: &'c str,
    pub(super) roles: Vec<Arc<str>>,
    pub(super) views: Option<Arc<[String]>>,
    pub(super) lifetime: Option<Duration>,
}

impl<'c> Claims<'c> {
    pub(super) fn issuer(&self) -> Option<&'c str> {
        self.0["iss"].as_str()
    }

    pub(super) fn accept(&self, rules: &Rules, now: u64) -> Result<Accepted<'c>, Refusal> {
        let lifetime = self.lifetime(now).map_err(Refusal::Invalid)?;
        self.check_kind().map_err(Refusal::Invalid)?;
        let views = self.views(rules).map_err(Refusal::Invalid)?;
        let subject = self.0["sub"].as_str().filter(|subject| !subject.is_empty());
        let subject = subject.filter(|subject| subject.len() <= LONGEST_SUBJECT);
        let subject = subject.ok_or(Refusal::Invalid("the token names no subject"))?;
        let scopes = self.scopes();
        if !rules.scopes.iter().all(|scope| scopes.contains(scope)) {
            return Err(Refusal::Scopes);
        }
        Ok(Accepted { subject, roles: self.roles(rules), views, lifetime })
    }

    /// How long it is valid from now on. A token without an end is accepted only where its issuer vouches for it now.
    fn lifetime(&self, now: u64) -> Result<Option<Duration>, &'static str> {
        let is_active = self.0["active"].as_bool() == Some(true);
        let expires = match seconds(&self.0["exp"]) {
            Some(expires) => Some(expires),
            None if is_active && self.0["exp"].is_null() => None,
            None => return Err("the token has no expiry time"),
        };
        if expires.is_some_and(|expires| expires.saturating_add(LEEWAY) <= now) {
            return Err("the token has expired");
        }
        let not_before = &self.0["nbf"];
        if !not_before.is_null() && seconds(not_before).is_none_or(|start| start > now + LEEWAY) {
            return Err("the token is not valid yet");
        }
        Ok(expires.map(|expires| Duration::from_secs((expires + LEEWAY).saturating_sub(now).min(YEAR))))
    }

    /// Some issuers name the kind in a claim. A token that is bound to a key is of no use without a proof of it.
    fn check_kind(&self) -> Result<(), &'static str> {
        let typ = self.0["typ"].as_str();
        if typ.is_some_and(|typ| !typ.eq_ignore_ascii_case("bearer")) {
            return Err("the token is not an access token");
        }
        if self.0["cnf"].is_null() {
            Ok(())
        } else {
            Err("the token is bound to a key, which is not supported")
        }
    }

    /// The views that it is for: all of them if it is for a configured audience, for the gateway or for `/mcp`.
    fn views(&self, rules: &Rules) -> Result<Option<Arc<[String]>>, &'static str> {
        let audience = strings(&self.0["aud"]);
        if audience.is_empty() {
            return Err("the token names no audience");
        }
        if !rules.audience.is_empty() {
            let is_meant = audience.iter().any(|one| rules.audience.iter().any(|own| own == one));
            return if is_meant { Ok(None) } else { Err("the token is for another audience") };
        }
        let paths = audience.iter().filter_map(|one| one.strip_prefix(&rules.base));
        let mut views = Vec::new();
        for path in paths {
            let path = path.trim_end_matches('/');
            if path.is_empty() || path == "/mcp" || path == "/sse" {
                return Ok(None);
            }
            let view = path.strip_prefix("/mcp/").or_else(|| path.strip_prefix("/sse/"));
            views.extend(view.map(str::to_owned));
        }
        if views.is_empty() { Err("the token is for another audience") } else { Ok(Some(views.into())) }
    }

    /// `scope` is one string; some issuers have a list, or call it `scp`.
    fn scopes(&self) -> Vec<String> {
        ["scope", "scp"].iter().flat_map(|name| strings(&self.0[*name])).flat_map(split_scopes).collect()
    }

    fn roles(&self, rules: &Rules) -> Vec<Arc<str>> {
        let claim = |name: &String| {
            let value = if name.starts_with('/') { self.0.pointer(name) } else { self.0.get(name) };
            let is_list_of_words = name == "scope" || name == "scp";
            let values = value.map(strings).unwrap_or_default();
            values.into_iter().flat_map(move |text| {
                if is_list_of_words { split_scopes(text) } else { vec![text.to_owned()] }
            })
        };
        let mut found: Vec<Arc<str>> = Vec::new();
        for role in rules.role_claims.iter().flat_map(claim) {
            let is_new =
                !role.is_empty() && role.len() <= LONGEST_ROLE && !found.contains(&role.as_str().into());
            if is_new && found.len() < MOST_ROLES {
                found.push(role.into());
            }
        }
        found
    }
}

const YEAR: u64 = 365 * 24 * 60 * 60;

/// A time in seconds since 1970. Some issuers write fractions.
fn seconds(value: &Value) -> Option<u64> {
    let whole = || value.as_f64().filter(|number| (0.0..=1e15).contains(number));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is within the bounds")]
    value.as_u64().or_else(|| whole().map(|number| number as u64))
}

/// One string, or a list of them.
fn strings(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(items) => items.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rules() -> Rules {
        Rules {
            base: "https://yard.example".into(),
            audience: Vec::new(),
            scopes: vec!["mcp".into()],
            role_claims: vec!["groups".into(), "/realm_access/roles".into(), "scp".into()],
        }
    }

    const NOW: u64 = 1_000_000;

    /// What a token with these changes comes to: the views and roles, or why it is refused.
    fn check(changes: &Value, expected: &str) {
        let mut claims = json!({
            "sub": "ann", "aud": "https://yard.example/mcp", "exp": NOW + 100, "scope": "openid mcp",
        });
        for (name, value) in changes.as_object().unwrap() {
            claims[name] = value.clone();
        }
        let got = match Claims(&claims).accept(&rules(), NOW) {
            Ok(accepted) => {
                let views = accepted.views.map_or("all".to_owned(), |views| views.join(" "));
                format!("{} {views}: {}", accepted.subject, accepted.roles.join(" "))
            }
            Err(refusal) => refusal.to_string(),
        };
        assert_eq!(got, expected, "{changes}");
    }

    #[test]
    fn the_audience_is_the_gateway_or_a_view_of_it() {
        check(&json!({}), "ann all: ");
        check(&json!({ "aud": ["other", "https://yard.example/"] }), "ann all: ");
        check(
            &json!({ "aud": ["https://yard.example/mcp/wiki", "https://yard.example/mcp/p/a"] }),
            "ann wiki p/a: ",
        );
        for other in ["https://yard.example.evil/mcp", "https://yard.example/api", "yard", ""] {
            check(&json!({ "aud": other }), "the token is for another audience");
        }
        check(&json!({ "aud": null }), "the token names no audience");
    }

    #[test]
    fn times_have_a_leeway_of_a_minute() {
        check(&json!({ "exp": NOW - 59 }), "ann all: ");
        check(&json!({ "exp": NOW - 60 }), "the token has expired");
        check(&json!({ "exp": 1e6 + 0.5 }), "ann all: ");
        check(&json!({ "exp": null }), "the token has no expiry time");
        check(&json!({ "exp": "soon" }), "the token has no expiry time");
        check(&json!({ "exp": null, "active": true }), "ann all: ");
        check(&json!({ "nbf": NOW + 60 }), "ann all: ");
        check(&json!({ "nbf": NOW + 61 }), "the token is not valid yet");
        check(&json!({ "nbf": "later" }), "the token is not valid yet");
    }

    #[test]
    fn tokens_of_other_kinds_are_refused() {
        check(&json!({ "typ": "Bearer" }), "ann all: ");
        check(&json!({ "typ": "Refresh" }), "the token is not an access token");
        check(&json!({ "cnf": { "jkt": "x" } }), "the token is bound to a key, which is not supported");
        check(&json!({ "sub": null }), "the token names no subject");
        check(&json!({ "sub": "" }), "the token names no subject");
        check(&json!({ "sub": 7 }), "the token names no subject");
    }

    #[test]
    fn scopes_are_required_and_claims_become_roles() {
        check(&json!({ "scope": "openid" }), "the token lacks required scopes");
        check(&json!({ "scope": null, "scp": ["mcp", "x"] }), "ann all: mcp x");
        let roles = json!({ "groups": ["ops", "ops", 7, "a b"], "realm_access": { "roles": ["dev"] } });
        check(&roles, "ann all: ops a b dev");
    }
}
