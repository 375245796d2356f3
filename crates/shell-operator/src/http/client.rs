//! Client of the debug socket of a running operator.

use std::path::Path;

use ::http::{Method, Request};
use anyhow::{Context, Result, bail};
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;

/// The body of the response to a request. An error status is an error with its text.
pub(crate) async fn request(socket: &Path, method: Method, path: &str) -> Result<String> {
    let stream = UnixStream::connect(socket).await;
    let stream =
        stream.with_context(|| format!("cannot connect to the debug socket {}", socket.display()))?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "unix")
        .body(Empty::<Bytes>::new())?;
    let exchange = async {
        let response = sender.send_request(request).await?;
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        anyhow::Ok((status, String::from_utf8_lossy(&body).into_owned()))
    };
    let (status, text) = tokio::select! {
        outcome = exchange => outcome?,
        ended = connection => {
            ended?;
            bail!("the connection to the debug socket was closed");
        }
    };
    match status.is_success() {
        true => Ok(text),
        false => bail!("{status}: {}", text.trim()),
    }
}
