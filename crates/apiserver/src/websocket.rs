//! WebSockets, as far as a server needs them that mostly sends: the handshake and the frames of RFC 6455.
//!
//! Nothing here reads or writes a connection; whoever does feeds [`Received`] and sends what [`write`] makes.

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

/// What is put behind the caller's key before it is digested; section 1.3.
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// A control frame carries no more than this.
const CONTROL_BYTES: u64 = 125;
/// Why a connection is closed when nothing is wrong.
const NORMAL: [u8; 2] = 1000_u16.to_be_bytes();

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Text = 1,
    Binary = 2,
    Close = 8,
    Pong = 10,
}

/// What the caller has to say to one who only listens for the end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Said {
    Ping(Vec<u8>),
    Close,
}

/// Bytes that came and are no whole frame yet.
#[derive(Debug, Default)]
pub(crate) struct Received {
    bytes: Vec<u8>,
    /// How many bytes to come belong to a frame that nobody wants.
    unwanted: u64,
}

/// A caller that does not keep to the protocol.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Broken(&'static str);

/// Whether a request asks for a WebSocket.
pub(crate) fn is_wanted(headers: &HeaderMap) -> bool {
    let lists = |name, wanted: &str| {
        let mut listed = header(headers, name).split(',');
        listed.any(|one| one.trim().eq_ignore_ascii_case(wanted))
    };
    lists(&CONNECTION, "upgrade") && lists(&UPGRADE, "websocket")
}

/// The answer that turns the connection into a WebSocket, in the first of the caller's protocols that is `spoken`.
/// `None` if the request is not a whole handshake.
pub(crate) fn accept(headers: &HeaderMap, spoken: &[&'static str]) -> Option<Response<Body>> {
    let key = header(headers, &SEC_WEBSOCKET_KEY);
    if key.is_empty() || header(headers, &SEC_WEBSOCKET_VERSION) != "13" {
        return None;
    }
    let mut response = Response::new(Body::Empty);
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let answer = response.headers_mut();
    answer.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    answer.insert(UPGRADE, HeaderValue::from_static("websocket"));
    let accepted = HeaderValue::try_from(accepted(key)).expect("base64 may stand in a header");
    answer.insert(SEC_WEBSOCKET_ACCEPT, accepted);
    let wanted = header(headers, &SEC_WEBSOCKET_PROTOCOL).split(',');
    let chosen = wanted
        .map(str::trim)
        .find_map(|one| spoken.iter().find(|own| **own == one));
    if let Some(protocol) = chosen {
        answer.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol));
    }
    Some(response)
}

fn accepted(key: &str) -> String {
    let digest = digest::digest(
        &digest::SHA1_FOR_LEGACY_USE_ONLY,
        format!("{key}{GUID}").as_bytes(),
    );
    STANDARD.encode(digest)
}

/// Appends one frame. A server does not mask.
pub(crate) fn write(kind: Kind, payload: &[u8], out: &mut Vec<u8>) {
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

/// Appends the frame that ends a connection well.
pub(crate) fn write_close(out: &mut Vec<u8>) {
    write(Kind::Close, &NORMAL, out);
}

// === impl Received ===

impl Received {
    /// Takes bytes in.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let skipped = bytes
            .len()
            .min(usize::try_from(self.unwanted).unwrap_or(usize::MAX));
        self.unwanted -= skipped as u64;
        self.bytes.extend_from_slice(&bytes[skipped..]);
    }

    /// The next thing said; `None` until more bytes come. Data is passed over: nothing is asked of the caller.
    pub(crate) fn next(&mut self) -> Result<Option<Said>, Broken> {
        while let Some((opcode, masked, start, length)) = head(&self.bytes) {
            if !masked {
                return Err(Broken("a client must mask its frames"));
            }
            if opcode < Kind::Close as u8 {
                self.skip(start as u64 + length);
                continue;
            }
            if length > CONTROL_BYTES {
                return Err(Broken("a control frame is short"));
            }
            let end = start + length as usize;
            let Some(frame) = self.bytes.get(..end) else {
                return Ok(None);
            };
            let said = said(opcode, unmasked(&frame[start - 4..]));
            self.bytes.drain(..end);
            if said.is_some() {
                return Ok(said);
            }
        }
        Ok(None)
    }

    fn skip(&mut self, count: u64) {
        let here = self.bytes.len().min(usize::try_from(count).unwrap_or(usize::MAX));
        self.bytes.drain(..here);
        self.unwanted = count - here as u64;
    }
}

fn said(opcode: u8, payload: Vec<u8>) -> Option<Said> {
    match opcode {
        8 => Some(Said::Close),
        9 => Some(Said::Ping(payload)),
        _ => None,
    }
}

/// A masked payload behind its mask, made readable.
fn unmasked(masked: &[u8]) -> Vec<u8> {
    let (mask, payload) = masked.split_at(4);
    payload
        .iter()
        .zip(mask.iter().cycle())
        .map(|(byte, mask)| byte ^ mask)
        .collect()
}

/// The opcode of the frame that begins here, whether it is masked, where its payload starts and how long that is.
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

    /// The example of section 1.3.
    #[test]
    fn the_key_is_answered_as_the_standard_shows() {
        assert_eq!(
            accepted("dGhlIHNhbXBsZSBub25jZQ=="),
            "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
        );
    }

    #[test]
    fn a_handshake_has_all_its_headers() {
        let mut headers = HeaderMap::new();
        headers.insert(CONNECTION, HeaderValue::from_static("keep-alive, Upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("WebSocket"));
        assert!(is_wanted(&headers));
        assert!(accept(&headers, &[]).is_none());
        headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        headers.insert(SEC_WEBSOCKET_KEY, HeaderValue::from_static("eA=="));
        headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static("a, b"));
        let answer = accept(&headers, &["b"]).unwrap();
        assert_eq!(answer.status(), 101);
        assert_eq!(answer.headers()[SEC_WEBSOCKET_PROTOCOL], "b");
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
        write(Kind::Text, &vec![b'x'; length], &mut out);
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
    fn only_what_matters_is_heard() {
        let mut received = Received::default();
        for byte in [
            frame(1, b"hello"),
            frame(9, b"are you there"),
            frame(10, b""),
            frame(8, &NORMAL),
        ]
        .concat()
        {
            received.push(&[byte]);
        }
        assert_eq!(received.next(), Ok(Some(Said::Ping(b"are you there".to_vec()))));
        assert_eq!(received.next(), Ok(Some(Said::Close)));
        assert_eq!(received.next(), Ok(None));
    }

    #[test]
    fn long_data_is_passed_over_as_it_comes() {
        let mut received = Received::default();
        received.push(&[0x82, 0xff, 0, 0, 0, 0, 0, 1, 0, 0, 1, 2, 3, 4]);
        assert_eq!(received.next(), Ok(None));
        received.push(&vec![0; 65535]);
        received.push(&[0]);
        received.push(&frame(8, b""));
        assert_eq!(received.next(), Ok(Some(Said::Close)));
    }

    #[test]
    fn a_client_that_does_not_mask_is_refused() {
        let mut received = Received::default();
        received.push(&[0x89, 0]);
        assert!(received.next().is_err());
    }
}
