//! Health checks of a gRPC server on the loopback interface.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, Response};
use http_body::Frame;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;

use super::*;

/// The body of a response: its message, and the trailers with the status of the call.
struct Reply(VecDeque<Frame<Bytes>>);

impl http_body::Body for Reply {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(Ok))
    }
}

/// A response with this message, unless it is empty, and this code.
fn reply(message: &[u8], code: u32) -> Response<Reply> {
    let mut frames = VecDeque::new();
    if !message.is_empty() {
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        frames.push_back(Frame::data(Bytes::from([&[0], &length[..], message].concat())));
    }
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", code.into());
    trailers.insert("grpc-message", http::HeaderValue::from_static("unknown service"));
    frames.push_back(Frame::trailers(trailers));
    let response = Response::builder().header("content-type", "application/grpc");
    response.body(Reply(frames)).unwrap()
}

/// The outcome of a probe of a server that responds with this status of the service, or this code.
async fn probe(status: i32, code: u32) -> Outcome {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let message = HealthCheckResponse { status }.encode_to_vec();
    let serve = async {
        let (stream, _) = listener.accept().await.unwrap();
        let respond = |_: http::Request<Incoming>| {
            let response = reply(&message, code);
            async move { Ok::<_, Infallible>(response) }
        };
        let connection = http2::Builder::new(TokioExecutor::new());
        let _ = connection
            .serve_connection(TokioIo::new(stream), service_fn(respond))
            .await;
    };
    tokio::select! {
        outcome = check("127.0.0.1", port, "", Duration::from_secs(5)) => outcome,
        () = serve => panic!("the server ended before the probe"),
    }
}

#[tokio::test]
async fn a_service_that_is_serving_is_healthy() {
    assert_eq!(probe(SERVING, 0).await, success());
}

#[tokio::test]
async fn a_service_in_another_status_is_not() {
    let expected = "service unhealthy (responded with \"NOT_SERVING\")";
    assert_eq!(probe(2, 0).await, failure(expected.to_owned()));
}

#[tokio::test]
async fn a_server_without_the_health_service_fails_the_probe() {
    let expected = "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): unknown service";
    assert_eq!(probe(0, 12).await, failure(expected.to_owned()));
}

#[tokio::test]
async fn a_port_without_a_server_fails_the_probe() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let outcome = check("127.0.0.1", port, "", Duration::from_secs(1)).await;
    let expected = format!(
        "timeout: failed to connect service \"127.0.0.1:{port}\" within 1s: context deadline exceeded"
    );
    assert_eq!(outcome, failure(expected));
}
