//! The null server: the baseline of every measurement of the API.
//!
//! It has the same TLS library, HTTP library, runtime and allocator as Setpoint, and a fixed response. The difference to it
//! is the cost of Setpoint; its own cost is that of HTTPS. It is a separate process, so that its CPU time is separate from
//! the generator's.

use std::{
    convert::Infallible,
    path::Path,
    pin::Pin,
    sync::Arc,
    task::{Context as TaskContext, Poll},
};

use anyhow::{Context, Result};
use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use hyper::{
    body::{Body, Frame, Incoming, SizeHint},
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::json;
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;

use crate::args::NullServerArgs;

/// The fixed response body, as long as the object of most workloads.
const RESPONSE_BODY: Bytes = Bytes::from_static(&[b'x'; 1024]);

/// The response to `/bytes/N` has N bytes, in chunks.
const BYTES_PATH: &str = "/bytes/";

/// A chunk of a long response.
const CHUNK: Bytes = Bytes::from_static(&[b'x'; 64 << 10]);

/// Serves until it is killed.
pub(crate) fn run(args: &NullServerArgs) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("starting a runtime")?;
    runtime.block_on(async { NullServer::bind(&args.kubeconfig).await?.serve().await })
}

/// The server, listening.
pub(crate) struct NullServer {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

impl NullServer {
    /// Listens on a free port and writes the kubeconfig that leads there.
    pub(crate) async fn bind(kubeconfig: &Path) -> Result<Self> {
        let identity =
            rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).context("making a certificate")?;
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(identity.signing_key.serialize_der()));
        let tls = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![identity.cert.der().clone()], key)?;
        let listener = TcpListener::bind("127.0.0.1:0").await.context("listening")?;
        let server = format!("https://{}", listener.local_addr()?);
        write_kubeconfig(kubeconfig, &server, &identity.cert.pem())?;
        Ok(Self {
            listener,
            acceptor: TlsAcceptor::from(Arc::new(tls)),
        })
    }

    /// Serves until it is killed.
    pub(crate) async fn serve(self) -> Result<()> {
        let mut connections = JoinSet::new();
        loop {
            let (stream, _) = self.listener.accept().await.context("accepting")?;
            connections.spawn(serve_connection(self.acceptor.clone(), stream));
            while connections.try_join_next().is_some() {}
        }
    }
}

/// Errors of one connection end that connection; the generator sees them on its own side.
async fn serve_connection(acceptor: TlsAcceptor, stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    if let Ok(stream) = acceptor.accept(stream).await {
        let connection = hyper::server::conn::http1::Builder::new();
        let _ = connection
            .serve_connection(TokioIo::new(stream), service_fn(respond))
            .await;
    }
}

async fn respond(request: Request<Incoming>) -> Result<Response<ResponseBody>, hyper::Error> {
    let status = if request.method() == Method::POST {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    let left = request
        .uri()
        .path()
        .strip_prefix(BYTES_PATH)
        .and_then(|bytes| bytes.parse().ok());
    request.into_body().collect().await?;
    let body = match left {
        Some(left) => ResponseBody::Chunks(left),
        None => ResponseBody::Whole(Some(RESPONSE_BODY)),
    };
    let response = Response::builder()
        .status(status)
        .header(header::CONTENT_TYPE, "application/json");
    Ok(response
        .body(body)
        .expect("the status and headers are valid constants"))
}

/// The fixed body, or as many bytes as the path specifies.
#[derive(Debug)]
enum ResponseBody {
    Whole(Option<Bytes>),
    Chunks(usize),
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut TaskContext<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.next().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, ResponseBody::Whole(None) | ResponseBody::Chunks(0))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            ResponseBody::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            // A list does not know its length ahead either, so this is sent in chunks too.
            ResponseBody::Chunks(_) => SizeHint::default(),
        }
    }
}

impl ResponseBody {
    fn next(&mut self) -> Option<Bytes> {
        match self {
            ResponseBody::Whole(bytes) => bytes.take(),
            ResponseBody::Chunks(0) => None,
            ResponseBody::Chunks(left) => {
                let chunk = CHUNK.slice(..CHUNK.len().min(*left));
                *left -= chunk.len();
                Some(chunk)
            }
        }
    }
}

/// Writes the kubeconfig as JSON, which is valid YAML. Written atomically by a rename.
fn write_kubeconfig(path: &Path, server: &str, certificate: &str) -> Result<()> {
    let authority = STANDARD.encode(certificate);
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "null", "cluster": {"server": server, "certificate-authority-data": authority}}],
    });
    let draft = path.with_extension("draft");
    std::fs::write(&draft, config.to_string()).with_context(|| format!("writing {}", draft.display()))?;
    std::fs::rename(&draft, path).with_context(|| format!("writing {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_length(mut body: ResponseBody, expected: usize) {
        let mut total = 0;
        while let Some(bytes) = body.next() {
            total += bytes.len();
        }
        assert_eq!(total, expected);
        assert!(body.is_end_stream());
    }

    #[test]
    fn a_response_has_the_length_in_the_path() {
        check_length(ResponseBody::Whole(Some(RESPONSE_BODY)), 1024);
        check_length(ResponseBody::Chunks(200_000), 200_000);
        check_length(ResponseBody::Chunks(0), 0);
    }
}
