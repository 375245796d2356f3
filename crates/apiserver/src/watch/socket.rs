//! A watch over a WebSocket: one message per event, text for JSON and binary for protobuf.

use std::future::poll_fn;
use std::io;

use http::{Response, StatusCode};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use setpoint_api::Status;
use setpoint_streaming::websocket::{self, Event, FrameReader, Opcode};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::WatchBody;
use crate::body::Body;
use crate::request::options::StatusError;
use crate::view::View;

/// Read buffer; the client sends nothing but control frames.
const READ_BYTES: usize = 512;
/// Length prefix of a protobuf frame, which a WebSocket message does not need.
const LENGTH_BYTES: usize = 4;

/// Accepts the handshake. A task sends the events once the connection is upgraded.
pub(crate) fn accept(
    shared: &View,
    head: &http::request::Parts,
    events: WatchBody,
) -> Result<Response<Body>, StatusError> {
    let upgrade = head.extensions.get::<OnUpgrade>().cloned();
    let (Some(headers), Some(upgrade)) = (websocket::accept(&head.headers, &[]), upgrade) else {
        let message = "the request is not a WebSocket handshake of version 13";
        return Err(Box::new(Status::bad_request(message)));
    };
    shared.spawn(async move {
        let ended = match upgrade.await {
            Ok(stream) => send(TokioIo::new(stream), events).await,
            Err(error) => Err(io::Error::other(error)),
        };
        if let Err(reason) = ended {
            tracing::debug!(%reason, "watch over a WebSocket ended early");
        }
    });
    let mut response = Response::new(Body::Empty);
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    *response.headers_mut() = headers;
    Ok(response)
}

/// Sends events until the watch ends or the client closes the connection.
async fn send(mut stream: impl AsyncRead + AsyncWrite + Unpin, mut events: WatchBody) -> io::Result<()> {
    let mut reader = FrameReader::default();
    let mut bytes = [0; READ_BYTES];
    let mut out = Vec::new();
    let mut open = true;
    while open {
        tokio::select! {
            read = stream.read(&mut bytes) => {
                let read = read?;
                reader.push(&bytes[..read]);
                open = read > 0 && handle_control_frames(&mut reader, &mut out)?;
            }
            event = poll_fn(|context| events.poll_event(context)) => match event {
                Some(event) if events.is_text() => websocket::write(Opcode::Text, &event, &mut out),
                Some(event) => websocket::write(Opcode::Binary, &event[LENGTH_BYTES..], &mut out),
                None => {
                    websocket::write_close(&mut out);
                    open = false;
                }
            },
        }
        stream.write_all(&out).await?;
        stream.flush().await?;
        out.clear();
    }
    stream.shutdown().await
}

/// Handles the client's control frames, and ignores its messages. Returns whether the connection stays open.
fn handle_control_frames(reader: &mut FrameReader, out: &mut Vec<u8>) -> io::Result<bool> {
    while let Some(event) = reader.next_event().map_err(io::Error::other)? {
        match event {
            Event::Ping(payload) => websocket::write(Opcode::Pong, &payload, out),
            Event::Close => {
                websocket::write_close(out);
                return Ok(false);
            }
            Event::Data { .. } => {}
        }
    }
    Ok(true)
}
