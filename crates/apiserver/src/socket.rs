//! Responses over a WebSocket: the events of a watch, one message each, or the output of a container.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};

use http::header::SEC_WEBSOCKET_PROTOCOL;
use http::{Response, StatusCode};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use setpoint_api::Status;
use setpoint_streaming::websocket::{self, Event, FrameReader, Opcode};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::body::Body;
use crate::request::options::StatusError;
use crate::view::View;

/// Read buffer; the client sends nothing but control frames.
const READ_BYTES: usize = 512;

/// What is sent over a WebSocket.
pub(crate) trait MessageSource: Send + 'static {
    /// Appends the frame of the next message. `None` is the end.
    fn poll_message(&mut self, context: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<Option<io::Result<()>>>;
}

/// Accepts the handshake, with one of these subprotocols if the client offers it. A task sends the messages once the
/// connection is upgraded.
pub(crate) fn accept<S: MessageSource>(
    shared: &View,
    head: &http::request::Parts,
    protocols: &[&'static str],
    messages: impl FnOnce(&str) -> S,
) -> Result<Response<Body>, StatusError> {
    let upgrade = head.extensions.get::<OnUpgrade>().cloned();
    let (Some(headers), Some(upgrade)) = (websocket::accept(&head.headers, protocols), upgrade) else {
        let message = "the request is not a WebSocket handshake of version 13";
        return Err(Box::new(Status::bad_request(message)));
    };
    let protocol = headers.get(SEC_WEBSOCKET_PROTOCOL);
    let messages = messages(protocol.and_then(|value| value.to_str().ok()).unwrap_or_default());
    shared.spawn(async move {
        let ended = match upgrade.await {
            Ok(stream) => send(TokioIo::new(stream), messages).await,
            Err(error) => Err(io::Error::other(error)),
        };
        if let Err(reason) = ended {
            tracing::debug!(%reason, "response over a WebSocket ended early");
        }
    });
    let mut response = Response::new(Body::Empty);
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    *response.headers_mut() = headers;
    Ok(response)
}

/// Sends messages until they end or the client closes the connection.
async fn send(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    mut messages: impl MessageSource,
) -> io::Result<()> {
    let mut reader = FrameReader::default();
    let mut bytes = [0; READ_BYTES];
    let (mut out, mut message) = (Vec::new(), Vec::new());
    let mut open = true;
    while open {
        tokio::select! {
            read = stream.read(&mut bytes) => {
                let read = read?;
                reader.push(&bytes[..read]);
                open = read > 0 && handle_control_frames(&mut reader, &mut out)?;
            }
            next = poll_fn(|context| messages.poll_message(context, &mut message)) => match next {
                Some(appended) => {
                    appended?;
                    out.append(&mut message);
                }
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
