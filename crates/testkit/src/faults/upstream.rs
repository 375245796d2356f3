//! The proxy's own request to the server.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::chunks::Chunks;
use crate::served;

/// A request, as far as it matters here.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) path: String,
    pub(super) accept: String,
}

/// An answer whose body is still to come.
pub(super) struct Answer {
    pub(super) code: u16,
    pub(super) content_type: String,
    stream: TlsStream<TcpStream>,
    body: Body,
}

enum Body {
    /// In chunks; what of them came with the head.
    Chunked(Chunks, Vec<u8>),
    /// To the end of the connection; what of it came with the head.
    ToTheEnd(Vec<u8>),
}

const HEADERS: usize = 64;

impl Asked {
    pub(super) fn is_watch(&self) -> bool {
        let query = self.path.split_once('?').map_or("", |(_, query)| query);
        query
            .split('&')
            .any(|pair| pair == "watch=true" || pair == "watch=1")
    }
}

/// Asks the server, over a connection for this one request.
pub(super) async fn ask(target: SocketAddr, asked: &Asked) -> io::Result<Answer> {
    let stream = TcpStream::connect(target).await?;
    stream.set_nodelay(true)?;
    let name = ServerName::try_from("localhost").expect("it is a name");
    let mut stream = tls().connect(name, stream).await?;
    let Asked { path, accept } = asked;
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
                true => Body::Chunked(Chunks::default(), rest),
                false => Body::ToTheEnd(rest),
            };
            return Ok(Answer {
                code,
                content_type,
                stream,
                body,
            });
        }
    }
}

impl Answer {
    /// The next piece of the body; `None` at its end. It may be dropped while it waits.
    pub(super) async fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            match &mut self.body {
                Body::Chunked(chunks, rest) => {
                    let said = chunks.push(&std::mem::take(rest));
                    if !said.is_empty() {
                        return Ok(Some(said));
                    }
                    if chunks.has_ended() {
                        return Ok(None);
                    }
                    if self.stream.read_buf(rest).await? == 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Body::ToTheEnd(rest) => {
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
    pub(super) async fn whole(&mut self) -> io::Result<Vec<u8>> {
        let mut whole = Vec::new();
        while let Some(piece) = self.next().await? {
            whole.extend(piece);
        }
        Ok(whole)
    }
}

/// Code, type, whether the body comes in chunks, and where it begins; `None` while the head is not complete.
fn parse(read: &[u8]) -> Option<(u16, String, bool, usize)> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
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
            .add(served::authority().clone())
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
