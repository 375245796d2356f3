//! WebSocket frames: the frames of a stream do not depend on how it is cut into pieces.

use setpoint_apiserver::websocket::{ControlFrame, FrameReader};

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
    ]
}

fn run(bytes: &[u8]) {
    let whole = frames(&[bytes]);
    let pieces: Vec<&[u8]> = bytes.chunks(3).collect();
    assert_eq!(frames(&pieces), whole);
}

/// The frames of a stream, and whether it broke the protocol.
fn frames(pieces: &[&[u8]]) -> (Vec<ControlFrame>, bool) {
    let (mut reader, mut frames) = (FrameReader::default(), Vec::new());
    for piece in pieces {
        reader.push(piece);
        loop {
            match reader.next_frame() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(_) => return (frames, true),
            }
        }
    }
    (frames, false)
}
