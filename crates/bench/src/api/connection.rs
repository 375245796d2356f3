//! A minimal correct HTTP/1.1 client: one keep-alive TLS connection, pre-encoded requests.
//!
//! A load generator that costs as much as the server would measure itself, so nothing here allocates once a connection is warm.

use anyhow::{Context, Result, bail, ensure};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::{chunked::ChunkedDecoder, endpoint::Endpoint};

/// Four TLS records: large enough that a list is read in few steps, small enough for hundreds of watchers.
const BUFFER_BYTES: usize = 64 << 10;

/// More headers than any server here sends.
const MAX_HEADERS: usize = 48;

/// A connection with at most one request in flight.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TlsStream<TcpStream>,
    buffer: Vec<u8>,
    /// The range of `buffer` that was received and not consumed yet.
    start: usize,
    end: usize,
    body: Vec<u8>,
}

/// A response with its whole body.
#[derive(Debug)]
pub(crate) struct Response<'a> {
    pub(crate) status: u16,
    pub(crate) body: &'a [u8],
}

/// The status and body framing of a response.
#[derive(Debug)]
struct Head {
    status: u16,
    framing: BodyFraming,
}

/// How the length of a body is determined.
#[derive(Debug)]
enum BodyFraming {
    Length(u64),
    Chunked(ChunkedDecoder),
}

impl Connection {
    pub(crate) async fn open(endpoint: &Endpoint) -> Result<Self> {
        let stream = TcpStream::connect(endpoint.address).await.context("connecting")?;
        stream.set_nodelay(true)?;
        let connector = TlsConnector::from(endpoint.tls.clone());
        let stream = connector
            .connect(endpoint.name.clone(), stream)
            .await
            .context("the TLS handshake")?;
        Ok(Self {
            stream,
            buffer: vec![0; BUFFER_BYTES],
            start: 0,
            end: 0,
            body: Vec::new(),
        })
    }

    /// Sends a request and keeps the body of its response.
    pub(crate) async fn round_trip(&mut self, request: &[u8]) -> Result<Response<'_>> {
        let mut body = std::mem::take(&mut self.body);
        body.clear();
        let status = self.visit(request, |data| body.extend_from_slice(data)).await;
        self.body = body;
        Ok(Response {
            status: status?,
            body: &self.body,
        })
    }

    /// Sends a request and hands the body of its response to `visit` as it arrives.
    pub(crate) async fn visit(&mut self, request: &[u8], mut visit: impl FnMut(&[u8])) -> Result<u16> {
        self.send(request).await?;
        let mut head = self.receive_head().await?;
        while !self.advance(&mut head.framing, &mut visit)? {
            self.receive().await?;
        }
        Ok(head.status)
    }

    /// Sends a request with a streaming response; chunks of its body go to `visit`, which returns whether to continue.
    pub(crate) async fn follow(
        &mut self,
        request: &[u8],
        started: impl FnOnce(u16),
        mut visit: impl FnMut(&[u8]) -> bool,
    ) -> Result<()> {
        self.send(request).await?;
        let mut head = self.receive_head().await?;
        started(head.status);
        let mut proceed = true;
        loop {
            let done = self.advance(&mut head.framing, &mut |data| proceed &= visit(data))?;
            if !proceed {
                return Ok(());
            }
            ensure!(!done, "the server ended a response that was being followed");
            self.receive().await?;
        }
    }

    async fn send(&mut self, request: &[u8]) -> Result<()> {
        self.stream
            .write_all(request)
            .await
            .context("sending a request")?;
        self.stream.flush().await.context("sending a request")
    }

    /// Reads once, after making room for it.
    async fn receive(&mut self) -> Result<()> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.end == self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        ensure!(
            self.end < self.buffer.len(),
            "a response head of more than {BUFFER_BYTES} bytes"
        );
        let length = self
            .stream
            .read(&mut self.buffer[self.end..])
            .await
            .context("receiving a response")?;
        ensure!(length > 0, "the server closed the connection");
        self.end += length;
        Ok(())
    }

    async fn receive_head(&mut self) -> Result<Head> {
        loop {
            if let Some((head, length)) = parse_head(&self.buffer[self.start..self.end])? {
                self.start += length;
                return Ok(head);
            }
            self.receive().await?;
        }
    }

    /// Consumes received bytes. Returns whether the body is complete.
    fn advance(&mut self, framing: &mut BodyFraming, visit: &mut impl FnMut(&[u8])) -> Result<bool> {
        let received = &self.buffer[self.start..self.end];
        let used = match framing {
            BodyFraming::Length(left) => {
                let used = usize::try_from(*left).unwrap_or(usize::MAX).min(received.len());
                visit(&received[..used]);
                *left -= used as u64;
                used
            }
            BodyFraming::Chunked(chunked) => chunked.feed(received, visit)?,
        };
        self.start += used;
        Ok(framing.is_done())
    }
}

impl BodyFraming {
    fn is_done(&self) -> bool {
        match self {
            BodyFraming::Length(left) => *left == 0,
            BodyFraming::Chunked(chunked) => chunked.is_done(),
        }
    }
}

/// Parses the head. Returns it with its length, or `None` if it is incomplete.
fn parse_head(bytes: &[u8]) -> Result<Option<(Head, usize)>> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(length) = response.parse(bytes).context("reading a response head")? else {
        return Ok(None);
    };
    let status = response.code.context("a response without a status")?;
    let mut framing = BodyFraming::Length(0);
    for header in response.headers.iter() {
        if header.name.eq_ignore_ascii_case("content-length") {
            let text = std::str::from_utf8(header.value)?;
            framing = BodyFraming::Length(text.parse().with_context(|| format!("content-length {text:?}"))?);
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            framing = BodyFraming::Chunked(ChunkedDecoder::new());
        } else if header.name.eq_ignore_ascii_case("connection")
            && header.value.eq_ignore_ascii_case(b"close")
        {
            bail!("the server does not keep the connection (status {status})");
        }
    }
    Ok(Some((Head { status, framing }, length)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::request::encode;

    #[test]
    fn half_a_head_is_not_yet_a_head() {
        assert!(parse_head(b"HTTP/1.1 200 OK\r\nContent-Le").unwrap().is_none());
    }

    #[track_caller]
    fn check(head: &str, status: u16, length: Option<u64>) {
        let (parsed, used) = parse_head(head.as_bytes()).unwrap().unwrap();
        assert_eq!((parsed.status, used), (status, head.len()));
        match (parsed.framing, length) {
            (BodyFraming::Length(found), Some(expected)) => assert_eq!(found, expected),
            (BodyFraming::Chunked(_), None) => {}
            (framing, _) => panic!("{framing:?}"),
        }
    }

    #[test]
    fn a_body_is_framed_by_its_length_or_by_chunks() {
        check(
            "HTTP/1.1 201 Created\r\ncontent-length: 12\r\n\r\n",
            201,
            Some(12),
        );
        check("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", 200, None);
        check("HTTP/1.1 304 Not Modified\r\n\r\n", 304, Some(0));
    }

    #[tokio::test]
    async fn responses_follow_each_other_on_one_connection() {
        let dir = tempfile::tempdir().unwrap();
        let kubeconfig = dir.path().join("kubeconfig");
        let mut server = tokio::task::JoinSet::new();
        server.spawn(
            crate::null_server::NullServer::bind(&kubeconfig)
                .await
                .unwrap()
                .serve(),
        );
        let mut connection = Connection::open(&Endpoint::read(&kubeconfig).unwrap())
            .await
            .unwrap();
        for (method, path, body, status, length) in [
            ("GET", "/readyz", "", 200, 1024),
            ("POST", "/objects", "{}", 201, 1024),
            ("GET", "/bytes/200000", "", 200, 200_000),
            ("GET", "/bytes/0", "", 200, 0),
            ("GET", "/readyz", "", 200, 1024),
        ] {
            let response = connection
                .round_trip(&encode(method, path, body.as_bytes()))
                .await
                .unwrap();
            assert_eq!(
                (response.status, response.body.len()),
                (status, length),
                "{method} {path}"
            );
        }
    }

    #[test]
    fn a_server_that_closes_is_an_error() {
        assert!(parse_head(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n").is_err());
    }
}
