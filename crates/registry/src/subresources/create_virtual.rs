//! Creates of virtual resources: reviews and token requests, which are returned with their status and not stored.

use bytes::Bytes;

use setpoint_api::call::Body;
use setpoint_api::options::WriteOptions;
use setpoint_api::{Gvk, Payload, Response, Status};
use setpoint_registry_api::ReviewRequest;
use setpoint_schema::{Pack, Shape};

use crate::admission::ReviewedWrite;
use crate::field_managers;
use crate::request_context::RequestContext;
use crate::verbs::clear_system_fields;

/// Handles a create of a virtual resource, or of a virtual subresource of the object in the URL.
pub(crate) async fn create_virtual(
    context: &RequestContext<'_>,
    payload: Payload,
    options: WriteOptions,
) -> Result<Response, Status> {
    let options = &options;
    let (gvk, shape) = requested_kind(context)?;
    let mut body = context.decode_as(&payload, shape, options.field_validation)?;
    match context.target.subresource {
        Some(_) => field_managers::track_body(context, &mut body, (&gvk, shape), options),
        None => {
            clear_system_fields(&mut body);
            field_managers::update(context, None, &mut body, options);
        }
    }
    let mutated = context.mutate(ReviewedWrite::create(&mut body, options)).await?;
    let subject = match context.target.name {
        Some(_) => {
            let key = context.key()?;
            Some(context.require(&key)?)
        }
        None => None,
    };
    let mut request = ReviewRequest {
        user: &context.user,
        gvk: &gvk,
        target: &context.target,
        parent: subject,
        body,
        caches: context.registry,
        now: context.facts.now,
    };
    let virtual_resources = &context.registry.virtual_resources;
    virtual_resources.prepare(&mut request)?;
    let write = ReviewedWrite::create(&mut request.body, options);
    let admitted = context.admit(write).await?;
    context.add_object_warnings(Vec::new(), mutated.and(admitted).warnings);
    let object = virtual_resources.create(request).await?;
    let mut json = Vec::new();
    setpoint_schema::write_into(shape, &object, &mut json);
    Ok(Response {
        created: true,
        ..Response::new(Body::Json(Bytes::from(json)))
    })
}

/// The kind and shape of the body: those of the resource, or those of its subresource.
fn requested_kind<'a>(context: &'a RequestContext<'_>) -> Result<(Gvk, &'a Shape), Status> {
    let Some(name) = context.target.subresource.as_deref() else {
        return Ok((context.kind_info().gvk.clone(), context.kind.shape()));
    };
    let subresource = context.kind_info().find_subresource(name);
    let (group, version, kind) = subresource.ok_or_else(Status::no_such_resource)?.body_kind;
    let shape = Pack::builtin().shape_of(group, version, kind);
    let shape = shape.expect("the pack has every built-in kind");
    Ok((Gvk::new(group, version, kind), shape))
}
