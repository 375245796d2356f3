//! The proxy's request to the upstream server.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::chunks::ChunkDecoder;
use crate::https_server;

/// A request to forward: always a GET without a body.
#[derive(Debug)]
pub(super) struct ProxyRequest {
    pub(super) path: String,
    pub(super) accept: String,
}

/// A response whose body is still to be read.
pub(super) struct UpstreamResponse {
    pub(super) code: u16,
    pub(super) content_type: String,
    stream: TlsStream<TcpStream>,
    body: Body,
}

enum Body {
    /// Chunked; with the bytes that arrived with the head.
    Chunked(ChunkDecoder, Vec<u8>),
    /// Until the connection is closed; with the bytes that arrived with the head.
    UntilClose(Vec<u8>),
}

const MAX_HEADERS: usize = 64;

impl ProxyRequest {
    pub(super) fn is_watch(&self) -> bool {
        let query = self.path.split_once('?').map_or("", |(_, query)| query);
        query
            .split('&')
            .any(|pair| pair == "watch=true" || pair == "watch=1")
    }
}

/// Sends the request over a new connection.
pub(super) async fn send(target: SocketAddr, request: &ProxyRequest) -> io::Result<UpstreamResponse> {
    let stream = TcpStream::connect(target).await?;
    stream.set_nodelay(true)?;
    let name = ServerName::try_from("localhost").expect("it is a name");
    let mut stream = tls().connect(name, stream).await?;
    let ProxyRequest { path, accept } = request;
    let request =
        format!("GET {path} HTTP/1.1\r\nhost: localhost\r\naccept: {accept}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut read = Vec::new();
    loop {
        if stream.read_buf(&mut read).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if let Some((code, content_type, is_chunked, head)) = parse(&read) {
            let rest = read.split_off(head);
            let body = match is_chunked {
                true => Body::Chunked(ChunkDecoder::default(), rest),
                false => Body::UntilClose(rest),
            };
            return Ok(UpstreamResponse {
                code,
                content_type,
                stream,
                body,
            });
        }
    }
}

impl UpstreamResponse {
    /// The next piece of the body; `None` at its end. Cancel-safe.
    pub(super) async fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            match &mut self.body {
                Body::Chunked(chunks, rest) => {
                    let decoded = chunks.push(&std::mem::take(rest));
                    if !decoded.is_empty() {
                        return Ok(Some(decoded));
                    }
                    if chunks.has_ended() {
                        return Ok(None);
                    }
                    if self.stream.read_buf(rest).await? == 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Body::UntilClose(rest) => {
                    if !rest.is_empty() {
                        return Ok(Some(std::mem::take(rest)));
                    }
                    if self.stream.read_buf(rest).await? == 0 {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// The whole body.
    pub(super) async fn read_all(&mut self) -> io::Result<Vec<u8>> {
        let mut read_all = Vec::new();
        while let Some(piece) = self.next().await? {
            read_all.extend(piece);
        }
        Ok(read_all)
    }
}

/// Code, content type, whether the body is chunked, and where it begins; `None` while the head is incomplete.
fn parse(read: &[u8]) -> Option<(u16, String, bool, usize)> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    let Ok(httparse::Status::Complete(head)) = response.parse(read) else {
        return None;
    };
    let header = |name: &str| {
        let found = response
            .headers
            .iter()
            .find(|header| header.name.eq_ignore_ascii_case(name));
        found.map(|header| String::from_utf8_lossy(header.value).into_owned())
    };
    let is_chunked = header("transfer-encoding").is_some_and(|value| value == "chunked");
    let content_type = header("content-type").unwrap_or_default();
    Some((response.code?, content_type, is_chunked, head))
}

fn tls() -> &'static TlsConnector {
    static TLS: OnceLock<TlsConnector> = OnceLock::new();
    TLS.get_or_init(|| {
        let mut roots = RootCertStore::empty();
        roots
            .add(https_server::authority().clone())
            .expect("our own authority is good");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider knows the default versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        TlsConnector::from(Arc::new(config))
    })
}
