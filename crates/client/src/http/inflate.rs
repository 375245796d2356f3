//! Bodies that come compressed.
//!
//! A list is one gzip member; a watch may be several, one after the other, and each piece of it must be readable when it
//! arrives.

use std::io::{self, Write};

use ::http::{HeaderMap, header};
use bytes::Bytes;
use flate2::write::MultiGzDecoder;

/// A body that is unpacked as it comes.
pub(crate) struct Inflate(MultiGzDecoder<Vec<u8>>);

/// Whether the body of this answer is compressed in the one way that was asked for.
pub(crate) fn is_packed(headers: &HeaderMap) -> bool {
    let encoding = headers.get(header::CONTENT_ENCODING);
    encoding.is_some_and(|encoding| encoding.as_bytes().eq_ignore_ascii_case(b"gzip"))
}

/// The whole of a compressed body.
pub(crate) fn whole(packed: &[u8]) -> io::Result<Bytes> {
    let mut inflate = MultiGzDecoder::new(Vec::with_capacity(packed.len().saturating_mul(4)));
    inflate.write_all(packed)?;
    inflate.finish().map(Bytes::from)
}

impl Inflate {
    pub(crate) fn new() -> Self {
        Self(MultiGzDecoder::new(Vec::new()))
    }

    /// What can be read once this piece has come.
    pub(crate) fn push(&mut self, piece: &[u8]) -> io::Result<Vec<u8>> {
        self.0.write_all(piece)?;
        self.0.flush()?;
        Ok(std::mem::take(self.0.get_mut()))
    }
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn packed(text: &str) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn several_members_are_one_body() {
        let body = [packed("one "), packed("two")].concat();
        assert_eq!(whole(&body).unwrap(), "one two");
        assert!(whole(b"not gzip").is_err());
    }

    #[test]
    fn each_member_of_a_stream_can_be_read_when_it_has_come() {
        let mut inflate = Inflate::new();
        for text in ["first\n", "second\n", "third\n"] {
            assert_eq!(inflate.push(&packed(text)).unwrap(), text.as_bytes());
        }
    }

    #[test]
    fn a_member_that_goes_on_can_be_read_up_to_its_last_flush() {
        let (mut encoder, mut inflate, mut sent) = (
            GzEncoder::new(Vec::new(), Compression::default()),
            Inflate::new(),
            0,
        );
        for text in ["first\n", "second\n"] {
            encoder.write_all(text.as_bytes()).unwrap();
            encoder.flush().unwrap();
            let piece = encoder.get_ref()[sent..].to_vec();
            sent += piece.len();
            assert_eq!(inflate.push(&piece).unwrap(), text.as_bytes());
        }
    }

    #[test]
    fn pieces_may_break_anywhere() {
        let body = [packed("one\n"), packed("two\n")].concat();
        let (mut inflate, mut text) = (Inflate::new(), Vec::new());
        for byte in body {
            text.extend(inflate.push(&[byte]).unwrap());
        }
        assert_eq!(text, b"one\ntwo\n");
    }
}
