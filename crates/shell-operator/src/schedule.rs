//! Schedules of hooks: fires each binding at its times.

use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use setpoint_api::Clock;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::hook::Hook;

/// The schedules that are enabled.
#[derive(Debug)]
pub(crate) struct Scheduler {
    clock: Arc<dyn Clock>,
    entries: Mutex<Vec<Entry>>,
    /// Notified when a schedule is enabled.
    changed: Notify,
}

#[derive(Debug, Clone)]
struct Entry {
    hook: Arc<Hook>,
    /// The position among the schedules of the hook.
    binding: usize,
    next: Option<Timestamp>,
}

impl Scheduler {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            entries: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// Enables the schedules of a hook.
    pub(crate) fn enable(&self, hook: &Arc<Hook>) {
        let now = self.clock.now();
        let entries = hook
            .config
            .schedules
            .iter()
            .enumerate()
            .map(|(at, binding)| Entry {
                hook: hook.clone(),
                binding: at,
                next: binding.schedule.next_after(now),
            });
        self.entries.lock().extend(entries);
        self.changed.notify_one();
    }

    /// Calls `fire` for every binding at each of its times, until stopped. Times that were missed fire once.
    pub(crate) async fn run(&self, fire: impl Fn(&Arc<Hook>, usize), stop: CancellationToken) {
        loop {
            let changed = self.changed.notified();
            let next = self.entries.lock().iter().filter_map(|entry| entry.next).min();
            let now = self.clock.now();
            let wait = async {
                match next {
                    Some(next) => {
                        self.clock
                            .sleep(next.duration_since(now).try_into().unwrap_or_default())
                            .await
                    }
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = changed => {}
                () = wait => {
                    for (hook, binding) in self.due(self.clock.now()) {
                        fire(&hook, binding);
                    }
                }
            }
        }
    }

    /// The bindings whose time has come, each with its next time set.
    fn due(&self, now: Timestamp) -> Vec<(Arc<Hook>, usize)> {
        let mut due = Vec::new();
        for entry in self.entries.lock().iter_mut() {
            if entry.next.is_some_and(|next| next <= now) {
                entry.next = entry.hook.config.schedules[entry.binding]
                    .schedule
                    .next_after(now);
                due.push((entry.hook.clone(), entry.binding));
            }
        }
        due
    }
}
