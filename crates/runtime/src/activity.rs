//! [`Activity`]: which components of a process have pending work.
//!
//! Each component is probed when the activity is read, so the result is never stale. A test waits until no component has
//! work; a slow shutdown can log which components it waits for.

use std::fmt;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

/// The registry of the probes that report pending work. Cloning shares it.
#[derive(Clone, Default)]
pub struct Activity {
    components: Arc<Mutex<Components>>,
}

#[derive(Default)]
struct Components {
    probes: Vec<(u64, String, Probe)>,
    last_id: u64,
}

type Probe = Arc<dyn Fn() -> Option<String> + Send + Sync>;

/// A component with pending work: `replicaset-controller: 2 keys ready`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BusyComponent {
    /// The name under which it last_id.
    pub component: String,
    /// A description of the work, for logs.
    pub work: String,
}

/// The registration of a component. Dropping it removes the component.
#[must_use = "dropping it removes the component"]
#[derive(Debug)]
pub struct ActivityRegistration {
    id: u64,
    components: Weak<Mutex<Components>>,
}

// === impl Activity ===

impl Activity {
    /// Registers a component. The probe returns a description of its pending work, or `None` while it is idle; it must not
    /// block.
    pub fn register(
        &self,
        component: impl Into<String>,
        probe: impl Fn() -> Option<String> + Send + Sync + 'static,
    ) -> ActivityRegistration {
        let mut components = self.components.lock();
        components.last_id += 1;
        let id = components.last_id;
        components.probes.push((id, component.into(), Arc::new(probe)));
        ActivityRegistration {
            id,
            components: Arc::downgrade(&self.components),
        }
    }

    /// All components that have work now.
    pub fn busy(&self) -> Vec<BusyComponent> {
        // The probes are called without the lock: they take locks of their own.
        let probes: Vec<_> = {
            let components = self.components.lock();
            let probe = |(_, component, probe): &(u64, String, Probe)| (component.clone(), probe.clone());
            components.probes.iter().map(probe).collect()
        };
        let busy = |(component, probe): (String, Probe)| {
            probe().map(|with| BusyComponent {
                component,
                work: with,
            })
        };
        probes.into_iter().filter_map(busy).collect()
    }

    /// The names of all registered components.
    pub fn components(&self) -> Vec<String> {
        let components = self.components.lock();
        components
            .probes
            .iter()
            .map(|(_, component, _)| component.clone())
            .collect()
    }
}

impl fmt::Debug for Activity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.components()).finish()
    }
}

impl fmt::Debug for Components {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} components", self.probes.len())
    }
}

// === impl Busy ===

impl fmt::Display for BusyComponent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.component, self.work)
    }
}

// === impl ActivityRegistration ===

impl Drop for ActivityRegistration {
    fn drop(&mut self) {
        if let Some(components) = self.components.upgrade() {
            let id = self.id;
            components.lock().probes.retain(|(own, ..)| *own != id);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn a_component_is_busy_while_its_probe_reports_work_and_removed_on_drop() {
        let (activity, works) = (Activity::default(), Arc::new(AtomicBool::new(false)));
        let own = works.clone();
        let registration = activity.register("loop", move || {
            own.load(Ordering::SeqCst).then(|| "a key".to_owned())
        });
        assert_eq!(activity.busy(), []);
        works.store(true, Ordering::SeqCst);
        let shown: Vec<_> = activity.busy().iter().map(BusyComponent::to_string).collect();
        assert_eq!(shown, ["loop: a key"]);
        drop(registration);
        assert_eq!(activity.busy(), []);
        assert_eq!(activity.components(), [""; 0]);
    }
}
