//! Frames of gRPC messages: a flag byte, the length in four bytes, the message.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::{Code, Status};

/// The length of the flag and the length in front of each message.
const HEADER_BYTES: usize = 5;

/// The largest message that is accepted.
const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// The message in a frame, not compressed.
pub(crate) fn encode(message: &[u8]) -> Bytes {
    let length = u32::try_from(message.len()).expect("requests are smaller than 4 GiB");
    let mut frame = BytesMut::with_capacity(HEADER_BYTES + message.len());
    frame.put_u8(0);
    frame.put_u32(length);
    frame.put_slice(message);
    frame.freeze()
}

/// Received bytes that are cut into messages.
#[derive(Debug, Default)]
pub(crate) struct FrameReader {
    buffer: BytesMut,
}

impl FrameReader {
    pub(crate) fn push(&mut self, data: &[u8]) {
        self.buffer.extend_from_slice(data);
    }

    /// Checks that the stream did not end inside a message.
    pub(crate) fn finish(&self) -> Result<(), Status> {
        match self.is_empty() {
            true => Ok(()),
            false => Err(Status::new(Code::INTERNAL, "the stream ended inside a message")),
        }
    }

    /// Whether all received bytes were returned.
    pub(crate) fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// The next message, once all of it was received.
    pub(crate) fn next_frame(&mut self) -> Result<Option<Bytes>, Status> {
        let Some([flag, a, b, c, d]) = self.buffer.first_chunk::<HEADER_BYTES>().copied() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        if flag != 0 || length > MAX_MESSAGE_BYTES {
            let message = format!("invalid frame: flag {flag}, {length} bytes");
            return Err(Status::new(Code::INTERNAL, message));
        }
        if self.buffer.len() < HEADER_BYTES + length {
            return Ok(None);
        }
        self.buffer.advance(HEADER_BYTES);
        Ok(Some(self.buffer.split_to(length).freeze()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_arrives_in_pieces_is_returned_once_it_is_whole() {
        let frame = encode(b"abc");
        let mut reader = FrameReader::default();
        for byte in &frame[..frame.len() - 1] {
            reader.push(&[*byte]);
            assert_eq!(reader.next_frame().unwrap(), None);
        }
        reader.push(b"c");
        assert_eq!(reader.next_frame().unwrap(), Some(Bytes::from_static(b"abc")));
        assert_eq!(reader.next_frame().unwrap(), None);
    }

    #[test]
    fn a_stream_that_ends_inside_a_message_is_an_error() {
        let mut reader = FrameReader::default();
        assert_eq!(reader.finish(), Ok(()));
        reader.push(&encode(b"abc")[..7]);
        assert_eq!(reader.next_frame(), Ok(None));
        assert_eq!(reader.finish().unwrap_err().code, Code::INTERNAL);
        reader.push(b"c");
        reader.next_frame().unwrap().unwrap();
        assert_eq!(reader.finish(), Ok(()));
    }

    #[test]
    fn a_compressed_message_is_an_error() {
        let mut reader = FrameReader::default();
        reader.push(&[1, 0, 0, 0, 0]);
        assert!(reader.next_frame().is_err());
    }
}
