//! Deletecollection: every object that a list would show.

use setpoint_api::call::Body;
use setpoint_api::options::{DeleteOptions, ListOptions};
use setpoint_api::{List, Response, Status};

use super::delete::{Left, delete_object};
use super::list;
use crate::call::Call;

/// Deletes what the list selects, one after the other, and answers with what was deleted.
pub(crate) async fn delete_collection(
    call: &Call<'_>,
    options: &DeleteOptions,
    selection: &ListOptions,
) -> Result<Response, Status> {
    if call.about().is_namespaced() && call.namespace().is_empty() {
        return Err(Status::method_not_allowed());
    }
    let listed = list::collect(call, selection).await?;
    let mut items = Vec::with_capacity(listed.items.len());
    for object in listed.items {
        match delete_object(call, object.key(), options).await {
            Ok(Left::Going(object) | Left::Gone(object)) => items.push(object),
            // Someone else was faster, which is as good.
            Err(status) if status.is_not_found() => {}
            Err(status) => return Err(status),
        }
    }
    Ok(Response::of(Body::List(List {
        items,
        ..listed_head(listed.resource_version)
    })))
}

fn listed_head(resource_version: setpoint_api::ResourceVersion) -> List {
    List {
        resource_version,
        ..List::default()
    }
}
