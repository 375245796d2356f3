//! Clients of the protocols, as far as the tests need them.
#![allow(dead_code, reason = "each test uses some of it")]

use std::time::Duration;

use setpoint_streaming::spdy::{BlockWriter, HeaderBlock};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

/// A message of a server: its opcode and payload.
pub(crate) type Message = (u8, Vec<u8>);

/// A WebSocket client.
pub(crate) struct WebSocket(pub(crate) DuplexStream);

impl WebSocket {
    pub(crate) async fn send(&mut self, opcode: u8, payload: &[u8]) {
        let mut frame = vec![0x80 | opcode, 0xfe];
        frame.extend((payload.len() as u16).to_be_bytes());
        frame.extend([1, 2, 3, 4]);
        let masked = payload.iter().zip([1, 2, 3, 4].iter().cycle());
        frame.extend(masked.map(|(byte, mask)| byte ^ mask));
        self.0.write_all(&frame).await.unwrap();
    }

    pub(crate) async fn receive(&mut self) -> Message {
        let first = self.0.read_u8().await.unwrap();
        let length = match self.0.read_u8().await.unwrap() {
            126 => usize::from(self.0.read_u16().await.unwrap()),
            127 => usize::try_from(self.0.read_u64().await.unwrap()).unwrap(),
            short => usize::from(short),
        };
        let mut payload = vec![0; length];
        self.0.read_exact(&mut payload).await.unwrap();
        (first & 0x0f, payload)
    }

    /// The payloads of all messages until the connection is closed.
    pub(crate) async fn receive_all(&mut self) -> Vec<Vec<u8>> {
        let mut messages = Vec::new();
        loop {
            match self.receive().await {
                (8, _) => return messages,
                (_, payload) => messages.push(payload),
            }
        }
    }
}

/// A frame of a SPDY server.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    Reply(u32),
    Data(u32, Vec<u8>),
    Finish(u32),
    Reset(u32),
    Ping(u32),
    GoAway,
}

/// A SPDY client over any stream of bytes.
pub(crate) struct Spdy<S> {
    pub(crate) stream: S,
    headers: BlockWriter,
}

impl<S: AsyncReadExt + AsyncWriteExt + Unpin> Spdy<S> {
    pub(crate) fn new(stream: S) -> Self {
        let headers = BlockWriter::default();
        Self { stream, headers }
    }

    pub(crate) async fn control(&mut self, kind: u8, payload: &[u8]) {
        self.control_with(kind, 0, payload).await;
    }

    async fn control_with(&mut self, kind: u8, flags: u8, payload: &[u8]) {
        let length = (payload.len() as u32).to_be_bytes();
        let head = [0x80, 3, 0, kind, flags, length[1], length[2], length[3]];
        self.stream
            .write_all(&[&head[..], payload].concat())
            .await
            .unwrap();
    }

    pub(crate) async fn open(&mut self, id: u32, headers: &[(&str, &str)]) {
        self.open_with(id, headers, false).await;
    }

    /// Opens a stream; with `is_last`, one on which the client sends nothing.
    pub(crate) async fn open_with(&mut self, id: u32, headers: &[(&str, &str)], is_last: bool) {
        let owned = headers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let mut payload = id.to_be_bytes().to_vec();
        payload.extend([0; 6]);
        self.headers.write(&HeaderBlock(owned.collect()), &mut payload);
        self.control_with(1, u8::from(is_last), &payload).await;
    }

    pub(crate) async fn data(&mut self, id: u32, bytes: &[u8], is_last: bool) {
        let length = (bytes.len() as u32).to_be_bytes();
        let head = [u8::from(is_last), length[1], length[2], length[3]];
        let frame = [&id.to_be_bytes()[..], &head, bytes].concat();
        self.stream.write_all(&frame).await.unwrap();
    }

    pub(crate) async fn receive(&mut self) -> Frame {
        let first = self.stream.read_u32().await.unwrap();
        let second = self.stream.read_u32().await.unwrap();
        let mut payload = vec![0; (second & 0xff_ffff) as usize];
        self.stream.read_exact(&mut payload).await.unwrap();
        if first >> 31 == 0 {
            return match second >> 24 {
                1 => Frame::Finish(first),
                _ => Frame::Data(first, payload),
            };
        }
        let id = || u32::from_be_bytes(payload[..4].try_into().unwrap());
        match first & 0xffff {
            2 => Frame::Reply(id()),
            3 => Frame::Reset(id()),
            6 => Frame::Ping(id()),
            7 => Frame::GoAway,
            other => panic!("frame of type {other}"),
        }
    }

    /// All frames until the server ends the connection.
    pub(crate) async fn receive_all(&mut self) -> Vec<Frame> {
        let mut frames = Vec::new();
        loop {
            match self.receive().await {
                Frame::GoAway => return frames,
                frame => frames.push(frame),
            }
        }
    }
}

/// Fails instead of waiting forever.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), future)
        .await
        .expect("the session ends")
}
