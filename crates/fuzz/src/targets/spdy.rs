//! SPDY frames: the events of a connection do not depend on how it is cut into pieces, and headers stay within their limit.

use setpoint_streaming::spdy::{BlockWriter, Event, FrameReader, FrameWriter, HeaderBlock};

use super::Target;

pub(super) const TARGET: Target = Target {
    name: "spdy",
    cost: 2,
    seeds,
    run,
};

/// The limit of a header block, and some more for names that are not UTF-8.
const MAX_HEADER_BYTES: usize = 3 * (128 << 10);

fn seeds() -> Vec<Vec<u8>> {
    let mut opened = Vec::new();
    let mut headers = BlockWriter::default();
    for (id, stream) in [(1_u32, "error"), (3, "stdin")] {
        let block = HeaderBlock(vec![("streamtype".to_owned(), stream.to_owned())]);
        let mut payload = id.to_be_bytes().to_vec();
        payload.extend([0; 6]);
        headers.write(&block, &mut payload);
        opened.extend(control(1, &payload));
    }
    let mut writer = FrameWriter::default();
    let mut data = opened.clone();
    writer.data(3, b"hello", &mut data);
    writer.finish(3, &mut data);
    let mut others = Vec::new();
    writer.ping(1, &mut others);
    writer.reset(3, 5, &mut others);
    writer.go_away(3, &mut others);
    others.extend(control(4, &[0; 12]));
    others.extend(control(9, &[0; 8]));
    vec![opened, data, others, compressed()]
}

/// A stream whose headers zlib compressed with the dictionary: `streamtype: error`.
fn compressed() -> Vec<u8> {
    control(1, include_bytes!("../../corpus/spdy/syn-stream.bin"))
}

fn control(kind: u8, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    let head = [0x80, 3, 0, kind, 0, length[1], length[2], length[3]];
    [&head[..], payload].concat()
}

fn run(bytes: &[u8]) {
    let whole = events(&[bytes]);
    let pieces: Vec<&[u8]> = bytes.chunks(5).collect();
    assert_eq!(events(&pieces), whole);
    for event in &whole.0 {
        if let Event::SynStream { headers, .. } = event {
            let length: usize = headers
                .0
                .iter()
                .map(|(name, value)| name.len() + value.len())
                .sum();
            assert!(length <= MAX_HEADER_BYTES, "{length} bytes of headers");
        }
    }
}

/// The events of a connection with adjacent data of a stream joined, and whether it broke the protocol.
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
    match (events.last_mut(), event) {
        (
            Some(Event::Data {
                id,
                bytes,
                is_last: was_last @ false,
            }),
            Event::Data {
                id: next,
                bytes: more,
                is_last,
            },
        ) if *id == next => {
            bytes.extend(more);
            *was_last = is_last;
        }
        (_, event) => events.push(event),
    }
}
