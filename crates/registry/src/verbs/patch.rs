//! Patch: a change to an object, told as the difference. The server does not take any form of it yet.

use setpoint_api::options::{PatchType, WriteOptions};
use setpoint_api::{Payload, Response, Status};
use setpoint_kinds::Part;

use crate::call::Call;

/// Refuses every form of patch in the words for an unknown one.
pub(crate) async fn patch(
    call: &Call<'_>,
    _part: Option<Part>,
    _patch: PatchType,
    _payload: &Payload,
    _options: &WriteOptions,
) -> Result<Response, Status> {
    let key = call.key()?;
    call.find(&key)?.ok_or_else(|| call.not_found(&key))?;
    Err(Status::unsupported_media_type(""))
}
