//! The opening line of a stream connection, `{"toolyard":1,"view":…,"token":…,"folder":…}`: the client's view, its
//! credential and its working folder. It is not a message of the protocol, has no answer, and is never forwarded.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::json;
use toolyard_model::{Delegates, Principal, Transport, View, local};
use toolyard_proto::error::code;
use toolyard_proto::{Id, Incoming, Message, Raw, RpcError};

use crate::admit::{Admitted, Gate};

/// The member of an error's `data` that states, for programs, why a connection is refused.
pub const REFUSED: &str = "dev.toolyard/refused";
/// Its value if the token is invalid or missing.
pub const REFUSED_TOKEN: &str = "token";
/// Its value if there is no such view.
pub const REFUSED_VIEW: &str = "view";

/// The proof of identity that a listener accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// None: if the gate has tokens, one must be presented.
    Gate,
    /// Only the owner can reach this listener, so no token is required. The exception is a gate whose tokens are made
    /// from a secret: there, identities matter, and every program that has the config can make a token. A token that is
    /// presented must always be valid.
    Owner,
}

/// A connection that is accepted.
#[derive(Debug)]
pub(super) struct OpenedStream {
    pub(super) view: View,
    pub(super) admitted: Admitted,
    /// The first line, if that was a message already.
    pub(super) first: Option<Bytes>,
}

/// A refused connection: the error that it receives before it is closed.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) id: Option<Id>,
    pub(super) error: RpcError,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Opening {
    toolyard: u32,
    #[serde(default)]
    view: Option<String>,
    #[serde(default)]
    token: Option<String>,
    /// The folder that the client works in.
    #[serde(default)]
    folder: Option<String>,
}

/// Reads the first line. `offers` returns whether there is such a view.
pub(super) async fn open(
    line: Bytes,
    gate: &Gate,
    trust: Trust,
    offers: impl Fn(&View) -> bool,
) -> Result<OpenedStream, Refused> {
    if !is_opening(&line) {
        let token = if gate.is_open() { None } else { handshake_token(&line) };
        let admitted = admit(gate, trust, token.as_deref(), "")
            .await
            .map_err(|text| Refused { id: id_of(&line), ..refused_for(REFUSED_TOKEN, text) })?;
        return Ok(OpenedStream { view: View::Everything, admitted, first: Some(line) });
    }
    let opening: Opening = serde_json::from_slice(&line)
        .map_err(|error| refused(format!("the first line is invalid: {error}")))?;
    if opening.toolyard != 1 {
        return Err(refused(format!(
            "version {} of the first line is not supported: send 1",
            opening.toolyard
        )));
    }
    let name = opening.view.unwrap_or_default();
    let admitted = admit(gate, trust, opening.token.as_deref(), &name)
        .await
        .map_err(|text| refused_for(REFUSED_TOKEN, text))?;
    let admitted = admitted.in_folder(opening.folder.as_deref());
    match View::parse(&name).filter(offers) {
        Some(view) => Ok(OpenedStream { view, admitted, first: None }),
        None => Err(refused_for(REFUSED_VIEW, format!("there is no view {name:?}"))),
    }
}

/// The token in the handshake of a legacy client that sends no opening line.
fn handshake_token(line: &Bytes) -> Option<String> {
    let Ok(Incoming::One(Message::Request(request))) = Incoming::parse(line) else { return None };
    let is_handshake = request.method == toolyard_proto::Method::INITIALIZE;
    request.params.filter(|_| is_handshake)?.member("authToken")?.as_string()
}

/// Whether a connection has to open with a token before anything else.
pub(super) fn needs_token(gate: &Gate, trust: Trust) -> bool {
    match trust {
        Trust::Gate => !gate.is_open(),
        Trust::Owner => gate.is_signed(),
    }
}

fn is_opening(line: &Bytes) -> bool {
    let is_object = line.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    is_object
        && Raw::parse(line.clone())
            .is_ok_and(|raw| raw.member("toolyard").is_some() && raw.member("jsonrpc").is_none())
}

async fn admit(gate: &Gate, trust: Trust, token: Option<&str>, view: &str) -> Result<Admitted, String> {
    let transport = if trust == Trust::Owner { local::TRANSPORT } else { Transport::Tcp };
    let admitted: Result<Admitted, String> = match token {
        Some(token) if !gate.is_open() || Delegates::is_one(token.as_bytes()) => {
            gate.admit_token(token, view).await.ok_or_else(|| "the token is not accepted here".to_owned())
        }
        None if needs_token(gate, trust) => {
            gate.note_missing();
            Err("a token is required: send {\"toolyard\":1,\"token\":\"…\"} as the first line".to_owned())
        }
        _ => {
            let is_owner = trust == Trust::Owner;
            Ok(Admitted { is_owner, ..Admitted::unproven(Principal::local()) })
        }
    };
    admitted.map(|admitted| admitted.over(transport))
}

fn refused(message: impl Into<String>) -> Refused {
    Refused { id: None, error: RpcError::new(code::INVALID_REQUEST, message.into()) }
}

fn refused_for(what: &str, message: String) -> Refused {
    let mut refused = refused(message);
    refused.error.data = Some(json!({ REFUSED: what }).into());
    refused
}

/// The id of the request in the first line. The error carries it, so that a client without an opening line sees that
/// its request was refused.
fn id_of(line: &Bytes) -> Option<Id> {
    match Incoming::parse(line) {
        Ok(Incoming::One(Message::Request(request))) => Some(request.id),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use toolyard_proto::token::{Rules, Secret};

    use super::*;
    use crate::admit::Signed;

    fn open_now(
        line: &'static str,
        gate: &Gate,
        trust: Trust,
        offers: impl Fn(&View) -> bool,
    ) -> Result<OpenedStream, Refused> {
        open(Bytes::from_static(line.as_bytes()), gate, trust, offers).now_or_never().unwrap()
    }

    #[test]
    fn a_folder_is_taken_from_the_opening_line_and_the_owner_of_the_socket_is_proven() {
        let open =
            |gate: &Gate, trust, line: &'static str| open_now(line, gate, trust, |_| true).unwrap().admitted;
        let line = r#"{"toolyard":1,"folder":"/srv/app"}"#;
        let folder =
            |admitted: &Admitted| admitted.folder.as_ref().map(|folder| folder.display().to_string());
        let owner = open(&Gate::open(), Trust::Owner, line);
        assert_eq!((folder(&owner).as_deref(), owner.proves_user()), (Some("/srv/app"), true));
        let anyone = open(&Gate::open(), Trust::Gate, line);
        assert!(!anyone.proves_user(), "a loopback connection without a token may be of any user");
        let gate = Gate::open().with_token(Principal::token("ann"), "secret");
        let bearer = open(&gate, Trust::Gate, r#"{"toolyard":1,"token":"secret","folder":"relative"}"#);
        assert_eq!((folder(&bearer), bearer.proves_user()), (None, true));
    }

    /// `VIEW PRINCIPAL [message]`, or why not.
    fn check(gate: &Gate, trust: Trust, line: &'static str, expected: &str) {
        let offers = |view: &View| *view != View::Upstream("missing".into());
        let got = match open_now(line, gate, trust, offers) {
            Ok(OpenedStream { view, admitted, first }) => {
                let first = if first.is_some() { " message" } else { "" };
                format!("{view:?} {}{first}", admitted.principal.name())
            }
            Err(Refused { id, error }) => format!("{id:?} {}", error.message),
        };
        assert!(got.starts_with(expected), "{line}: {got}");
    }

    #[test]
    fn a_refusal_names_its_reason_for_programs() {
        let gate = Gate::open().with_token(Principal::token("ann"), "s3cret");
        let why = |line: &'static str| {
            let refused = open_now(line, &gate, Trust::Gate, |_| false);
            refused.unwrap_err().error.data.map(|data| data.as_str().to_owned())
        };
        let token = Some(r#"{"dev.toolyard/refused":"token"}"#.to_owned());
        assert_eq!(why(r#"{"toolyard":1}"#), token);
        assert_eq!(why(r#"{"toolyard":1,"token":"other"}"#), token);
        assert_eq!(why(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#), token);
        assert_eq!(
            why(r#"{"toolyard":1,"token":"s3cret","view":"token"}"#),
            Some(r#"{"dev.toolyard/refused":"view"}"#.to_owned())
        );
        assert_eq!(why(r#"{"toolyard":2,"token":"s3cret"}"#), None);
    }

    #[test]
    fn the_view_is_chosen_by_the_first_line() {
        let check = |line, expected| check(&Gate::open(), Trust::Gate, line, expected);
        check(r#"{"toolyard":1,"view":"hub"}"#, "Hub local");
        check(r#"{"toolyard":1,"view":"p/work"}"#, r#"Profile("work") local"#);
        check(r#" {"view":"wiki","toolyard":1}"#, r#"Upstream("wiki") local"#);
        check(r#"{"toolyard":1}"#, "Everything local");
        check(r#"{"toolyard":1,"token":"any"}"#, "Everything local");
        check(r#"{"jsonrpc":"2.0","id":1,"method":"ping","toolyard":1}"#, "Everything local message");
        check("garbage", "Everything local message");
        check(r#"{"toolyard":1,"view":"missing"}"#, "None there is no view \"missing\"");
        check(r#"{"toolyard":1,"view":"a/b/c"}"#, "None there is no view");
        check(r#"{"toolyard":2}"#, "None version 2 of the first line");
        check(r#"{"toolyard":1,"veiw":"hub"}"#, "None the first line is invalid: unknown field `veiw`");
        check(r#"{"toolyard":"1"}"#, "None the first line is invalid: invalid type");
    }

    #[test]
    fn a_presented_token_must_be_valid() {
        let gate = Gate::open().with_token(Principal::token("ann"), "sesame");
        check(&gate, Trust::Gate, r#"{"toolyard":1,"token":"sesame"}"#, "Everything ann");
        check(&gate, Trust::Gate, r#"{"toolyard":1,"token":"simsim"}"#, "None the token is not accepted");
        check(&gate, Trust::Gate, r#"{"toolyard":1}"#, "None a token is required");
        check(&gate, Trust::Gate, r#"{"jsonrpc":"2.0","id":"a","method":"ping"}"#, "Some(\"a\") a token is");
        check(
            &gate,
            Trust::Owner,
            r#"{"jsonrpc":"2.0","id":"a","method":"ping"}"#,
            "Everything local message",
        );
        check(&gate, Trust::Owner, r#"{"toolyard":1,"token":"simsim"}"#, "None the token is not accepted");
        check(&gate, Trust::Owner, r#"{"toolyard":1,"token":"sesame"}"#, "Everything ann");
    }

    #[test]
    fn the_owner_needs_a_token_if_tokens_are_made_from_a_secret() {
        let secret = Secret::parse("MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=").unwrap();
        let rules = Rules { secrets: vec![secret], window: Rules::WINDOW, skew: Rules::SKEW };
        let gate = Gate::open().with_signed(Signed::new(rules));
        check(&gate, Trust::Owner, r#"{"toolyard":1}"#, "None a token is required");
        check(&gate, Trust::Owner, r#"{"jsonrpc":"2.0","id":"a","method":"ping"}"#, "Some(\"a\") a token is");
    }
}
