//! Deletecollection: deletes every object that a list would return.

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use setpoint_api::call::Body;
use setpoint_api::options::{DeleteOptions, ListOptions};
use setpoint_api::{Key, Response, Status};

use super::delete::{delete_object, deletion_warnings};
use super::list;
use crate::request_context::RequestContext;

/// How many objects are deleted at a time: enough for their commits to share what a durable write costs, few enough to
/// let other writers run.
const MAX_CONCURRENT: usize = 32;

/// Deletes the listed objects in order, several at a time, and returns the list.
pub(crate) async fn delete_collection(
    context: &RequestContext<'_>,
    options: DeleteOptions,
    selection: ListOptions,
) -> Result<Response, Status> {
    if context.kind_info().is_namespaced() && context.namespace().is_empty() {
        return Err(Status::method_not_allowed());
    }
    context.set_warnings(deletion_warnings(context, &options));
    let listed = list::collect(context, &selection).await?;
    let mut deletions = FuturesUnordered::new();
    for object in &listed.items {
        if deletions.len() == MAX_CONCURRENT {
            deletions.next().await.transpose()?;
        }
        deletions.push(delete_listed(context, object.key(), &options));
        // Commits that share a durable write complete together. Without yielding between them this thread would serve
        // no other request until all of them are done.
        tokio::task::yield_now().await;
    }
    while deletions.next().await.transpose()?.is_some() {}
    drop(deletions);
    Ok(Response::new(Body::List(listed)))
}

/// Deletes one of the objects. It is no error if another client has deleted it first.
async fn delete_listed(
    context: &RequestContext<'_>,
    key: &Key,
    options: &DeleteOptions,
) -> Result<(), Status> {
    match delete_object(context, key, options).await {
        Err(status) if !status.is_not_found() => Err(status),
        _ => Ok(()),
    }
}
