//! Exec over every protocol: output, input, terminal sizes, and how a command ended.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "the peer of a test ends with the test")]

mod client;

use client::{Frame, Spdy, WebSocket, within};
use http::{HeaderMap, HeaderName, HeaderValue};
use setpoint_streaming::remote_command::{Command, Options, serve};
use setpoint_streaming::status::Outcome;
use setpoint_streaming::{Limits, negotiation};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

const ALL: Options = Options {
    stdin: true,
    stdout: true,
    stderr: true,
    tty: false,
};

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

fn spdy(protocol: &'static str) -> HeaderMap {
    headers(&[("upgrade", "SPDY/3.1"), ("x-stream-protocol-version", protocol)])
}

/// Serves a command on the other end of a pipe.
fn start(
    headers: &HeaderMap,
    options: Options,
    command: Command<'static>,
) -> (DuplexStream, tokio::task::JoinHandle<()>) {
    let protocol = negotiation::remote_command(headers).unwrap().protocol;
    let (client, server) = tokio::io::duplex(1 << 20);
    let served = serve(Box::new(server), protocol, options, Limits::default(), command);
    (client, tokio::spawn(served))
}

/// Copies its input to its output, writes `done` to standard error, and exits with a code.
fn cat(code: i32) -> Command<'static> {
    Box::new(move |streams| {
        Box::pin(async move {
            let (mut stdin, mut stdout) = (streams.stdin.unwrap(), streams.stdout.unwrap());
            tokio::io::copy(&mut stdin, &mut stdout).await.unwrap();
            streams.stderr.unwrap().write_all(b"done").await.unwrap();
            match code {
                0 => Outcome::Success,
                code => Outcome::Exited {
                    code,
                    message: format!("exit code {code}"),
                },
            }
        })
    })
}

const SUCCESS: &str = r#"{"metadata":{},"status":"Success"}"#;
const EXIT_3: &str = concat!(
    r#"{"metadata":{},"status":"Failure","message":"command terminated with non-zero exit code: exit code 3","#,
    r#""reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"3"}]}}"#
);

#[track_caller]
fn check_messages(messages: &[Vec<u8>], expected: &[&str]) {
    let texts: Vec<String> = messages
        .iter()
        .map(|message| String::from_utf8_lossy(message).into_owned())
        .collect();
    assert_eq!(texts, expected);
}

#[tokio::test]
async fn over_v5_the_client_closes_its_input_and_gets_all_output() {
    let (client, served) = start(&websocket("v5.channel.k8s.io"), ALL, cat(3));
    let mut client = WebSocket(client);
    client.send(2, b"\0hello").await;
    client.send(9, b"ping").await;
    client.send(2, &[255, 0]).await;
    let messages = within(client.receive_all()).await;
    let (pongs, messages): (Vec<_>, Vec<_>) = messages.into_iter().partition(|message| message == b"ping");
    assert_eq!(pongs.len(), 1);
    check_messages(&messages, &["\u{1}hello", "\u{2}done", &format!("\u{3}{EXIT_3}")]);
    drop(client);
    within(served).await.unwrap();
}

#[tokio::test]
async fn over_v4_the_first_message_is_empty_and_a_success_has_a_status() {
    let command: Command<'static> = Box::new(|streams| {
        Box::pin(async move {
            streams.stdout.unwrap().write_all(b"hi").await.unwrap();
            Outcome::Success
        })
    });
    let (client, _served) = start(&websocket("v4.channel.k8s.io"), ALL, command);
    let messages = within(WebSocket(client).receive_all()).await;
    check_messages(&messages, &["\u{1}", "\u{1}hi", &format!("\u{3}{SUCCESS}")]);
}

#[tokio::test]
async fn before_v4_only_an_error_has_a_text() {
    let failed = || -> Command<'static> {
        Box::new(|_| {
            Box::pin(async { Outcome::Failed("error executing command in container: x".to_owned()) })
        })
    };
    let message = "Internal error occurred: error executing command in container: x";
    let (client, _served) = start(&websocket("channel.k8s.io"), ALL, failed());
    let messages = within(WebSocket(client).receive_all()).await;
    check_messages(&messages, &["\u{1}", &format!("\u{3}{message}")]);
    let success: Command<'static> = Box::new(|_| Box::pin(async { Outcome::Success }));
    let (client, _served) = start(&websocket("v2.channel.k8s.io"), ALL, success);
    check_messages(&within(WebSocket(client).receive_all()).await, &["\u{1}"]);
}

#[tokio::test]
async fn messages_in_base64_are_text() {
    let command: Command<'static> = Box::new(|streams| {
        Box::pin(async move {
            let mut byte = [0; 2];
            streams.stdin.unwrap().read_exact(&mut byte).await.unwrap();
            streams.stdout.unwrap().write_all(&byte).await.unwrap();
            Outcome::Success
        })
    });
    let (client, _served) = start(&websocket("base64.channel.k8s.io"), ALL, command);
    let mut client = WebSocket(client);
    client.send(1, b"0aGk=").await;
    assert_eq!(within(client.receive()).await, (1, b"1".to_vec()));
    assert_eq!(within(client.receive()).await, (1, b"1aGk=".to_vec()));
}

#[tokio::test]
async fn terminal_sizes_reach_the_command() {
    let command = || -> Command<'static> {
        Box::new(|streams| {
            Box::pin(async move {
                let size = streams.resize.unwrap().recv().await.unwrap();
                let text = format!("{}x{}", size.width, size.height);
                streams.stdout.unwrap().write_all(text.as_bytes()).await.unwrap();
                Outcome::Success
            })
        })
    };
    let options = Options {
        stdout: true,
        tty: true,
        ..Options::default()
    };
    let (client, _served) = start(&websocket("v5.channel.k8s.io"), options, command());
    let mut client = WebSocket(client);
    client.send(2, b"\x04{\"Width\":80,\"Height\":24}").await;
    assert_eq!(within(client.receive()).await, (2, b"\x0180x24".to_vec()));

    let (client, _served) = start(&spdy("v4.channel.k8s.io"), options, command());
    let mut client = Spdy::new(client);
    for (id, stream) in [(1, "error"), (3, "stdout"), (5, "resize")] {
        client.open(id, &[("streamtype", stream)]).await;
    }
    client.data(5, b"{\"Width\":10,\"Height\":20}\n", false).await;
    let frames = within(client.receive_all()).await;
    assert!(frames.contains(&Frame::Data(3, b"10x20".to_vec())), "{frames:?}");
}

#[tokio::test]
async fn over_spdy_all_streams_are_accepted_and_end() {
    let (client, served) = start(&spdy("v4.channel.k8s.io"), ALL, cat(3));
    let mut client = Spdy::new(client);
    client.control(6, &[0, 0, 0, 1]).await;
    for (id, stream) in [(1, "error"), (3, "stdin"), (5, "stdout"), (7, "stderr")] {
        client.open(id, &[("streamtype", stream)]).await;
    }
    client.data(3, b"hello", false).await;
    client.data(3, b"", true).await;
    let frames = within(client.receive_all()).await;
    assert_eq!(
        frames,
        [
            Frame::Ping(1),
            Frame::Reply(1),
            Frame::Reply(3),
            Frame::Reply(5),
            Frame::Reply(7),
            Frame::Data(5, b"hello".to_vec()),
            Frame::Data(7, b"done".to_vec()),
            Frame::Data(1, EXIT_3.as_bytes().to_vec()),
            Frame::Finish(1),
            Frame::Finish(3),
            Frame::Finish(5),
            Frame::Finish(7),
        ]
    );
    drop(client);
    within(served).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_client_that_opens_no_streams_is_left_after_the_timeout() {
    let command: Command<'static> = Box::new(|_| Box::pin(async { panic!("the command runs") }));
    let (client, served) = start(&spdy("v4.channel.k8s.io"), ALL, command);
    let mut client = Spdy::new(client);
    client.open(1, &[("streamtype", "error")]).await;
    let frames = within(client.receive_all()).await;
    assert_eq!(frames, [Frame::Reply(1)]);
    drop(client);
    within(served).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_idle_session_ends_and_one_with_pings_does_not() {
    let forever = || -> Command<'static> { Box::new(|_| Box::pin(std::future::pending())) };
    let (client, served) = start(&websocket("v5.channel.k8s.io"), ALL, forever());
    let mut client = WebSocket(client);
    for _ in 0..3 {
        tokio::time::sleep(Limits::default().idle / 2).await;
        client.send(9, b"").await;
        within(client.receive()).await;
    }
    assert!(!served.is_finished());
    served.await.unwrap();
}

#[tokio::test]
async fn a_command_whose_client_leaves_is_dropped() {
    struct DropGuard(Option<tokio::sync::oneshot::Sender<()>>);
    impl Drop for DropGuard {
        fn drop(&mut self) {
            self.0.take().unwrap().send(()).unwrap();
        }
    }
    let (sender, dropped) = tokio::sync::oneshot::channel();
    let guard = DropGuard(Some(sender));
    let command: Command<'static> = Box::new(move |_| {
        Box::pin(async move {
            let _guard = guard;
            std::future::pending().await
        })
    });
    let (client, served) = start(&websocket("v5.channel.k8s.io"), ALL, command);
    drop(client);
    within(dropped).await.unwrap();
    within(served).await.unwrap();
}

#[tokio::test]
async fn a_megabyte_passes_both_ways_through_bounded_buffers() {
    let (client, _served) = start(&websocket("v5.channel.k8s.io"), ALL, cat(0));
    let (mut reader, mut writer) = tokio::io::split(client);
    let total = 1 << 20;
    let send = async move {
        for _ in 0..total / 32768 {
            let mut frame = vec![0x82, 0xfe, 0x80, 0x01, 0, 0, 0, 0, 0];
            frame.extend(vec![b'x'; 32768]);
            writer.write_all(&frame).await.unwrap();
        }
        writer.write_all(&[0x82, 0x82, 0, 0, 0, 0, 255, 0]).await.unwrap();
        writer
    };
    let receive = async move {
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).await.unwrap();
        bytes.iter().filter(|byte| **byte == b'x').count()
    };
    let (_writer, received) = within(async { tokio::join!(send, receive) }).await;
    assert_eq!(received, total);
}
