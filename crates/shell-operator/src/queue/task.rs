//! Tasks of a queue.

use std::sync::Arc;

use jiff::Timestamp;

use crate::binding_context::BindingContext;
use crate::hook::Hook;
use crate::monitor::Monitor;

/// One task.
#[derive(Debug, Clone)]
pub struct Task {
    /// The hook.
    pub hook: Arc<Hook>,
    /// What to do.
    pub kind: TaskKind,
    /// When it was added.
    pub queued_at: Timestamp,
    /// How often it has failed.
    pub failures: u32,
    /// The error of the last failure.
    pub failure: String,
}

/// What to do.
#[derive(Debug, Clone)]
pub enum TaskKind {
    /// Run the hook.
    HookRun(HookRun),
    /// Start the monitors of its kubernetes bindings.
    EnableKubernetesBindings,
    /// Start its schedules.
    EnableScheduleBindings,
}

/// A run of a hook.
#[derive(Debug, Clone)]
pub struct HookRun {
    /// The type of the binding: `onStartup`, `schedule` or `kubernetes`.
    pub binding_type: &'static str,
    /// The name of the binding.
    pub binding: String,
    /// Why it runs.
    pub contexts: Vec<BindingContext>,
    /// A failed run is not retried.
    pub allow_failure: bool,
    /// The monitors to unlock after the run.
    pub monitors: Vec<Arc<Monitor>>,
    /// Whether the run with the existing objects is wanted.
    pub execute_on_synchronization: bool,
}

impl Task {
    /// A new task.
    pub fn new(hook: &Arc<Hook>, kind: TaskKind, now: Timestamp) -> Self {
        Self {
            hook: hook.clone(),
            kind,
            queued_at: now,
            failures: 0,
            failure: String::new(),
        }
    }

    /// The task in one line.
    pub fn describe(&self) -> String {
        let hook = &self.hook.name;
        let mut text = match &self.kind {
            TaskKind::EnableKubernetesBindings => format!("EnableKubernetesBindings:{hook}"),
            TaskKind::EnableScheduleBindings => format!("EnableScheduleBindings:{hook}"),
            TaskKind::HookRun(run) => {
                let binding = match run.binding.is_empty() {
                    true => run.binding_type,
                    false => run.binding.as_str(),
                };
                let mut text = format!("HookRun:{}:{hook}:{binding}", run.binding_type);
                if run.contexts.len() > 1 {
                    text.push_str(&format!(":{} contexts", run.contexts.len()));
                }
                text
            }
        };
        if self.failures > 0 {
            text.push_str(&format!(":failures {}:{}", self.failures, self.failure));
        }
        text
    }
}

impl HookRun {
    /// Whether the run is the first of a kubernetes binding.
    pub fn is_synchronization(&self) -> bool {
        self.contexts
            .first()
            .is_some_and(BindingContext::is_synchronization)
    }

    /// Whether the tasks behind it may be combined with it.
    pub fn may_combine(&self) -> bool {
        let first = self.contexts.first();
        first.is_none_or(|context| !context.is_synchronization() || context.group.is_some())
    }
}
