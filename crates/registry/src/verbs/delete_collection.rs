//! Deletecollection: every object that a list would show.

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use setpoint_api::call::Body;
use setpoint_api::options::{DeleteOptions, ListOptions};
use setpoint_api::{Key, Response, Status};

use super::delete::{delete_object, warnings};
use super::list;
use crate::call::Call;

/// How many objects are deleted at a time: enough for their commits to share what a durable write costs, few enough to
/// leave room for other writers.
const AT_ONCE: usize = 32;

/// Deletes what the list selects, in its order but several at a time, and answers with the list.
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
    let mut going = FuturesUnordered::new();
    for object in &listed.items {
        if going.len() == AT_ONCE {
            going.next().await.transpose()?;
        }
        going.push(delete_listed(call, object.key(), options));
        // Commits that share a durable write come back together. Without a break between them nobody else would be
        // served by this thread until all of them are through.
        tokio::task::yield_now().await;
    }
    while going.next().await.transpose()?.is_some() {}
    drop(going);
    Ok(Response {
        warnings,
        ..Response::of(Body::List(listed))
    })
}

/// Deletes one of the objects. If someone else was faster, that is as good.
async fn delete_listed(call: &Call<'_>, key: &Key, options: &DeleteOptions) -> Result<(), Status> {
    match delete_object(call, key, options).await {
        Err(status) if !status.is_not_found() => Err(status),
        _ => Ok(()),
    }
}
