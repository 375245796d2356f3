//! The body of a watch: one JSON line or one protobuf frame per event.
//!
//! Events that are ready together are sent in one frame, so a burst costs one write. The body ends with the watch or
//! when the server stops; no task runs for a watch whose client does not read.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use setpoint_api::{Bookmark, Clock, Event, Key, Stored, Watch};
use setpoint_api::{Header, Status};
use setpoint_codec::protobuf::{TypeMeta, frame};
use setpoint_strategy::KindInfo;
use setpoint_streaming::websocket::{self, Opcode};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::body::FRAME_BYTES;
use crate::filters::flow_control::ExecutingRequest;
use crate::metrics::OpenWatch;
use crate::negotiate::{Format, Representation};
use crate::protobuf;
use crate::socket::MessageSource;
use crate::table::RenderOptions;

/// Length prefix of a protobuf frame, which a WebSocket message does not need.
const LENGTH_BYTES: usize = 4;

/// The body of a watch.
pub struct WatchBody {
    stream: Watch,
    render: RenderOptions,
    /// Type of the objects in protobuf frames; `None` for JSON, where the object contains it.
    protobuf_type: Option<TypeMeta>,
    clock: Arc<dyn Clock>,
    stop: Pin<Box<WaitForCancellationFutureOwned>>,
    open_watch: OpenWatch,
    /// The request, which occupies seats until its first events are sent.
    executing: ExecutingRequest,
    /// Whether nothing has been sent yet: only the first table has its `columnDefinitions`.
    first: bool,
    ended: bool,
}

impl WatchBody {
    pub(crate) fn new(
        stream: Watch,
        render: RenderOptions,
        clock: Arc<dyn Clock>,
        stop: CancellationToken,
        open_watch: OpenWatch,
    ) -> Self {
        let stop = Box::pin(stop.cancelled_owned());
        let protobuf_type = (render.format == Format::Protobuf).then(|| protobuf::type_meta(&render));
        Self {
            stream,
            render,
            protobuf_type,
            clock,
            stop,
            open_watch,
            executing: ExecutingRequest::default(),
            first: true,
            ended: false,
        }
    }

    /// Keeps the seats of the request until all events that are ready at first have been sent.
    pub(crate) fn hold(&mut self, request: ExecutingRequest) {
        self.executing = request;
    }

    /// The next events that are ready, as many as fit in a frame.
    pub(crate) fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        self.poll_up_to(FRAME_BYTES, context)
    }

    /// The next events that are ready, up to about this many bytes.
    fn poll_up_to(&mut self, bytes: usize, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let mut out = Vec::new();
        if let Representation::Table(_) = self.render.representation {
            // The ages in its rows.
            self.render.now = self.clock.now();
        }
        while out.len() < bytes {
            match self.stream.as_mut().poll_next(context) {
                Poll::Ready(Some(event)) => self.write(&mut out, &event),
                Poll::Ready(None) => {
                    self.ended = true;
                    break;
                }
                Poll::Pending => {
                    self.executing.release_seats();
                    break;
                }
            }
        }
        if !out.is_empty() {
            return Poll::Ready(Some(out.into()));
        }
        if self.ended || self.stop.as_mut().poll(context).is_ready() {
            self.ended = true;
            return Poll::Ready(None);
        }
        Poll::Pending
    }

    fn write(&mut self, out: &mut Vec<u8>, event: &Event) {
        match event {
            Event::Added(object) => self.write_object(out, "ADDED", object),
            Event::Modified(object) => self.write_object(out, "MODIFIED", object),
            Event::Deleted(object) => self.write_object(out, "DELETED", object),
            Event::Bookmark(bookmark) => {
                let object = bookmark_object(self.render.kind.info(), *bookmark);
                self.write_object(out, "BOOKMARK", &object);
            }
            Event::Error(status) => self.write_error(out, status),
        }
    }

    fn write_object(&mut self, out: &mut Vec<u8>, name: &str, object: &Stored) {
        let before = out.len();
        match &self.protobuf_type {
            Some(type_meta) => frame::write(name, type_meta, &protobuf::message(&self.render, object), out),
            None => {
                out.reserve(object.json().len() + 64);
                open(out, name);
                self.render.write_object(out, object, self.first);
                out.extend_from_slice(b"}\n");
            }
        }
        self.first = false;
        self.open_watch.sent(out.len() - before);
    }

    fn write_error(&self, out: &mut Vec<u8>, status: &Status) {
        let json = status.to_json();
        match self
            .protobuf_type
            .as_ref()
            .and_then(|_| protobuf::encode_typed(&json))
        {
            Some((type_meta, message)) => frame::write("ERROR", &type_meta, &message, out),
            None => setpoint_codec::frame::write("ERROR", &json, out),
        }
    }
}

impl MessageSource for WatchBody {
    /// One event: text for JSON and binary for protobuf.
    fn poll_message(
        &mut self,
        context: &mut Context<'_>,
        out: &mut Vec<u8>,
    ) -> Poll<Option<std::io::Result<()>>> {
        let is_text = self.protobuf_type.is_none();
        self.poll_up_to(1, context).map(|event| {
            let event = event?;
            match is_text {
                true => websocket::write(Opcode::Text, &event, out),
                false => websocket::write(Opcode::Binary, &event[LENGTH_BYTES..], out),
            }
            Some(Ok(()))
        })
    }
}

fn open(out: &mut Vec<u8>, name: &str) {
    out.extend_from_slice(br#"{"type":""#);
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(br#"","object":"#);
}

/// An object of the kind that has nothing but a resource version.
fn bookmark_object(info: &KindInfo, bookmark: Bookmark) -> Stored {
    let (kind, api_version, version) = (&info.gvk.kind, info.gvk.api_version(), bookmark.resource_version);
    let annotations = match bookmark.initial_events_end {
        true => r#""annotations":{"k8s.io/initial-events-end":"true"}"#,
        false => "",
    };
    let comma = if annotations.is_empty() { "" } else { "," };
    let json = match info.is_custom {
        true => format!(
            r#"{{"apiVersion":"{api_version}","kind":"{kind}","metadata":{{{annotations}{comma}"resourceVersion":"{version}"}}}}"#
        ),
        false => format!(
            r#"{{"kind":"{kind}","apiVersion":"{api_version}","metadata":{{"resourceVersion":"{version}"{comma}{annotations}}}}}"#
        ),
    };
    let header = Header {
        resource_version: version,
        ..Header::new(Key::new("", ""))
    };
    Stored::new(header, json.into(), 0)
}

impl std::fmt::Debug for WatchBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WatchBody")
            .field("kind", &self.render.kind.info().gvk)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
