//! WebSockets (RFC 6455), as far as a server needs them: handshake and frames.
//!
//! Nothing here does I/O: the connection's task feeds a [`FrameReader`] and sends what [`write()`] appends.

mod handshake;
mod reader;

pub use handshake::{accept, is_upgrade, requested_protocols};
pub use reader::{Event, FrameReader, ProtocolError};

/// Status code of a normal closure.
const NORMAL_CLOSURE: [u8; 2] = 1000_u16.to_be_bytes();

/// Opcode of a frame that the server sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opcode {
    /// A message of text.
    Text = 1,
    /// A message of bytes.
    Binary = 2,
    /// The end of the connection.
    Close = 8,
    /// The response to a ping.
    Pong = 10,
}

/// Appends one frame. A server's frames are not masked.
pub fn write(kind: Opcode, payload: &[u8], out: &mut Vec<u8>) {
    write_head(kind, payload.len(), out);
    out.extend_from_slice(payload);
}

/// Appends the head of a frame, whose payload follows.
pub(crate) fn write_head(kind: Opcode, length: usize, out: &mut Vec<u8>) {
    out.reserve(length + 10);
    out.push(0x80 | kind as u8);
    match length {
        length @ 0..=125 => out.push(length as u8),
        length @ 126..=0xffff => {
            out.push(126);
            out.extend_from_slice(&(length as u16).to_be_bytes());
        }
        length => {
            out.push(127);
            out.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
}

/// Appends a close frame of a normal closure.
pub fn write_close(out: &mut Vec<u8>) {
    write(Opcode::Close, &NORMAL_CLOSURE, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_written(length: usize, head: &[u8]) {
        let mut out = Vec::new();
        write(Opcode::Text, &vec![b'x'; length], &mut out);
        assert_eq!(&out[..head.len()], head, "{length}");
        assert_eq!(out.len(), head.len() + length, "{length}");
    }

    #[test]
    fn the_length_takes_as_many_bytes_as_it_needs() {
        check_written(0, &[0x81, 0]);
        check_written(125, &[0x81, 125]);
        check_written(126, &[0x81, 126, 0, 126]);
        check_written(65536, &[0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0]);
    }
}
