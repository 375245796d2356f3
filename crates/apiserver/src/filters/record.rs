//! What the audit log is told of a request, where there is an audit log. Without one this is a look at an empty option.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{AUTHORIZATION, USER_AGENT};
use http::{HeaderName, HeaderValue, Response};
use parking_lot::Mutex;
use serde::Deserialize;
use setpoint_api::{Clock, Status, User};
use setpoint_auth::audit::event::ObjectReference;
use setpoint_auth::audit::record::Facts;
use setpoint_auth::audit::{Log, Policy, Record, Stage};
use tokio_util::task::TaskTracker;

use crate::body::{Body, Pieces};
use crate::chain::Exchange;
use crate::member;
use crate::negotiate::header;
use crate::request::Place;

static FORWARDED: HeaderName = HeaderName::from_static("x-forwarded-for");
static REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");

/// What is told of requests, and where it is kept.
#[derive(Debug)]
pub struct Audit {
    pub policy: Policy,
    pub log: Log,
}

/// The record of one request; empty where nothing is to be told.
#[derive(Debug, Default)]
pub(crate) struct Following(Mutex<Option<Record>>);

/// The metadata of a document that came in.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    name: String,
    namespace: String,
    uid: String,
    resource_version: String,
}

/// A long answer whose end is told.
struct Followed {
    inner: Body,
    /// Tells when it is dropped, which is when the answer is over.
    _end: End,
}

struct End {
    record: Option<Record>,
    audit: Arc<Audit>,
    clock: Arc<dyn Clock>,
    tasks: TaskTracker,
}

// === impl Following ===

impl Following {
    /// Begins to follow a request of this user, if the policy wants to hear of it.
    pub(crate) async fn begin(&self, exchange: &Exchange<'_>, user: &User) {
        if self.open(exchange, user) {
            self.tell(exchange, Stage::RequestReceived).await;
        }
    }

    /// Tells of a request whose caller could not be named.
    pub(crate) async fn refuse(&self, exchange: &Exchange<'_>, refused: &Status) {
        if !self.open(exchange, &User::default()) {
            return;
        }
        let message = match exchange.head.headers.contains_key(AUTHORIZATION) {
            true => "Authentication failed, attempted: bearer",
            false => "Authentication failed, no credentials provided",
        };
        self.note(|record| {
            record.failed(&Status {
                message: message.to_owned(),
                code: refused.code,
                ..Status::default()
            });
        });
        self.tell(exchange, Stage::ResponseStarted).await;
        self.0.lock().take();
    }

    fn open(&self, exchange: &Exchange<'_>, user: &User) -> bool {
        let Some(audit) = &exchange.shared.audit else {
            return false;
        };
        let told = audit.policy.told(user, &exchange.asked.attributes());
        let record = Record::begin(told, facts(exchange), user, exchange.shared.clock.now());
        let follows = record.is_some();
        *self.0.lock() = record;
        follows
    }

    /// Adds to what is told.
    pub(crate) fn note(&self, note: impl FnOnce(&mut Record)) {
        if let Some(record) = self.0.lock().as_mut() {
            note(record);
        }
    }

    /// Tells what came in. The document is only made where it is wanted.
    pub(crate) fn document(&self, json: impl FnOnce() -> Option<Vec<u8>>) {
        self.note(|record| {
            let Some(json) = json() else { return };
            let metadata = member::find(&json, "metadata").unwrap_or(b"{}");
            let metadata: Metadata = serde_json::from_slice(metadata).unwrap_or_default();
            record.about(&ObjectReference {
                name: metadata.name,
                namespace: metadata.namespace,
                uid: metadata.uid,
                resource_version: metadata.resource_version,
                ..ObjectReference::default()
            });
            record.request_object(&json);
        });
    }

    async fn tell(&self, exchange: &Exchange<'_>, stage: Stage) {
        let now = exchange.shared.clock.now();
        let line = self.0.lock().as_mut().and_then(|record| record.line(stage, now));
        if let (Some(line), Some(audit)) = (line, &exchange.shared.audit) {
            audit.log.write(line).await;
        }
    }

    /// Tells how it went: now, or for an answer that goes on once it is over.
    pub(crate) async fn end(&self, exchange: &Exchange<'_>, response: &mut Response<Body>) {
        let Some(audit) = &exchange.shared.audit else {
            return;
        };
        let code = response.status().as_u16();
        self.note(|record| record.responded(code));
        if !matches!(response.body(), Body::Events(_)) {
            return self.tell(exchange, Stage::ResponseComplete).await;
        }
        self.tell(exchange, Stage::ResponseStarted).await;
        let end = End {
            record: self.0.lock().take(),
            audit: audit.clone(),
            clock: exchange.shared.clock.clone(),
            tasks: exchange.shared.tasks(),
        };
        let inner = std::mem::replace(response.body_mut(), Body::Empty);
        *response.body_mut() = Body::Pieces(Box::pin(Followed { inner, _end: end }));
    }
}

fn facts(exchange: &Exchange<'_>) -> Facts {
    let head = exchange.head;
    let uri = head.uri.path_and_query();
    Facts {
        audit_id: text(exchange.id),
        request_uri: uri.map_or_else(String::new, |uri| uri.as_str().to_owned()),
        verb: exchange.asked.verb.to_owned(),
        source_ips: sources(exchange),
        user_agent: header(&head.headers, &USER_AGENT).to_owned(),
        object: object(&exchange.asked.place),
    }
}

fn text(value: &HeaderValue) -> String {
    value.to_str().unwrap_or_default().to_owned()
}

/// Where the request comes from, as those say who passed it on, and the other end of the connection last.
fn sources(exchange: &Exchange<'_>) -> Vec<String> {
    let headers = &exchange.head.headers;
    let forwarded = header(headers, &FORWARDED).split(',').map(str::trim);
    let named = forwarded.chain([header(headers, &REAL_IP).trim()]);
    let mut sources: Vec<String> = named
        .filter(|address| address.parse::<std::net::IpAddr>().is_ok())
        .map(str::to_owned)
        .collect();
    let own = exchange.peer.address.map(|address| address.ip().to_string());
    if let Some(own) = own.filter(|own| sources.last() != Some(own)) {
        sources.push(own);
    }
    sources
}

fn object(place: &Place<'_>) -> Option<ObjectReference> {
    let Place::Resource(address) = place else {
        return None;
    };
    let target = &address.target;
    Some(ObjectReference {
        resource: target.resource.resource.to_string(),
        namespace: address.namespace.clone(),
        name: address.name.clone(),
        api_group: target.resource.group.to_string(),
        api_version: target.resource.version.to_string(),
        subresource: target.subresource.as_deref().unwrap_or_default().to_owned(),
        ..ObjectReference::default()
    })
}

// === impl Followed ===

impl Pieces for Followed {
    fn poll_piece(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        self.inner.poll_bytes(context)
    }

    fn length(&self) -> Option<usize> {
        self.inner.length()
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let now = self.clock.now();
        let line = self
            .record
            .as_mut()
            .and_then(|record| record.line(Stage::ResponseComplete, now));
        if let Some(line) = line {
            let audit = self.audit.clone();
            self.tasks.spawn(async move { audit.log.write(line).await });
        }
    }
}
