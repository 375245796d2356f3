//! HTTP proxies: connections through a `CONNECT` tunnel.

use std::io;

use ::http::Uri;
use ::http::uri::Scheme;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::Error;

/// A proxy and the credentials for it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Proxy {
    host: String,
    port: u16,
    /// The value of `Proxy-Authorization`.
    authorization: Option<String>,
}

/// The longest accepted head of a response to `CONNECT`.
const MAX_HEAD_BYTES: usize = 8 << 10;

impl Proxy {
    /// Parses `http://user:password@host:port`. Other schemes are not supported.
    pub(crate) fn parse(url: &str) -> Result<Self, Error> {
        let bad = || Error::Proxy(without_user(url));
        let uri: Uri = url.parse().map_err(|_| bad())?;
        if uri.scheme() != Some(&Scheme::HTTP) {
            return Err(bad());
        }
        let host = uri.host().ok_or_else(bad)?;
        let user = uri
            .authority()
            .and_then(|authority| authority.as_str().rsplit_once('@'));
        Ok(Self {
            host: host.trim_start_matches('[').trim_end_matches(']').to_owned(),
            port: uri.port_u16().unwrap_or(80),
            authorization: user.map(|(user, _)| format!("Basic {}", STANDARD.encode(user))),
        })
    }

    /// A tunnel to this host and port.
    pub(crate) async fn tunnel(&self, host: &str, port: u16) -> io::Result<TcpStream> {
        let mut stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
        let host = match host.contains(':') {
            true => format!("[{host}]"),
            false => host.to_owned(),
        };
        let mut message = format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n");
        if let Some(authorization) = &self.authorization {
            message.push_str(&format!("Proxy-Authorization: {authorization}\r\n"));
        }
        message.push_str("\r\n");
        stream.write_all(message.as_bytes()).await?;
        let head = read_head(&mut stream).await?;
        let line = head.lines().next().unwrap_or_default();
        match line.split(' ').nth(1) {
            Some("200") => Ok(stream),
            _ => Err(io::Error::other(format!(
                "the proxy {}:{} responded {line:?}",
                self.host, self.port
            ))),
        }
    }
}

/// Reads up to the empty line, and nothing beyond: that belongs to the tunnel.
async fn read_head(stream: &mut TcpStream) -> io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() >= MAX_HEAD_BYTES {
            return Err(io::Error::other("the head of the proxy's response is too long"));
        }
        head.push(stream.read_u8().await?);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

/// The URL without credentials, for messages.
fn without_user(url: &str) -> String {
    match url.rsplit_once('@') {
        Some((_, host)) => format!("...@{host}"),
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::core::v1::ConfigMap;
    use setpoint_api::Status;
    use tokio::net::TcpListener;
    use tokio::task::JoinSet;

    use super::*;
    use crate::kubeconfig::Connection;
    use crate::{Client, Http, Kubeconfig};

    const MAP: &str =
        r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x","namespace":"a","uid":"u"}}"#;

    /// The result of a get through a proxy with this response, and the request to the proxy.
    async fn get(user: &str, response: &'static str) -> (Result<String, Status>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = format!("http://{user}{}", listener.local_addr().unwrap());
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let request = read_head(&mut stream).await.unwrap();
            stream.write_all(response.as_bytes()).await.unwrap();
            if response.contains("200") {
                // The proxy also plays the server.
                read_head(&mut stream).await.unwrap();
                let length = MAP.len();
                let map = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{MAP}");
                stream.write_all(map.as_bytes()).await.unwrap();
            }
            request
        });
        let connection = Connection {
            server: "http://server.far:8080".to_owned(),
            proxy: Some(proxy),
            ..Connection::default()
        };
        let client = Client::new(Arc::new(Http::new(&connection).unwrap()), Arc::default());
        let map = client.namespaced::<ConfigMap>("a").get("x").await;
        let request = tasks.join_next().await.unwrap().unwrap();
        (map.map(|map| map.uid().to_owned()), request)
    }

    #[tokio::test]
    async fn a_server_is_reached_through_the_proxy_and_not_by_itself() {
        let (uid, request) = get("", "HTTP/1.1 200 Connection established\r\n\r\n").await;
        assert_eq!(uid.unwrap(), "u");
        assert_eq!(
            request,
            "CONNECT server.far:8080 HTTP/1.1\r\nHost: server.far:8080\r\n\r\n"
        );
    }

    #[tokio::test]
    async fn credentials_are_sent_to_the_proxy() {
        let (_, request) = get("me:secret@", "HTTP/1.0 200 OK\r\nvia: x\r\n\r\n").await;
        assert!(
            request.contains("Proxy-Authorization: Basic bWU6c2VjcmV0\r\n"),
            "{request}"
        );
    }

    #[tokio::test]
    async fn the_error_of_a_proxy_is_reported() {
        let (error, _) = get("", "HTTP/1.1 407 Proxy Authentication Required\r\n\r\n").await;
        let error = error.unwrap_err();
        assert_eq!(error.code, 503);
        assert!(
            error.message.contains("407 Proxy Authentication Required"),
            "{error}"
        );
    }

    #[test]
    fn a_kubeconfig_names_the_proxy_of_a_cluster() {
        let file = Kubeconfig::parse(
            "
current-context: c
contexts: [{name: c, context: {cluster: c}}]
clusters: [{name: c, cluster: {server: 'https://far', proxy-url: 'http://near:3128'}}]
",
        );
        let connection = file.unwrap().connection(None).unwrap();
        assert_eq!(connection.proxy.as_deref(), Some("http://near:3128"));
    }

    #[track_caller]
    fn check_error(url: &str, expected: &str) {
        let error = Proxy::parse(url).err().map(|error| error.to_string());
        assert_eq!(error.as_deref(), Some(expected));
    }

    #[test]
    fn other_schemes_are_errors_without_their_secrets() {
        check_error(
            "socks5://me:secret@near:1080",
            r#"unsupported proxy URL "...@near:1080": only http:// is supported"#,
        );
        check_error(
            "near:3128",
            r#"unsupported proxy URL "near:3128": only http:// is supported"#,
        );
    }
}
