//! [`WaitingPods`]: assumed pods that a Permit plugin lets wait before they are bound.
//!
//! A plugin that lets a pod wait allows or rejects it later, from wherever it learns that the condition is met: it finds the
//! pod in [`super::Handle::waiting_pods`]. A pod is bound once all plugins that let it wait have allowed it; it is rejected by
//! the first that rejects it, and by the first timeout (upstream: `framework/runtime/waiting_pods_map.go`).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use compact_str::CompactString;
use parking_lot::Mutex;
use setpoint_api::Clock;
use tokio::sync::Notify;

use super::rejection::Rejection;
use crate::pod_info::PodInfo;

/// The longest time that a plugin can let a pod wait (upstream: `maxTimeout`).
const MAX_TIMEOUT: Duration = Duration::from_secs(15 * 60);

/// The pods that wait, by uid.
#[derive(Debug, Default)]
pub struct WaitingPods {
    by_uid: Mutex<HashMap<CompactString, Arc<WaitingPod>>>,
    /// The number of pods whose PreBind waits for something outside.
    pre_binding: AtomicUsize,
}

/// A pod whose PreBind waits; it counts until this is dropped.
#[derive(Debug)]
pub struct PreBindWait<'a>(&'a AtomicUsize);

impl Drop for PreBindWait<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A pod that waits on a node.
#[derive(Debug)]
pub struct WaitingPod {
    /// The pod, with the node that it is assumed on.
    pub pod: Arc<PodInfo>,
    state: Mutex<State>,
    /// Notified when the state is no longer [`State::Pending`].
    ended: Notify,
}

#[derive(Debug)]
enum State {
    /// These plugins have not allowed the pod, each with its timeout; one at least.
    Pending(BTreeMap<&'static str, Duration>),
    /// All plugins have allowed it.
    Allowed,
    /// A plugin has rejected it.
    Rejected(Rejection),
}

impl WaitingPods {
    /// Adds an assumed pod that these plugins let wait.
    pub(crate) fn add(&self, pod: Arc<PodInfo>, mut timeouts: BTreeMap<&'static str, Duration>) {
        let uid = pod.uid.clone();
        timeouts
            .values_mut()
            .for_each(|timeout| *timeout = (*timeout).min(MAX_TIMEOUT));
        let waiting = WaitingPod {
            pod,
            state: Mutex::new(State::Pending(timeouts)),
            ended: Notify::new(),
        };
        self.by_uid.lock().insert(uid, Arc::new(waiting));
    }

    /// All pods that wait, in no order.
    pub fn all(&self) -> Vec<Arc<WaitingPod>> {
        self.by_uid.lock().values().cloned().collect()
    }

    /// The waiting pod with this uid.
    pub fn find(&self, uid: &str) -> Option<Arc<WaitingPod>> {
        self.by_uid.lock().get(uid).cloned()
    }

    /// Counts a pod whose PreBind waits for something outside, such as a device driver: the limit of concurrent bindings is
    /// without those that do nothing.
    pub fn begin_wait(&self) -> PreBindWait<'_> {
        self.pre_binding.fetch_add(1, Ordering::Relaxed);
        PreBindWait(&self.pre_binding)
    }

    /// The number of pods that wait for a permission, or in PreBind.
    pub(crate) fn idle_bindings(&self) -> usize {
        self.len() + self.pre_binding.load(Ordering::Relaxed)
    }

    /// The number of pods that wait.
    pub fn len(&self) -> usize {
        self.by_uid.lock().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Waits until the pod may be bound, if a plugin lets it wait; the rejection of a plugin, or of a timeout.
    pub(crate) async fn wait(&self, uid: &str, clock: &dyn Clock) -> Result<(), Rejection> {
        let Some(waiting) = self.find(uid) else {
            return Ok(());
        };
        let result = waiting.wait(clock).await;
        self.by_uid.lock().remove(uid);
        result
    }
}

impl WaitingPod {
    /// The plugins that have not allowed the pod, in order of their names.
    pub fn pending_plugins(&self) -> Vec<&'static str> {
        match &*self.state.lock() {
            State::Pending(plugins) => plugins.keys().copied().collect(),
            State::Allowed | State::Rejected(_) => Vec::new(),
        }
    }

    /// Allows the pod on behalf of a plugin. The last pending plugin lets it be bound.
    pub fn allow(&self, plugin: &str) {
        let mut state = self.state.lock();
        let State::Pending(plugins) = &mut *state else {
            return;
        };
        plugins.remove(plugin);
        if plugins.is_empty() {
            *state = State::Allowed;
            self.ended.notify_one();
        }
    }

    /// Rejects the pod on behalf of a plugin: it is unschedulable. Returns whether it was still waiting.
    pub fn reject(&self, plugin: &'static str, message: impl Into<String>) -> bool {
        let mut state = self.state.lock();
        if !matches!(*state, State::Pending(_)) {
            return false;
        }
        *state = State::Rejected(Rejection::unschedulable(message.into()).by(plugin));
        self.ended.notify_one();
        true
    }

    async fn wait(&self, clock: &dyn Clock) -> Result<(), Rejection> {
        let began = clock.now();
        while let Some((plugin, timeout)) = self.first_timeout() {
            let waited = Duration::try_from(clock.now().duration_since(began)).unwrap_or_default();
            tokio::select! {
                biased;
                () = self.ended.notified() => {}
                () = clock.sleep(timeout.saturating_sub(waited)) => self.time_out(plugin, timeout),
            }
        }
        match &*self.state.lock() {
            State::Rejected(rejection) => Err(rejection.clone()),
            State::Allowed | State::Pending(_) => Ok(()),
        }
    }

    /// The pending plugin whose time ends first; `None` if the pod no longer waits.
    fn first_timeout(&self) -> Option<(&'static str, Duration)> {
        let state = self.state.lock();
        let State::Pending(plugins) = &*state else {
            return None;
        };
        let first = plugins.iter().min_by_key(|(_, timeout)| **timeout);
        first.map(|(plugin, timeout)| (*plugin, *timeout))
    }

    /// Rejects the pod if the plugin has not allowed it in time.
    fn time_out(&self, plugin: &'static str, timeout: Duration) {
        if self.pending_plugins().contains(&plugin) {
            let timeout = go_text(timeout);
            self.reject(
                plugin,
                format!("rejected due to timeout after waiting {timeout} at plugin {plugin}"),
            );
        }
    }
}

/// The duration as Go prints it, in whole seconds or in milliseconds below a second.
fn go_text(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match (seconds / 60, seconds % 60) {
        (0, 0) => format!("{}ms", duration.as_millis()),
        (0, seconds) => format!("{seconds}s"),
        (minutes, seconds) => format!("{minutes}m{seconds}s"),
    }
}
