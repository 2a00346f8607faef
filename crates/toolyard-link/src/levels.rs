//! The log level of one channel to an upstream that keeps one: a call whose client wants more messages than the
//! upstream sends is preceded by a request for a lower level. The level is not raised again afterwards:
//! messages that a client has not asked for are dropped on the way to that client.

use toolyard_proto::modern::LogLevel;
use toolyard_proto::{Id, Method, Raw};

use toolyard_model::{Greeting, LinkRequest};

/// The level that was last sent to an upstream.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SentLevel(Option<LogLevel>);

impl SentLevel {
    /// The request that has to be sent first, if any; the caller sends it.
    pub(crate) fn before(&mut self, request: &LinkRequest, greeting: &Greeting) -> Option<LinkRequest> {
        if request.method == Method::SET_LEVEL {
            let level = request.params.member("level").and_then(|level| level.as_string());
            self.0 = level.and_then(|level| LogLevel::parse(&level)).or(self.0);
            return None;
        }
        let wanted = request.origin.log_level.get()?;
        if !greeting.keeps_level() || self.0.is_some_and(|sent| sent <= wanted) {
            return None;
        }
        self.0 = Some(wanted);
        Some(LinkRequest::new(
            request.origin.clone(),
            Id::string("yard-level"),
            Method::SET_LEVEL,
            Raw::empty_object().with("level", &Raw::from_serialize(&wanted.as_str())),
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use toolyard_proto::Revision;

    use super::*;
    use toolyard_model::{ClientKey, Origin, Principal, View};

    fn request(level: Option<&str>) -> LinkRequest {
        let origin =
            Origin::new(View::Everything, Principal::local(), ClientKey::Request(1), Revision::NEWEST)
                .with_log_level(level.and_then(LogLevel::parse));
        let (id, method) = (Id::number(1), Method::TOOLS_CALL);
        let params = Raw::empty_object();
        LinkRequest::new(Arc::new(origin), id, method, params)
    }

    #[test]
    fn a_level_is_sent_only_if_a_client_wants_more_messages() {
        let whole = r#"{"capabilities":{"logging":{}}}"#;
        let greeting = Greeting::read(Revision::V2025_11_25, Raw::parse(whole).unwrap());
        let mut sent = SentLevel::default();
        let mut check = |level: Option<&str>, expected: Option<&str>| {
            let before = sent.before(&request(level), &greeting);
            let sent = before.and_then(|request| request.params.member("level")?.as_string());
            assert_eq!(sent.as_deref(), expected, "{level:?}");
        };
        check(None, None);
        check(Some("error"), Some("error"));
        check(Some("critical"), None);
        check(Some("info"), Some("info"));
        check(Some("info"), None);
        check(Some("debug"), Some("debug"));
        let silent = Greeting::read(Revision::V2025_11_25, Raw::empty_object());
        assert!(SentLevel::default().before(&request(Some("info")), &silent).is_none());
        let newest = Greeting::read(Revision::NEWEST, Raw::parse(whole).unwrap());
        assert!(SentLevel::default().before(&request(Some("info")), &newest).is_none());
    }
}
