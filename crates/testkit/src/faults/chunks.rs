//! Chunked transfer encoding of HTTP/1.1.

/// Decodes a chunked body as it arrives.
#[derive(Debug, Default)]
pub(super) struct ChunkDecoder {
    /// Received bytes of an incomplete chunk.
    rest: Vec<u8>,
    ended: bool,
}

impl ChunkDecoder {
    /// Adds received bytes; returns the data of the chunks that are complete now.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.rest.extend_from_slice(bytes);
        let mut decoded = Vec::new();
        while let Some((head, length)) = self.next_head() {
            let end = head + length + 2;
            if self.rest.len() < end {
                break;
            }
            decoded.extend_from_slice(&self.rest[head..head + length]);
            self.ended |= length == 0;
            self.rest.drain(..end);
        }
        decoded
    }

    /// Whether the last chunk has arrived.
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Where the data of the next chunk begins, and its length.
    fn next_head(&self) -> Option<(usize, usize)> {
        match httparse::parse_chunk_size(&self.rest) {
            Ok(httparse::Status::Complete((head, length))) => Some((head, usize::try_from(length).ok()?)),
            _ => None,
        }
    }
}

/// The bytes as one chunk.
pub(super) fn chunk(bytes: &[u8]) -> Vec<u8> {
    let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
    chunk.extend_from_slice(bytes);
    chunk.extend_from_slice(b"\r\n");
    chunk
}

/// The end of a chunked body.
pub(super) const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_may_come_in_pieces_of_any_size() {
        let body = [chunk(b"one\n"), chunk(b"two"), LAST_CHUNK.to_vec()].concat();
        for size in 1..body.len() {
            let (mut chunks, mut decoded) = (ChunkDecoder::default(), Vec::new());
            for piece in body.chunks(size) {
                assert!(!chunks.has_ended());
                decoded.extend(chunks.push(piece));
            }
            assert_eq!((decoded.as_slice(), chunks.has_ended()), (&b"one\ntwo"[..], true));
        }
    }
}
