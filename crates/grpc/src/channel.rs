//! [`Channel`]: calls on one HTTP/2 connection.
//!
//! The connection is made by the first call, and again by the first call after it broke: the server may be restarted at
//! any time.
//!
//! Futures without type parameters are boxed: the body of an `async fn` is compiled by each crate that awaits it, and
//! these contain HTTP/2.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use prost::Message;
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;

use crate::frame;
use crate::request_body::RequestBody;
use crate::{Code, Endpoint, MessageSender, MessageStream, Status, unary_response};

type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Headers that are sent with a call.
pub type Metadata = Vec<(HeaderName, HeaderValue)>;

/// A connection to one server.
#[derive(Debug)]
pub struct Channel {
    endpoint: Endpoint,
    /// Held while a connection is made, so that concurrent calls share it.
    connection: Mutex<Option<Connection>>,
}

#[derive(Debug)]
struct Connection {
    sender: SendRequest<RequestBody>,
    /// The task that moves bytes; it ends with the connection.
    _driver: JoinSet<()>,
}

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);

/// A connection without traffic is pinged after this time, and closed if the response takes longer than the timeout.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(30);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes that a server may send before they are read, by stream and in all.
const WINDOW_BYTES: u32 = 4 << 20;

/// Messages to the server that may be queued on one stream.
const QUEUED_MESSAGES: usize = 16;

impl Channel {
    pub fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            connection: Mutex::new(None),
        }
    }

    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Calls a method with one request and one response.
    pub async fn unary<Q: Message, A: Message + Default>(
        &self,
        method: &str,
        request: &Q,
        timeout: Duration,
        metadata: Metadata,
    ) -> Result<A, Status> {
        let encoded = frame::encode(&request.encode_to_vec());
        let message = self.call((method, metadata), encoded, timeout).await?;
        A::decode(message).map_err(|error| Status::new(Code::INTERNAL, error.to_string()))
    }

    /// Calls a method that responds with a stream of messages.
    pub async fn server_stream<Q: Message>(
        &self,
        method: &str,
        request: &Q,
        metadata: Metadata,
    ) -> Result<MessageStream, Status> {
        let encoded = frame::encode(&request.encode_to_vec());
        let body = RequestBody::Single(Some(encoded));
        self.open_stream(method, body, metadata).await
    }

    /// Calls a method with a stream in each direction; `first` is the first message to the server.
    pub async fn bidirectional_stream<Q: Message>(
        &self,
        method: &str,
        first: &Q,
        metadata: Metadata,
    ) -> Result<(MessageSender, MessageStream), Status> {
        let (messages, receiver) = mpsc::channel(QUEUED_MESSAGES);
        let sender = MessageSender { messages };
        sender.send(first).await?;
        let stream = self
            .open_stream(method, RequestBody::Stream(receiver), metadata)
            .await?;
        Ok((sender, stream))
    }

    fn open_stream<'a>(
        &'a self,
        method: &'a str,
        body: RequestBody,
        metadata: Metadata,
    ) -> BoxFuture<'a, Result<MessageStream, Status>> {
        Box::pin(async move {
            let sender = self.sender().await?;
            let response = self.send(sender, (method, metadata), body).await?;
            Status::from_headers(response.headers()).map_or(Ok(()), Status::into_result)?;
            Ok(MessageStream::new(response.into_body()))
        })
    }

    /// The message of a unary response.
    fn call<'a>(
        &'a self,
        target: (&'a str, Metadata),
        request: Bytes,
        timeout: Duration,
    ) -> BoxFuture<'a, Result<Bytes, Status>> {
        Box::pin(async move {
            let mut is_sent = false;
            let call = async {
                let sender = self.sender().await?;
                is_sent = true;
                let body = RequestBody::Single(Some(request));
                let response = self.send(sender, target, body).await?;
                Status::from_headers(response.headers()).map_or(Ok(()), Status::into_result)?;
                unary_response::read_message(response.into_body(), Status::broken).await
            };
            match tokio::time::timeout(timeout, call).await {
                Ok(message) => message,
                Err(_) if is_sent => Err(deadline_exceeded()),
                // Without a connection the call was not sent.
                Err(_) => Err(deadline_exceeded().into_unsent()),
            }
        })
    }

    async fn send(
        &self,
        mut sender: SendRequest<RequestBody>,
        (method, metadata): (&str, Metadata),
        body: RequestBody,
    ) -> Result<Response<Incoming>, Status> {
        let scheme = self.endpoint.scheme();
        let mut request = Request::post(format!("{scheme}://localhost/{method}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(body)
            .map_err(|error| Status::new(Code::INTERNAL, error.to_string()))?;
        request.headers_mut().extend(metadata);
        sender.send_request(request).await.map_err(Status::broken)
    }

    /// A sender on the connection, which is made if there is none that works.
    async fn sender(&self) -> Result<SendRequest<RequestBody>, Status> {
        let mut connection = self.connection.lock().await;
        if let Some(usable) = connection.as_ref().filter(|one| !one.sender.is_closed()) {
            return Ok(usable.sender.clone());
        }
        let connected = tokio::time::timeout(CONNECT_TIMEOUT, self.connect()).await;
        let connected = connected.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut).into()));
        let made = connected.map_err(|error| {
            let endpoint = &self.endpoint;
            Status::unreachable(format!("connect to {endpoint}: {error}"))
        })?;
        Ok(connection.insert(made).sender.clone())
    }

    async fn connect(&self) -> Result<Connection, Box<dyn std::error::Error + Send + Sync>> {
        let stream = TokioIo::new(self.endpoint.connect().await?);
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES)
            .keep_alive_interval(KEEP_ALIVE_INTERVAL)
            .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
            .handshake(stream)
            .await?;
        let endpoint = self.endpoint.clone();
        let mut driver = JoinSet::new();
        driver.spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%endpoint, %error, "the connection broke");
            }
        });
        Ok(Connection {
            sender,
            _driver: driver,
        })
    }
}

fn deadline_exceeded() -> Status {
    Status::new(Code::DEADLINE_EXCEEDED, "context deadline exceeded")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_times_out_before_there_is_a_connection_was_not_sent() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        runtime.block_on(async {
            let channel = Channel::new(Endpoint::Unix("/nonexistent".into()));
            let _connecting = channel.connection.lock().await;
            let timeout = Duration::from_millis(1);
            let called = channel.unary::<(), ()>("a/b", &(), timeout, Vec::new()).await;
            let expected = deadline_exceeded().into_unsent();
            assert_eq!(called, Err(expected));
        });
    }
}
