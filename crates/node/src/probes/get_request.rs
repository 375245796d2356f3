//! A GET request of a probe or a lifecycle hook over HTTP/1.1: only the status line and the start of the body are read.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// At most this much of a response is read.
const MAX_RESPONSE_BYTES: u64 = 10 * 1024;

/// A request. Header names and values come from the pod spec, which the API server has validated.
#[derive(Debug)]
pub(super) struct HttpRequest<'a> {
    pub(super) host: &'a str,
    pub(super) path: &'a str,
    pub(super) headers: Vec<(&'a str, &'a str)>,
}

/// The status code and the start of the body.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct HttpResponse {
    pub(super) status: u16,
    pub(super) body: String,
}

/// Sends the request on a new connection.
pub(super) async fn get(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    request: &HttpRequest<'_>,
) -> io::Result<HttpResponse> {
    stream.write_all(encode(request).as_bytes()).await?;
    stream.flush().await?;
    let mut response = Vec::new();
    let read = stream.take(MAX_RESPONSE_BYTES).read_to_end(&mut response).await;
    // A peer that resets the connection after its response has responded.
    if response.is_empty() {
        read?;
    }
    parse(&response).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "malformed HTTP response"))
}

fn encode(request: &HttpRequest<'_>) -> String {
    let path = if request.path.starts_with('/') { "" } else { "/" };
    let mut text = format!("GET {path}{} HTTP/1.1\r\n", request.path);
    let own = [
        ("Host", request.host),
        ("User-Agent", "kube-probe/1.37"),
        ("Accept", "*/*"),
        ("Connection", "close"),
    ];
    let is_set = |name: &str| {
        request
            .headers
            .iter()
            .any(|(own, _)| own.eq_ignore_ascii_case(name))
    };
    for (name, value) in own
        .iter()
        .filter(|(name, _)| !is_set(name))
        .chain(&request.headers)
    {
        let is_clean = |byte: u8| byte != b'\r' && byte != b'\n';
        if name.bytes().chain(value.bytes()).all(is_clean) {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
    }
    text.push_str("\r\n");
    text
}

fn parse(response: &[u8]) -> Option<HttpResponse> {
    let text = String::from_utf8_lossy(response);
    let (line, rest) = text.split_once("\r\n")?;
    let status = line.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.parse().ok()?;
    let body = rest.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    Some(HttpResponse {
        status,
        body: body.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_of_the_spec_replaces_the_default_one() {
        let request = HttpRequest {
            host: "10.0.0.1:80",
            path: "healthz",
            headers: vec![("host", "web"), ("X", "a\r\nY: b")],
        };
        let expected = "GET /healthz HTTP/1.1\r\nUser-Agent: kube-probe/1.37\r\nAccept: */*\r\nConnection: close\r\n\
                        host: web\r\n\r\n";
        assert_eq!(encode(&request), expected);
    }

    #[track_caller]
    fn check(response: &str, expected: Option<(u16, &str)>) {
        let parsed = parse(response.as_bytes());
        let parsed = parsed
            .as_ref()
            .map(|response| (response.status, response.body.as_str()));
        assert_eq!(parsed, expected);
    }

    #[test]
    fn a_response_has_a_status_and_a_body() {
        check("HTTP/1.1 204 No Content\r\n\r\n", Some((204, "")));
        check("HTTP/1.0 500 Oops\r\nA: b\r\n\r\nwhy", Some((500, "why")));
        check("SSH-2.0-x\r\n", None);
    }
}
