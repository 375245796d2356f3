//! Reaching a server through a proxy, by the tunnel that `CONNECT` asks for.

use std::io;

use ::http::Uri;
use ::http::uri::Scheme;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::Error;

/// A proxy, and who one is there.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Proxy {
    host: String,
    port: u16,
    /// User and password as they stand in a header.
    authorization: Option<String>,
}

/// An answer to a `CONNECT` that is longer is none.
const MAX_HEAD_BYTES: usize = 8 << 10;

impl Proxy {
    /// `http://user:password@host:port`. Proxies of other protocols are not known here.
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

    /// A line to this place, through the proxy.
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
                "the proxy {}:{} answered {line:?}",
                self.host, self.port
            ))),
        }
    }
}

/// All up to the empty line, and nothing of what follows it: that is the server's.
async fn read_head(stream: &mut TcpStream) -> io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() >= MAX_HEAD_BYTES {
            return Err(io::Error::other("the proxy's answer has no end"));
        }
        head.push(stream.read_u8().await?);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

/// The URL as it may be shown.
fn without_user(url: &str) -> String {
    match url.rsplit_once('@') {
        Some((_, place)) => format!("...@{place}"),
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

    /// What comes of a get through a proxy that answers so, and what the proxy is asked.
    async fn get(user: &str, answer: &'static str) -> (Result<String, Status>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = format!("http://{user}{}", listener.local_addr().unwrap());
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let asked = read_head(&mut stream).await.unwrap();
            stream.write_all(answer.as_bytes()).await.unwrap();
            if answer.contains("200") {
                // Behind the proxy is the server; here it is the same.
                read_head(&mut stream).await.unwrap();
                let length = MAP.len();
                let map = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{MAP}");
                stream.write_all(map.as_bytes()).await.unwrap();
            }
            asked
        });
        let connection = Connection {
            server: "http://server.far:8080".to_owned(),
            proxy: Some(proxy),
            ..Connection::default()
        };
        let client = Client::new(Arc::new(Http::new(&connection).unwrap()), Arc::default());
        let map = client.namespaced::<ConfigMap>("a").get("x").await;
        let asked = tasks.join_next().await.unwrap().unwrap();
        (map.map(|map| map.uid().to_owned()), asked)
    }

    #[tokio::test]
    async fn a_server_is_reached_through_the_proxy_and_not_by_itself() {
        let (uid, asked) = get("", "HTTP/1.1 200 Connection established\r\n\r\n").await;
        assert_eq!(uid.unwrap(), "u");
        assert_eq!(
            asked,
            "CONNECT server.far:8080 HTTP/1.1\r\nHost: server.far:8080\r\n\r\n"
        );
    }

    #[tokio::test]
    async fn a_proxy_is_told_who_comes() {
        let (_, asked) = get("me:secret@", "HTTP/1.0 200 OK\r\nvia: x\r\n\r\n").await;
        assert!(
            asked.contains("Proxy-Authorization: Basic bWU6c2VjcmV0\r\n"),
            "{asked}"
        );
    }

    #[tokio::test]
    async fn a_proxy_that_refuses_is_named() {
        let (refused, _) = get("", "HTTP/1.1 407 Proxy Authentication Required\r\n\r\n").await;
        let refused = refused.unwrap_err();
        assert_eq!(refused.code, 503);
        assert!(
            refused.message.contains("407 Proxy Authentication Required"),
            "{refused}"
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
    fn check_refused(url: &str, expected: &str) {
        let error = Proxy::parse(url).err().map(|error| error.to_string());
        assert_eq!(error.as_deref(), Some(expected));
    }

    #[test]
    fn other_proxies_are_refused_without_their_secrets() {
        check_refused(
            "socks5://me:secret@near:1080",
            r#"cannot go through the proxy "...@near:1080": only http:// is known"#,
        );
        check_refused(
            "near:3128",
            r#"cannot go through the proxy "near:3128": only http:// is known"#,
        );
    }
}
