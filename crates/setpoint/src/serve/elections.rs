//! Elections of a server that shares its store with others: the controllers run on one of them, and so does the scheduler,
//! under the Leases of kube-controller-manager and kube-scheduler.
//!
//! A process that serves the API must outlive the loss of a lease, unlike those two: it is a candidate again.

use std::sync::Arc;

use setpoint_registry::Registry;
use setpoint_runtime::leader::{self, Elector};
use setpoint_runtime::manager::RunnableFuture;
use setpoint_runtime::{Context, Error, Manager};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::remote::identity;

/// The namespace of the leases.
const NAMESPACE: &str = "kube-system";

/// A component that can be started again.
pub(super) type Start = Arc<dyn Fn(Context, CancellationToken) -> RunnableFuture + Send + Sync>;

/// Runs the components while this server holds the lease.
pub(super) fn add(
    manager: &mut Manager,
    lease: &'static str,
    registry: Arc<Registry>,
    components: Vec<Start>,
) {
    manager.add(lease, move |context, stop| async move {
        // The namespace of the lease is a bootstrap object.
        tokio::select! {
            () = registry.started() => {}
            () = stop.cancelled() => return Ok(()),
        }
        loop {
            let config = leader::Config::new(NAMESPACE, lease, &identity());
            let elector = Elector::new(&context.client, config, context.clock.clone()).with_watch();
            let work = |stop| run_all(&components, &context, stop);
            match elector.run(work, stop.clone()).await {
                Err(Error::LostLease(_)) if !stop.is_cancelled() => {
                    tracing::warn!(lease, "the lease was lost; this server is a candidate again");
                }
                ended => return ended,
            }
        }
    });
}

/// Runs all components until stopped. The first that fails stops the others.
async fn run_all(components: &[Start], context: &Context, stop: CancellationToken) -> Result<(), Error> {
    let stop = stop.child_token();
    let _guard = stop.clone().drop_guard();
    let mut running = JoinSet::new();
    for start in components {
        running.spawn(start(context.clone(), stop.clone()));
    }
    let mut first = Ok(());
    while let Some(ended) = running.join_next().await {
        let ended = ended.unwrap_or_else(|error| Err(Error::Panicked(format!("component: {error}"))));
        if let Err(error) = ended {
            stop.cancel();
            first = first.and(Err(error));
        }
    }
    first
}
