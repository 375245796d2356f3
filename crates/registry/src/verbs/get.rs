//! Get: one object, as it is now or not older than asked.

use setpoint_api::call::Body;
use setpoint_api::options::GetOptions;
use setpoint_api::{ResourceVersion, Response, Status};

use super::list::wait_for;
use crate::call::Call;

/// Answers with the object as fresh as the store has it, which is at least what any option asks for.
pub(crate) async fn get(call: &Call<'_>, options: &GetOptions) -> Result<Response, Status> {
    let key = call.key()?;
    let version = options.resource_version;
    if let Some(version) = version.filter(|version| *version != ResourceVersion::ZERO) {
        wait_for(call, version).await?;
    }
    let object = call.find(&key)?.ok_or_else(|| call.not_found(&key))?;
    Ok(Response::of(Body::Object(object)))
}
