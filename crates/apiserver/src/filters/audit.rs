//! Audit events of a request, if the server has an audit log. Without one this costs one look at an empty option.

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
use setpoint_auth::audit::record::RequestMetadata;
use setpoint_auth::audit::{Log, Policy, Record, Stage};
use setpoint_codec::json::scan;
use tokio_util::task::TaskTracker;

use crate::body::{Body, ByteStream};
use crate::chain::Exchange;
use crate::request::RequestInfo;

pub(crate) mod body;

static FORWARDED: HeaderName = HeaderName::from_static("x-forwarded-for");
static REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");

/// The audit policy and the log its events are written to.
#[derive(Debug)]
pub struct Audit {
    pub policy: Policy,
    pub log: Log,
}

/// The audit event of one request, under construction; empty if the policy does not audit the request.
#[derive(Debug, Default)]
pub(crate) struct AuditContext(Mutex<Option<Record>>);

/// Metadata of the request object.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    name: String,
    namespace: String,
    uid: String,
    resource_version: String,
}

/// The body of a watch, whose end is audited.
struct AuditedBody {
    inner: Body,
    /// Logs the `ResponseComplete` stage when dropped, which is when the response ends.
    _completion: AuditCompletion,
}

struct AuditCompletion {
    record: Option<Record>,
    audit: Arc<Audit>,
    clock: Arc<dyn Clock>,
    tasks: TaskTracker,
}

// === impl AuditContext ===

impl AuditContext {
    /// Logs the `RequestReceived` stage.
    pub(crate) async fn log_received(&self, exchange: &Exchange<'_>) {
        self.log_stage(exchange, Stage::RequestReceived).await;
    }

    /// Logs a request that failed authentication.
    pub(crate) async fn log_unauthenticated(&self, exchange: &Exchange<'_>, status: &Status) {
        let has_certificate = exchange.peer.certificate.is_some() || exchange.peer.distrusted;
        let attempted = match (exchange.head.headers.contains_key(AUTHORIZATION), has_certificate) {
            (true, true) => "Authentication failed, attempted: bearer, x509",
            (true, false) => "Authentication failed, attempted: bearer",
            (false, true) => "Authentication failed, attempted: x509",
            (false, false) => "Authentication failed, no credentials provided",
        };
        self.log_failed(exchange, attempted, status.code).await;
    }

    /// Logs a request that failed before its user was known.
    pub(crate) async fn log_failed(&self, exchange: &Exchange<'_>, message: &str, code: u16) {
        if !self.begin(exchange, &User::default()) {
            return;
        }
        self.update(|record| {
            record.set_failure(&Status {
                message: message.to_owned(),
                code,
                ..Status::default()
            });
        });
        self.log_stage(exchange, Stage::ResponseStarted).await;
        self.0.lock().take();
    }

    /// Begins the audit event of a request. Returns whether the policy audits it.
    pub(crate) fn begin(&self, exchange: &Exchange<'_>, user: &User) -> bool {
        let Some(audit) = &exchange.shared.audit else {
            return false;
        };
        let decision = audit.policy.evaluate(user, &exchange.request_info.attributes());
        let record = Record::begin(decision, facts(exchange), user, exchange.shared.clock.now());
        let is_audited = record.is_some();
        *self.0.lock() = record;
        is_audited
    }

    /// Changes the event under construction, if there is one.
    pub(crate) fn update(&self, change: impl FnOnce(&mut Record)) {
        if let Some(record) = self.0.lock().as_mut() {
            change(record);
        }
    }

    /// Sets the request object. `json` is only called if the request is audited.
    pub(crate) fn set_request_body(&self, json: impl FnOnce() -> Option<Vec<u8>>) {
        self.update(|record| {
            let Some(json) = json() else { return };
            let metadata = scan::find_member(&json, "metadata").unwrap_or(b"{}");
            let metadata: Metadata = setpoint_api::json::from_slice(metadata).unwrap_or_default();
            record.complete_object_ref(&ObjectReference {
                name: metadata.name,
                namespace: metadata.namespace,
                uid: metadata.uid,
                resource_version: metadata.resource_version,
                ..ObjectReference::default()
            });
            record.set_request_object(&json);
        });
    }

    async fn log_stage(&self, exchange: &Exchange<'_>, stage: Stage) {
        let now = exchange.shared.clock.now();
        let line = self
            .0
            .lock()
            .as_mut()
            .and_then(|record| record.stage_line(stage, now));
        if let (Some(line), Some(audit)) = (line, &exchange.shared.audit) {
            audit.log.write(line).await;
        }
    }

    /// Logs the response: now, or for a watch at its end.
    pub(crate) async fn complete(&self, exchange: &Exchange<'_>, response: &mut Response<Body>) {
        let Some(audit) = &exchange.shared.audit else {
            return;
        };
        let code = response.status().as_u16();
        self.update(|record| record.set_response_code(code));
        if !matches!(response.body(), Body::Watch(_)) {
            return self.log_stage(exchange, Stage::ResponseComplete).await;
        }
        self.log_stage(exchange, Stage::ResponseStarted).await;
        let completion = AuditCompletion {
            record: self.0.lock().take(),
            audit: audit.clone(),
            clock: exchange.shared.clock.clone(),
            tasks: exchange.shared.tasks(),
        };
        let inner = std::mem::replace(response.body_mut(), Body::Empty);
        *response.body_mut() = Body::Stream(Box::pin(AuditedBody {
            inner,
            _completion: completion,
        }));
    }
}

fn facts(exchange: &Exchange<'_>) -> RequestMetadata {
    let head = exchange.head;
    let uri = head.uri.path_and_query();
    RequestMetadata {
        audit_id: text(exchange.audit_id),
        request_uri: uri.map_or_else(String::new, |uri| format!("{}{uri}", exchange.base_path)),
        verb: exchange.request_info.verb().to_owned(),
        source_ips: sources(exchange),
        user_agent: head.headers.get(USER_AGENT).map(text).unwrap_or_default(),
        object: object(exchange.request_info),
    }
}

/// The text of a header. An event is not to lose a header for a byte that is not UTF-8.
fn text(value: &HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).into_owned()
}

/// Source IPs of the request: those in the headers set by proxies, then the connection's peer.
fn sources(exchange: &Exchange<'_>) -> Vec<String> {
    let headers = &exchange.head.headers;
    let header = |name: &HeaderName| headers.get(name).map(text).unwrap_or_default();
    let (forwarded, real) = (header(&FORWARDED), header(&REAL_IP));
    let named = forwarded.split(',').chain([real.as_str()]).map(str::trim);
    let mut sources: Vec<String> = named
        .filter(|address| address.parse::<std::net::IpAddr>().is_ok())
        .map(str::to_owned)
        .collect();
    let peer = exchange.peer.address.map(|address| address.ip().to_string());
    if let Some(peer) = peer.filter(|peer| sources.last() != Some(peer)) {
        sources.push(peer);
    }
    sources
}

fn object(request_info: &RequestInfo<'_>) -> Option<ObjectReference> {
    let RequestInfo::Resource(resource) = request_info else {
        return None;
    };
    let target = &resource.target;
    Some(ObjectReference {
        resource: target.resource.resource.to_string(),
        namespace: resource.namespace.clone(),
        name: resource.name.clone(),
        api_group: target.resource.group.to_string(),
        api_version: target.resource.version.to_string(),
        subresource: target.subresource.as_deref().unwrap_or_default().to_owned(),
        ..ObjectReference::default()
    })
}

// === impl AuditedBody ===

impl ByteStream for AuditedBody {
    fn poll_chunk(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        self.inner.poll_bytes(context)
    }

    fn length(&self) -> Option<usize> {
        self.inner.length()
    }
}

impl Drop for AuditCompletion {
    fn drop(&mut self) {
        let now = self.clock.now();
        let line = self
            .record
            .as_mut()
            .and_then(|record| record.stage_line(Stage::ResponseComplete, now));
        if let Some(line) = line {
            let audit = self.audit.clone();
            self.tasks.spawn(async move { audit.log.write(line).await });
        }
    }
}
