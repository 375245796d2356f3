//! A watch as it comes over the wire: one event in JSON on each line, or one in protobuf in each frame.

use std::io::BufRead;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use futures_core::Stream;
use hyper::body::{Body, Incoming};
use serde::Deserialize;
use serde_json::value::RawValue;
use setpoint_api::{Event, Status};
use setpoint_codec::protobuf::document::Document;
use setpoint_codec::protobuf::frame;

use super::connect::Lease;
use super::inflate::Inflate;
use super::language::Language;
use crate::stored::{self, Error};

/// The events of one watch. Dropping it ends the request.
pub(crate) struct Events {
    body: Incoming,
    /// Present if the body is compressed.
    inflate: Option<Inflate>,
    language: Language,
    /// What has come and was not told yet.
    buffer: BytesMut,
    /// So much of the buffer has no line end in it.
    scanned: usize,
    /// The connection, which lives as long as the watch.
    _lease: Lease,
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

impl Events {
    pub(crate) fn new(body: Incoming, inflate: Option<Inflate>, language: Language, lease: Lease) -> Self {
        Self {
            body,
            inflate,
            language,
            buffer: BytesMut::new(),
            scanned: 0,
            _lease: lease,
        }
    }

    /// What the next piece says, if it has come in full.
    fn next_event(&mut self) -> Option<Result<Option<Event>, Error>> {
        match self.language {
            Language::Json => next_line(&mut self.buffer, &mut self.scanned).map(|line| event(&line)),
            Language::Protobuf => next_frame(&mut self.buffer).map(|frame| event_in(&frame)),
        }
    }

    /// Takes what has come. Whether it could be read.
    fn take(&mut self, data: &[u8]) -> bool {
        let Some(inflate) = &mut self.inflate else {
            self.buffer.extend_from_slice(data);
            return true;
        };
        match inflate.push(data) {
            Ok(text) => {
                self.buffer.extend_from_slice(&text);
                true
            }
            Err(error) => {
                tracing::debug!(%error, "a watch cannot be unpacked");
                false
            }
        }
    }
}

impl Stream for Events {
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
                // A broken connection ends a watch like any other end: whoever wants more takes it up again.
                Some(Err(error)) => {
                    tracing::debug!(%error, "a watch broke off");
                    return Poll::Ready(None);
                }
            }
        }
    }
}

/// The next whole line, if it has come.
fn next_line(buffer: &mut BytesMut, scanned: &mut usize) -> Option<Bytes> {
    // The library looks at many bytes at a time.
    let looked = (&buffer[*scanned..]).skip_until(b'\n').unwrap_or_default();
    *scanned += looked;
    if looked == 0 || buffer[*scanned - 1] != b'\n' {
        return None;
    }
    let line = buffer.split_to(std::mem::take(scanned));
    Some(line.freeze())
}

/// The next whole frame without its length, if it has come.
fn next_frame(buffer: &mut BytesMut) -> Option<Bytes> {
    let length = frame::split(buffer)?.0.len();
    buffer.advance(frame::PREFIX_BYTES);
    Some(buffer.split_to(length).freeze())
}

/// The event in a line; none in an empty line, or where the event is of a type to come.
fn event(line: &[u8]) -> Result<Option<Event>, Error> {
    if line.trim_ascii().is_empty() {
        return Ok(None);
    }
    if let Some((kind, json)) = halves(line)
        && let Ok(event) = event_of(kind, json)
    {
        return Ok(event);
    }
    let line: Line<'_> = serde_json::from_slice(line)?;
    event_of(line.kind, line.object.get().as_bytes())
}

/// The type and the object, if the line is written as servers write it. What this takes for the object is it if it can be
/// read: so it need not be gone through twice.
fn halves(line: &[u8]) -> Option<(&str, &[u8])> {
    let rest = line.strip_prefix(br#"{"type":""#)?;
    let end = rest.iter().position(|byte| *byte == b'"')?;
    let (kind, rest) = rest.split_at(end);
    let object = rest.strip_prefix(br#"","object":"#)?;
    let object = object.trim_ascii_end().strip_suffix(b"}")?;
    Some((std::str::from_utf8(kind).ok()?, object))
}

fn event_of(kind: &str, json: &[u8]) -> Result<Option<Event>, Error> {
    // The bytes are copied: a piece of what came by the line would keep all of it in memory.
    let object = || stored::object(Bytes::copy_from_slice(json));
    Ok(Some(match kind {
        "ADDED" => Event::Added(object()?),
        "MODIFIED" => Event::Modified(object()?),
        "DELETED" => Event::Deleted(object()?),
        "BOOKMARK" => Event::Bookmark(stored::bookmark(json)?),
        "ERROR" => Event::Error(serde_json::from_slice(json)?),
        _ => return Ok(None),
    }))
}

/// The event in a frame; none where it is of a type to come.
fn event_in(frame: &[u8]) -> Result<Option<Event>, Error> {
    let (kind, object) = frame::open(frame)?;
    let document = || Document::open(object);
    let object = || stored::object_of(&document()?);
    Ok(Some(match kind.as_str() {
        "ADDED" => Event::Added(object()?),
        "MODIFIED" => Event::Modified(object()?),
        "DELETED" => Event::Deleted(object()?),
        "BOOKMARK" => Event::Bookmark(stored::bookmark_of(&document()?)?),
        "ERROR" => Event::Error(serde_json::from_slice(&document()?.to_json())?),
        _ => return Ok(None),
    }))
}

#[cfg(test)]
mod tests {
    use setpoint_codec::protobuf::{TypeMeta, document, envelope};

    use super::*;

    fn framed(event: &str, json: &str) -> Vec<u8> {
        let sealed = document::seal(json.as_bytes()).unwrap();
        let open = envelope::open(&sealed).unwrap();
        let mut out = Vec::new();
        frame::write(event, &open.type_meta, open.message, &mut out);
        out
    }

    #[test]
    fn frames_may_come_in_pieces() {
        let pod = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"x","namespace":"a","resourceVersion":"5"}}"#;
        let end = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}"#;
        let gone = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"too old","reason":"Expired","code":410}"#;
        let mut sent = framed("ADDED", pod);
        sent.extend(framed("BOOKMARK", end));
        sent.extend(framed("SOMETHING", pod));
        sent.extend(framed("ERROR", gone));
        let (mut buffer, mut told) = (BytesMut::new(), Vec::new());
        for byte in sent {
            buffer.extend_from_slice(&[byte]);
            told.extend(next_frame(&mut buffer).map(|frame| event_in(&frame).unwrap()));
        }
        assert!(buffer.is_empty());
        assert_eq!(format!("{:?}", told[0]), "Some(Added(a/x@5))");
        let bookmark =
            "Some(Bookmark(Bookmark { resource_version: ResourceVersion(9), initial_events_end: true }))";
        assert_eq!(format!("{:?}", told[1]), bookmark);
        assert!(told[2].is_none());
        assert!(matches!(&told[3], Some(Event::Error(status)) if status.is_expired()));
    }

    #[test]
    fn a_frame_that_cannot_be_read_is_an_error() {
        let mut out = Vec::new();
        frame::write("ADDED", &TypeMeta::new("apps/v7", "Deployment"), b"", &mut out);
        let frame = next_frame(&mut BytesMut::from(&*out)).unwrap();
        let error = event_in(&frame).unwrap_err().to_string();
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
        assert_eq!(format!("{:?}", event(line.as_bytes()).unwrap()), expected);
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
        assert!(event(line.as_bytes()).is_err());
    }

    #[test]
    fn an_error_is_a_status() {
        let line = r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version: 1 (9)","reason":"Expired","code":410}}"#;
        let Some(Event::Error(status)) = event(line.as_bytes()).unwrap() else {
            panic!("an error event is an error");
        };
        assert!(status.is_expired());
    }
}
