//! Worker of a queue: runs its tasks one after another, and retries the one that fails.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::Shared;
use crate::queue::{Queue, Task, TaskKind, retry_delay};

/// What follows from a task.
pub(super) enum Outcome {
    /// It has succeeded; these tasks are next.
    Done(Vec<Task>),
    /// It is retried later.
    Failed(String),
    /// It has not run, since the operator stops.
    Stopped,
}

impl Shared {
    pub(super) async fn run_queue(self: &Arc<Self>, queue: &Queue, stop: &CancellationToken) {
        loop {
            let task = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                task = queue.head() => task,
            };
            queue.set_status("run first task");
            match self.run_task(task, queue, stop).await {
                Outcome::Done(following) => queue.finish(following),
                Outcome::Stopped => return,
                Outcome::Failed(message) => {
                    let delay = retry_delay(queue.fail(&message));
                    queue.set_status(&format!("sleep after fail for {delay:?}"));
                    tokio::select! {
                        () = stop.cancelled() => return,
                        () = self.clock.sleep(delay) => {}
                    }
                }
            }
        }
    }

    async fn run_task(self: &Arc<Self>, task: Task, queue: &Queue, stop: &CancellationToken) -> Outcome {
        let Task { hook, kind, .. } = &task;
        match kind {
            TaskKind::EnableKubernetesBindings => self.enable_kubernetes(hook, task.failures).await,
            TaskKind::EnableScheduleBindings => {
                self.scheduler.enable(hook);
                tracing::info!(hook = hook.name, "Schedule binding for hook enabled successfully");
                Outcome::Done(Vec::new())
            }
            TaskKind::HookRun(_) => {
                tokio::select! {
                    biased;
                    () = stop.cancelled() => return Outcome::Stopped,
                    () = hook.rate.wait() => {}
                }
                self.run_hook(task.clone(), queue, stop).await
            }
        }
    }
}
