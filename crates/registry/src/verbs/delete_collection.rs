//! Deletecollection: every object that a list would show.

use setpoint_api::call::Body;
use setpoint_api::options::{DeleteOptions, ListOptions};
use setpoint_api::{Response, Status};

use super::delete::{delete_object, warnings};
use super::list;
use crate::call::Call;

/// Deletes what the list selects, one after the other, and answers with the list.
pub(crate) async fn delete_collection(
    call: &Call<'_>,
    options: &DeleteOptions,
    selection: &ListOptions,
) -> Result<Response, Status> {
    if call.about().is_namespaced() && call.namespace().is_empty() {
        return Err(Status::method_not_allowed());
    }
    let warnings = warnings(call, options);
    call.say(&warnings);
    let listed = list::collect(call, selection).await?;
    for object in &listed.items {
        match delete_object(call, object.key(), options).await {
            // Someone else was faster, which is as good.
            Err(status) if !status.is_not_found() => return Err(status),
            _ => {}
        }
    }
    Ok(Response {
        warnings,
        ..Response::of(Body::List(listed))
    })
}
