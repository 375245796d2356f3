//! Actions: subresources that do something to an object, by a document of another kind.
//!
//! Each is a file, and one line in [`carry_out`]. Which kinds have it is said by the kind's own list of subresources.

mod answer;
mod binding;
mod scale;

use setpoint_api::options::WriteOptions;
use setpoint_api::{Payload, Response, Status};

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
        _ => Err(Status::no_such_resource()),
    }
}
