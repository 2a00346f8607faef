//! The hand-written serialization equals that of the library.

use toolyard_proto::modern::stamp_result;

use super::*;

fn check(content: Content) {
    let bare = content.clone().into_raw(None);
    let value = |raw: &Raw| raw.read::<Value>().unwrap();
    assert_eq!(bare.as_str(), value(&bare).to_string());
    let info = json!({ "name": "n", "version": "1" });
    let server: Box<RawValue> = serde_json::value::to_raw_value(&info).unwrap();
    let stamped = content.into_raw(Some(&server));
    assert_eq!(stamped.as_str(), value(&stamped).to_string());
    assert_eq!(value(&stamped), value(&stamp_result(&bare, Some(&info.into()))));
}

#[test]
fn a_result_is_written_as_the_library_writes_it() {
    check(Content::new());
    check(Content::new().text(""));
    check(Content::new().text("plain é \u{7f}\u{2028}"));
    check(Content::new().text("\"quoted\" \\ \n\r\t\u{8}\u{c}\u{0}\u{1f} /"));
    check(Content::new().text("a").text("b").image("image/png", b"\x89PNG").link("file:///é", "\"é\""));
    check(Content::new().text("for you").meant_for(&["user"], 0.5).text("for all"));
    check(Content::new().block(json!({ "type": "other" })).meant_for(&[], 1.0));
    check(Content::new().text("x").structured(&json!({ "z": [1, 2.5, null], "a": {} })).failed());
    check(Content::new().structured(&7).member("more", 1).member("\"odd\"", json!([])));
    check(Content::new().member("resultType", "own"));
    check(Content::new().meta("a", 1).meta("b\n", json!({ "c": true })));
    check(Content::new().meta(SERVER_INFO, "another").text("x"));
}
