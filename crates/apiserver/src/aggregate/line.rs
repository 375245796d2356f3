//! Connections to one other server: TLS by what its registration says, kept for the next request where they can be.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::HOST;
use http::{HeaderValue, Request, Response};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio_rustls::TlsConnector;

use super::{Identity, Remote, Tasks, trust};
use crate::body::Pieces;
use crate::connect::{Place, in_gos_words};

/// A request as it is sent: with the caller's own body as it comes, or with one of ours.
pub(crate) type Asking = Request<Either<Incoming, Full<Bytes>>>;

type Sender = SendRequest<Either<Incoming, Full<Bytes>>>;

/// As many idle connections are kept for each server.
const IDLE_CONNECTIONS: usize = 8;

/// The way to one server.
pub(crate) struct Line {
    tls: Result<(TlsConnector, ServerName<'static>), String>,
    /// Connections whose last answer was read to its end, and where they lead.
    idle: Mutex<Vec<(Place, Sender)>>,
    tasks: Tasks,
}

/// An answer whose connection is kept if it was read to its end.
pub(crate) struct Reading {
    body: Incoming,
    /// Whether the end was seen. Of a body whose length is known it need not be.
    ended: bool,
    lease: Option<Lease>,
}

struct Lease {
    sender: Sender,
    place: Place,
    line: Arc<Line>,
}

// === impl Line ===

impl Line {
    pub(crate) fn new(remote: &Remote, identity: Option<&Identity>, tasks: Tasks) -> Self {
        let name = ServerName::try_from(remote.service.host()).map_err(|error| error.to_string());
        let tls = trust::config(&remote.trust, identity);
        Self {
            tls: tls.and_then(|tls| Ok((TlsConnector::from(Arc::new(tls)), name?))),
            idle: Mutex::default(),
            tasks,
        }
    }

    /// Sends a request, over a connection that is there or else a new one. The answer's body comes as [`Reading`].
    pub(crate) async fn send(
        self: &Arc<Self>,
        place: Place,
        mut request: Asking,
    ) -> io::Result<Response<Reading>> {
        while let Some(mut sender) = self.take(&place) {
            match sender.try_send_request(addressed(request, &place)).await {
                Ok(response) => return Ok(self.reading(response, sender, place)),
                // The server had closed it, and nothing was sent.
                Err(mut failed) => match failed.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(io::Error::other(failed.into_error())),
                },
            }
        }
        let mut sender = self.connect(&place).await?;
        let response = sender.send_request(addressed(request, &place)).await;
        let response = response.map_err(io::Error::other)?;
        Ok(self.reading(response, sender, place))
    }

    /// Sends a request over a connection of its own, which ends with the answer.
    pub(crate) async fn send_once(&self, place: &Place, request: Asking) -> io::Result<Response<Incoming>> {
        let mut sender = self.connect(place).await?;
        let response = sender.send_request(addressed(request, place)).await;
        response.map_err(io::Error::other)
    }

    fn reading(
        self: &Arc<Self>,
        response: Response<Incoming>,
        sender: Sender,
        place: Place,
    ) -> Response<Reading> {
        let line = self.clone();
        response.map(|body| Reading {
            body,
            ended: false,
            lease: Some(Lease { sender, place, line }),
        })
    }

    fn take(&self, place: &Place) -> Option<Sender> {
        let mut idle = self.idle.lock();
        idle.retain(|(_, sender)| sender.is_ready());
        let at = idle.iter().position(|(leads_to, _)| leads_to == place)?;
        Some(idle.swap_remove(at).1)
    }

    async fn connect(&self, place: &Place) -> io::Result<Sender> {
        let (tls, name) = self.tls.as_ref().map_err(|why| io::Error::other(why.clone()))?;
        let stream = dial(place).await?;
        stream.set_nodelay(true)?;
        let stream = tls
            .connect(name.clone(), stream)
            .await
            .map_err(|error| distrust(&error))?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(io::Error::other)?;
        self.tasks.spawn(async move {
            if let Err(reason) = connection.with_upgrades().await {
                tracing::debug!(%reason, "a connection to another server ended early");
            }
        });
        Ok(sender)
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line")
            .field("idle", &self.idle.lock().len())
            .finish_non_exhaustive()
    }
}

/// Connects to the first of a place's addresses that answers. What is said of a failure names the first.
async fn dial(place: &Place) -> io::Result<TcpStream> {
    let nowhere = || io::Error::other(format!("dial tcp: lookup {}: no such host", place.host));
    let addresses = tokio::net::lookup_host((place.host.as_str(), place.port)).await;
    let mut first = None;
    for address in addresses.map_err(|_| nowhere())? {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => {
                let place = Place {
                    host: address.ip().to_string(),
                    ..place.clone()
                };
                first.get_or_insert_with(|| in_gos_words(&place, &error));
            }
        }
    }
    Err(first.unwrap_or_else(nowhere))
}

fn addressed(mut request: Asking, place: &Place) -> Asking {
    if let Ok(host) = HeaderValue::try_from(place.to_string()) {
        request.headers_mut().insert(HOST, host);
    }
    request
}

/// Why a server was not believed, as callers know it from Kubernetes.
fn distrust(error: &io::Error) -> io::Error {
    let inner = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let why = match inner {
        Some(rustls::Error::InvalidCertificate(why)) => why,
        _ => return io::Error::new(error.kind(), error.to_string()),
    };
    let why = match why {
        rustls::CertificateError::UnknownIssuer | rustls::CertificateError::BadSignature => {
            "certificate signed by unknown authority".to_owned()
        }
        other => other.to_string(),
    };
    io::Error::other(format!("tls: failed to verify certificate: x509: {why}"))
}

// === impl Reading ===

impl Pieces for Reading {
    fn poll_piece(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        loop {
            let frame = ready!(http_body::Body::poll_frame(Pin::new(&mut self.body), context));
            match frame.map(|frame| frame.map(http_body::Frame::into_data)) {
                None => {
                    self.ended = true;
                    return Poll::Ready(None);
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(io::Error::other(error)))),
                Some(Ok(Ok(data))) => return Poll::Ready(Some(Ok(data))),
                Some(Ok(Err(_trailers))) => {}
            }
        }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        let is_read = self.ended || http_body::Body::is_end_stream(&self.body);
        let lease = self.lease.take().filter(|_| is_read);
        if let Some(lease) = lease.filter(|_| Handle::try_current().is_ok()) {
            lease.line.tasks.clone().spawn(lease.give_back());
        }
    }
}

// === impl Lease ===

impl Lease {
    async fn give_back(mut self) {
        // The driver of the connection has to notice the end, too.
        if self.sender.ready().await.is_err() {
            return;
        }
        let mut idle = self.line.idle.lock();
        if idle.len() < IDLE_CONNECTIONS {
            idle.push((self.place, self.sender));
        }
    }
}
