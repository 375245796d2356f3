//! [`FaultProxy`]: a proxy between a client and a server that injects faults into connections and watches.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use setpoint_client::kubeconfig::Connection;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::chunks::{LAST_CHUNK, chunk};
use super::plan::{Fault, FaultPlan};
use super::upstream::{self, ProxyRequest, UpstreamResponse};

/// The address of a server, for all proxies to it. Cloning shares it.
#[derive(Debug, Clone)]
pub struct ServerAddress(Arc<Mutex<SocketAddr>>);

/// A proxy to a server. Dropping it breaks every connection.
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    plan: Arc<FaultPlan>,
    _task: JoinSet<()>,
}

/// What happens to the connection after a response.
enum AfterResponse {
    /// It may be used for the next request.
    KeepAlive,
    /// It is closed.
    Close,
}

/// Forwards a watch to the client.
struct WatchForwarder<'a> {
    client: &'a mut TcpStream,
    plan: &'a FaultPlan,
    /// Events already sent, for [`Fault::Replayed`].
    sent: Vec<Vec<u8>>,
    /// The bytes of an incomplete line.
    rest: Vec<u8>,
}

const MAX_HEADERS: usize = 64;

// === impl FaultProxy ===

impl FaultProxy {
    /// Starts a proxy to a server, whose address is read at each request, with the faults of the plan.
    pub async fn start(target: &ServerAddress, plan: FaultPlan) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.expect("there is a free port");
        let address = listener.local_addr().expect("a listener has an address");
        let plan = Arc::new(plan);
        let mut task = JoinSet::new();
        task.spawn(accept(listener, target.clone(), plan.clone()));
        Self {
            address,
            plan,
            _task: task,
        }
    }

    /// The plan of its faults.
    pub fn plan(&self) -> &FaultPlan {
        &self.plan
    }

    /// The connection for a client. On this side of the proxy there is no TLS.
    pub fn connection(&self) -> Connection {
        Connection {
            server: format!("http://{}", self.address),
            ..Connection::default()
        }
    }
}

// === impl ServerAddress ===

impl ServerAddress {
    /// A server at this address.
    pub fn new(address: SocketAddr) -> Self {
        Self(Arc::new(Mutex::new(address)))
    }

    /// From now on, requests go to another address.
    pub fn move_to(&self, address: SocketAddr) {
        *self.0.lock() = address;
    }

    fn address(&self) -> SocketAddr {
        *self.0.lock()
    }
}

async fn accept(listener: TcpListener, target: ServerAddress, plan: Arc<FaultPlan>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((client, _)) = listener.accept().await else {
            continue;
        };
        while connections.try_join_next().is_some() {}
        connections.spawn(serve_connection(client, target.clone(), plan.clone()));
    }
}

/// Serves one connection of a client, request after request.
async fn serve_connection(mut client: TcpStream, target: ServerAddress, plan: Arc<FaultPlan>) {
    let mut read = Vec::new();
    // Without this, small responses wait for each other.
    let _ = client.set_nodelay(true);
    while let Ok(Some(request)) = next_request(&mut client, &mut read).await {
        match forward_request(&mut client, target.address(), &plan, &request).await {
            Ok(AfterResponse::KeepAlive) => {}
            // An error of the upstream connection closes that of the client, too.
            Ok(AfterResponse::Close) | Err(_) => return,
        }
    }
}

/// The next request; `None` if the client has closed the connection.
async fn next_request(client: &mut TcpStream, read: &mut Vec<u8>) -> io::Result<Option<ProxyRequest>> {
    loop {
        if let Some((request, length)) = parse(read) {
            read.drain(..length);
            return Ok(Some(request));
        }
        if client.read_buf(read).await? == 0 {
            return Ok(None);
        }
    }
}

async fn forward_request(
    client: &mut TcpStream,
    target: SocketAddr,
    plan: &FaultPlan,
    request: &ProxyRequest,
) -> io::Result<AfterResponse> {
    let fault = plan.for_request();
    match fault {
        None | Some(Fault::Cut) => {}
        Some(Fault::Stalled) => return stall(client).await,
        Some(Fault::TooManyRequests) => {
            return respond_error(client, 429, "TooManyRequests", "retry-after: 1\r\n").await;
        }
        Some(Fault::TooManyRequestsWithoutRetryAfter) => {
            return respond_error(client, 429, "TooManyRequests", "").await;
        }
        Some(Fault::InternalError) => return respond_error(client, 500, "InternalError", "").await,
        Some(Fault::ServiceUnavailable) => return respond_error(client, 503, "ServiceUnavailable", "").await,
        Some(Fault::Expired) => return respond_error(client, 410, "Expired", "").await,
        Some(_) => return Ok(AfterResponse::Close),
    }
    let response = upstream::send(target, request).await?;
    let is_cut = fault == Some(Fault::Cut);
    match request.is_watch() && response.code == 200 {
        true if is_cut => Ok(AfterResponse::Close),
        true => forward_watch(client, plan, response).await,
        false => forward_body(client, response, is_cut).await,
    }
}

/// Forwards a response that is not a watch.
async fn forward_body(
    client: &mut TcpStream,
    mut response: UpstreamResponse,
    is_cut: bool,
) -> io::Result<AfterResponse> {
    let body = response.read_all().await?;
    let head = format!(
        "HTTP/1.1 {} Proxied\r\ncontent-type: {}\r\ncontent-length: {}\r\n\r\n",
        response.code,
        response.content_type,
        body.len()
    );
    client.write_all(head.as_bytes()).await?;
    if is_cut {
        client.write_all(&body[..body.len() / 2]).await?;
        return Ok(AfterResponse::Close);
    }
    client.write_all(&body).await?;
    Ok(AfterResponse::KeepAlive)
}

async fn forward_watch(
    client: &mut TcpStream,
    plan: &FaultPlan,
    mut response: UpstreamResponse,
) -> io::Result<AfterResponse> {
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {}\r\ntransfer-encoding: chunked\r\n\r\n",
        response.content_type
    );
    client.write_all(head.as_bytes()).await?;
    let mut forwarder = WatchForwarder {
        client,
        plan,
        sent: Vec::new(),
        rest: Vec::new(),
    };
    loop {
        let mut unused = [0];
        let piece = tokio::select! {
            piece = response.next() => piece?,
            // The client sends nothing while it watches, except that it closes the connection.
            _ = forwarder.client.read(&mut unused) => return Ok(AfterResponse::Close),
        };
        let Some(piece) = piece else {
            return forwarder.close().await;
        };
        if let Some(after) = forwarder.forward(&piece).await? {
            return Ok(after);
        }
    }
}

// === impl WatchForwarder ===

impl WatchForwarder<'_> {
    /// Forwards the events in a piece; returns what happens to the connection if the watch has ended.
    async fn forward(&mut self, piece: &[u8]) -> io::Result<Option<AfterResponse>> {
        self.rest.extend_from_slice(piece);
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let event: Vec<u8> = self.rest.drain(..=end).collect();
            if let Some(after) = self.forward_event(event).await? {
                return Ok(Some(after));
            }
        }
        Ok(None)
    }

    async fn forward_event(&mut self, event: Vec<u8>) -> io::Result<Option<AfterResponse>> {
        match self.plan.for_event() {
            None => self.write(&event).await?,
            Some(Fault::Dropped) => {}
            Some(Fault::Duplicated) => {
                self.write(&event).await?;
                self.write(&event).await?;
            }
            Some(Fault::Replayed) => {
                self.write(&event).await?;
                let past = self.sent.get(self.plan.random_below(self.sent.len())).cloned();
                self.write(&past.unwrap_or_default()).await?;
            }
            Some(Fault::CutWithinEvent) => {
                // Within its chunk, too.
                let read_all = chunk(&event);
                self.client.write_all(&read_all[..read_all.len() / 2]).await?;
                return Ok(Some(AfterResponse::Close));
            }
            Some(Fault::Stalled) => return stall(self.client).await.map(Some),
            Some(Fault::Closed) => return self.close().await.map(Some),
            Some(Fault::ExpiredEvent) => return self.fail(410, "Expired").await.map(Some),
            Some(Fault::InternalErrorEvent) => return self.fail(500, "InternalError").await.map(Some),
            Some(_) => return Ok(Some(AfterResponse::Close)),
        }
        self.sent.push(event);
        Ok(None)
    }

    /// Sends an ERROR event, and ends the watch.
    async fn fail(&mut self, code: u16, reason: &str) -> io::Result<AfterResponse> {
        let event = format!("{{\"type\":\"ERROR\",\"object\":{}}}\n", status(code, reason));
        self.write(event.as_bytes()).await?;
        self.close().await
    }

    async fn close(&mut self) -> io::Result<AfterResponse> {
        self.client.write_all(LAST_CHUNK).await?;
        Ok(AfterResponse::KeepAlive)
    }

    async fn write(&mut self, event: &[u8]) -> io::Result<()> {
        match event.is_empty() {
            true => Ok(()),
            false => self.client.write_all(&chunk(event)).await,
        }
    }
}

/// Sends nothing until the client closes the connection.
async fn stall(client: &mut TcpStream) -> io::Result<AfterResponse> {
    let mut unused = [0; 1024];
    while client.read(&mut unused).await? > 0 {}
    Ok(AfterResponse::Close)
}

async fn respond_error(
    client: &mut TcpStream,
    code: u16,
    reason: &str,
    header: &str,
) -> io::Result<AfterResponse> {
    let body = status(code, reason);
    let response = format!(
        "HTTP/1.1 {code} {reason}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{header}\r\n{body}",
        body.len()
    );
    client.write_all(response.as_bytes()).await?;
    Ok(AfterResponse::KeepAlive)
}

/// The Status body of an error response.
fn status(code: u16, reason: &str) -> String {
    format!(
        r#"{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure","message":"injected fault","reason":"{reason}","code":{code}}}"#
    )
}

/// A request without a body, and how long it is; `None` while it is not complete.
fn parse(read: &[u8]) -> Option<(ProxyRequest, usize)> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let Ok(httparse::Status::Complete(length)) = request.parse(read) else {
        return None;
    };
    assert_eq!(request.method, Some("GET"), "only reads pass this proxy");
    let accept = request
        .headers
        .iter()
        .find(|header| header.name.eq_ignore_ascii_case("accept"));
    let request = ProxyRequest {
        path: request.path?.to_owned(),
        accept: accept.map_or("*/*".to_owned(), |header| {
            String::from_utf8_lossy(header.value).into_owned()
        }),
    };
    Some((request, length))
}
