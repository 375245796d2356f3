//! [`Activity`]: who in a process has work, and with what.
//!
//! A part says so when it is asked, so what it says is never old. A test waits until nobody has any; a stop that takes
//! long can tell whom it waits for.

use std::fmt;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

/// Where the parts of a process register what tells whether they have work. Cloning shares it.
#[derive(Clone, Default)]
pub struct Activity {
    parts: Arc<Mutex<Parts>>,
}

#[derive(Default)]
struct Parts {
    probes: Vec<(u64, String, Probe)>,
    registered: u64,
}

type Probe = Arc<dyn Fn() -> Option<String> + Send + Sync>;

/// A part that has work: `replicaset-controller: 2 keys ready`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Busy {
    /// The name under which it registered.
    pub part: String,
    /// What it has to do, for a reader.
    pub with: String,
}

/// A part's place in the list. Dropping it takes the part off.
#[must_use = "dropping it takes the part off the list"]
#[derive(Debug)]
pub struct Registered {
    number: u64,
    parts: Weak<Mutex<Parts>>,
}

// === impl Activity ===

impl Activity {
    /// One more part. The probe answers what the part has to do, or nothing while it is idle; it must not wait.
    pub fn register(
        &self,
        part: impl Into<String>,
        probe: impl Fn() -> Option<String> + Send + Sync + 'static,
    ) -> Registered {
        let mut parts = self.parts.lock();
        parts.registered += 1;
        let number = parts.registered;
        parts.probes.push((number, part.into(), Arc::new(probe)));
        Registered {
            number,
            parts: Arc::downgrade(&self.parts),
        }
    }

    /// Everyone who has work now.
    pub fn busy(&self) -> Vec<Busy> {
        // The probes are called without the lock: they take locks of their own.
        let probes: Vec<_> = {
            let parts = self.parts.lock();
            let probe = |(_, part, probe): &(u64, String, Probe)| (part.clone(), probe.clone());
            parts.probes.iter().map(probe).collect()
        };
        let busy = |(part, probe): (String, Probe)| probe().map(|with| Busy { part, with });
        probes.into_iter().filter_map(busy).collect()
    }

    /// The parts that tell whether they have work.
    pub fn parts(&self) -> Vec<String> {
        let parts = self.parts.lock();
        parts.probes.iter().map(|(_, part, _)| part.clone()).collect()
    }
}

impl fmt::Debug for Activity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.parts()).finish()
    }
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} parts", self.probes.len())
    }
}

// === impl Busy ===

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.part, self.with)
    }
}

// === impl Registered ===

impl Drop for Registered {
    fn drop(&mut self) {
        if let Some(parts) = self.parts.upgrade() {
            let number = self.number;
            parts.lock().probes.retain(|(own, ..)| *own != number);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn a_part_is_busy_while_it_says_so_and_forgotten_when_it_ends() {
        let (activity, works) = (Activity::default(), Arc::new(AtomicBool::new(false)));
        let own = works.clone();
        let place = activity.register("loop", move || {
            own.load(Ordering::SeqCst).then(|| "a key".to_owned())
        });
        assert_eq!(activity.busy(), []);
        works.store(true, Ordering::SeqCst);
        let shown: Vec<_> = activity.busy().iter().map(Busy::to_string).collect();
        assert_eq!(shown, ["loop: a key"]);
        drop(place);
        assert_eq!(activity.busy(), []);
        assert_eq!(activity.parts(), [""; 0]);
    }
}
