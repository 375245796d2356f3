//! Tasks of the agent: work for pods that does not complete at once.

use setpoint_api::Key;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::pod::reconciler::PodTask;

/// Runs the work of pods, each in a task of its own, until stopped. When one has ended its pod is reconciled again.
pub(crate) async fn run(mut work: mpsc::Receiver<PodTask>, keys: mpsc::Sender<Key>, stop: CancellationToken) {
    let mut tasks = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            Some(ended) = tasks.join_next() => {
                if let Err(error) = ended {
                    tracing::error!(%error, "the work for a pod panicked");
                }
            }
            Some(PodTask { key, work }) = work.recv() => {
                let keys = keys.clone();
                tasks.spawn(async move {
                    work.await;
                    // The queue is closed only when the agent stops.
                    let _ = keys.send(key).await;
                });
            }
        }
    }
    tasks.shutdown().await;
}
