//! The modern envelope: what every request states about itself in `_meta`, and how names travel in headers.

use std::borrow::Cow;

use data_encoding::BASE64;

use crate::era::Revision;
use crate::splice::find;
use crate::{CallError, Method, Params, Raw};

pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
/// MCP Apps: tools with a user interface. The one extension that means the same to clients of either era.
pub const UI_EXTENSION: &str = "io.modelcontextprotocol/ui";
pub const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";
pub const SKILLS_EXTENSION: &str = "io.modelcontextprotocol/skills";
/// The tasks of the caller at a tool set in the same process, for clients of 2025-11-25: the extension has no list.
pub const LIST_TASKS: &str = "dev.toolyard/tasks";

const LOG_LEVELS: [&str; 8] =
    ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// The severity of a log message, the lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogLevel(u8);

impl LogLevel {
    pub fn parse(text: &str) -> Option<Self> {
        let at = LOG_LEVELS.iter().position(|level| *level == text)?;
        u8::try_from(at).ok().map(Self)
    }

    /// The level of a log message with these parameters.
    pub fn of(params: Option<&Raw>) -> Option<Self> {
        Self::parse(&params?.member("level")?.as_string()?)
    }

    pub fn as_str(self) -> &'static str {
        LOG_LEVELS[usize::from(self.0)]
    }

    pub fn index(self) -> u8 {
        self.0
    }

    pub fn from_index(index: u8) -> Option<Self> {
        (usize::from(index) < LOG_LEVELS.len()).then_some(Self(index))
    }
}

/// The data about its sender that a modern request carries.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestMeta {
    pub revision: Revision,
    pub capabilities: Raw,
    pub client_info: Option<Raw>,
    pub log_level: Option<LogLevel>,
}

/// The era that the parameters of a request claim.
#[derive(Clone, Debug, PartialEq)]
pub enum Claim {
    /// No protocol version at all: a legacy client, or a malformed request.
    None,
    Version(Raw),
}

pub fn claim(params: Option<&Raw>) -> Claim {
    let version = params.and_then(|params| params.at(&["_meta", PROTOCOL_VERSION]));
    version.map_or(Claim::None, Claim::Version)
}

/// The parts of a request's parameters that the endpoint uses, found in one pass.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The parameters themselves; `{}` where there are none.
    pub params: Params,
    pub envelope: MetaEnvelope,
    /// The member that the `Mcp-Name` header repeats.
    pub name: Option<Raw>,
}

/// The members of `_meta` about the request itself, not checked yet.
#[derive(Clone, Debug, Default)]
pub struct MetaEnvelope {
    is_there: bool,
    /// Some key is a duplicate.
    is_ambiguous: bool,
    version: Option<Raw>,
    capabilities: Option<Raw>,
    client_info: Option<Raw>,
    log_level: Option<Raw>,
}

impl MetaEnvelope {
    pub fn claim(&self) -> Claim {
        self.version.clone().map_or(Claim::None, Claim::Version)
    }

    fn find(params: &Params) -> Self {
        let mut found = Self::default();
        let metas = params.each_of_meta(|member| {
            if let Some(slot) = found.slot(&member.key.text(params.as_bytes())) {
                let twice = slot.replace(params.slice(member.value.clone())).is_some();
                found.is_ambiguous |= twice;
            }
        });
        // Another parser may read an earlier one.
        found.is_ambiguous |= metas > 1;
        found.is_there = params.find("_meta").is_some_and(|meta| params.as_bytes()[meta].starts_with(b"{"));
        found
    }

    fn slot(&mut self, key: &[u8]) -> Option<&mut Option<Raw>> {
        match key {
            key if key == PROTOCOL_VERSION.as_bytes() => Some(&mut self.version),
            key if key == CLIENT_CAPABILITIES.as_bytes() => Some(&mut self.capabilities),
            key if key == CLIENT_INFO.as_bytes() => Some(&mut self.client_info),
            key if key == LOG_LEVEL.as_bytes() => Some(&mut self.log_level),
            _ => None,
        }
    }
}

pub fn find_parts(method: &Method, params: Option<&Params>) -> Found {
    let Some(params) = params.cloned().map(Params::outlined) else { return Found::default() };
    let envelope = MetaEnvelope::find(&params);
    let name = name_member(method).and_then(|key| params.member(key));
    Found { params, envelope, name }
}

impl RequestMeta {
    /// Reads and checks the envelope of a request that claims to be modern.
    pub fn read(params: &Raw) -> Result<Self, CallError> {
        let found = find_parts(&Method::DISCOVER, Some(&params.clone().into()));
        Self::judge(found.envelope)
    }

    /// Checks an envelope that [`find_parts`] has found.
    pub fn judge(envelope: MetaEnvelope) -> Result<Self, CallError> {
        let MetaEnvelope { is_there, is_ambiguous, version, capabilities, client_info, log_level } = envelope;
        if !is_there {
            return Err(CallError::bad_envelope("`params._meta` is required in every request"));
        }
        if is_ambiguous {
            return Err(CallError::bad_envelope("duplicate `params._meta`, or a duplicate key in it"));
        }
        Ok(Self {
            revision: read_version(version.as_ref())?,
            capabilities: capabilities.filter(Raw::is_object).ok_or_else(|| {
                CallError::bad_envelope(format!("`_meta[\"{CLIENT_CAPABILITIES}\"]` must be an object"))
            })?,
            client_info: read_client_info(client_info)?,
            log_level: log_level.map(|level| read_level(&level)).transpose()?,
        })
    }
}

fn read_version(version: Option<&Raw>) -> Result<Revision, CallError> {
    let text = version.and_then(Raw::text).ok_or_else(|| {
        CallError::bad_envelope(format!("`_meta[\"{PROTOCOL_VERSION}\"]` must be a string"))
    })?;
    Revision::parse(&text)
        .filter(|revision| revision.is_modern())
        .ok_or_else(|| CallError::unsupported_version(text.into_owned()))
}

fn read_client_info(info: Option<Raw>) -> Result<Option<Raw>, CallError> {
    match info {
        Some(info) if !info.is_object() => {
            Err(CallError::bad_envelope(format!("`_meta[\"{CLIENT_INFO}\"]` must be an object")))
        }
        info => Ok(info),
    }
}

fn read_level(level: &Raw) -> Result<LogLevel, CallError> {
    level.as_string().and_then(|text| LogLevel::parse(&text)).ok_or_else(|| {
        CallError::invalid_params(format!("unknown log level {level:?}; one of {}", LOG_LEVELS.join(", ")))
    })
}

/// The member of `params` that the `Mcp-Name` header repeats, if this method has one.
pub fn name_member(method: &Method) -> Option<&'static str> {
    match method.as_str() {
        "tools/call" | "prompts/get" => Some("name"),
        "resources/read" => Some("uri"),
        "tasks/get" | "tasks/update" | "tasks/cancel" => Some("taskId"),
        _ => None,
    }
}

/// The text of that member.
pub fn name_in(method: &Method, params: &Raw) -> Option<String> {
    let range = find(params.as_bytes(), name_member(method)?)?;
    params.slice(range).as_string()
}

const SENTINEL: (&str, &str) = ("=?base64?", "?=");

/// Whether an `Mcp-Param-*` header has the value of the body. Numbers are compared as numbers.
pub fn same_value(body: &str, header: &str) -> bool {
    if body == header {
        return true;
    }
    if let (Ok(body), Ok(header)) = (body.parse::<i64>(), header.parse::<i64>()) {
        return body == header;
    }
    let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
    number(body).zip(number(header)).is_some_and(|(body, header)| body.total_cmp(&header).is_eq())
}

/// A value as it may stand in an `Mcp-Name` or `Mcp-Param-*` header.
pub fn encode_header(value: &str) -> String {
    let plain = value.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t'))
        && value.trim_matches([' ', '\t']) == value
        && !(value.starts_with(SENTINEL.0) && value.ends_with(SENTINEL.1));
    if plain {
        value.to_owned()
    } else {
        format!("{}{}{}", SENTINEL.0, BASE64.encode(value.as_bytes()), SENTINEL.1)
    }
}

/// The decoded value of such a header; `None` if it is malformed.
pub fn decode_header(header: &str) -> Option<String> {
    header_text(header).map(Cow::into_owned)
}

/// The same, copied only where it had to be encoded.
pub fn header_text(header: &str) -> Option<Cow<'_, str>> {
    let Some(inner) = header.strip_prefix(SENTINEL.0).and_then(|rest| rest.strip_suffix(SENTINEL.1)) else {
        return Some(Cow::Borrowed(header));
    };
    String::from_utf8(BASE64.decode(inner.as_bytes()).ok()?).ok().map(Cow::Owned)
}

/// `params` with the envelope of a modern request stamped into `_meta`.
pub fn stamp_request(params: Option<&Raw>, meta: &RequestMeta) -> Raw {
    let params = params.cloned().unwrap_or_else(Raw::empty_object);
    let mut inner = params.member("_meta").filter(Raw::is_object).unwrap_or_else(Raw::empty_object);
    inner = inner.with(PROTOCOL_VERSION, &Raw::from_serialize(&meta.revision.as_str()));
    inner = inner.with(CLIENT_CAPABILITIES, &meta.capabilities);
    if let Some(info) = &meta.client_info {
        inner = inner.with(CLIENT_INFO, info);
    }
    if let Some(level) = meta.log_level {
        inner = inner.with(LOG_LEVEL, &Raw::from_serialize(&level.as_str()));
    }
    params.with("_meta", &inner)
}

/// `params` without what only modern requests carry.
pub fn strip_request(params: &Raw) -> Raw {
    params.without_in("_meta", &[PROTOCOL_VERSION, CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL])
}

/// A result as modern clients expect it: `resultType`, and who answered.
pub fn stamp_result(result: &Raw, server_info: Option<&Raw>) -> Raw {
    if !result.is_object() {
        return result.clone();
    }
    let mut out = result.clone();
    if result.member("resultType").is_none() {
        out = out.with("resultType", &Raw::from_serialize(&"complete"));
    }
    match server_info {
        Some(info) if out.at(&["_meta", SERVER_INFO]).is_none() => {
            out.with_path(&["_meta", SERVER_INFO], info)
        }
        _ => out,
    }
}

/// The cache fields of a result, where they are missing.
pub fn stamp_cache(result: &Raw, ttl_ms: u64, scope: &str) -> Raw {
    let mut out = result.clone();
    if out.member("ttlMs").is_none() {
        out = out.with("ttlMs", &Raw::from_serialize(&ttl_ms));
    }
    if out.member("cacheScope").is_none() {
        out = out.with("cacheScope", &Raw::from_serialize(&scope));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_values_round_trip() {
        for (value, header) in [
            ("echo", "echo"),
            ("a b", "a b"),
            ("é", "=?base64?w6k=?="),
            (" a", "=?base64?IGE=?="),
            ("=?base64?x?=", "=?base64?PT9iYXNlNjQ/eD89?="),
        ] {
            assert_eq!(encode_header(value), header);
            assert_eq!(decode_header(header).as_deref(), Some(value));
        }
        assert_eq!(decode_header("=?base64?%%?="), None);
    }

    #[test]
    fn an_envelope_names_its_client_and_a_bad_one_is_refused_with_the_reason() {
        let read = |text: &str| RequestMeta::read(&Raw::parse(text.to_owned()).unwrap());
        let good = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}"#;
        assert_eq!(read(good).unwrap().revision, Revision::V2026_07_28);
        assert_eq!(read("{}").unwrap_err().http_status(crate::Era::Modern), 400);
        assert_eq!(read(&good.replace("2026", "1999")).unwrap_err().code(), -32022);
        assert_eq!(read(&good.replace("{}}", "7}")).unwrap_err().code(), -32602);
    }

    #[test]
    fn an_envelope_beside_another_is_refused_whatever_that_is() {
        let envelope = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
        let many = r#""k":0,"#.repeat(100);
        for (before, after, is_good) in [
            ("", "", true),
            (r#""_meta":7,"#, "", false),
            (r#""_meta":{},"#, "", false),
            ("", r#","_meta":7"#, false),
            (r#""_met\u0061":7,"#, "", false),
        ] {
            for more in ["", &many] {
                let params = format!(r#"{{{more}{before}"_meta":{envelope}{after}}}"#);
                let read = RequestMeta::read(&Raw::parse(params).unwrap());
                assert_eq!(read.is_ok(), is_good, "{before} {after} {}", more.len());
            }
        }
    }
}
