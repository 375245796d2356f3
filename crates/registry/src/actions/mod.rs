//! Actions: subresources that do something to an object, by a document of another kind.
//!
//! Each is a file, and one line in [`carry_out`]. Which kinds have it is said by the kind's own list of subresources.

mod answer;
mod binding;
mod eviction;
mod scale;

use setpoint_api::options::WriteOptions;
use setpoint_api::{Payload, Response, Status};
use setpoint_kinds::meta;

use crate::call::Call;

pub(crate) use answer::answer;
pub(crate) use scale::scale;

/// Carries out the action the request points at.
pub(crate) async fn carry_out(
    call: &Call<'_>,
    payload: Payload,
    options: WriteOptions,
) -> Result<Response, Status> {
    match call.target.subresource.as_deref() {
        Some("binding") => binding::bind(call, &payload, &options).await,
        Some("eviction") => eviction::evict(call, &payload, &options).await,
        _ => Err(Status::no_such_resource()),
    }
}

/// Carries out a document that stands for an action on the object of its name.
pub(crate) async fn carry_out_document(
    call: &Call<'_>,
    (resource, action): (&str, &str),
    payload: Payload,
    options: WriteOptions,
) -> Result<Response, Status> {
    let document = call.decode(&payload, options.field_validation)?.object;
    let mut target = call.target.clone();
    target.resource.resource = resource.into();
    target.name = Some(meta::name(&document).into());
    target.subresource = Some(action.into());
    let served = call.registry.served(&target.resource);
    let served = served.ok_or_else(Status::no_such_resource)?;
    let call = Call::new(call.registry, served, call.user.clone(), target);
    carry_out(&call, payload, options).await
}
