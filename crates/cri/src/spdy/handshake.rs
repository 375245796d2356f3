//! The HTTP/1.1 upgrade to SPDY.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The longest response to the upgrade that is read.
const MAX_RESPONSE_BYTES: usize = 16 << 10;

/// A connection that speaks SPDY from its next byte on.
pub(super) async fn upgrade(url: &str) -> io::Result<TcpStream> {
    let (host, path) = split(url)?;
    let mut connection = TcpStream::connect(host).await?;
    connection.set_nodelay(true)?;
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\
         X-Stream-Protocol-Version: v4.channel.k8s.io\r\nContent-Length: 0\r\n\r\n"
    );
    connection.write_all(request.as_bytes()).await?;
    let head = read_head(&mut connection).await?;
    let status = head.split_whitespace().nth(1).unwrap_or_default();
    if status == "101" {
        return Ok(connection);
    }
    let line = head.lines().next().unwrap_or_default();
    Err(io::Error::other(format!("unable to upgrade connection: {line}")))
}

/// The address and the path of a URL of the runtime's streaming server.
fn split(url: &str) -> io::Result<(&str, &str)> {
    let Some(rest) = url.strip_prefix("http://") else {
        let message = format!("the streaming URL {url} is not an http URL");
        return Err(io::Error::other(message));
    };
    let end = rest.find('/').unwrap_or(rest.len());
    let (host, path) = rest.split_at(end);
    Ok((host, if path.is_empty() { "/" } else { path }))
}

/// The head of the response. It is read byte by byte: what follows it belongs to the next protocol.
async fn read_head(connection: &mut TcpStream) -> io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() > MAX_RESPONSE_BYTES {
            return Err(io::Error::other("the response to the upgrade is too long"));
        }
        head.push(connection.read_u8().await?);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_streaming_url_has_an_address_and_a_path() {
        let parts = split("http://127.0.0.1:10010/exec/abc").unwrap();
        assert_eq!(parts, ("127.0.0.1:10010", "/exec/abc"));
        assert!(split("https://127.0.0.1:10010/exec/abc").is_err());
    }
}
