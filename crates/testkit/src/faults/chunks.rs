//! Bodies in chunks, as HTTP/1.1 has them where the length is not known.

/// Takes the frame of the chunks off as they come.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    /// What has come and cannot be understood yet.
    rest: Vec<u8>,
    ended: bool,
}

impl Chunks {
    /// What the chunks that are complete by now say.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.rest.extend_from_slice(bytes);
        let mut said = Vec::new();
        while let Some((head, length)) = self.next_head() {
            let end = head + length + 2;
            if self.rest.len() < end {
                break;
            }
            said.extend_from_slice(&self.rest[head..head + length]);
            self.ended |= length == 0;
            self.rest.drain(..end);
        }
        said
    }

    /// Whether the last chunk has come.
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Where the next chunk begins, and how long it is.
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

/// The end of a body in chunks.
pub(super) const LAST: &[u8] = b"0\r\n\r\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_may_come_in_pieces_of_any_size() {
        let body = [chunk(b"one\n"), chunk(b"two"), LAST.to_vec()].concat();
        for size in 1..body.len() {
            let (mut chunks, mut said) = (Chunks::default(), Vec::new());
            for piece in body.chunks(size) {
                assert!(!chunks.has_ended());
                said.extend(chunks.push(piece));
            }
            assert_eq!((said.as_slice(), chunks.has_ended()), (&b"one\ntwo"[..], true));
        }
    }
}
