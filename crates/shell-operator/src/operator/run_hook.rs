//! Runs of hooks: binding context, process, and what the hook has written.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::Shared;
use super::worker::Outcome;
use crate::binding_context::{self, Snapshots};
use crate::config::ConfigVersion;
use crate::executor::Run;
use crate::hook::Hook;
use crate::hook_files::{HookFiles, HookOutput};
use crate::log::HookLabels;
use crate::metrics::{LabelSet, names, parse_operations};
use crate::patch::{self, parse_operations as parse_patches};
use crate::queue::{HookRun, Queue, Task, TaskKind};
use crate::webhook::HookResponses;

impl Shared {
    /// Runs the hook of the head of the queue.
    pub(super) async fn run_hook(&self, task: Task, queue: &Queue, stop: &CancellationToken) -> Outcome {
        let TaskKind::HookRun(run) = task.kind else {
            return Outcome::Done(Vec::new());
        };
        let hook = &task.hook;
        let metric_labels = LabelSet::of_binding(&hook.name, &run.binding, queue.name());
        let waited = self.clock.now().duration_since(task.queued_at).as_secs_f64();
        self.metrics
            .add_counter(names::TASK_WAIT_IN_QUEUE_SECONDS_TOTAL, &metric_labels, waited);
        let labels = self.labels(hook, &run, queue.name());
        let is_synchronization = run.is_synchronization();
        let is_wanted = !is_synchronization
            || (run.execute_on_synchronization && hook.config.version == ConfigVersion::V1);
        let run = match is_wanted && hook.config.version == ConfigVersion::V1 && run.may_combine() {
            true => combined(run, queue, &labels),
            false => run,
        };
        if is_wanted {
            labels.info("Execute hook");
            match self.execute_measured(hook, &run, &labels, stop).await {
                Ok(_) => labels.info("Hook executed successfully"),
                Err(error) if run.allow_failure => {
                    labels.info(&format!("Hook failed, but allowed to fail: {error}"));
                }
                Err(error) => {
                    labels.error("Hook failed. Will retry after delay.", &error, task.failures + 1);
                    return Outcome::Failed(error);
                }
            }
        }
        if !run.monitors.is_empty() {
            labels.info("Unlock kubernetes.Event tasks");
            for monitor in &run.monitors {
                monitor.unlock_events();
            }
        }
        Outcome::Done(Vec::new())
    }

    /// Runs the process, applies what it has written, and counts the run.
    pub(super) async fn execute_measured(
        &self,
        hook: &Arc<Hook>,
        run: &HookRun,
        labels: &HookLabels,
        stop: &CancellationToken,
    ) -> Result<HookResponses, String> {
        let metric_labels = LabelSet::of_binding(&hook.name, &run.binding, &labels.queue);
        let started = self.clock.now();
        let result = self.execute(hook, run, labels, stop).await;
        let seconds = self.clock.now().duration_since(started).as_secs_f64();
        self.metrics
            .observe(names::HOOK_RUN_SECONDS, &metric_labels, seconds);
        self.count_result(&metric_labels, result.is_ok(), run.allow_failure);
        result
    }

    /// Runs the process, and applies what it has written. Returns its responses to reviews.
    async fn execute(
        &self,
        hook: &Arc<Hook>,
        run: &HookRun,
        labels: &HookLabels,
        stop: &CancellationToken,
    ) -> Result<HookResponses, String> {
        let snapshots = snapshots(hook, run);
        let context = binding_context::to_json(&run.contexts, hook.config.version, &snapshots);
        let options = &self.options;
        let files = HookFiles::create(&options.tmp_dir, &hook.name, &context, options.keep_tmp_files)
            .map_err(|error| format!("cannot write the files of the hook: {error}"))?;
        let process = Run {
            path: &hook.path,
            environment: &files.environment(),
            labels,
            clock: self.clock.as_ref(),
        };
        let ended = process.execute(stop).await;
        let output = files
            .read()
            .map_err(|error| format!("cannot read the files of the hook: {error}"));
        match ended {
            Ok(()) => self.apply_output(hook, &output?).await,
            Err(error) => {
                let error = format!("{} FAILED: {error}", hook.name);
                let patch = output.map(|output| output.patch).unwrap_or_default();
                match self.apply_after_failure(&patch).await {
                    Ok(()) => Err(error),
                    Err(patch_error) => Err(format!("{error}: couldn't patch status: {patch_error}")),
                }
            }
        }
    }

    async fn apply_output(&self, hook: &Hook, output: &HookOutput) -> Result<HookResponses, String> {
        let metrics = parse_operations(&output.metrics)?;
        let responses = HookResponses::parse(&output.admission, &output.conversion)?;
        let patches = parse_patches(&output.patch)?;
        self.patcher.apply_all(&patches).await?;
        self.hook_metrics.apply(&metrics, &hook.name);
        Ok(responses)
    }

    /// Of a hook that has failed, only changes of a status that request it are applied.
    async fn apply_after_failure(&self, patch: &[u8]) -> Result<(), String> {
        let mut operations = parse_patches(patch)?;
        operations.retain(patch::Operation::is_applied_after_failure);
        self.patcher.apply_all(&operations).await
    }

    /// The labels of a run. Reviews are in no queue: its name is empty.
    pub(super) fn labels(&self, hook: &Hook, run: &HookRun, queue: &str) -> HookLabels {
        HookLabels {
            hook: hook.name.clone(),
            binding: run.binding.clone(),
            event: run.binding_type,
            queue: queue.to_owned(),
            proxy_json: self.options.proxy_hook_json,
        }
    }

    fn count_result(&self, labels: &LabelSet, is_ok: bool, allow_failure: bool) {
        let counts = [
            (names::HOOK_RUN_SUCCESS_TOTAL, is_ok),
            (names::HOOK_RUN_ERRORS_TOTAL, !is_ok && !allow_failure),
            (names::HOOK_RUN_ALLOWED_ERRORS_TOTAL, !is_ok && allow_failure),
        ];
        for (name, is_so) in counts {
            self.metrics.add_counter(name, labels, f64::from(u8::from(is_so)));
        }
    }
}

/// The run with the contexts of the tasks behind it.
fn combined(run: HookRun, queue: &Queue, labels: &HookLabels) -> HookRun {
    let Some(combined) = queue.combine() else {
        return run;
    };
    labels.info(&format!(
        "{} tasks are combined to {} contexts",
        combined.tasks, combined.contexts
    ));
    queue.head_run().unwrap_or(run)
}

/// The objects that the contexts need, each read once, so that they are consistent.
fn snapshots(hook: &Hook, run: &HookRun) -> Snapshots {
    let mut snapshots = Snapshots::new();
    for context in &run.contexts {
        let own = context.is_synchronization().then_some(&context.binding);
        for name in context.include_snapshots_from.iter().chain(own) {
            if !snapshots.contains_key(name) {
                let is_synchronized =
                    |monitor: &Arc<_>| run.monitors.iter().any(|own| Arc::ptr_eq(own, monitor));
                let objects = hook.monitor(name).map(|monitor| match is_synchronized(&monitor) {
                    true => monitor.synchronize(),
                    false => monitor.snapshot(),
                });
                snapshots.insert(name.clone(), objects.unwrap_or_default());
            }
        }
    }
    snapshots
}
