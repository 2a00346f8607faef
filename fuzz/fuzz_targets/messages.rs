//! Whatever a peer sends on a line: only JSON becomes a message, and a message that was read is written as
//! one that reads the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::value::RawValue;
use toolyard_proto::app::AppMessage;
use toolyard_proto::splice::find;
use toolyard_proto::{Incoming, Message, RequestMessage};

fuzz_target!(|raw: &[u8]| {
    let bytes = raw.to_vec().into();
    let is_json = serde_json::from_slice::<&RawValue>(raw).is_ok();
    assert!(is_json || AppMessage::parse(&bytes).is_err());
    match Incoming::parse(&bytes) {
        Ok(Incoming::One(message)) => {
            assert!(is_json);
            if let Message::Request(RequestMessage { params: Some(params), .. }) = &message {
                for key in ["name", "arguments", "_meta"] {
                    assert_eq!(params.find(key), find(params.as_bytes(), key));
                }
            }
            assert_eq!(Message::parse(&message.render()), Ok(message));
        }
        Ok(Incoming::Batch(_)) => assert!(is_json),
        Err(_) => {}
    }
});
