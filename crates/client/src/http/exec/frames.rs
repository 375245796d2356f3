//! WebSocket frames of a server (RFC 6455), and the one that a client sends in return.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

/// The largest payload of a control frame.
const MAX_CONTROL_BYTES: u64 = 125;

/// What the server has sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// A whole message.
    Message(Vec<u8>),
    /// The response is a pong with the same payload.
    Ping(Vec<u8>),
    /// The server closes the connection.
    Close,
}

/// Reads frames from a stream of bytes.
#[derive(Debug)]
pub(super) struct FrameReader {
    bytes: Vec<u8>,
    /// The fragments of the message so far.
    message: Vec<u8>,
    max_bytes: usize,
}

/// A violation of the protocol by the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct ProtocolError(&'static str);

impl FrameReader {
    /// A larger message is an error. The byte of the channel is not counted.
    pub(super) fn new(max_bytes: usize) -> Self {
        Self {
            bytes: Vec::new(),
            message: Vec::new(),
            max_bytes: max_bytes.saturating_add(1),
        }
    }

    /// Adds received bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next frame or message; `None` until more bytes come.
    pub(super) fn next_frame(&mut self) -> Result<Option<Frame>, ProtocolError> {
        while let Some((start, length)) = self.head()? {
            let Some(end) = start.checked_add(length).filter(|end| *end <= self.bytes.len()) else {
                return Ok(None);
            };
            let (is_final, opcode) = (self.bytes[0] & 0x80 != 0, self.bytes[0] & 0x0f);
            let payload = self.bytes[start..end].to_vec();
            self.bytes.drain(..end);
            match opcode {
                0..=2 => {
                    if self.message.len() + payload.len() > self.max_bytes {
                        return Err(ProtocolError("a message is too large"));
                    }
                    self.message.extend_from_slice(&payload);
                    if is_final {
                        return Ok(Some(Frame::Message(std::mem::take(&mut self.message))));
                    }
                }
                8 => return Ok(Some(Frame::Close)),
                9 => return Ok(Some(Frame::Ping(payload))),
                10 => {}
                _ => return Err(ProtocolError("a frame has a reserved opcode")),
            }
        }
        Ok(None)
    }

    /// The start and the length of the payload of the next frame.
    fn head(&self) -> Result<Option<(usize, usize)>, ProtocolError> {
        let [first, second, rest @ ..] = self.bytes.as_slice() else {
            return Ok(None);
        };
        if first & 0x70 != 0 || second & 0x80 != 0 {
            return Err(ProtocolError("a frame has reserved bits or a mask"));
        }
        let extended = match second {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        let Some(bytes) = rest.get(..extended) else {
            return Ok(None);
        };
        let length = match extended {
            0 => u64::from(*second),
            _ => bytes
                .iter()
                .fold(0, |length, byte| (length << 8) | u64::from(*byte)),
        };
        let limit = match first & 0x08 {
            0 => self.max_bytes as u64,
            _ => MAX_CONTROL_BYTES,
        };
        if length > limit {
            return Err(ProtocolError("a message is too large"));
        }
        Ok(Some((2 + extended, length as usize)))
    }
}

/// The response to a ping. Frames of a client are masked.
pub(super) fn pong(payload: &[u8]) -> Vec<u8> {
    let mask = random::<4>();
    let mut frame = vec![0x8a, 0x80 | payload.len() as u8];
    frame.extend_from_slice(&mask);
    frame.extend(
        payload
            .iter()
            .zip(mask.iter().cycle())
            .map(|(byte, mask)| byte ^ mask),
    );
    frame
}

/// Random bytes, for keys and masks, which are no secrets.
pub(super) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    for chunk in bytes.chunks_mut(8) {
        let random = RandomState::new().build_hasher().finish().to_ne_bytes();
        chunk.copy_from_slice(&random[..chunk.len()]);
    }
    bytes
}
