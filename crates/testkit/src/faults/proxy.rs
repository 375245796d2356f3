//! [`Proxy`]: stands in the line.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use setpoint_client::kubeconfig::Connection;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::chunks::{LAST, chunk};
use super::plan::{Fault, Plan};
use super::upstream::{self, Answer, Asked};

/// Where a server is, for all who lead there. Cloning shares it.
#[derive(Debug, Clone)]
pub struct Target(Arc<Mutex<SocketAddr>>);

/// A line to a server. Dropping it breaks every connection.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    plan: Arc<Plan>,
    _task: JoinSet<()>,
}

/// How one request went.
enum Went {
    /// The connection may be used for the next.
    Well,
    /// The connection is to be closed.
    Over,
}

/// A watch on its way to the client.
struct Passing<'a> {
    near: &'a mut TcpStream,
    plan: &'a Plan,
    /// What was told, to be told again.
    told: Vec<Vec<u8>>,
    /// The beginning of a line whose end is still to come.
    rest: Vec<u8>,
}

const HEADERS: usize = 64;

// === impl Proxy ===

impl Proxy {
    /// A line to a server, wherever that is at the time of a request, on which happens what the plan says.
    pub async fn to(target: &Target, plan: Plan) -> Self {
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

    /// What goes wrong on this line.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// How to reach the server over this line. On this side of it there is no TLS.
    pub fn connection(&self) -> Connection {
        Connection {
            server: format!("http://{}", self.address),
            ..Connection::default()
        }
    }
}

// === impl Target ===

impl Target {
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

async fn accept(listener: TcpListener, target: Target, plan: Arc<Plan>) {
    let mut lines = JoinSet::new();
    loop {
        let Ok((near, _)) = listener.accept().await else {
            continue;
        };
        while lines.try_join_next().is_some() {}
        lines.spawn(line(near, target.clone(), plan.clone()));
    }
}

/// One connection of a client, request after request.
async fn line(mut near: TcpStream, target: Target, plan: Arc<Plan>) {
    let mut read = Vec::new();
    // Without this, small answers wait for each other.
    let _ = near.set_nodelay(true);
    while let Ok(Some(asked)) = next_request(&mut near, &mut read).await {
        match pass(&mut near, target.address(), &plan, &asked).await {
            Ok(Went::Well) => {}
            // What breaks on the far side breaks the near one, too.
            Ok(Went::Over) | Err(_) => return,
        }
    }
}

/// The next request; `None` if the client is gone.
async fn next_request(near: &mut TcpStream, read: &mut Vec<u8>) -> io::Result<Option<Asked>> {
    loop {
        if let Some((asked, length)) = parse(read) {
            read.drain(..length);
            return Ok(Some(asked));
        }
        if near.read_buf(read).await? == 0 {
            return Ok(None);
        }
    }
}

async fn pass(near: &mut TcpStream, target: SocketAddr, plan: &Plan, asked: &Asked) -> io::Result<Went> {
    let fault = plan.for_request();
    match fault {
        None | Some(Fault::Cut) => {}
        Some(Fault::Stalled) => return hold(near).await,
        Some(Fault::TooMany) => return refuse(near, 429, "TooManyRequests", "retry-after: 1\r\n").await,
        Some(Fault::TooManyForever) => return refuse(near, 429, "TooManyRequests", "").await,
        Some(Fault::Broken) => return refuse(near, 500, "InternalError", "").await,
        Some(Fault::Away) => return refuse(near, 503, "ServiceUnavailable", "").await,
        Some(Fault::Expired) => return refuse(near, 410, "Expired", "").await,
        Some(_) => return Ok(Went::Over),
    }
    let answer = upstream::ask(target, asked).await?;
    let is_cut = fault == Some(Fault::Cut);
    match asked.is_watch() && answer.code == 200 {
        true if is_cut => Ok(Went::Over),
        true => pass_watch(near, plan, answer).await,
        false => pass_whole(near, answer, is_cut).await,
    }
}

/// An answer that has an end.
async fn pass_whole(near: &mut TcpStream, mut answer: Answer, is_cut: bool) -> io::Result<Went> {
    let body = answer.whole().await?;
    let head = format!(
        "HTTP/1.1 {} Said\r\ncontent-type: {}\r\ncontent-length: {}\r\n\r\n",
        answer.code,
        answer.content_type,
        body.len()
    );
    near.write_all(head.as_bytes()).await?;
    if is_cut {
        near.write_all(&body[..body.len() / 2]).await?;
        return Ok(Went::Over);
    }
    near.write_all(&body).await?;
    Ok(Went::Well)
}

async fn pass_watch(near: &mut TcpStream, plan: &Plan, mut answer: Answer) -> io::Result<Went> {
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {}\r\ntransfer-encoding: chunked\r\n\r\n",
        answer.content_type
    );
    near.write_all(head.as_bytes()).await?;
    let mut passing = Passing {
        near,
        plan,
        told: Vec::new(),
        rest: Vec::new(),
    };
    loop {
        let mut unused = [0];
        let piece = tokio::select! {
            piece = answer.next() => piece?,
            // A client that has had enough closes its end; it has nothing to say.
            _ = passing.near.read(&mut unused) => return Ok(Went::Over),
        };
        let Some(piece) = piece else {
            return passing.close().await;
        };
        if let Some(went) = passing.tell(&piece).await? {
            return Ok(went);
        }
    }
}

// === impl Passing ===

impl Passing<'_> {
    /// Hands on the events of a piece; how the watch went, if it is over with them.
    async fn tell(&mut self, piece: &[u8]) -> io::Result<Option<Went>> {
        self.rest.extend_from_slice(piece);
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let event: Vec<u8> = self.rest.drain(..=end).collect();
            if let Some(went) = self.tell_event(event).await? {
                return Ok(Some(went));
            }
        }
        Ok(None)
    }

    async fn tell_event(&mut self, event: Vec<u8>) -> io::Result<Option<Went>> {
        match self.plan.for_event() {
            None => self.write(&event).await?,
            Some(Fault::Swallowed) => {}
            Some(Fault::Twice) => {
                self.write(&event).await?;
                self.write(&event).await?;
            }
            Some(Fault::Again) => {
                self.write(&event).await?;
                let past = self.told.get(self.plan.any_below(self.told.len())).cloned();
                self.write(&past.unwrap_or_default()).await?;
            }
            Some(Fault::CutInside) => {
                // Within its chunk, too.
                let whole = chunk(&event);
                self.near.write_all(&whole[..whole.len() / 2]).await?;
                return Ok(Some(Went::Over));
            }
            Some(Fault::Stalled) => return hold(self.near).await.map(Some),
            Some(Fault::Closed) => return self.close().await.map(Some),
            Some(Fault::ExpiredInside) => return self.fail(410, "Expired").await.map(Some),
            Some(Fault::BrokenInside) => return self.fail(500, "InternalError").await.map(Some),
            Some(_) => return Ok(Some(Went::Over)),
        }
        self.told.push(event);
        Ok(None)
    }

    /// An error event, and the end.
    async fn fail(&mut self, code: u16, reason: &str) -> io::Result<Went> {
        let event = format!("{{\"type\":\"ERROR\",\"object\":{}}}\n", status(code, reason));
        self.write(event.as_bytes()).await?;
        self.close().await
    }

    async fn close(&mut self) -> io::Result<Went> {
        self.near.write_all(LAST).await?;
        Ok(Went::Well)
    }

    async fn write(&mut self, event: &[u8]) -> io::Result<()> {
        match event.is_empty() {
            true => Ok(()),
            false => self.near.write_all(&chunk(event)).await,
        }
    }
}

/// Says nothing until the client has had enough.
async fn hold(near: &mut TcpStream) -> io::Result<Went> {
    let mut unused = [0; 1024];
    while near.read(&mut unused).await? > 0 {}
    Ok(Went::Over)
}

async fn refuse(near: &mut TcpStream, code: u16, reason: &str, header: &str) -> io::Result<Went> {
    let body = status(code, reason);
    let answer = format!(
        "HTTP/1.1 {code} {reason}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{header}\r\n{body}",
        body.len()
    );
    near.write_all(answer.as_bytes()).await?;
    Ok(Went::Well)
}

/// What a server says that refuses.
fn status(code: u16, reason: &str) -> String {
    format!(
        r#"{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure","message":"the line says so","reason":"{reason}","code":{code}}}"#
    )
}

/// A request without a body, and how long it is; `None` while it is not complete.
fn parse(read: &[u8]) -> Option<(Asked, usize)> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let Ok(httparse::Status::Complete(length)) = request.parse(read) else {
        return None;
    };
    assert_eq!(request.method, Some("GET"), "only reads go over this line");
    let accept = request
        .headers
        .iter()
        .find(|header| header.name.eq_ignore_ascii_case("accept"));
    let asked = Asked {
        path: request.path?.to_owned(),
        accept: accept.map_or("*/*".to_owned(), |header| {
            String::from_utf8_lossy(header.value).into_owned()
        }),
    };
    Some((asked, length))
}
