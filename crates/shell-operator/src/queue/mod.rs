//! Queues of tasks. Each queue runs its tasks one after another; queues run in parallel.
//!
//! The task that runs stays at the head until it succeeds, so nothing is lost if it fails: it is retried with backoff, and
//! the tasks behind it wait. The number of tasks has no limit, since each of them is an event that a hook must see; adjacent
//! tasks of a hook are combined before a run.

mod backoff;
mod task;

use std::collections::VecDeque;
use std::fmt::Write as _;

use parking_lot::Mutex;
use tokio::sync::Notify;

pub use backoff::retry_delay;
pub use task::{HookRun, Task, TaskKind};

use crate::binding_context::BindingContext;

/// The tasks of one queue.
#[derive(Debug)]
pub struct Queue {
    name: String,
    state: Mutex<State>,
    /// Notified when a task is added.
    added: Notify,
}

#[derive(Debug, Default)]
struct State {
    tasks: VecDeque<Task>,
    status: String,
}

/// How many tasks were combined, and into how many contexts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CombineSummary {
    /// Tasks, with the one that runs.
    pub tasks: usize,
    /// Contexts of the run.
    pub contexts: usize,
}

impl Queue {
    /// An empty queue.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            state: Mutex::default(),
            added: Notify::new(),
        }
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many tasks there are, with the one that runs.
    pub fn len(&self) -> usize {
        self.state.lock().tasks.len()
    }

    /// Whether there is no task.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a task at the end.
    pub fn push(&self, task: Task) {
        self.state.lock().tasks.push_back(task);
        self.added.notify_one();
    }

    /// Waits for a task and returns the head, which stays in the queue.
    pub async fn head(&self) -> Task {
        loop {
            let added = self.added.notified();
            if let Some(task) = self.state.lock().tasks.front() {
                return task.clone();
            }
            added.await;
        }
    }

    /// Removes the head, which has succeeded, and adds the tasks that follow from it at the head.
    pub fn finish(&self, following: Vec<Task>) {
        let mut state = self.state.lock();
        state.tasks.pop_front();
        for task in following.into_iter().rev() {
            state.tasks.push_front(task);
        }
        state.status.clear();
    }

    /// Records a failure of the head. Returns the number of earlier failures.
    pub fn fail(&self, message: &str) -> u32 {
        let mut state = self.state.lock();
        let Some(task) = state.tasks.front_mut() else {
            return 0;
        };
        task.failure = message.to_owned();
        task.failures += 1;
        task.failures - 1
    }

    /// Sets the status that the debug commands show.
    pub fn set_status(&self, status: &str) {
        status.clone_into(&mut self.state.lock().status);
    }

    /// Combines the head with the tasks behind it that run the same hook: they are removed, and their contexts become those
    /// of the head. Adjacent contexts of one group are compacted to the last of them.
    pub fn combine(&self) -> Option<CombineSummary> {
        let mut state = self.state.lock();
        let head = state.tasks.pop_front()?;
        let combined = combine_head(head, &mut state.tasks);
        let (head, count) = match combined {
            Ok((head, count)) => (head, Some(count)),
            Err(head) => (head, None),
        };
        state.tasks.push_front(head);
        count
    }

    /// The run of the head.
    pub fn head_run(&self) -> Option<HookRun> {
        match &self.state.lock().tasks.front()?.kind {
            TaskKind::HookRun(run) => Some(run.clone()),
            TaskKind::EnableKubernetesBindings | TaskKind::EnableScheduleBindings => None,
        }
    }

    /// The tasks, as the debug commands show them.
    pub fn describe(&self) -> QueueDump {
        let state = self.state.lock();
        let tasks = state.tasks.iter().enumerate().map(|(at, task)| TaskDump {
            index: at + 1,
            description: task.describe(),
        });
        QueueDump {
            name: self.name.clone(),
            tasks_count: state.tasks.len(),
            status: state.status.clone(),
            tasks: tasks.collect(),
        }
    }
}

/// The head with the contexts of the tasks behind it; itself, if there is nothing to combine.
fn combine_head(mut head: Task, tasks: &mut VecDeque<Task>) -> Result<(Task, CombineSummary), Task> {
    let name = head.hook.name.clone();
    let is_same = |task: &Task| task.hook.name == name && matches!(task.kind, TaskKind::HookRun(_));
    let following = tasks.iter().take_while(|task| is_same(task)).count();
    let TaskKind::HookRun(run) = &mut head.kind else {
        return Err(head);
    };
    if following == 0 {
        return Err(head);
    }
    for task in tasks.drain(..following) {
        if let TaskKind::HookRun(other) = task.kind {
            run.contexts.extend(other.contexts);
            run.monitors.extend(other.monitors);
            // A failure drops the contexts only if all of their bindings allow it.
            run.allow_failure &= other.allow_failure;
        }
    }
    compact(&mut run.contexts);
    let combined = CombineSummary {
        tasks: following + 1,
        contexts: run.contexts.len(),
    };
    Ok((head, combined))
}

/// Of adjacent contexts of one group, the last remains: a group has only snapshots.
fn compact(contexts: &mut Vec<BindingContext>) {
    let groups: Vec<Option<String>> = contexts.iter().map(|context| context.group.clone()).collect();
    let mut at = 0;
    contexts.retain(|context| {
        at += 1;
        context.group.is_none() || groups.get(at) != Some(&context.group)
    });
}

/// A queue as the debug commands show it.
#[derive(Debug, Clone, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueDump {
    /// The name.
    pub name: String,
    /// How many tasks it has.
    pub tasks_count: usize,
    /// What it does.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub status: String,
    /// The tasks in their order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<TaskDump>,
}

/// A task as the debug commands show it.
#[derive(Debug, Clone, serde::Serialize)]
pub struct TaskDump {
    /// The position, from 1.
    pub index: usize,
    /// The hook and why it runs.
    pub description: String,
}

impl QueueDump {
    /// The queue as text.
    pub fn to_text(&self) -> String {
        let Self {
            name,
            tasks_count,
            status,
            ..
        } = self;
        let mut text = format!("Queue '{name}': length {tasks_count}, status: '{status}'\n\n");
        for task in &self.tasks {
            let _ = writeln!(text, "{:2}. {}", task.index, task.description);
        }
        text
    }
}

#[cfg(test)]
mod tests;
