//! Get and list of virtual resources, whose objects are computed for each request.

use std::sync::Arc;

use setpoint_api::call::Body;
use setpoint_api::options::ListOptions;
use setpoint_api::selector::selects;
use setpoint_api::{Key, List, Response, Status, Stored};
use setpoint_schema::Tree;
use setpoint_strategy::meta;

use super::list::check_fields;
use crate::request_context::RequestContext;

/// Returns the object in the URL.
pub(crate) fn get(context: &RequestContext<'_>) -> Result<Response, Status> {
    let key = context.key()?;
    let found = context
        .registry
        .virtual_resources
        .find(&context.kind_info().gvk, &key)?;
    let object = found.ok_or_else(|| context.not_found(&key))?;
    Ok(Response::new(Body::Object(unstored(context, &object)?)))
}

/// Lists the objects that the options select, always all of them.
pub(crate) fn list(context: &RequestContext<'_>, options: &ListOptions) -> Result<Response, Status> {
    check_fields(context, &options.fields)?;
    let namespace = context.target.namespace.as_deref().unwrap_or_default();
    let computed = context
        .registry
        .virtual_resources
        .objects(&context.kind_info().gvk, namespace);
    let items = computed.iter().map(|object| unstored(context, object));
    let mut items = items.collect::<Result<Vec<_>, _>>()?;
    items.retain(|object| selects(&options.labels, &options.fields, object));
    let list = List {
        items,
        ..List::default()
    };
    Ok(Response::new(Body::List(list)))
}

fn unstored(context: &RequestContext<'_>, object: &Tree) -> Result<Arc<Stored>, Status> {
    let key = Key::new(meta::str(object, "namespace"), meta::name(object));
    let encoded = context.resource.encode(&key, object)?;
    context.unstored_object(&key, &encoded.written, None)
}
