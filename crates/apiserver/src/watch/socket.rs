//! A watch over a WebSocket: one message for each event, text or binary as the events are.

use std::future::poll_fn;
use std::io;

use http::Response;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use setpoint_api::Status;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::Events;
use crate::body::Body;
use crate::request::options::Refused;
use crate::serve::Shared;
use crate::websocket::{self, Kind, Received, Said};

/// How much is read at once from a caller who has nothing to say.
const READ_BYTES: usize = 512;
/// The length in front of a frame of protobuf, which a message does not need.
const LENGTH_BYTES: usize = 4;

/// Answers the handshake. Events are sent from when the connection is the caller's.
pub(crate) fn answer(
    shared: &Shared,
    head: &http::request::Parts,
    events: Events,
) -> Result<Response<Body>, Refused> {
    let upgrade = head.extensions.get::<OnUpgrade>().cloned();
    let (Some(response), Some(upgrade)) = (websocket::accept(&head.headers, &[]), upgrade) else {
        let message = "the request is not a WebSocket handshake of version 13";
        return Err(Box::new(Status::bad_request(message)));
    };
    shared.spawn(async move {
        let ended = match upgrade.await {
            Ok(stream) => send(TokioIo::new(stream), events).await,
            Err(error) => Err(io::Error::other(error)),
        };
        if let Err(reason) = ended {
            tracing::debug!(%reason, "a watch over a WebSocket ended early");
        }
    });
    Ok(response)
}

/// Sends events until they end or the caller leaves.
async fn send(mut stream: impl AsyncRead + AsyncWrite + Unpin, mut events: Events) -> io::Result<()> {
    let mut received = Received::default();
    let mut bytes = [0; READ_BYTES];
    let mut out = Vec::new();
    let mut open = true;
    while open {
        tokio::select! {
            read = stream.read(&mut bytes) => {
                let read = read?;
                received.push(&bytes[..read]);
                open = read > 0 && heed(&mut received, &mut out)?;
            }
            event = poll_fn(|context| events.poll_event(context)) => match event {
                Some(event) if events.is_text() => websocket::write(Kind::Text, &event, &mut out),
                Some(event) => websocket::write(Kind::Binary, &event[LENGTH_BYTES..], &mut out),
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

/// Answers what the caller says; whether it stays.
fn heed(received: &mut Received, out: &mut Vec<u8>) -> io::Result<bool> {
    while let Some(said) = received.next().map_err(io::Error::other)? {
        match said {
            Said::Ping(payload) => websocket::write(Kind::Pong, &payload, out),
            Said::Close => {
                websocket::write_close(out);
                return Ok(false);
            }
        }
    }
    Ok(true)
}
