//! A stream yields the same lines and events wherever it is cut; the first byte selects where.
#![no_main]

use libfuzzer_sys::fuzz_target;
use toolyard_proto::codec::line::LineDecoder;
use toolyard_proto::codec::sse::{Event, EventDecoder};

const LIMIT: usize = 1 << 20;

fuzz_target!(|raw: &[u8]| {
    let Some((cut, stream)) = raw.split_first() else { return };
    let (first, rest) = stream.split_at(usize::from(*cut).min(stream.len()));
    assert_eq!(events(&[first, rest]), events(&[stream]));
    assert_eq!(lines(&[first, rest]), lines(&[stream]));
});

fn events(pieces: &[&[u8]]) -> Vec<Event> {
    let mut decoder = EventDecoder::new(LIMIT);
    let mut events = Vec::new();
    for piece in pieces {
        decoder.feed(piece);
        while let Ok(Some(event)) = decoder.next_event() {
            events.push(event);
        }
    }
    events
}

fn lines(pieces: &[&[u8]]) -> Vec<Vec<u8>> {
    let mut decoder = LineDecoder::new(LIMIT);
    let mut lines = Vec::new();
    for piece in pieces {
        decoder.buffer().extend_from_slice(piece);
        while let Ok(Some(line)) = decoder.next_line() {
            lines.push(line.to_vec());
        }
    }
    lines
}
