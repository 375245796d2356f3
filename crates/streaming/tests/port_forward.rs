//! Port-forward over every protocol.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "the peer of a test ends with the test")]

mod client;

use std::sync::Arc;

use client::{Frame, Spdy, WebSocket, within};
use http::{HeaderMap, HeaderName, HeaderValue};
use setpoint_streaming::port_forward::{Forward, serve};
use setpoint_streaming::{Limits, negotiation};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
    let parse = |(name, value): &(&'static str, &'static str)| {
        (HeaderName::from_static(name), HeaderValue::from_static(value))
    };
    pairs.iter().map(parse).collect()
}

fn websocket(protocol: &'static str) -> HeaderMap {
    headers(&[
        ("connection", "Upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "eA=="),
        ("sec-websocket-protocol", protocol),
    ])
}

fn spdy() -> HeaderMap {
    headers(&[
        ("upgrade", "SPDY/3.1"),
        ("x-stream-protocol-version", "portforward.k8s.io"),
    ])
}

/// Sends back what comes until its end. Nothing listens on port 1.
fn echo() -> Forward {
    Arc::new(|port, stream| {
        Box::pin(async move {
            if port == 1 {
                return Err("connection refused".to_owned());
            }
            let (mut reader, mut writer) = tokio::io::split(stream);
            tokio::io::copy(&mut reader, &mut writer)
                .await
                .map_err(|error| error.to_string())?;
            Ok(())
        })
    })
}

fn start(headers: &HeaderMap, ports: &[u16]) -> (DuplexStream, tokio::task::JoinHandle<()>) {
    let protocol = negotiation::port_forward(headers, || Ok(ports.to_vec()))
        .unwrap()
        .protocol;
    let (client, server) = tokio::io::duplex(1 << 20);
    let served = serve(Box::new(server), protocol, Limits::default(), echo());
    (client, tokio::spawn(served))
}

fn stream(kind: &'static str, port: &'static str, id: &'static str) -> [(&'static str, &'static str); 3] {
    [("streamtype", kind), ("port", port), ("requestid", id)]
}

#[tokio::test]
async fn over_spdy_a_pair_of_streams_is_a_connection() {
    let (client, served) = start(&spdy(), &[]);
    let mut client = Spdy::new(client);
    client.open(1, &stream("error", "80", "0")).await;
    client.open(3, &stream("data", "80", "0")).await;
    client.data(1, b"", true).await;
    assert_eq!(within(client.receive()).await, Frame::Reply(1));
    assert_eq!(within(client.receive()).await, Frame::Reply(3));
    client.data(3, b"hello", false).await;
    assert_eq!(within(client.receive()).await, Frame::Data(3, b"hello".to_vec()));
    client.data(3, b"", true).await;
    assert_eq!(within(client.receive()).await, Frame::Finish(3));
    assert_eq!(within(client.receive()).await, Frame::Finish(1));
    drop(client);
    within(served).await.unwrap();
}

#[tokio::test]
async fn over_spdy_an_error_is_sent_and_the_data_stream_is_reset() {
    let (client, _served) = start(&spdy(), &[]);
    let mut client = Spdy::new(client);
    client.open(1, &stream("error", "1", "0")).await;
    client.open(3, &stream("data", "1", "0")).await;
    let mut frames = Vec::new();
    for _ in 0..5 {
        frames.push(within(client.receive()).await);
    }
    let error = Frame::Data(1, b"connection refused".to_vec());
    assert_eq!(frames[2..], [error, Frame::Reset(3), Frame::Finish(1)]);
}

#[tokio::test]
async fn streams_without_a_request_id_are_paired_by_their_numbers() {
    let (client, _served) = start(&spdy(), &[]);
    let mut client = Spdy::new(client);
    client.open(1, &[("streamtype", "error"), ("port", "80")]).await;
    client.open(3, &[("streamtype", "data"), ("port", "80")]).await;
    client.data(3, b"x", false).await;
    within(client.receive()).await;
    within(client.receive()).await;
    assert_eq!(within(client.receive()).await, Frame::Data(3, b"x".to_vec()));
}

#[tokio::test]
async fn a_stream_without_a_port_or_of_another_type_is_rejected() {
    let (client, _served) = start(&spdy(), &[]);
    let mut client = Spdy::new(client);
    client.open(1, &[("streamtype", "error")]).await;
    client.open(3, &[("streamtype", "other"), ("port", "80")]).await;
    client.open(5, &[("streamtype", "data"), ("port", "0")]).await;
    for id in [1, 3, 5] {
        assert_eq!(within(client.receive()).await, Frame::Reset(id));
    }
}

#[tokio::test(start_paused = true)]
async fn streams_on_which_the_client_sends_nothing_are_limited_too() {
    let (client, _served) = start(&spdy(), &[]);
    let mut client = Spdy::new(client);
    for number in 0..1001_u32 {
        let id = number.to_string();
        let headers = [
            ("streamtype", "error"),
            ("port", "80"),
            ("requestid", id.as_str()),
        ];
        client.open_with(2 * number + 1, &headers, true).await;
        let expected = match number {
            1000 => Frame::Reset(2001),
            _ => Frame::Reply(2 * number + 1),
        };
        assert_eq!(within(client.receive()).await, expected);
    }
    // Streams that were not completed in time are closed and no longer count.
    for _ in 0..2000 {
        within(client.receive()).await;
    }
    client.open(2003, &stream("error", "80", "x")).await;
    assert_eq!(within(client.receive()).await, Frame::Reply(2003));
}

#[tokio::test(start_paused = true)]
async fn a_pair_that_is_not_completed_gets_an_error() {
    let (client, _served) = start(&spdy(), &[]);
    let mut client = Spdy::new(client);
    client.open(1, &stream("error", "80", "0")).await;
    assert_eq!(within(client.receive()).await, Frame::Reply(1));
    let error = Frame::Data(1, b"timed out waiting for streams".to_vec());
    assert_eq!(within(client.receive()).await, error);
}

#[tokio::test]
async fn over_websocket_channels_each_port_has_a_pair_of_channels() {
    let (client, _served) = start(&websocket("v4.channel.k8s.io"), &[80, 1]);
    let mut client = WebSocket(client);
    for expected in [[0, 80, 0], [1, 80, 0], [2, 1, 0], [3, 1, 0]] {
        assert_eq!(within(client.receive()).await, (2, expected.to_vec()));
    }
    assert_eq!(
        within(client.receive()).await,
        (2, b"\x03connection refused".to_vec())
    );
    client.send(2, b"\0hello").await;
    assert_eq!(within(client.receive()).await, (2, b"\0hello".to_vec()));
}

/// What kubectl uses: SPDY frames inside binary messages.
#[tokio::test]
async fn a_tunnel_carries_spdy_inside_a_websocket() {
    let (client, _served) = start(&websocket("SPDY/3.1+portforward.k8s.io"), &[]);
    let mut client = WebSocket(client);
    let (inner, outer) = tokio::io::duplex(1 << 16);
    let mut spdy = Spdy::new(inner);
    let (mut from_spdy, mut to_spdy) = tokio::io::split(outer);
    spdy.open(1, &stream("error", "80", "0")).await;
    spdy.open(3, &stream("data", "80", "0")).await;
    spdy.data(3, &[b'x'; 3000], false).await;
    let mut bytes = vec![0; 1 << 16];
    let count = from_spdy.read(&mut bytes).await.unwrap();
    for piece in bytes[..count].chunks(1000) {
        client.send(2, piece).await;
    }
    client.send(9, b"ping").await;
    let mut is_pinged = false;
    let mut received = Vec::new();
    while received.len() < 3000 {
        match within(client.receive()).await {
            (10, payload) => is_pinged = payload == b"ping",
            (_, payload) => to_spdy.write_all(&payload).await.unwrap(),
        }
        while let Ok(frame) = tokio::time::timeout(std::time::Duration::from_millis(10), spdy.receive()).await
        {
            if let Frame::Data(3, bytes) = frame {
                received.extend(bytes);
            }
        }
    }
    assert_eq!(received, [b'x'; 3000]);
    assert!(is_pinged || within(client.receive()).await.0 == 10);
}
