//! A server that does nothing: the floor under every figure of the API.
//!
//! The same TLS library, HTTP library, runtime and allocator as Setpoint, and a fixed answer. What Setpoint costs
//! beyond it is Setpoint's own; what both cost is the price of HTTPS. It is a process of its own so that its CPU
//! time can be told from the generator's.

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

/// The fixed answer: as long as the object that is usually asked for.
const ANSWER: Bytes = Bytes::from_static(&[b'x'; 1024]);

/// A path of this form is answered with so many bytes, in pieces.
const BYTES_PATH: &str = "/bytes/";

/// One piece of a long answer.
const PIECE: Bytes = Bytes::from_static(&[b'x'; 64 << 10]);

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

    /// Answers until it is killed.
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
            .serve_connection(TokioIo::new(stream), service_fn(answer))
            .await;
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Answer>, hyper::Error> {
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
        Some(left) => Answer::Pieces(left),
        None => Answer::Whole(Some(ANSWER)),
    };
    let response = Response::builder()
        .status(status)
        .header(header::CONTENT_TYPE, "application/json");
    Ok(response.body(body).expect("the parts of the answer are constant"))
}

/// The fixed answer, or as many bytes as were asked for.
#[derive(Debug)]
enum Answer {
    Whole(Option<Bytes>),
    Pieces(usize),
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut TaskContext<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.next().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Answer::Whole(None) | Answer::Pieces(0))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Answer::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            // A list does not know its length ahead either, so this is sent in chunks too.
            Answer::Pieces(_) => SizeHint::default(),
        }
    }
}

impl Answer {
    fn next(&mut self) -> Option<Bytes> {
        match self {
            Answer::Whole(bytes) => bytes.take(),
            Answer::Pieces(0) => None,
            Answer::Pieces(left) => {
                let piece = PIECE.slice(..PIECE.len().min(*left));
                *left -= piece.len();
                Some(piece)
            }
        }
    }
}

/// JSON is YAML, so the reader of kubeconfigs needs no second form. Renamed into place, so it is never seen half.
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
    fn check_length(mut answer: Answer, expected: usize) {
        let mut total = 0;
        while let Some(bytes) = answer.next() {
            total += bytes.len();
        }
        assert_eq!(total, expected);
        assert!(answer.is_end_stream());
    }

    #[test]
    fn an_answer_has_the_length_that_was_asked_for() {
        check_length(Answer::Whole(Some(ANSWER)), 1024);
        check_length(Answer::Pieces(200_000), 200_000);
        check_length(Answer::Pieces(0), 0);
    }
}
