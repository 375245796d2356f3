//! Tasks of controllers. Their futures are boxed: tokio's code around a task is compiled for each type of future, and the
//! futures of a controller have a type for each type of key.

use std::pin::Pin;
use std::sync::Arc;

use setpoint_cache::Cache;
use tokio::task::JoinSet;

use crate::reconcile::Error;

/// The future of a task.
pub(crate) type TaskFuture<T = ()> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Starts a task.
#[inline(never)]
pub(crate) fn spawn(tasks: &mut JoinSet<()>, task: TaskFuture) {
    tasks.spawn(task);
}

/// Starts a task that follows a cache, polled together with the others that do.
#[inline(never)]
pub(crate) fn spawn_shared(tasks: &mut JoinSet<()>, cache: Arc<Cache>, task: TaskFuture) {
    tasks.spawn(cache.poll_shared(task));
}

/// Waits for all tasks of a controller; the first that panics is an error.
pub(crate) async fn finish(name: &str, tasks: &mut JoinSet<()>) -> Result<(), Error> {
    while let Some(task) = tasks.join_next().await {
        if task.is_err_and(|error| error.is_panic()) {
            return Err(Error::Panicked(name.to_owned()));
        }
    }
    Ok(())
}
