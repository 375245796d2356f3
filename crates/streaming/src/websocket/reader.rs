//! [`FrameReader`]: the frames of a client.

/// Maximum payload of a control frame.
const MAX_CONTROL_BYTES: u64 = 125;
/// Maximum length of a frame: the highest bit must be zero; section 5.2.
const MAX_LENGTH: u64 = u64::MAX >> 1;

/// A violation of the protocol by the client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ProtocolError(pub(crate) &'static str);

/// What a client sent.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// A piece of a message. Messages are not collected: a piece is what has been received.
    Data {
        /// Whether it is the first piece of a message.
        is_first: bool,
        /// Whether it is the last piece of a message.
        is_last: bool,
        /// The bytes, unmasked.
        bytes: Vec<u8>,
    },
    /// A ping, which is to be sent back as a pong.
    Ping(Vec<u8>),
    /// The client closes the connection.
    Close,
}

/// Reads frames from a stream of bytes.
#[derive(Debug, Default)]
pub struct FrameReader {
    bytes: Vec<u8>,
    /// The data frame whose payload is being received.
    frame: Option<DataFrame>,
    /// Whether a message has begun and not ended, so that a continuation frame is next.
    in_message: bool,
}

#[derive(Debug)]
struct DataFrame {
    /// Number of bytes of the payload that have not been received.
    remaining: u64,
    mask: [u8; 4],
    is_first: bool,
    is_final: bool,
}

/// The head of a frame.
struct Head {
    is_final: bool,
    opcode: u8,
    mask: [u8; 4],
    /// Where the payload starts.
    start: usize,
    length: u64,
}

// === impl FrameReader ===

impl FrameReader {
    /// Adds received bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next event; `None` until more bytes come.
    pub fn next_event(&mut self) -> Result<Option<Event>, ProtocolError> {
        loop {
            if let Some(frame) = &mut self.frame {
                if self.bytes.is_empty() && frame.remaining > 0 {
                    return Ok(None);
                }
                let event = frame.take(&mut self.bytes);
                if frame.remaining == 0 {
                    self.frame = None;
                }
                return Ok(Some(event));
            }
            let Some(head) = Head::parse(&self.bytes)? else {
                return Ok(None);
            };
            match head.opcode {
                0..=2 => self.begin_data(&head)?,
                _ => match self.control(&head)? {
                    Control::Incomplete => return Ok(None),
                    Control::Skipped => {}
                    Control::Event(event) => return Ok(Some(event)),
                },
            }
        }
    }

    fn begin_data(&mut self, head: &Head) -> Result<(), ProtocolError> {
        let is_first = head.opcode != 0;
        if is_first == self.in_message {
            return Err(ProtocolError("fragments of messages are out of order"));
        }
        self.in_message = !head.is_final;
        self.bytes.drain(..head.start);
        self.frame = Some(DataFrame {
            remaining: head.length,
            mask: head.mask,
            is_first,
            is_final: head.is_final,
        });
        Ok(())
    }

    fn control(&mut self, head: &Head) -> Result<Control, ProtocolError> {
        if head.length > MAX_CONTROL_BYTES {
            return Err(ProtocolError("control frame payload exceeds 125 bytes"));
        }
        if !head.is_final {
            return Err(ProtocolError("control frame is fragmented"));
        }
        let end = head.start + head.length as usize;
        if self.bytes.len() < end {
            return Ok(Control::Incomplete);
        }
        let frame: Vec<u8> = self.bytes.drain(..end).collect();
        let mut payload = frame[head.start..].to_vec();
        unmask(&mut payload, head.mask);
        match head.opcode {
            8 => Ok(Control::Event(Event::Close)),
            9 => Ok(Control::Event(Event::Ping(payload))),
            10 => Ok(Control::Skipped),
            _ => Err(ProtocolError("frame has a reserved opcode")),
        }
    }
}

enum Control {
    Incomplete,
    Skipped,
    Event(Event),
}

// === impl DataFrame ===

impl DataFrame {
    /// Takes what has been received of the payload.
    fn take(&mut self, received: &mut Vec<u8>) -> Event {
        let count = received
            .len()
            .min(usize::try_from(self.remaining).unwrap_or(usize::MAX));
        let mut bytes: Vec<u8> = match count == received.len() {
            true => std::mem::take(received),
            false => received.drain(..count).collect(),
        };
        unmask(&mut bytes, self.mask);
        self.mask.rotate_left(count % 4);
        self.remaining -= count as u64;
        let is_first = std::mem::take(&mut self.is_first);
        Event::Data {
            is_first,
            is_last: self.remaining == 0 && self.is_final,
            bytes,
        }
    }
}

// === impl Head ===

impl Head {
    /// Parses the head of a frame; `None` if it is not complete.
    fn parse(bytes: &[u8]) -> Result<Option<Self>, ProtocolError> {
        let Some(head) = Self::split(bytes) else {
            return Ok(None);
        };
        if bytes[0] & 0x70 != 0 {
            return Err(ProtocolError("frame has a reserved bit"));
        }
        if bytes[1] & 0x80 == 0 {
            return Err(ProtocolError("client frame is not masked"));
        }
        if head.length > MAX_LENGTH {
            return Err(ProtocolError("frame length exceeds 63 bits"));
        }
        if matches!(head.opcode, 3..=7 | 11..) {
            return Err(ProtocolError("frame has a reserved opcode"));
        }
        Ok(Some(head))
    }

    fn split(bytes: &[u8]) -> Option<Self> {
        let (first, second) = (*bytes.first()?, *bytes.get(1)?);
        let (length, next) = match second & 0x7f {
            126 => (
                u64::from(u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?)),
                4,
            ),
            127 => (u64::from_be_bytes(bytes.get(2..10)?.try_into().ok()?), 10),
            short => (u64::from(short), 2),
        };
        let is_masked = second & 0x80 != 0;
        let mask = match is_masked {
            true => bytes.get(next..next + 4)?.try_into().ok()?,
            false => [0; 4],
        };
        Some(Self {
            is_final: first & 0x80 != 0,
            opcode: first & 0x0f,
            mask,
            start: if is_masked { next + 4 } else { next },
            length,
        })
    }
}

fn unmask(bytes: &mut [u8], mask: [u8; 4]) {
    for (byte, mask) in bytes.iter_mut().zip(mask.iter().cycle()) {
        *byte ^= mask;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame as a client sends it.
    fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![first, 0x80 | payload.len() as u8, 1, 2, 3, 4];
        let mut masked = payload.to_vec();
        unmask(&mut masked, [1, 2, 3, 4]);
        frame.extend(masked);
        frame
    }

    /// The events of these bytes, one received at a time.
    fn events(bytes: &[u8]) -> Result<Vec<Event>, ProtocolError> {
        let mut reader = FrameReader::default();
        let mut events = Vec::new();
        for byte in bytes {
            reader.push(&[*byte]);
            while let Some(event) = reader.next_event()? {
                events.push(event);
            }
        }
        Ok(events)
    }

    #[track_caller]
    fn check_error(bytes: &[u8], expected: &'static str) {
        assert_eq!(events(bytes), Err(ProtocolError(expected)));
    }

    #[test]
    fn violations_of_the_protocol_are_errors() {
        check_error(
            &[&[0x81, 0xff][..], &[0xff; 8], &[0; 4]].concat(),
            "frame length exceeds 63 bits",
        );
        check_error(&[0x89, 0], "client frame is not masked");
        check_error(&frame(0xc1, b"a"), "frame has a reserved bit");
        check_error(&frame(0x83, b"a"), "frame has a reserved opcode");
        check_error(&frame(0x09, b"a"), "control frame is fragmented");
        check_error(&frame(0x80, b"a"), "fragments of messages are out of order");
        check_error(
            &[frame(0x01, b"a"), frame(0x81, b"b")].concat(),
            "fragments of messages are out of order",
        );
    }

    #[test]
    fn pings_and_closes_are_events_and_pongs_are_not() {
        let bytes = [
            frame(0x89, b"are you there"),
            frame(0x8a, b""),
            frame(0x88, b"\x03\xe8"),
        ];
        assert_eq!(
            events(&bytes.concat()),
            Ok(vec![Event::Ping(b"are you there".to_vec()), Event::Close])
        );
    }

    #[test]
    fn a_ping_between_the_fragments_of_a_message_is_allowed() {
        let bytes = [frame(0x02, b"a"), frame(0x89, b""), frame(0x80, b"b")];
        let piece = |is_first, is_last, bytes: &[u8]| Event::Data {
            is_first,
            is_last,
            bytes: bytes.to_vec(),
        };
        assert_eq!(
            events(&bytes.concat()),
            Ok(vec![
                piece(true, false, b"a"),
                Event::Ping(Vec::new()),
                piece(false, true, b"b"),
            ])
        );
    }

    #[test]
    fn a_long_message_is_delivered_as_it_comes() {
        let mut reader = FrameReader::default();
        reader.push(&[0x82, 0xff, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(reader.next_event(), Ok(None));
        let mut received = 0;
        for _ in 0..16 {
            reader.push(&[7; 4096]);
            let Ok(Some(Event::Data {
                bytes,
                is_last,
                is_first,
            })) = reader.next_event()
            else {
                panic!("there is a piece");
            };
            assert_eq!(is_first, received == 0);
            received += bytes.len();
            assert_eq!(is_last, received == 65536);
        }
        assert_eq!(received, 65536);
    }
}
