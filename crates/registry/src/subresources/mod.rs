//! Subresources with a kind of their own (`binding`, `eviction`, `scale`), and creates of virtual resources.
//!
//! Each is a file, and one line in [`dispatch`]. A kind lists its subresources itself.

mod binding;
mod create_virtual;
mod eviction;
mod scale;

use setpoint_api::options::WriteOptions;
use setpoint_api::{Gvk, Payload, Response, Status};
use setpoint_schema::{Pack, Shape, Tree};
use setpoint_strategy::{Action, SubresourceKind, meta};

use crate::admission::ReviewedWrite;
use crate::field_managers;
use crate::request_context::RequestContext;

pub(crate) use binding::RecentBindings;
pub(crate) use create_virtual::create_virtual;
pub(crate) use scale::scale;

/// Handles a create of an action subresource.
pub(crate) async fn dispatch(
    context: &RequestContext<'_>,
    action: Action,
    payload: Payload,
    options: WriteOptions,
) -> Result<Response, Status> {
    match action {
        Action::Bind => binding::bind(context, &payload, &options).await,
        Action::Evict => eviction::evict(context, &payload, &options).await,
    }
}

/// The kind of the body of an action subresource, and its shape.
fn body_kind(group: &str, version: &str, kind: &str) -> (Gvk, &'static Shape) {
    let shape = Pack::builtin().shape_of(group, version, kind);
    let shape = shape.expect("the pack has every built-in kind");
    (Gvk::new(group, version, kind), shape)
}

/// Runs admission of the body of an action subresource. Webhooks and policies see the manager of its fields, as of any
/// other object.
async fn admit_body(
    context: &RequestContext<'_>,
    body: &mut Tree,
    (gvk, shape): (&Gvk, &Shape),
    options: &WriteOptions,
) -> Result<(), Status> {
    context.default_namespace(body)?;
    if context.shows_object(ReviewedWrite::create(body, options)) {
        field_managers::track_body(context, body, (gvk, shape), options);
    }
    let mutated = context.mutate(ReviewedWrite::create(body, options)).await?;
    let admitted = context.admit(ReviewedWrite::create(body, options)).await?;
    context.add_object_warnings(Vec::new(), mutated.and(admitted).warnings);
    Ok(())
}

/// Handles a create of a resource that stands for an action subresource of the object of the same name: `bindings` for
/// `pods/binding`.
pub(crate) async fn delegate(
    context: &RequestContext<'_>,
    (resource, subresource): (&str, &str),
    payload: Payload,
    options: WriteOptions,
) -> Result<Response, Status> {
    let object = context.decode(&payload, options.field_validation)?;
    let mut target = context.target.clone();
    target.resource.resource = resource.into();
    target.name = Some(meta::name(&object).into());
    target.subresource = Some(subresource.into());
    let served = context.registry.find_version(&target.resource);
    let served = served.ok_or_else(Status::no_such_resource)?;
    let found = served.kind.info().find_subresource(subresource);
    let Some(SubresourceKind::Action(action)) = found.map(|found| found.kind) else {
        return Err(Status::no_such_resource());
    };
    let user = context.user.clone();
    let context = RequestContext::new(context.registry, served, user, context.verb, target);
    dispatch(&context, action, payload, options).await
}
