//! The target and the verb of a resource request, with its options and payload, as `Serve` takes them.

use std::time::Duration;

use http::header::USER_AGENT;
use setpoint_api::options::WatchOptions;
use setpoint_api::selector::FieldSelector;
use setpoint_api::{ApiVerb, Payload, Status, Target, Verb};
use uuid::Uuid;

use crate::chain::Exchange;
use crate::negotiate::header;
use crate::request::options::StatusError;
use crate::request::{ResourceRequest, delete, options, payload};

/// Minimum lifetime of a watch whose request sets no timeout. The actual lifetime is drawn between this and twice this,
/// so that watches started together do not all end together.
const MIN_WATCH_SECONDS: u64 = 1800;

/// The target passed to `Serve`. A watch of a single name becomes a watch of the collection with a field selector.
pub(super) fn target(resource: &ResourceRequest, verb: ApiVerb) -> Target {
    match verb {
        ApiVerb::Watch => Target {
            name: None,
            ..resource.target.clone()
        },
        _ => resource.target.clone(),
    }
}

/// The verb with its options and payload.
pub(super) fn with_options(
    verb: ApiVerb,
    exchange: &Exchange<'_>,
    payload: Option<Payload>,
) -> Result<Verb, StatusError> {
    let query = exchange.query;
    let agent = header(&exchange.head.headers, &USER_AGENT);
    let body = |payload: Option<Payload>| payload.unwrap_or_else(|| Payload::json(""));
    match verb {
        ApiVerb::Get => Ok(Verb::Get(options::get(query)?)),
        ApiVerb::List => Ok(Verb::List(options::list(query)?)),
        ApiVerb::Watch => watch(exchange),
        ApiVerb::Create => Ok(Verb::Create(
            body(payload),
            options::write(query, "CreateOptions", agent)?,
        )),
        ApiVerb::Update => Ok(Verb::Update(
            body(payload),
            options::write(query, "UpdateOptions", agent)?,
        )),
        ApiVerb::Patch => {
            let patch_type = payload::patch_type(&exchange.head.headers)?;
            Ok(Verb::Patch(
                patch_type,
                body(payload),
                options::patch(query, patch_type, agent)?,
            ))
        }
        ApiVerb::Delete => Ok(Verb::Delete(delete::read(query, payload.as_ref())?)),
        ApiVerb::DeleteCollection => Ok(Verb::DeleteCollection(
            delete::read_collection(query, payload.as_ref())?,
            options::list(query)?,
        )),
    }
}

fn watch(exchange: &Exchange<'_>) -> Result<Verb, StatusError> {
    let spread = Uuid::new_v4().as_u64_pair().0 % MIN_WATCH_SECONDS;
    let watch = options::watch(exchange.query, Duration::from_secs(MIN_WATCH_SECONDS + spread))?;
    Ok(Verb::Watch(watch))
}

/// Makes a watch of one object select its name. A field selector must require that name.
pub(super) fn select_name(watch: &mut WatchOptions, resource: &ResourceRequest) -> Result<(), StatusError> {
    if let Some(name) = &resource.target.name {
        let is_same = watch.fields.exact_match("metadata.name") == Some(name.as_str());
        if !watch.fields.is_empty() && !is_same {
            return Err(Box::new(Status::bad_request(
                "fieldSelector metadata.name doesn't match requested name",
            )));
        }
        watch.fields = FieldSelector::equals("metadata.name", name);
    }
    Ok(())
}
