//! WebSockets (RFC 6455), as far as a sending server needs them: handshake and frames.
//!
//! Nothing here does I/O: the connection's task feeds a [`FrameReader`] and sends what [`write`] appends.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{
    CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION,
    UPGRADE,
};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use ring::digest;

use crate::body::Body;
use crate::negotiate::header;

/// Appended to the client's key before it is hashed; section 1.3.
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// Maximum payload of a control frame.
const MAX_CONTROL_BYTES: u64 = 125;
/// Maximum length of a frame: the highest bit must be zero; section 5.2.
const MAX_LENGTH: u64 = u64::MAX >> 1;
/// Status code of a normal closure.
const NORMAL_CLOSURE: [u8; 2] = 1000_u16.to_be_bytes();

/// Opcode of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opcode {
    Text = 1,
    Binary = 2,
    Close = 8,
    Pong = 10,
}

/// A control frame that the server handles.
#[derive(Debug, PartialEq, Eq)]
pub enum ControlFrame {
    Ping(Vec<u8>),
    Close,
}

/// Reads control frames from a stream of bytes.
#[derive(Debug, Default)]
pub struct FrameReader {
    bytes: Vec<u8>,
    /// Number of further bytes that belong to a skipped data frame.
    to_skip: u64,
}

/// A violation of the protocol by the client.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ProtocolError(&'static str);

/// Whether a request is an upgrade to a WebSocket.
pub(crate) fn is_upgrade(headers: &HeaderMap) -> bool {
    let lists = |name, token: &str| {
        let mut listed = header(headers, name).split(',');
        listed.any(|one| one.trim().eq_ignore_ascii_case(token))
    };
    lists(&CONNECTION, "upgrade") && lists(&UPGRADE, "websocket")
}

/// The 101 response, with the first of the client's subprotocols that is `supported`; `None` if the handshake is
/// incomplete.
pub(crate) fn accept(headers: &HeaderMap, supported: &[&'static str]) -> Option<Response<Body>> {
    let key = header(headers, &SEC_WEBSOCKET_KEY);
    if key.is_empty() || header(headers, &SEC_WEBSOCKET_VERSION) != "13" {
        return None;
    }
    let mut response = Response::new(Body::Empty);
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let response_headers = response.headers_mut();
    response_headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    response_headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    let accept = HeaderValue::try_from(accept_key(key)).expect("base64 is valid in a header");
    response_headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    let requested = header(headers, &SEC_WEBSOCKET_PROTOCOL).split(',');
    let chosen = requested
        .map(str::trim)
        .find_map(|one| supported.iter().find(|own| **own == one));
    if let Some(protocol) = chosen {
        response_headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol));
    }
    Some(response)
}

fn accept_key(key: &str) -> String {
    let digest = digest::digest(
        &digest::SHA1_FOR_LEGACY_USE_ONLY,
        format!("{key}{GUID}").as_bytes(),
    );
    STANDARD.encode(digest)
}

/// Appends one frame. A server's frames are not masked.
pub(crate) fn write(kind: Opcode, payload: &[u8], out: &mut Vec<u8>) {
    out.reserve(payload.len() + 10);
    out.push(0x80 | kind as u8);
    match payload.len() {
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
    out.extend_from_slice(payload);
}

/// Appends a close frame of a normal closure.
pub(crate) fn write_close(out: &mut Vec<u8>) {
    write(Opcode::Close, &NORMAL_CLOSURE, out);
}

// === impl FrameReader ===

impl FrameReader {
    /// Adds received bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        let skipped = bytes
            .len()
            .min(usize::try_from(self.to_skip).unwrap_or(usize::MAX));
        self.to_skip -= skipped as u64;
        self.bytes.extend_from_slice(&bytes[skipped..]);
    }

    /// The next control frame; `None` until more bytes come. Data frames are skipped.
    pub fn next_frame(&mut self) -> Result<Option<ControlFrame>, ProtocolError> {
        while let Some((opcode, masked, start, length)) = head(&self.bytes) {
            if !masked {
                return Err(ProtocolError("client frame is not masked"));
            }
            if length > MAX_LENGTH {
                return Err(ProtocolError("frame length exceeds 63 bits"));
            }
            if opcode < Opcode::Close as u8 {
                self.skip(start as u64 + length);
                continue;
            }
            if length > MAX_CONTROL_BYTES {
                return Err(ProtocolError("control frame payload exceeds 125 bytes"));
            }
            let end = start + length as usize;
            let Some(bytes) = self.bytes.get(..end) else {
                return Ok(None);
            };
            let frame = control_frame(opcode, unmasked(&bytes[start - 4..]));
            self.bytes.drain(..end);
            if frame.is_some() {
                return Ok(frame);
            }
        }
        Ok(None)
    }

    fn skip(&mut self, count: u64) {
        let here = self.bytes.len().min(usize::try_from(count).unwrap_or(usize::MAX));
        self.bytes.drain(..here);
        self.to_skip = count - here as u64;
    }
}

fn control_frame(opcode: u8, payload: Vec<u8>) -> Option<ControlFrame> {
    match opcode {
        8 => Some(ControlFrame::Close),
        9 => Some(ControlFrame::Ping(payload)),
        _ => None,
    }
}

/// Unmasks a payload that is preceded by its mask.
fn unmasked(masked: &[u8]) -> Vec<u8> {
    let (mask, payload) = masked.split_at(4);
    payload
        .iter()
        .zip(mask.iter().cycle())
        .map(|(byte, mask)| byte ^ mask)
        .collect()
}

/// Parses a frame header: opcode, whether it is masked, start and length of its payload.
fn head(bytes: &[u8]) -> Option<(u8, bool, usize, u64)> {
    let (first, second) = (*bytes.first()?, *bytes.get(1)?);
    let (length, next) = match second & 0x7f {
        126 => (
            u64::from(u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?)),
            4,
        ),
        127 => (u64::from_be_bytes(bytes.get(2..10)?.try_into().ok()?), 10),
        short => (u64::from(short), 2),
    };
    let masked = second & 0x80 != 0;
    let start = if masked { next + 4 } else { next };
    (bytes.len() >= start).then_some((first & 0x0f, masked, start, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame as a client sends it.
    fn frame(opcode: u8, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![0x80 | opcode, 0x80 | payload.len() as u8, 1, 2, 3, 4];
        frame.extend(
            payload
                .iter()
                .zip([1, 2, 3, 4].iter().cycle())
                .map(|(byte, mask)| byte ^ mask),
        );
        frame
    }

    #[test]
    fn a_length_of_64_bits_is_rejected() {
        let mut reader = FrameReader::default();
        reader.push(&[&[0x81, 0xff][..], &[0xff; 8], &[0; 4]].concat());
        assert_eq!(
            reader.next_frame(),
            Err(ProtocolError("frame length exceeds 63 bits"))
        );
    }

    /// The example of section 1.3.
    #[test]
    fn the_accept_key_is_the_standards_example() {
        assert_eq!(
            accept_key("dGhlIHNhbXBsZSBub25jZQ=="),
            "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
        );
    }

    #[test]
    fn a_handshake_has_all_its_headers() {
        let mut headers = HeaderMap::new();
        headers.insert(CONNECTION, HeaderValue::from_static("keep-alive, Upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("WebSocket"));
        assert!(is_upgrade(&headers));
        assert!(accept(&headers, &[]).is_none());
        headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        headers.insert(SEC_WEBSOCKET_KEY, HeaderValue::from_static("eA=="));
        headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static("a, b"));
        let response = accept(&headers, &["b"]).unwrap();
        assert_eq!(response.status(), 101);
        assert_eq!(response.headers()[SEC_WEBSOCKET_PROTOCOL], "b");
        assert!(
            accept(&headers, &["c"])
                .unwrap()
                .headers()
                .get(SEC_WEBSOCKET_PROTOCOL)
                .is_none()
        );
    }

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

    #[test]
    fn only_pings_and_closes_are_returned() {
        let mut reader = FrameReader::default();
        for byte in [
            frame(1, b"hello"),
            frame(9, b"are you there"),
            frame(10, b""),
            frame(8, &NORMAL_CLOSURE),
        ]
        .concat()
        {
            reader.push(&[byte]);
        }
        assert_eq!(
            reader.next_frame(),
            Ok(Some(ControlFrame::Ping(b"are you there".to_vec())))
        );
        assert_eq!(reader.next_frame(), Ok(Some(ControlFrame::Close)));
        assert_eq!(reader.next_frame(), Ok(None));
    }

    #[test]
    fn long_data_is_skipped_as_it_comes() {
        let mut reader = FrameReader::default();
        reader.push(&[0x82, 0xff, 0, 0, 0, 0, 0, 1, 0, 0, 1, 2, 3, 4]);
        assert_eq!(reader.next_frame(), Ok(None));
        reader.push(&vec![0; 65535]);
        reader.push(&[0]);
        reader.push(&frame(8, b""));
        assert_eq!(reader.next_frame(), Ok(Some(ControlFrame::Close)));
    }

    #[test]
    fn an_unmasked_frame_is_an_error() {
        let mut reader = FrameReader::default();
        reader.push(&[0x89, 0]);
        assert!(reader.next_frame().is_err());
    }
}
