//! The filter chain: the order in which every request passes authentication, audit, impersonation, priority and
//! fairness and authorization before it reaches a handler.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::{HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use jiff::Timestamp;
use setpoint_api::{ApiVerb, HttpVerb, User};
use setpoint_auth::impersonate::{RequestedUser, impersonate};
use setpoint_strategy::{Kind, Kinds};

use crate::aggregate::proxy;
use crate::body::Body;
use crate::filters::audit::AuditContext;
use crate::filters::flow_control::{ExecutingRequest, RequestDigest, TooManyRequests};
use crate::filters::priority_and_fairness::configuration::FlowSchema;
use crate::filters::priority_and_fairness::response_headers;
use crate::filters::{audit_id, authenticate, impersonation_headers, limit, panic};
use crate::memo::ServedApis;
use crate::metrics::Labels;
use crate::request::options::StatusError;
use crate::request::query::Query;
use crate::request::{self, RequestInfo, deadline};
use crate::tls::Peer;
use crate::view::View;
use crate::{compression, handler, negotiate, non_resource, respond};

/// A watch waits for its seats as long as a request without a timeout does.
pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// Handles one request, which has arrived at `begun`. Errors and panics become error responses.
pub(crate) async fn handle(
    shared: &View,
    peer: &Peer,
    base_path: &str,
    begun: Timestamp,
    request: Request<Incoming>,
) -> Response<Body> {
    let id = shared.audit_ids.for_request(request.headers());
    let (head, body) = request.into_parts();
    let mut body = Some(body);
    let query = Query::parse(head.uri.query());
    let request_info = request::parse(&head.method, head.uri.path(), &query);
    let kinds = (shared.kinds)();
    let kind = match &request_info {
        RequestInfo::Resource(resource) => kinds.find(&resource.target.resource),
        RequestInfo::NonResource { .. } => None,
    };
    let exchange = Exchange {
        shared,
        kinds: &kinds,
        kind,
        peer,
        base_path,
        head: &head,
        query: &query,
        request_info: &request_info,
        audit_id: &id,
        begun,
        flow_schema: OnceLock::new(),
        is_authorized: AtomicBool::new(false),
        audit: AuditContext::default(),
    };
    let _in_flight = shared.metrics.enter(is_mutating(&head.method));
    let result = panic::guard(pin!(exchange.run_filters(&mut body))).await;
    if let Some(unread) = &mut body {
        limit::drain(unread, &*shared.clock).await;
    }
    let mut response = result.unwrap_or_else(|status| {
        exchange.audit.update(|record| record.set_failure(&status));
        respond::error(negotiate::error(&head.headers, &query), &status)
    });
    exchange.observe_metrics(&response);
    exchange.add_deprecation_warning(&mut response);
    compression::compress(&head.headers, &mut response);
    exchange.add_flow_headers(&mut response);
    if shared.audit.is_some() {
        Box::pin(exchange.audit.complete(&exchange, &mut response)).await;
    }
    audit_id::set(&mut response, id.clone());
    response
}

/// One HTTP exchange: the parsed request and the state the filters share.
pub(crate) struct Exchange<'a> {
    pub shared: &'a View,
    /// The kinds served when the request arrived; constant for its duration.
    pub kinds: &'a Arc<Kinds>,
    /// The kind of the requested resource, if there is one of that name.
    pub kind: Option<&'a Arc<dyn Kind>>,
    pub peer: &'a Peer,
    /// What preceded the path in the client's request, such as `/clusters/NAME`; empty for the server's own cluster.
    pub base_path: &'a str,
    pub head: &'a http::request::Parts,
    pub query: &'a Query<'a>,
    pub request_info: &'a RequestInfo<'a>,
    /// Value of the response's `Audit-Id` header.
    pub audit_id: &'a HeaderValue,
    /// When the request arrived.
    pub begun: Timestamp,
    /// The audit event of this request.
    pub audit: AuditContext,
    /// The request's FlowSchema; set once the user is known.
    flow_schema: OnceLock<Arc<FlowSchema>>,
    /// Whether the request passed the authorizer.
    is_authorized: AtomicBool,
}

impl Exchange<'_> {
    /// Runs the filters and the handler. Futures of rare requests are boxed: the future of a request is as large as its
    /// largest part, and is moved several times.
    async fn run_filters(&self, body: &mut Option<Incoming>) -> Result<Response<Body>, StatusError> {
        if let Err(invalid) = self.check_timeout() {
            Box::pin(self.audit.log_failed(self, &invalid.message, invalid.code)).await;
            return Err(invalid);
        }
        let user = self.authenticate().await;
        self.shared.metrics.authenticated.count(user.is_ok());
        if let Err(unauthorized) = &user {
            Box::pin(self.audit.log_unauthenticated(self, unauthorized)).await;
        }
        let caller = user?;
        if self.audit.begin(self, &caller) {
            Box::pin(self.audit.log_received(self)).await;
        }
        let user = match impersonation_headers::requested_user(&self.head.headers)? {
            None => caller,
            Some(requested) => Box::pin(self.impersonated_user(&caller, &requested)).await?,
        };
        let mut executing = match self.admit(&user).await {
            Ok(executing) => executing,
            Err(rejected) => return Ok(respond::too_many_requests(rejected.retry_after_seconds)),
        };
        let attributes = self.request_info.attributes();
        let decision = self.shared.authorize.authorize(&user, &attributes);
        let decision = decision.resolve().await;
        self.audit.update(|record| record.set_decision(&decision));
        let allowed = setpoint_auth::authorize::require_allowed(&user, &attributes, &decision);
        self.shared.metrics.authorized.count(allowed.is_ok());
        allowed?;
        self.is_authorized.store(true, Ordering::Relaxed);
        if let Some(remote) = self.shared.aggregator.find(self.request_info) {
            if self.request_info.is_long_running() {
                // The aggregated API server limits the initialization of its watches itself.
                executing.release_seats();
            }
            return Box::pin(proxy::forward(self, &remote, &user, body)).await;
        }
        let mut response = match self.request_info {
            RequestInfo::Resource(resource) => handler::handle(self, resource, user, body).await,
            RequestInfo::NonResource { path, .. } => non_resource::handle(self, path, &user, body).await,
        }?;
        response.body_mut().hold(executing, &*self.shared.clock);
        Ok(response)
    }

    /// The user that an authenticating proxy names, or else the one of the caller's own credentials.
    async fn authenticate(&self) -> Result<Arc<User>, StatusError> {
        if let Some(user) = self
            .shared
            .proxied_user(self.peer, &self.head.headers, self.begun)
        {
            return Ok(user);
        }
        authenticate::user(&*self.shared.authenticate, self.peer, self.head, self.begun).await
    }

    /// Rejects an invalid `timeout` in the URL, before authentication as upstream does.
    fn check_timeout(&self) -> Result<(), StatusError> {
        match self.request_info.is_long_running() {
            true => Ok(()),
            false => deadline::read(self.query).map(drop),
        }
    }

    /// The user that the caller impersonates, with which the request is executed.
    async fn impersonated_user(
        &self,
        caller: &User,
        requested: &RequestedUser,
    ) -> Result<Arc<User>, StatusError> {
        let attributes = self.request_info.attributes();
        let authorizer = &*self.shared.authorize;
        let impersonated = impersonate(authorizer, caller, requested, &attributes).await?;
        self.audit
            .update(|record| record.set_impersonated_user(&impersonated));
        Ok(Arc::new(impersonated.user))
    }

    /// Waits for the seats of the request: for a quarter of its timeout.
    async fn admit(&self, user: &Arc<User>) -> Result<ExecutingRequest, TooManyRequests> {
        let timeout = match self.request_info.is_long_running() {
            true => DEFAULT_TIMEOUT,
            false => deadline::read(self.query).unwrap_or(DEFAULT_TIMEOUT),
        };
        let digest = RequestDigest {
            user,
            info: self.request_info,
            query: self.query,
            method: &self.head.method,
            path: self.head.uri.path_and_query(),
            max_wait: timeout / 4,
        };
        self.shared.flow_control.admit(&digest, &self.flow_schema).await
    }

    /// Adds the deprecation warning of a deprecated version.
    fn add_deprecation_warning(&self, response: &mut Response<Body>) {
        let deprecation = self.kind.and_then(|kind| kind.info().deprecation_warning.clone());
        // Upstream adds it in the kind's handler, which these responses never reach.
        let is_unrouted = match response.status() {
            StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_ACCEPTABLE => true,
            StatusCode::UNSUPPORTED_MEDIA_TYPE => self.head.method == Method::PATCH,
            _ => false,
        };
        let reached = self.is_authorized.load(Ordering::Relaxed) && self.has_route() && !is_unrouted;
        if let Some(deprecation) = deprecation.filter(|_| reached) {
            respond::prepend_warning(response, &deprecation);
        }
    }

    /// Whether the kind has the subresource of the request, if there is one.
    fn has_route(&self) -> bool {
        let (RequestInfo::Resource(resource), Some(kind)) = (self.request_info, self.kind) else {
            return false;
        };
        let subresource = resource.target.subresource.as_deref();
        let served = &kind.info().subresources;
        subresource.is_none_or(|name| served.iter().any(|subresource| subresource.name == name))
    }

    fn add_flow_headers(&self, response: &mut Response<Body>) {
        if let Some(flow_schema) = self.flow_schema.get() {
            response_headers::set(flow_schema, response);
        }
    }

    fn observe_metrics(&self, response: &Response<Body>) {
        let took = self.shared.clock.now().duration_since(self.begun).unsigned_abs();
        let kind = self.kind;
        let labels = Labels {
            code: response.status().as_u16(),
            dry_run: self.query.find("dryRun").is_some(),
            ..self.labels(kind)
        };
        self.shared
            .metrics
            .observe_request(labels, kind, took, response.body().length());
    }

    /// The APIs served now, by this server and by aggregated API servers.
    pub(crate) fn served_apis(&self) -> ServedApis {
        ServedApis {
            kinds: self.kinds.clone(),
            remote_groups: self.shared.aggregator.remote_groups(),
        }
    }

    fn labels(&self, kind: Option<&Arc<dyn Kind>>) -> Labels {
        let labels = Labels::new(verb_label(self.request_info), kind);
        let (RequestInfo::Resource(resource), Some(kind)) = (self.request_info, kind) else {
            return labels;
        };
        let target = &resource.target;
        let scope = match (&target.name, &target.namespace) {
            (Some(_), _) => "resource",
            (None, Some(_)) => "namespace",
            (None, None) => "cluster",
        };
        let subresource = target
            .subresource
            .as_deref()
            .and_then(|name| kind.info().find_subresource(name));
        Labels {
            scope,
            subresource: subresource.map_or("", |found| found.name),
            ..labels
        }
    }
}

fn is_mutating(method: &Method) -> bool {
    !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

/// The value of the `verb` metric label: the HTTP method, except for the verbs on collections.
fn verb_label(request_info: &RequestInfo<'_>) -> &'static str {
    let http_verb = match request_info {
        RequestInfo::NonResource { verb, .. } => *verb,
        RequestInfo::Resource(resource) => match resource.verb {
            Some(ApiVerb::List) => return "LIST",
            Some(ApiVerb::Watch) => return "WATCH",
            Some(ApiVerb::DeleteCollection) => return "DELETECOLLECTION",
            verb => verb.map(ApiVerb::http_verb),
        },
    };
    match http_verb {
        Some(HttpVerb::Get) => "GET",
        Some(HttpVerb::Post) => "POST",
        Some(HttpVerb::Put) => "PUT",
        Some(HttpVerb::Patch) => "PATCH",
        Some(HttpVerb::Delete) => "DELETE",
        Some(HttpVerb::Head | HttpVerb::Options) | None => "other",
    }
}
