//! Requests for resources: check that there is such a thing, read the body, call `Serve`, write the answer.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, USER_AGENT};
use http::{Response, StatusCode};
use hyper::body::Incoming;
use setpoint_api::call::Encoding;
use setpoint_api::options::PatchType;
use setpoint_api::selector::FieldSelector;
use setpoint_api::{Payload, Request, Status, Target, User, Verb};
use setpoint_codec::media::MediaType;
use setpoint_kinds::{About, Kind, Subresource};
use uuid::Uuid;

use crate::body::Body;
use crate::chain::Exchange;
use crate::filters::{authorize, limit};
use crate::negotiate::{self, Offer, Wanted, header};
use crate::request::options::Refused;
use crate::request::{Address, deadline, delete, options};
use crate::respond;
use crate::serve::Shared;
use crate::table::{self, Include, Shown};
use crate::told;
use crate::watch::{Events, socket};
use crate::{connect, websocket};

/// A watch without a timeout ends by itself after this long, or up to twice as long: so that they do not all end at once.
const WATCH_SECONDS: u64 = 1800;

/// Carries out a request for a resource.
pub(crate) async fn answer(
    exchange: &Exchange<'_>,
    address: &Address,
    user: Arc<User>,
    body: &mut Option<Incoming>,
) -> Result<Response<Body>, Refused> {
    let Some(kind) = find(exchange, address)? else {
        return Ok(respond::page_not_found());
    };
    check_verb(exchange, address, kind.about())?;
    if stream_of(kind.about(), address).is_some()
        && let Some(body) = body.take()
    {
        return connect::answer(exchange, address, &user, body).await;
    }
    let offer = Offer::of(&**kind);
    let wanted = wanted(exchange, offer)?;
    check_fields(exchange, kind.about())?;
    let include = Include::parse(exchange.query, wanted.form)?;
    let deadline = deadline::read(exchange.query)?;
    let payload = read_payload(exchange, offer, body).await?;
    if let Some(payload) = &payload {
        exchange.record.document(|| told::document(&**kind, payload));
    }
    let request = Request {
        user,
        target: target(address, exchange.asked.verb),
        verb: verb(exchange, address, payload)?,
    };
    check_deletion(exchange, &request)?;
    let called = call(exchange.shared, request, deadline).await?;
    exchange.record.note(|record| told::answer(record, kind, &called));
    let shown = Shown {
        format: wanted.format,
        form: wanted.form,
        kind: kind.clone(),
        include,
        now: exchange.shared.clock.now(),
    };
    write(exchange, wanted, shown, called)
}

/// Whether the kind selects by the fields that are named: this is said before anything else about the options.
fn check_fields(exchange: &Exchange<'_>, about: &About) -> Result<(), Refused> {
    if !matches!(exchange.asked.verb, "list" | "watch" | "deletecollection") {
        return Ok(());
    }
    let Some(Ok(fields)) = exchange
        .query
        .text("fieldSelector")
        .map(str::parse::<FieldSelector>)
    else {
        return Ok(());
    };
    let unknown = fields.fields().find_map(|label| about.check_field(label).err());
    unknown.map_or(Ok(()), |why| Err(Box::new(Status::bad_request(why))))
}

fn wanted(exchange: &Exchange<'_>, offer: Offer) -> Result<Wanted, Refused> {
    let headers = &exchange.head.headers;
    match exchange.asked.verb {
        "watch" => negotiate::watch(headers, offer),
        verb => negotiate::resource(
            headers,
            exchange.query,
            offer,
            matches!(verb, "list" | "deletecollection"),
        ),
    }
}

/// The kind that is asked for. `None` where even the group is unknown; a refusal where only the resource is.
fn find<'a>(exchange: &Exchange<'a>, address: &Address) -> Result<Option<&'a Arc<dyn Kind>>, Refused> {
    let (kinds, wanted) = (exchange.kinds, &address.target.resource);
    let Some(kind) = kinds.find(wanted) else {
        let same_group =
            |kind: &Arc<dyn Kind>| kind.about().gvr.group == wanted.group && !kind.about().defined;
        let known = wanted.group.is_empty() || kinds.iter().any(same_group);
        return if known { Err(no_such_resource()) } else { Ok(None) };
    };
    let about = kind.about();
    if about.defined && !fits_scope(about, &address.target, exchange.asked.verb) {
        return Ok(None);
    }
    match is_served(about, address) {
        true => Ok(Some(kind)),
        false => Err(no_such_resource()),
    }
}

/// Whether a path fits the scope of a kind that a definition made: where it does not, there is no page at all.
fn fits_scope(about: &About, target: &Target, verb: &str) -> bool {
    match &target.namespace {
        Some(_) => about.is_namespaced(),
        None => !about.is_namespaced() || matches!(verb, "list" | "watch"),
    }
}

/// Whether the path fits the kind: namespaced objects in a namespace, others in none, and subresources it has.
fn is_served(about: &About, address: &Address) -> bool {
    let target = &address.target;
    let scope_fits = match (&target.namespace, &target.name) {
        (Some(_), _) => about.is_namespaced(),
        (None, Some(_)) => !about.is_namespaced(),
        (None, None) => true,
    };
    // Of a kind that a definition made, the registry says that the object has no such part.
    let part_is_known = about.defined
        || target
            .subresource
            .as_deref()
            .is_none_or(|name| about.find_subresource(name).is_some());
    let has_items = target.name.is_none() || about.has_items();
    let goes_on = stream_of(about, address).is_some_and(|part| connect::takes_paths(&part));
    scope_fits && has_items && part_is_known && (goes_on || !address.deeper)
}

/// The stream that is asked for, if it is one.
fn stream_of(about: &About, address: &Address) -> Option<Subresource> {
    let part = about.find_subresource(address.target.subresource.as_deref()?);
    part.filter(connect::is_stream)
}

fn check_verb(exchange: &Exchange<'_>, address: &Address, about: &About) -> Result<(), Refused> {
    let (verb, target) = (exchange.asked.verb, &address.target);
    if stream_of(about, address).is_some_and(|part| connect::takes_paths(&part) || part.verbs.contains(&verb))
    {
        return check_name(target);
    }
    let allowed = match &target.subresource {
        // Of a kind that a definition made, the registry says that the object has no such part.
        Some(part) => about
            .find_subresource(part)
            .map_or(about.defined, |found| found.verbs.contains(&verb)),
        // Of such a kind it also says what is not done any more.
        None => (about.defined || about.allows(verb)) && fits_target(verb, target, about.is_namespaced()),
    };
    match allowed && exchange.head.method != http::Method::HEAD {
        true => check_name(target),
        false => Err(Box::new(Status::method_not_allowed())),
    }
}

/// Collections are created in and listed, objects are read and changed; across namespaces there is only reading.
fn fits_target(verb: &str, target: &Target, namespaced: bool) -> bool {
    let across = namespaced && target.namespace.is_none();
    match verb {
        "create" | "deletecollection" => target.name.is_none() && !across,
        "update" | "patch" => target.name.is_some(),
        _ => true,
    }
}

fn check_name(target: &Target) -> Result<(), Refused> {
    match target.name.as_deref() {
        Some(name @ ("." | "..")) => {
            let message = format!("Name parameter invalid: {name:?}: may not be '{name}'");
            Err(Box::new(Status::bad_request(message)))
        }
        _ => Ok(()),
    }
}

/// The target as `Serve` understands it: a watch is on a collection, even one that is narrowed to a name.
fn target(address: &Address, verb: &str) -> Target {
    match verb {
        "watch" => Target {
            name: None,
            ..address.target.clone()
        },
        _ => address.target.clone(),
    }
}

fn verb(exchange: &Exchange<'_>, address: &Address, payload: Option<Payload>) -> Result<Verb, Refused> {
    let query = exchange.query;
    let agent = header(&exchange.head.headers, &USER_AGENT);
    let body = |payload: Option<Payload>| payload.unwrap_or_else(|| Payload::json(""));
    match exchange.asked.verb {
        "get" => Ok(Verb::Get(options::get(query)?)),
        "list" => Ok(Verb::List(options::list(query)?)),
        "watch" => watch(exchange, address),
        "create" => Ok(Verb::Create(
            body(payload),
            options::write(query, "CreateOptions", agent)?,
        )),
        "update" => Ok(Verb::Update(
            body(payload),
            options::write(query, "UpdateOptions", agent)?,
        )),
        "patch" => {
            let patch_type = patch_type(header(&exchange.head.headers, &CONTENT_TYPE))?;
            Ok(Verb::Patch(
                patch_type,
                body(payload),
                options::patch(query, patch_type, agent)?,
            ))
        }
        "delete" => Ok(Verb::Delete(delete::read(query, payload.as_ref())?)),
        "deletecollection" => Ok(Verb::DeleteCollection(
            delete::read_collection(query, payload.as_ref())?,
            options::list(query)?,
        )),
        _ => Err(Box::new(Status::method_not_allowed())),
    }
}

/// To remove what cannot be read takes a right of its own.
fn check_deletion(exchange: &Exchange<'_>, request: &Request) -> Result<(), Refused> {
    match &request.verb {
        Verb::Delete(options) if options.unreadable_only => {
            authorize::check_unreadable(&*exchange.shared.authorize, &request.user, exchange.asked)
        }
        _ => Ok(()),
    }
}

fn watch(exchange: &Exchange<'_>, address: &Address) -> Result<Verb, Refused> {
    let spread = Uuid::new_v4().as_u64_pair().0 % WATCH_SECONDS;
    let mut watch = options::watch(exchange.query, Duration::from_secs(WATCH_SECONDS + spread))?;
    if let Some(name) = &address.target.name {
        watch.fields = FieldSelector::equals("metadata.name", name);
    }
    Ok(Verb::Watch(watch))
}

/// Reads the body of a request that may have one; `None` if it is empty. What a deletion's body is written in counts
/// only if there is one.
async fn read_payload(
    exchange: &Exchange<'_>,
    offer: Offer,
    body: &mut Option<Incoming>,
) -> Result<Option<Payload>, Refused> {
    if matches!(exchange.asked.verb, "get" | "list" | "watch") {
        return Ok(None);
    }
    let content_type = header(&exchange.head.headers, &CONTENT_TYPE);
    let encoding = match exchange.asked.verb {
        "patch" => patch_type(content_type).map(patch_encoding),
        _ => encoding(content_type, offer),
    };
    let may_be_empty = matches!(exchange.asked.verb, "delete" | "deletecollection");
    if !may_be_empty && let Err(unknown) = encoding {
        return Err(unknown);
    }
    let bytes = match body {
        Some(body) => limit::read(body).await?,
        None => Bytes::new(),
    };
    if bytes.is_empty() {
        return Ok(None);
    }
    Ok(Some(Payload {
        encoding: encoding?,
        bytes,
    }))
}

fn encoding(content_type: &str, offer: Offer) -> Result<Encoding, Refused> {
    MediaType::parse(content_type)
        .encoding()
        .filter(|encoding| *encoding != Encoding::Protobuf || offer.has_protobuf())
        .ok_or_else(|| Box::new(Status::unsupported_media_type(offer.accepted())))
}

fn patch_type(content_type: &str) -> Result<PatchType, Refused> {
    match MediaType::parse(content_type).essence {
        "application/json-patch+json" => Ok(PatchType::Json),
        "application/merge-patch+json" => Ok(PatchType::Merge),
        "application/strategic-merge-patch+json" => Ok(PatchType::StrategicMerge),
        "application/apply-patch+yaml" => Ok(PatchType::Apply),
        _ => Err(negotiate::unknown_content_type()),
    }
}

fn patch_encoding(patch_type: PatchType) -> Encoding {
    match patch_type {
        PatchType::Apply => Encoding::Yaml,
        PatchType::Json | PatchType::Merge | PatchType::StrategicMerge => Encoding::Json,
    }
}

/// Calls `Serve`, but not for ever.
async fn call(
    shared: &Shared,
    request: Request,
    deadline: Duration,
) -> Result<setpoint_api::Response, Refused> {
    let long_running = matches!(request.verb, Verb::Watch(_));
    let reply = shared.serve.call(request);
    if long_running {
        return reply.await.map_err(Box::new);
    }
    tokio::select! {
        biased;
        reply = reply => reply.map_err(Box::new),
        () = shared.clock.sleep(deadline) => {
            let message = "Timeout: request did not complete within the allotted timeout";
            Err(Box::new(Status::timeout(message)))
        }
    }
}

/// Writes what came of it.
fn write(
    exchange: &Exchange<'_>,
    wanted: Wanted,
    shown: Shown,
    called: setpoint_api::Response,
) -> Result<Response<Body>, Refused> {
    use setpoint_api::Body as Answered;
    let shared = exchange.shared;
    let about = shown.kind.about();
    let mut response = match called.body {
        Answered::Object(object) => {
            respond::check_form(wanted.form, false, about)?;
            respond::object(wanted, &shown, &object)
        }
        Answered::List(list) => {
            respond::check_form(wanted.form, true, about)?;
            respond::list(wanted, shown, list)
        }
        Answered::Document(json) => {
            let table = table::of_scale(wanted.form, &json, shown.now);
            respond::document(wanted, StatusCode::OK, table.unwrap_or_else(|| json.into()))
        }
        Answered::Status(status) => respond::success(wanted, &status),
        Answered::Watch(stream) => {
            let watching = shared.metrics.watching(&shown.kind);
            let events = Events::new(stream, shown, shared.clock.clone(), shared.stop.clone(), watching);
            match websocket::is_wanted(&exchange.head.headers) {
                true => socket::answer(shared, exchange.head, events)?,
                false => respond::stream(wanted.format, Body::Events(Box::new(events))),
            }
        }
    };
    if called.created && response.status() == StatusCode::OK {
        *response.status_mut() = StatusCode::CREATED;
    }
    respond::warn(&mut response, &called.warnings);
    Ok(response)
}

fn no_such_resource() -> Refused {
    Box::new(Status::no_such_resource())
}
