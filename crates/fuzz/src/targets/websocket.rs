//! WebSocket frames: the messages of a stream do not depend on how it is cut into pieces.

use setpoint_streaming::websocket::{Event, FrameReader};

use super::Target;

pub(super) const TARGET: Target = Target {
    name: "websocket",
    cost: 1,
    seeds,
    run,
};

fn seeds() -> Vec<Vec<u8>> {
    vec![
        // A masked ping, a masked text of 16-bit length, a masked close.
        b"\x89\x84\x01\x02\x03\x04abcd".to_vec(),
        [
            &b"\x81\xfe\x00\xc8\x01\x02\x03\x04"[..],
            &[b'x'; 200],
            b"\x88\x80\0\0\0\0",
        ]
        .concat(),
        b"\x82\xff\x00\x00\x00\x00\x00\x00\x00\x03\x01\x02\x03\x04abc\x89\x80\0\0\0\0".to_vec(),
        b"\x8a\x81\x01\x02\x03\x04a\x01\x80\0\0\0\0\x80\x80\0\0\0\0".to_vec(),
        // A channel's data, its close by version 5, and a fragmented message with a ping between its frames.
        b"\x82\x83\0\0\0\0\0hi\x82\x82\0\0\0\0\xff\0".to_vec(),
        b"\x02\x82\x01\x02\x03\x04ab\x89\x80\0\0\0\0\x80\x81\x01\x02\x03\x04c".to_vec(),
    ]
}

fn run(bytes: &[u8]) {
    let whole = events(&[bytes]);
    let pieces: Vec<&[u8]> = bytes.chunks(3).collect();
    assert_eq!(events(&pieces), whole);
    let received: usize = whole.0.iter().map(length).sum();
    assert!(received <= bytes.len(), "{received} bytes of {}", bytes.len());
}

/// The events of a stream with the pieces of each message joined, and whether it broke the protocol.
fn events(pieces: &[&[u8]]) -> (Vec<Event>, bool) {
    let (mut reader, mut events) = (FrameReader::default(), Vec::new());
    for piece in pieces {
        reader.push(piece);
        loop {
            match reader.next_event() {
                Ok(Some(event)) => add(&mut events, event),
                Ok(None) => break,
                Err(_) => return (events, true),
            }
        }
    }
    (events, false)
}

fn add(events: &mut Vec<Event>, event: Event) {
    let Event::Data {
        is_first: false,
        is_last,
        bytes,
    } = event
    else {
        events.push(event);
        return;
    };
    let is_open = |event: &&mut Event| matches!(event, Event::Data { is_last: false, .. });
    let message = events.iter_mut().rev().find(is_open);
    let Some(Event::Data {
        is_last: was_last,
        bytes: joined,
        ..
    }) = message
    else {
        panic!("a continuation has a message");
    };
    joined.extend(bytes);
    *was_last = is_last;
}

fn length(event: &Event) -> usize {
    match event {
        Event::Data { bytes, .. } | Event::Ping(bytes) => bytes.len(),
        Event::Close => 0,
    }
}
