//! Get: one object, as it is in the store now.

use setpoint_api::call::Body;
use setpoint_api::options::GetOptions;
use setpoint_api::{ResourceVersion, Response, Status};

use super::list::wait_for;
use crate::request_context::RequestContext;

/// Returns the object as it is in the store now, which satisfies every `resourceVersion` that the store has reached.
pub(crate) async fn get(context: &RequestContext<'_>, options: GetOptions) -> Result<Response, Status> {
    let key = context.key()?;
    let version = options.resource_version;
    if let Some(version) = version.filter(|version| *version != ResourceVersion::ZERO) {
        wait_for(context, version).await?;
    }
    let object = context.require(&key)?;
    Ok(Response::new(Body::Object(object)))
}
