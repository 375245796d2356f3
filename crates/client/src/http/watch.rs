//! [`WatchStream`]: decodes the body of a watch: one JSON event on each line, or one protobuf event in each frame.

use std::io::BufRead;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use futures_core::Stream;
use hyper::body::{Body, Incoming};
use serde::Deserialize;
use serde_json::value::RawValue;
use setpoint_api::{Event, Status};
use setpoint_codec::protobuf::builtin::BuiltinObject;
use setpoint_codec::protobuf::frame;

use super::connect::ConnectionGuard;
use super::encoding::WireFormat;
use super::gzip::GzipDecoder;
use crate::decode::{self, Error};

/// The events of one watch. Dropping it ends the request.
pub(crate) struct WatchStream {
    body: Incoming,
    /// Present if the body is compressed.
    decoder: Option<GzipDecoder>,
    format: WireFormat,
    /// Received bytes that are not decoded yet.
    buffer: BytesMut,
    /// The length of the prefix of the buffer that is known to have no line end.
    scanned: usize,
    /// The connection, held as long as the watch.
    _guard: ConnectionGuard,
}

#[derive(Deserialize)]
struct WatchEvent<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

impl WatchStream {
    pub(crate) fn new(
        body: Incoming,
        decoder: Option<GzipDecoder>,
        format: WireFormat,
        guard: ConnectionGuard,
    ) -> Self {
        Self {
            body,
            decoder,
            format,
            buffer: BytesMut::new(),
            scanned: 0,
            _guard: guard,
        }
    }

    /// The next event in the buffer, if it is complete.
    fn next_event(&mut self) -> Option<Result<Option<Event>, Error>> {
        match self.format {
            WireFormat::Json => next_line(&mut self.buffer, &mut self.scanned).map(|line| decode_line(&line)),
            WireFormat::Protobuf => next_frame(&mut self.buffer).map(|frame| decode_frame(&frame)),
        }
    }

    /// Adds received bytes. Returns whether they could be decompressed.
    fn take(&mut self, data: &[u8]) -> bool {
        let Some(decoder) = &mut self.decoder else {
            self.buffer.extend_from_slice(data);
            return true;
        };
        match decoder.push(data) {
            Ok(text) => {
                self.buffer.extend_from_slice(&text);
                true
            }
            Err(error) => {
                tracing::debug!(%error, "cannot decompress a watch");
                false
            }
        }
    }
}

impl Stream for WatchStream {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        loop {
            if let Some(event) = self.next_event() {
                match event {
                    Ok(None) => continue,
                    Ok(event) => return Poll::Ready(event),
                    Err(error) => {
                        let status = Status::internal(format_args!("cannot decode a watch event: {error}"));
                        return Poll::Ready(Some(Event::Error(Box::new(status))));
                    }
                }
            }
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                None => return Poll::Ready(None),
                Some(Ok(frame)) => {
                    if frame.data_ref().is_some_and(|data| !self.take(data)) {
                        return Poll::Ready(None);
                    }
                }
                // A broken connection ends a watch like any other end: the reader starts it again.
                Some(Err(error)) => {
                    tracing::debug!(%error, "watch connection error");
                    return Poll::Ready(None);
                }
            }
        }
    }
}

/// The next line in the buffer, if it is complete.
fn next_line(buffer: &mut BytesMut, scanned: &mut usize) -> Option<Bytes> {
    // `skip_until` searches many bytes at a time.
    let scanned_now = (&buffer[*scanned..]).skip_until(b'\n').unwrap_or_default();
    *scanned += scanned_now;
    if scanned_now == 0 || buffer[*scanned - 1] != b'\n' {
        return None;
    }
    let line = buffer.split_to(std::mem::take(scanned));
    Some(line.freeze())
}

/// The next frame in the buffer without its length, if it is complete.
fn next_frame(buffer: &mut BytesMut) -> Option<Bytes> {
    let length = frame::split(buffer)?.0.len();
    buffer.advance(frame::PREFIX_BYTES);
    Some(buffer.split_to(length).freeze())
}

/// The event in a line; none for an empty line, or for an unknown event type.
fn decode_line(line: &[u8]) -> Result<Option<Event>, Error> {
    if line.trim_ascii().is_empty() {
        return Ok(None);
    }
    if let Some((kind, json)) = split_event(line)
        && let Ok(event) = decode_event(kind, json)
    {
        return Ok(event);
    }
    let line: WatchEvent<'_> = serde_json::from_slice(line)?;
    decode_event(line.kind, line.object.get().as_bytes())
}

/// The type and the object, if the line has the layout that servers write. The object is not validated here: the caller
/// decodes it and falls back to a full parse if that fails, so that the line is usually parsed once.
fn split_event(line: &[u8]) -> Option<(&str, &[u8])> {
    let rest = line.strip_prefix(br#"{"type":""#)?;
    let end = rest.iter().position(|byte| *byte == b'"')?;
    let (kind, rest) = rest.split_at(end);
    let object = rest.strip_prefix(br#"","object":"#)?;
    let object = object.trim_ascii_end().strip_suffix(b"}")?;
    Some((std::str::from_utf8(kind).ok()?, object))
}

fn decode_event(kind: &str, json: &[u8]) -> Result<Option<Event>, Error> {
    // The bytes are copied: a slice of the buffer would keep all of it in memory.
    let object = || decode::object(Bytes::copy_from_slice(json));
    Ok(Some(match kind {
        "ADDED" => Event::Added(object()?),
        "MODIFIED" => Event::Modified(object()?),
        "DELETED" => Event::Deleted(object()?),
        "BOOKMARK" => Event::Bookmark(decode::bookmark(json)?),
        "ERROR" => Event::Error(setpoint_api::json::from_slice(json)?),
        _ => return Ok(None),
    }))
}

/// The event in a frame; none for an unknown event type.
fn decode_frame(frame: &[u8]) -> Result<Option<Event>, Error> {
    let (kind, object) = frame::open(frame)?;
    let document = || BuiltinObject::open(object);
    let object = || decode::protobuf_object(&document()?);
    Ok(Some(match kind.as_str() {
        "ADDED" => Event::Added(object()?),
        "MODIFIED" => Event::Modified(object()?),
        "DELETED" => Event::Deleted(object()?),
        "BOOKMARK" => Event::Bookmark(decode::protobuf_bookmark(&document()?)?),
        "ERROR" => Event::Error(setpoint_api::json::from_slice(&document()?.to_json())?),
        _ => return Ok(None),
    }))
}

#[cfg(test)]
mod tests {
    use setpoint_codec::protobuf::{TypeMeta, builtin, envelope};

    use super::*;

    fn framed(event: &str, json: &str) -> Vec<u8> {
        let sealed = builtin::seal_json(json.as_bytes()).unwrap();
        let open = envelope::open(&sealed).unwrap();
        let mut out = Vec::new();
        frame::write(event, &open.type_meta, open.message, &mut out);
        out
    }

    #[test]
    fn frames_may_arrive_in_pieces() {
        let pod = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"x","namespace":"a","resourceVersion":"5"}}"#;
        let end = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}"#;
        let gone = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"too old","reason":"Expired","code":410}"#;
        let mut sent = framed("ADDED", pod);
        sent.extend(framed("BOOKMARK", end));
        sent.extend(framed("SOMETHING", pod));
        sent.extend(framed("ERROR", gone));
        let (mut buffer, mut events) = (BytesMut::new(), Vec::new());
        for byte in sent {
            buffer.extend_from_slice(&[byte]);
            events.extend(next_frame(&mut buffer).map(|frame| decode_frame(&frame).unwrap()));
        }
        assert!(buffer.is_empty());
        assert_eq!(format!("{:?}", events[0]), "Some(Added(a/x@5))");
        let bookmark =
            "Some(Bookmark(Bookmark { resource_version: ResourceVersion(9), initial_events_end: true }))";
        assert_eq!(format!("{:?}", events[1]), bookmark);
        assert!(events[2].is_none());
        assert!(matches!(&events[3], Some(Event::Error(status)) if status.is_expired()));
    }

    #[test]
    fn a_frame_that_cannot_be_read_is_an_error() {
        let mut out = Vec::new();
        frame::write("ADDED", &TypeMeta::new("apps/v7", "Deployment"), b"", &mut out);
        let frame = next_frame(&mut BytesMut::from(&*out)).unwrap();
        let error = decode_frame(&frame).unwrap_err().to_string();
        assert_eq!(
            error,
            "cannot decode the message: kind Deployment has no protobuf form"
        );
    }

    #[test]
    fn lines_may_come_in_pieces() {
        let (mut buffer, mut scanned, mut lines) = (BytesMut::new(), 0, Vec::new());
        for piece in ["ab", "c\nd", "", "e\n\nf", "\n"] {
            buffer.extend_from_slice(piece.as_bytes());
            while let Some(line) = next_line(&mut buffer, &mut scanned) {
                lines.push(String::from_utf8(line.to_vec()).unwrap());
            }
        }
        assert_eq!(lines, ["abc\n", "de\n", "\n", "f\n"]);
        assert!(buffer.is_empty());
    }

    #[track_caller]
    fn check(line: &str, expected: &str) {
        assert_eq!(format!("{:?}", decode_line(line.as_bytes()).unwrap()), expected);
    }

    #[test]
    fn events_are_decoded() {
        let pod = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"x","namespace":"a","resourceVersion":"5"}}"#;
        check(
            &format!(r#"{{"type":"ADDED","object":{pod}}}"#),
            "Some(Added(a/x@5))",
        );
        check(
            &format!(r#"{{"type":"DELETED","object":{pod}}}"#),
            "Some(Deleted(a/x@5))",
        );
        check(&format!(r#"{{"type":"SOMETHING","object":{pod}}}"#), "None");
        check("\n", "None");
        let end =
            r#"{"metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}"#;
        let expected =
            "Some(Bookmark(Bookmark { resource_version: ResourceVersion(9), initial_events_end: true }))";
        check(&format!(r#"{{"type":"BOOKMARK","object":{end}}}"#), expected);
    }

    #[test]
    fn an_event_may_be_written_in_any_way() {
        let pod = r#"{"metadata":{"name":"x","namespace":"a","resourceVersion":"5"}}"#;
        let expected = "Some(Added(a/x@5))";
        check(&format!("{{\"type\":\"ADDED\",\"object\":{pod}}}\r\n"), expected);
        check(&format!(r#"{{ "type": "ADDED", "object": {pod} }}"#), expected);
        check(&format!(r#"{{"object":{pod},"type":"ADDED"}}"#), expected);
        check(
            &format!(r#"{{"type":"ADDED","object":{pod},"more":{{}}}}"#),
            expected,
        );
    }

    #[test]
    fn half_an_event_is_an_error() {
        let line = r#"{"type":"ADDED","object":{"metadata":{"name":"x","resourceVersion":"5"}}"#;
        assert!(decode_line(line.as_bytes()).is_err());
    }

    #[test]
    fn an_error_is_a_status() {
        let line = r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version: 1 (9)","reason":"Expired","code":410}}"#;
        let Some(Event::Error(status)) = decode_line(line.as_bytes()).unwrap() else {
            panic!("an error event is an error");
        };
        assert!(status.is_expired());
    }
}
