//! What must hold for anything that comes over a wire: messages, lines, events, edits, tokens.

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use toolyard_proto::app::AppMessage;
use toolyard_proto::codec::line::{LineDecoder, one_line};
use toolyard_proto::codec::sse::{EventDecoder, encode};
use toolyard_proto::message::{Incoming, Message};
use toolyard_proto::token::{BadToken, Checker, Rules, Secret};
use toolyard_proto::{Id, Method, Raw, RequestMessage};

const LIMIT: usize = 1 << 20;

/// Any JSON; keys that collide, that need escapes and that look like ours are likely.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<i32>().prop_map(|number| Value::from(f64::from(number) / 8.0)),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((any_key(), inner), 0..4)
                .prop_map(|members| Value::from(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

fn any_key() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![
            "", "a", "name", "_meta", "type", "id", "é", "a\"b", "a\\", "\n", "{", "}"
        ])
        .prop_map(str::to_owned),
        any::<String>(),
    ]
}

fn any_object() -> impl Strategy<Value = Value> {
    prop::collection::vec((any_key(), any_json()), 0..5)
        .prop_map(|members| Value::from(members.into_iter().collect::<Map<_, _>>()))
}

/// The same value, written in one of the ways that people write.
fn written(value: &Value, pretty: bool) -> String {
    if pretty { format!("{value:#}") } else { value.to_string() }
}

fn value_of(raw: &Raw) -> Value {
    raw.read().expect("what was written is JSON")
}

/// `bytes` in pieces that end at `cuts`.
fn pieces<'a>(bytes: &'a [u8], cuts: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    ends.extend([0, bytes.len()]);
    ends.sort_unstable();
    ends.windows(2).map(|ends| &bytes[ends[0]..ends[1]]).collect()
}

fn lines<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<Bytes> {
    let mut decoder = LineDecoder::new(LIMIT);
    let mut lines = Vec::new();
    for piece in pieces {
        decoder.buffer().extend_from_slice(piece);
        while let Some(line) = decoder.next_line().expect("no line is that long") {
            lines.push(line);
        }
    }
    lines
}

fn events<'a>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Vec<(String, Bytes, Option<String>, Option<u64>)> {
    let mut decoder = EventDecoder::new(LIMIT);
    let mut events = Vec::new();
    for piece in pieces {
        decoder.feed(piece);
        while let Some(event) = decoder.next_event().expect("no event is that long") {
            events.push((event.name, event.data, event.id, event.retry));
        }
    }
    events
}

/// Bytes as a careless or hostile peer sends them: mostly the characters that mean something.
fn any_stream() -> impl Strategy<Value = Vec<u8>> {
    let meaningful = b"\r\n:data event id retry {}\"0 \x00\xc3\xa9".to_vec();
    prop::collection::vec(prop_oneof![4 => prop::sample::select(meaningful), 1 => any::<u8>()], 0..80)
}

proptest! {
    #[test]
    fn lines_do_not_depend_on_how_they_are_cut(
        stream in any_stream(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        prop_assert_eq!(lines(pieces(&stream, &cuts)), lines([stream.as_slice()]));
    }

    #[test]
    fn events_do_not_depend_on_how_they_are_cut(
        stream in any_stream(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        prop_assert_eq!(events(pieces(&stream, &cuts)), events([stream.as_slice()]));
    }

    #[test]
    fn a_message_in_an_event_comes_out_as_it_went_in(value in any_json(), pretty in any::<bool>(), id in "[a-z0-9-]{0,8}") {
        let text = written(&value, pretty);
        let found = events([&encode(text.as_bytes(), Some(&id))[..]]);
        prop_assert_eq!(found, [("message".to_owned(), Bytes::from(text), Some(id), None)]);
    }

    #[test]
    fn json_on_one_line_is_the_same_json_and_one_line(value in any_json()) {
        let line = one_line(Bytes::from(written(&value, true)));
        prop_assert_eq!(lines([&line[..], b"\n"]), [line.clone()]);
        prop_assert_eq!(serde_json::from_slice::<Value>(&line).unwrap(), value);
    }

    #[test]
    fn a_member_that_is_set_is_there_and_all_others_are_as_before(
        object in any_object(),
        (key, new) in (any_key(), any_json()),
        pretty in any::<bool>(),
    ) {
        let raw = Raw::parse(written(&object, pretty)).unwrap();
        let changed = raw.with(&key, &Raw::from_serialize(&new));
        prop_assert_eq!(value_of(&changed.member(&key).unwrap()), new.clone());
        let mut expected = object;
        expected[&key] = new;
        prop_assert_eq!(value_of(&changed), expected);
    }

    #[test]
    fn members_that_are_taken_out_are_gone_and_all_others_are_as_before(
        object in any_object(),
        key in any_key(),
        pretty in any::<bool>(),
    ) {
        let raw = Raw::parse(written(&object, pretty)).unwrap();
        let mut expected = object;
        expected.as_object_mut().unwrap().remove(&key);
        prop_assert_eq!(value_of(&raw.without(&[&key])), expected);
    }

    #[test]
    fn a_request_is_read_as_it_was_written(
        id in prop_oneof![any::<u64>().prop_map(Id::number), any::<String>().prop_map(|text| Id::string(&text))],
        method in "[a-z]{1,8}/[a-zA-Z]{1,8}",
        params in prop::option::of(any_object()),
    ) {
        let params = params.map(Raw::from);
        let message = Message::Request(RequestMessage { id, method: Method::new(&method), params: params.map(Into::into) });
        match Incoming::parse(&message.render()) {
            Ok(Incoming::One(read)) => prop_assert_eq!(read, message),
            other => prop_assert!(false, "{:?}", other),
        }
    }

    #[test]
    fn text_that_is_not_json_is_not_a_message(
        object in any_object(),
        at in any::<prop::sample::Index>(),
        damage in prop_oneof![any::<u8>(), prop::sample::select(b"\"\\{}[],:0-.eu\n".to_vec())],
    ) {
        let mut bytes = json!({ "jsonrpc": "2.0", "id": 1, "method": "a/b", "params": object, "type": "register" })
            .to_string()
            .into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = damage;
        let is_json = serde_json::from_slice::<Box<serde_json::value::RawValue>>(&bytes).is_ok();
        let bytes = Bytes::from(bytes);
        prop_assert!(is_json || Incoming::parse(&bytes).is_err());
        prop_assert!(is_json || AppMessage::parse(&bytes).is_err());
    }

    #[test]
    fn garbage_is_survived(bytes in any_stream()) {
        let bytes = Bytes::from(bytes);
        let is_object = serde_json::from_slice::<Map<String, Value>>(&bytes).is_ok();
        prop_assert!(is_object || AppMessage::parse(&bytes).is_err());
        // A batch is a list.
        prop_assert!(is_object || !matches!(Incoming::parse(&bytes), Ok(Incoming::One(_))));
    }

    #[test]
    fn a_token_is_good_once_and_no_other_is_good(
        client in "[A-Za-z][A-Za-z0-9:_-]{0,20}",
        now in 1_000_000_000_u64..4_000_000_000,
        at in any::<prop::sample::Index>(),
        other in any::<char>(),
    ) {
        let secret = Secret::parse("MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=").unwrap();
        let rules = Rules { secrets: vec![secret.clone()], window: Rules::WINDOW, skew: Rules::SKEW };
        let (mut checker, token) = (Checker::new(rules), secret.mint(&client, now));
        let at = at.index(token.len());
        let mut forged = token.clone();
        forged.replace_range(at..=at, &other.to_string());
        prop_assert!(forged == token || checker.check(&forged, now).is_err(), "{}", forged);
        prop_assert_eq!(checker.check(&token, now).map(|used| used.client), Ok(client));
        prop_assert_eq!(checker.check(&token, now), Err(BadToken::Used));
    }
}
