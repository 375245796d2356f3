//! Decompression of gzip bodies.
//!
//! A list is one gzip member; a watch may be several, one after the other, and each chunk of it must be readable when it
//! arrives.

use std::io::{self, Write};

use ::http::{HeaderMap, header};
use bytes::Bytes;
use flate2::write::MultiGzDecoder;

/// Decompresses a body as it arrives.
pub(crate) struct GzipDecoder(MultiGzDecoder<Vec<u8>>);

/// Whether the body of the response is gzip, the only encoding that is requested.
pub(crate) fn is_gzipped(headers: &HeaderMap) -> bool {
    let encoding = headers.get(header::CONTENT_ENCODING);
    encoding.is_some_and(|encoding| encoding.as_bytes().eq_ignore_ascii_case(b"gzip"))
}

/// Decompresses a whole body.
pub(crate) fn decompress(compressed: &[u8]) -> io::Result<Bytes> {
    let mut decoder = MultiGzDecoder::new(Vec::with_capacity(compressed.len().saturating_mul(4)));
    decoder.write_all(compressed)?;
    decoder.finish().map(Bytes::from)
}

impl GzipDecoder {
    pub(crate) fn new() -> Self {
        Self(MultiGzDecoder::new(Vec::new()))
    }

    /// Adds a chunk; returns what can be decompressed now.
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

    fn compressed(text: &str) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn several_members_are_one_body() {
        let body = [compressed("one "), compressed("two")].concat();
        assert_eq!(decompress(&body).unwrap(), "one two");
        assert!(decompress(b"not gzip").is_err());
    }

    #[test]
    fn each_member_of_a_stream_can_be_read_when_it_has_arrived() {
        let mut decoder = GzipDecoder::new();
        for text in ["first\n", "second\n", "third\n"] {
            assert_eq!(decoder.push(&compressed(text)).unwrap(), text.as_bytes());
        }
    }

    #[test]
    fn a_member_that_goes_on_can_be_read_up_to_its_last_flush() {
        let (mut encoder, mut decoder, mut sent) = (
            GzEncoder::new(Vec::new(), Compression::default()),
            GzipDecoder::new(),
            0,
        );
        for text in ["first\n", "second\n"] {
            encoder.write_all(text.as_bytes()).unwrap();
            encoder.flush().unwrap();
            let piece = encoder.get_ref()[sent..].to_vec();
            sent += piece.len();
            assert_eq!(decoder.push(&piece).unwrap(), text.as_bytes());
        }
    }

    #[test]
    fn pieces_may_break_anywhere() {
        let body = [compressed("one\n"), compressed("two\n")].concat();
        let (mut decoder, mut text) = (GzipDecoder::new(), Vec::new());
        for byte in body {
            text.extend(decoder.push(&[byte]).unwrap());
        }
        assert_eq!(text, b"one\ntwo\n");
    }
}
