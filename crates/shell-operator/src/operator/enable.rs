//! Start of the kubernetes bindings of a hook.

use std::sync::{Arc, Weak};

use super::Shared;
use super::worker::Outcome;
use crate::binding_context::{BindingContext, Cause};
use crate::hook::Hook;
use crate::metrics::{LabelSet, names};
use crate::monitor::{EventSink, KubeEvent, Monitor, MonitorError, MonitorSpec};
use crate::queue::{HookRun, Task, TaskKind};

impl Shared {
    /// Starts the monitors of a hook, as far as they do not run yet, and returns a task for each of them.
    pub(super) async fn enable_kubernetes(self: &Arc<Self>, hook: &Arc<Hook>, failures: u32) -> Outcome {
        let labels = LabelSet::new([("hook", hook.name.as_str())]);
        let started = self.clock.now();
        tracing::info!(
            hook = hook.name,
            task = "EnableKubernetesBindings",
            "Enable kubernetes binding for hook"
        );
        let outcome = self.start_monitors(hook).await;
        let seconds = self.clock.now().duration_since(started).as_secs_f64();
        self.metrics
            .set_gauge(names::HOOK_ENABLE_KUBERNETES_BINDINGS_SECONDS, &labels, seconds);
        let failed = f64::from(u8::from(outcome.is_err()));
        self.metrics.add_counter(
            names::HOOK_ENABLE_KUBERNETES_BINDINGS_ERRORS_TOTAL,
            &labels,
            failed,
        );
        self.metrics.set_gauge(
            names::HOOK_ENABLE_KUBERNETES_BINDINGS_SUCCESS,
            &labels,
            1.0 - failed,
        );
        match outcome {
            Ok(()) => {
                tracing::info!(
                    hook = hook.name,
                    count = hook.config.kubernetes.len(),
                    "Kubernetes bindings for hook are enabled successfully"
                );
                Outcome::Done(self.synchronizations(hook))
            }
            Err(error) => {
                let failures = failures + 1;
                tracing::error!(
                    hook = hook.name,
                    failures,
                    %error,
                    "Enable Kubernetes binding for hook failed. Will retry after delay."
                );
                Outcome::Failed(format!("run monitor: {error}"))
            }
        }
    }

    async fn start_monitors(self: &Arc<Self>, hook: &Arc<Hook>) -> Result<(), MonitorError> {
        let started = hook.monitors.read().len();
        for (at, binding) in hook.config.kubernetes.iter().enumerate().skip(started) {
            let spec = MonitorSpec {
                hook: &hook.name,
                at,
                binding,
                sink: self.event_sink(hook, at),
            };
            let monitor = self.monitors.start(spec).await?;
            hook.monitors.write().push(Arc::new(monitor));
        }
        Ok(())
    }

    /// Adds a task to the queue of the binding for each event. The hook has the monitor, so the sink must not keep it.
    fn event_sink(self: &Arc<Self>, hook: &Arc<Hook>, at: usize) -> EventSink {
        let (shared, hook): (Weak<Self>, Weak<Hook>) = (Arc::downgrade(self), Arc::downgrade(hook));
        Arc::new(move |event| {
            if let (Some(shared), Some(hook)) = (shared.upgrade(), hook.upgrade()) {
                shared.fire_event(&hook, at, event);
            }
        })
    }

    fn fire_event(&self, hook: &Arc<Hook>, at: usize, event: KubeEvent) {
        let options = &hook.config.kubernetes[at].options;
        let KubeEvent { event, object } = event;
        tracing::debug!(
            hook = hook.name,
            binding = options.name,
            event = event.as_str(),
            name = object.id.name,
            queue = options.queue,
            "queue task"
        );
        let run = HookRun {
            binding_type: "kubernetes",
            binding: options.name.clone(),
            contexts: vec![BindingContext::new(options, Cause::Event { event, object })],
            allow_failure: options.allow_failure,
            monitors: Vec::new(),
            execute_on_synchronization: true,
        };
        self.queues[&options.queue].push(Task::new(hook, TaskKind::HookRun(run), self.clock.now()));
    }

    /// The runs with the existing objects. They are in the main queue, whatever the queue of the binding.
    fn synchronizations(&self, hook: &Arc<Hook>) -> Vec<Task> {
        let monitors: Vec<Arc<Monitor>> = hook.monitors.read().clone();
        let bindings = hook.config.kubernetes.iter().zip(monitors);
        let tasks = bindings.map(|(binding, monitor)| {
            let options = &binding.options;
            let run = HookRun {
                binding_type: "kubernetes",
                binding: options.name.clone(),
                contexts: vec![BindingContext::new(options, Cause::Synchronization)],
                allow_failure: options.allow_failure,
                monitors: vec![monitor],
                execute_on_synchronization: binding.execute_on_synchronization,
            };
            Task::new(hook, TaskKind::HookRun(run), self.clock.now())
        });
        tasks.collect()
    }
}
