//! [`FrameReader`]: frames of the peer.

use super::header_block::{BlockReader, HeaderBlock};
use super::{FLAG_FIN, VERSION, control};

/// Maximum payload of a control frame.
const MAX_CONTROL_BYTES: usize = 64 << 10;
/// Length of the head of every frame.
const HEAD_BYTES: usize = 8;

/// A violation of the protocol by the peer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ProtocolError(pub(crate) &'static str);

/// What the peer sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The peer, a client, opens a stream.
    SynStream {
        /// The stream.
        id: u32,
        /// Its headers.
        headers: HeaderBlock,
        /// Whether the peer sends nothing on it.
        is_last: bool,
    },
    /// A piece of a stream's data. Frames are not collected: a piece is what has been received.
    Data {
        /// The stream.
        id: u32,
        /// The bytes.
        bytes: Vec<u8>,
        /// Whether the peer sends nothing more on the stream.
        is_last: bool,
    },
    /// The peer aborts a stream.
    Reset(u32),
    /// A ping, which is to be sent back.
    Ping(u32),
    /// The peer opens no more streams.
    GoAway,
    /// A frame that needs no response.
    Ignored,
}

/// Reads frames from a stream of bytes.
#[derive(Debug, Default)]
pub struct FrameReader {
    bytes: Vec<u8>,
    headers: BlockReader,
    /// The data frame whose payload is being received.
    frame: Option<DataFrame>,
}

#[derive(Debug)]
struct DataFrame {
    id: u32,
    remaining: usize,
    is_last: bool,
}

// === impl FrameReader ===

impl FrameReader {
    /// Adds received bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next event; `None` until more bytes come.
    pub fn next_event(&mut self) -> Result<Option<Event>, ProtocolError> {
        if self.frame.is_some() {
            return Ok(self.data());
        }
        let Some((head, _)) = self.bytes.split_first_chunk::<HEAD_BYTES>() else {
            return Ok(None);
        };
        let first = u32::from_be_bytes([head[0], head[1], head[2], head[3]]);
        let flags = head[4];
        let length = u32::from_be_bytes([0, head[5], head[6], head[7]]) as usize;
        if first >> 31 == 0 {
            self.bytes.drain(..HEAD_BYTES);
            self.frame = Some(DataFrame {
                id: first,
                remaining: length,
                is_last: flags & FLAG_FIN != 0,
            });
            return Ok(self.data());
        }
        if (first >> 16) as u16 & 0x7fff != VERSION {
            return Err(ProtocolError("control frame is of another version"));
        }
        if length > MAX_CONTROL_BYTES {
            return Err(ProtocolError("control frame is too long"));
        }
        if self.bytes.len() < HEAD_BYTES + length {
            return Ok(None);
        }
        let frame: Vec<u8> = self.bytes.drain(..HEAD_BYTES + length).collect();
        self.control(first as u16, flags, &frame[HEAD_BYTES..]).map(Some)
    }

    /// The next piece of the current data frame.
    fn data(&mut self) -> Option<Event> {
        let frame = self.frame.as_mut()?;
        if self.bytes.is_empty() && frame.remaining > 0 {
            return None;
        }
        let count = self.bytes.len().min(frame.remaining);
        let bytes: Vec<u8> = match count == self.bytes.len() {
            true => std::mem::take(&mut self.bytes),
            false => self.bytes.drain(..count).collect(),
        };
        frame.remaining -= count;
        let event = Event::Data {
            id: frame.id,
            bytes,
            is_last: frame.remaining == 0 && frame.is_last,
        };
        if frame.remaining == 0 {
            self.frame = None;
        }
        Some(event)
    }

    fn control(&mut self, kind: u16, flags: u8, payload: &[u8]) -> Result<Event, ProtocolError> {
        match kind {
            control::SYN_STREAM => self.syn_stream(flags, payload),
            control::RST_STREAM => Ok(Event::Reset(stream_id(payload)?)),
            control::PING => match payload.try_into() {
                Ok(id) => Ok(Event::Ping(u32::from_be_bytes(id))),
                Err(_) => Err(ProtocolError("ping has a wrong length")),
            },
            control::GOAWAY => Ok(Event::GoAway),
            // Their headers belong to the compressed stream, so that they are read even if nothing uses them.
            control::SYN_REPLY | control::HEADERS => {
                let block = payload.get(4..).ok_or(TRUNCATED)?;
                self.headers.read(block).map(|_| Event::Ignored)
            }
            control::SETTINGS | control::WINDOW_UPDATE => Ok(Event::Ignored),
            _ => Ok(Event::Ignored),
        }
    }

    fn syn_stream(&mut self, flags: u8, payload: &[u8]) -> Result<Event, ProtocolError> {
        let id = stream_id(payload)?;
        let block = payload.get(10..).ok_or(TRUNCATED)?;
        let headers = self.headers.read(block)?;
        Ok(Event::SynStream {
            id,
            headers,
            is_last: flags & FLAG_FIN != 0,
        })
    }
}

const TRUNCATED: ProtocolError = ProtocolError("control frame is too short");

fn stream_id(payload: &[u8]) -> Result<u32, ProtocolError> {
    let (id, _) = payload.split_first_chunk::<4>().ok_or(TRUNCATED)?;
    Ok(u32::from_be_bytes(*id) & 0x7fff_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spdy::{BlockWriter, FrameWriter};

    fn control(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let length = (payload.len() as u32).to_be_bytes();
        let head = [0x80, 3, 0, kind, flags, length[1], length[2], length[3]];
        [&head[..], payload].concat()
    }

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

    #[test]
    fn a_stream_is_opened_written_and_closed() {
        let headers = HeaderBlock(vec![("streamtype".to_owned(), "stdin".to_owned())]);
        let mut payload = vec![0, 0, 0, 5, 0, 0, 0, 0, 0, 0];
        BlockWriter::default().write(&headers, &mut payload);
        let mut bytes = control(1, 0, &payload);
        let mut writer = FrameWriter::default();
        writer.data(5, b"a", &mut bytes);
        writer.finish(5, &mut bytes);
        let data = |bytes: &[u8], is_last| Event::Data {
            id: 5,
            bytes: bytes.to_vec(),
            is_last,
        };
        let opened = Event::SynStream {
            id: 5,
            headers,
            is_last: false,
        };
        assert_eq!(
            events(&bytes),
            Ok(vec![opened, data(b"a", false), data(b"", true)])
        );
    }

    #[test]
    fn other_frames_are_read() {
        let bytes = [
            control(6, 0, &[0, 0, 0, 7]),
            control(3, 0, &[0, 0, 0, 9, 0, 0, 0, 5]),
            control(9, 0, &[0; 8]),
            control(7, 0, &[0; 8]),
        ];
        assert_eq!(
            events(&bytes.concat()),
            Ok(vec![
                Event::Ping(7),
                Event::Reset(9),
                Event::Ignored,
                Event::GoAway
            ])
        );
    }

    #[track_caller]
    fn check_error(bytes: &[u8], expected: &'static str) {
        assert_eq!(events(bytes), Err(ProtocolError(expected)));
    }

    #[test]
    fn malformed_frames_are_errors() {
        check_error(
            &[0x80, 2, 0, 1, 0, 0, 0, 0],
            "control frame is of another version",
        );
        check_error(&[0x80, 3, 0, 1, 0, 1, 0, 1], "control frame is too long");
        check_error(&control(1, 0, &[0, 0, 0, 1]), "control frame is too short");
        check_error(&control(3, 0, &[0]), "control frame is too short");
        check_error(&control(6, 0, &[0]), "ping has a wrong length");
    }
}
