//! Gzip compression of long responses, if the client accepts it.
//!
//! Threshold and level are Kubernetes'. A watch is never compressed: its events must not wait for each other.

use std::fmt;
use std::io::{self, Read, Write};
use std::task::{Context, Poll};

use bytes::Bytes;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, VARY};
use http::{HeaderMap, HeaderValue, Response};

use crate::body::{Body, FRAME_BYTES};
use crate::negotiate::header;

/// Responses longer than this are compressed.
const THRESHOLD_BYTES: usize = 128 * 1024;

/// A body compressed frame by frame.
pub struct GzipBody {
    inner: Body,
    /// Bytes of the inner body that are not compressed yet.
    waiting: Bytes,
    /// `None` once the trailer is written.
    encoder: Option<GzEncoder<Vec<u8>>>,
}

/// Compresses a response if it is long and the client accepts gzip, unless it is compressed already.
pub(crate) fn compress(headers: &HeaderMap, response: &mut Response<Body>) {
    let is_long = response
        .body()
        .length()
        .is_some_and(|length| length > THRESHOLD_BYTES);
    if !is_long || !accepts_gzip(headers) || response.headers().contains_key(CONTENT_ENCODING) {
        return;
    }
    let inner = std::mem::replace(response.body_mut(), Body::Empty);
    *response.body_mut() = Body::Gzip(Box::new(GzipBody::new(inner)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
}

/// Whether the client accepts gzip.
pub(crate) fn accepts_gzip(headers: &HeaderMap) -> bool {
    header(headers, &ACCEPT_ENCODING).split(',').any(|coding| {
        let (name, quality) = coding.split_once(';').unwrap_or((coding, ""));
        name.trim() == "gzip" && !matches!(quality.trim(), "q=0" | "q=0.0")
    })
}

/// Compresses bytes that are stored compressed.
pub(crate) fn gzip(bytes: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("writing to memory does not fail");
    encoder.finish().expect("writing to memory does not fail").into()
}

/// Decompresses the bytes of [`gzip`].
pub(crate) fn gunzip(gzip: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut decoder = GzDecoder::new(gzip);
    decoder
        .read_to_end(&mut bytes)
        .expect("the bytes were compressed by this process");
    bytes
}

// === impl GzipBody ===

impl GzipBody {
    fn new(inner: Body) -> Self {
        Self {
            inner,
            waiting: Bytes::new(),
            encoder: Some(GzEncoder::new(Vec::new(), Compression::fast())),
        }
    }

    /// The next compressed bytes. The input per step is bounded, so that one long response does not block its thread.
    pub(crate) fn poll_bytes(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        let Some(encoder) = &mut self.encoder else {
            return Poll::Ready(None);
        };
        loop {
            if self.waiting.is_empty() {
                match self.inner.poll_bytes(context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                    Poll::Ready(Some(Ok(bytes))) => self.waiting = bytes,
                    Poll::Ready(None) => break,
                }
            }
            let taken = self.waiting.split_to(self.waiting.len().min(FRAME_BYTES));
            encoder.write_all(&taken)?;
            let written = encoder.get_mut();
            if written.len() >= FRAME_BYTES / 4 {
                return Poll::Ready(Some(Ok(std::mem::take(written).into())));
            }
        }
        let encoder = self.encoder.take();
        Poll::Ready(encoder.map(|encoder| encoder.finish().map(Bytes::from)))
    }
}

impl fmt::Debug for GzipBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GzipBody")
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// The bytes sent, and whether they are compressed.
    fn sent(accepted: &str, body: Body) -> (Vec<u8>, bool) {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT_ENCODING, accepted.parse().unwrap());
        let mut response = Response::new(body);
        compress(&headers, &mut response);
        let compressed = response.headers().contains_key(CONTENT_ENCODING);
        let mut all = Vec::new();
        let mut context = Context::from_waker(Waker::noop());
        while let Poll::Ready(Some(bytes)) = response.body_mut().poll_bytes(&mut context) {
            all.extend_from_slice(&bytes.unwrap());
        }
        (all, compressed)
    }

    #[track_caller]
    fn check(accepted: &str, length: usize, expected: bool) {
        let plain: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
        let (bytes, compressed) = sent(accepted, Body::Whole(plain.clone().into()));
        assert_eq!(compressed, expected, "{accepted} {length}");
        let mut read = Vec::new();
        match compressed {
            true => {
                assert!(bytes.len() < length);
                GzDecoder::new(bytes.as_slice()).read_to_end(&mut read).unwrap();
            }
            false => read = bytes,
        }
        assert!(read == plain, "{accepted} {length}");
    }

    #[test]
    fn a_long_response_is_compressed_if_the_client_accepts_it() {
        check("gzip", THRESHOLD_BYTES + 1, true);
        check("deflate, gzip;q=0.5", 3_000_000, true);
        check("gzip", THRESHOLD_BYTES, false);
        check("", 3_000_000, false);
        check("identity, gzip;q=0", 3_000_000, false);
        check("br", 3_000_000, false);
    }

    #[test]
    fn a_compressed_response_is_not_compressed_again() {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT_ENCODING, "gzip".parse().unwrap());
        let bytes = gzip(&vec![7; 1 << 20]);
        assert_eq!(gunzip(&bytes), vec![7; 1 << 20]);
        let mut response = Response::new(Body::Whole(vec![0; THRESHOLD_BYTES + 1].into()));
        response
            .headers_mut()
            .insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        compress(&headers, &mut response);
        assert!(matches!(response.body(), Body::Whole(_)));
    }

    #[test]
    fn a_body_of_unknown_length_is_not_compressed() {
        struct Endless;
        impl crate::body::ByteStream for Endless {
            fn poll_chunk(
                self: std::pin::Pin<&mut Self>,
                _: &mut Context<'_>,
            ) -> Poll<Option<io::Result<Bytes>>> {
                Poll::Ready(None)
            }
        }
        assert!(!sent("gzip", Body::Stream(Box::pin(Endless))).1);
    }
}
