//! Handler for resource requests: find the kind, check verb and options, read the body, call `Serve`, write the
//! response.

mod verb;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::{Response, StatusCode};
use hyper::body::Incoming;
use setpoint_api::selector::FieldSelector;
use setpoint_api::{
    ApiVerb, ApiVerbs, Payload, Request, ServeFuture, Status, Target, User, Verb, off_worker,
};
use setpoint_strategy::{ConnectKind, Kind, KindInfo};

use crate::body::Body;
use crate::chain::{DEFAULT_TIMEOUT, Exchange};
use crate::connect;
use crate::filters::bodies_in_flight::LARGE_BODY_BYTES;
use crate::filters::{audit, authorize};
use crate::negotiate::{self, Format, Negotiated, Supported};
use crate::request::deadline::{self, Deadline};
use crate::request::options::StatusError;
use crate::request::payload::{self, ReceivedPayload};
use crate::request::{ResourceRequest, options};
use crate::respond;
use crate::socket;
use crate::table::{self, IncludeObject, RenderOptions};
use crate::watch::WatchBody;
use verb::{target, with_options};

/// A response of more bytes may take long to encode.
const LARGE_RESPONSE_BYTES: usize = 512 * 1024;

/// Executes a resource request.
pub(crate) async fn handle(
    exchange: &Exchange<'_>,
    resource: &ResourceRequest,
    user: Arc<User>,
    body: &mut Option<Incoming>,
) -> Result<Response<Body>, StatusError> {
    let Some(kind) = find_kind(exchange, resource)? else {
        return Ok(respond::page_not_found());
    };
    check_verb(exchange, resource, kind.info())?;
    if let Some(connect) = connect_kind(kind.info(), resource) {
        return Box::pin(connect::handle(exchange, connect, resource, &user, body)).await;
    }
    let verb = resource
        .verb
        .ok_or_else(|| Box::new(Status::method_not_allowed()))?;
    let supported = Supported::of(&**kind);
    if verb == ApiVerb::Patch {
        payload::patch_type(&exchange.head.headers)?;
    }
    let negotiated = negotiate(exchange, verb, supported)?;
    let shared = exchange.shared;
    let deadline = Deadline::after(exchange.begun, timeout(exchange)?, &*shared.clock);
    shared.memory.check(exchange, resource, &user, body.as_ref())?;
    let received = match verb.is_read() {
        true => ReceivedPayload::default(),
        false => receive(exchange, (verb, supported), &user, body, deadline).await?,
    };
    let (payload, _in_flight) = (received.payload, received.reservation);
    if let Some(payload) = &payload {
        record_body(exchange, &**kind, payload);
    }
    let mut request = Request {
        user,
        target: target(resource, verb),
        verb: with_options(verb, exchange, payload)?,
    };
    check_fields(exchange, verb, kind.info())?;
    if let Verb::Watch(watch) = &mut request.verb {
        verb::select_name(watch, resource)?;
        watch.resource_version = options::watch_version(exchange.query)?;
    }
    // A watch is negotiated as a list first, and as a stream once its options are known to be valid.
    let negotiated = match verb {
        ApiVerb::Watch => negotiate::watch(&exchange.head.headers, supported)?,
        _ => negotiated,
    };
    if ignores_read_errors(&request.verb) {
        let authorizer = &*shared.authorize;
        let check = authorize::check_unreadable(authorizer, &request.user, exchange.request_info);
        Box::pin(check).await?;
    }
    let is_watch = matches!(request.verb, Verb::Watch(_));
    let reply = shared.serve.call(request);
    let result = finish(reply, is_watch, deadline).await;
    let result = result.inspect_err(|status| record_error(exchange, status))?;
    exchange
        .audit
        .update(|record| audit::body::record_response(record, kind, &result));
    let render = render_options(exchange, negotiated, kind)?;
    match is_costly(negotiated, &result) {
        true => off_worker(|| write(exchange, negotiated, render, result)),
        false => write(exchange, negotiated, render, result),
    }
}

fn render_options(
    exchange: &Exchange<'_>,
    negotiated: Negotiated,
    kind: &Arc<dyn Kind>,
) -> Result<RenderOptions, StatusError> {
    Ok(RenderOptions {
        format: negotiated.format,
        representation: negotiated.representation,
        kind: kind.clone(),
        include_object: IncludeObject::parse(exchange.query, negotiated.representation)?,
        now: exchange.begun,
    })
}

/// The time for the body and the execution. Only the body of a watch has one, and its parameter is not read.
fn timeout(exchange: &Exchange<'_>) -> Result<Duration, StatusError> {
    match exchange.request_info.is_long_running() {
        true => Ok(DEFAULT_TIMEOUT),
        false => deadline::read(exchange.query),
    }
}

/// Adds the request body to the audit event.
fn record_body(exchange: &Exchange<'_>, kind: &dyn Kind, payload: &Payload) {
    exchange.audit.set_request_body(|| {
        let json = || audit::body::request_json(kind, payload);
        match payload.bytes.len() > LARGE_BODY_BYTES {
            true => off_worker(json),
            false => json(),
        }
    });
}

/// Adds the audit annotations of an error to the audit event.
fn record_error(exchange: &Exchange<'_>, status: &Status) {
    let annotations = &status.audit_annotations;
    exchange
        .audit
        .update(|record| record.add_annotations(annotations));
}

/// Reads the request body before the deadline.
async fn receive<'a>(
    exchange: &Exchange<'a>,
    (verb, supported): (ApiVerb, Supported),
    user: &User,
    body: &mut Option<Incoming>,
    deadline: Deadline<'_>,
) -> Result<ReceivedPayload<'a>, StatusError> {
    let bodies = &exchange.shared.bodies;
    let received = payload::read(&exchange.head.headers, verb, supported, body, (bodies, user));
    let received = deadline.limit(pin!(received)).await;
    match received {
        Ok(received) => received,
        Err(exceeded) => {
            // The rest of the body is not waited for.
            *body = None;
            Err(exceeded)
        }
    }
}

/// Whether the response takes long to encode: it is large, and not stored JSON, which is sent as it is, nor a list in
/// JSON, which is encoded frame by frame.
fn is_costly(negotiated: Negotiated, result: &setpoint_api::Response) -> bool {
    use setpoint_api::Body as ResultBody;
    let is_json = negotiated.format == Format::Json && !negotiated.pretty;
    let bytes = match &result.body {
        _ if is_json => return false,
        ResultBody::Object(object) => object.json().len(),
        ResultBody::List(list) => list.items.iter().map(|item| item.json().len()).sum(),
        ResultBody::Json(json) => json.len(),
        ResultBody::Status(_) | ResultBody::Watch(_) => return false,
    };
    bytes > LARGE_RESPONSE_BYTES
}

/// Rejects field selectors the kind does not support. This error takes precedence over all other errors in the options.
fn check_fields(exchange: &Exchange<'_>, verb: ApiVerb, info: &KindInfo) -> Result<(), StatusError> {
    if !matches!(verb, ApiVerb::List | ApiVerb::Watch | ApiVerb::DeleteCollection) {
        return Ok(());
    }
    let Some(Ok(fields)) = exchange
        .query
        .text("fieldSelector")
        .map(str::parse::<FieldSelector>)
    else {
        return Ok(());
    };
    let unknown = fields.fields().find_map(|label| info.check_field(label).err());
    unknown.map_or(Ok(()), |message| Err(Box::new(Status::bad_request(message))))
}

fn negotiate(
    exchange: &Exchange<'_>,
    verb: ApiVerb,
    supported: Supported,
) -> Result<Negotiated, StatusError> {
    negotiate::resource(
        &exchange.head.headers,
        exchange.query,
        supported,
        matches!(verb, ApiVerb::List | ApiVerb::Watch | ApiVerb::DeleteCollection),
    )
}

/// The kind of the requested resource: `None` if the group is unknown, an error if only the resource is.
fn find_kind<'a>(
    exchange: &Exchange<'a>,
    resource: &ResourceRequest,
) -> Result<Option<&'a Arc<dyn Kind>>, StatusError> {
    let (kinds, gvr) = (exchange.kinds, &resource.target.resource);
    let Some(kind) = exchange.kind else {
        let same_group = |kind: &Arc<dyn Kind>| kind.info().gvr.group == gvr.group && !kind.info().is_custom;
        let is_known_group = gvr.group.is_empty() || kinds.iter().any(same_group);
        return if is_known_group {
            Err(no_such_resource())
        } else {
            Ok(None)
        };
    };
    let info = kind.info();
    if info.is_custom && !fits_scope(info, resource) {
        return Ok(None);
    }
    match is_served(info, resource) {
        true => Ok(Some(kind)),
        false => Err(no_such_resource()),
    }
}

/// Whether a path fits the scope of a custom resource; if not, the response is a plain 404 page.
fn fits_scope(info: &KindInfo, resource: &ResourceRequest) -> bool {
    match &resource.target.namespace {
        Some(_) => info.is_namespaced(),
        None => !info.is_namespaced() || matches!(resource.verb, Some(ApiVerb::List | ApiVerb::Watch)),
    }
}

/// Whether the path fits the kind: its scope, and the subresources it has.
fn is_served(info: &KindInfo, resource: &ResourceRequest) -> bool {
    let target = &resource.target;
    let scope_fits = match (&target.namespace, &target.name) {
        (Some(_), _) => info.is_namespaced(),
        (None, Some(_)) => !info.is_namespaced(),
        (None, None) => true,
    };
    // For custom resources the registry itself reports a missing subresource.
    let has_subresource = info.is_custom
        || target
            .subresource
            .as_deref()
            .is_none_or(|name| info.find_subresource(name).is_some());
    let has_items = target.name.is_none() || info.has_items();
    let takes_subpath = connect_kind(info, resource).is_some_and(ConnectKind::is_proxy);
    scope_fits && has_items && has_subresource && (takes_subpath || !resource.has_subpath)
}

/// The connection to open, if the request is for a connect subresource.
fn connect_kind(info: &KindInfo, resource: &ResourceRequest) -> Option<ConnectKind> {
    let subresource = info.find_subresource(resource.target.subresource.as_deref()?)?;
    subresource.connect_kind()
}

fn check_verb(
    exchange: &Exchange<'_>,
    resource: &ResourceRequest,
    info: &KindInfo,
) -> Result<(), StatusError> {
    let target = &resource.target;
    let is_head = exchange.head.method == http::Method::HEAD;
    let has_verb = |allowed: ApiVerbs| resource.verb.is_some_and(|verb| allowed.contains(verb));
    let allowed = match &target.subresource {
        Some(name) => match info.find_subresource(name) {
            Some(found) => match found.connect_kind() {
                Some(ConnectKind::Proxy) => true,
                Some(_) => has_verb(found.verbs),
                None => has_verb(found.verbs) && !is_head,
            },
            // For custom resources the registry itself reports a missing subresource.
            None => info.is_custom && !is_head,
        },
        // For these it also reports verbs that are no longer served.
        None => resource.verb.is_some_and(|verb| {
            let served = info.is_custom || info.allows(verb);
            served && !is_head && fits_target(verb, target, info.is_namespaced())
        }),
    };
    match allowed {
        true => check_name(target),
        false => Err(Box::new(Status::method_not_allowed())),
    }
}

/// Whether a verb applies to the target: create and deletecollection to a collection in one namespace, update and patch
/// to an object. Across all namespaces there are only reads.
fn fits_target(verb: ApiVerb, target: &Target, namespaced: bool) -> bool {
    let all_namespaces = namespaced && target.namespace.is_none();
    match verb {
        ApiVerb::Create | ApiVerb::DeleteCollection => target.name.is_none() && !all_namespaces,
        ApiVerb::Update | ApiVerb::Patch => target.name.is_some(),
        ApiVerb::Get | ApiVerb::List | ApiVerb::Watch | ApiVerb::Delete => true,
    }
}

fn check_name(target: &Target) -> Result<(), StatusError> {
    match target.name.as_deref() {
        Some(name @ ("." | "..")) => {
            let message = format!("Name parameter invalid: {name:?}: may not be '{name}'");
            Err(Box::new(Status::bad_request(message)))
        }
        _ => Ok(()),
    }
}

/// Whether the verb deletes an object that cannot be decoded, which needs an extra permission.
fn ignores_read_errors(verb: &Verb) -> bool {
    matches!(verb, Verb::Delete(options) if options.ignore_store_read_error)
}

/// Waits for the reply of `Serve`, up to the deadline; watches have none.
async fn finish(
    mut reply: ServeFuture<'_>,
    is_watch: bool,
    deadline: Deadline<'_>,
) -> Result<setpoint_api::Response, StatusError> {
    let reply = match is_watch {
        true => reply.await,
        false => deadline.limit(reply.as_mut()).await?,
    };
    reply.map_err(Box::new)
}

/// Encodes the result of `Serve` as an HTTP response.
fn write(
    exchange: &Exchange<'_>,
    negotiated: Negotiated,
    render: RenderOptions,
    result: setpoint_api::Response,
) -> Result<Response<Body>, StatusError> {
    use setpoint_api::Body as ResultBody;
    let shared = exchange.shared;
    let info = render.kind.info();
    let mut response = match result.body {
        ResultBody::Object(object) => {
            respond::check_representation(negotiated.representation, false, info)?;
            respond::object(negotiated, &render, &object)
        }
        ResultBody::List(list) => {
            respond::check_representation(negotiated.representation, true, info)?;
            respond::list(negotiated, render, list)
        }
        ResultBody::Json(json) => {
            let table = table::scale_table(negotiated.representation, &json, render.now);
            respond::encode(negotiated, StatusCode::OK, table.unwrap_or_else(|| json.into()))
        }
        ResultBody::Status(status) => respond::success(negotiated, &status),
        ResultBody::Watch(stream) => {
            let open_watch = shared.metrics.start_watch(&render.kind);
            let events = WatchBody::new(
                stream,
                render,
                shared.clock.clone(),
                shared.stop.clone(),
                open_watch,
            );
            match setpoint_streaming::websocket::is_upgrade(&exchange.head.headers) {
                true => socket::accept(shared, exchange.head, &[], |_| events)?,
                false => respond::stream(negotiated.format, Body::Watch(Box::new(events))),
            }
        }
    };
    if result.created && response.status() == StatusCode::OK {
        *response.status_mut() = StatusCode::CREATED;
    }
    respond::add_warnings(&mut response, &result.warnings);
    Ok(response)
}

fn no_such_resource() -> StatusError {
    Box::new(Status::no_such_resource())
}
