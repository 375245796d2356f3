//! [`SpecInterner`]: one shared [`PodSpec`] for all pods that are scheduled alike.
//!
//! A Deployment's pods have equal specs. Sharing them saves memory, and makes "the same pod again" a comparison of two
//! pointers, by which scheduling cycles share filter and score results (see [`crate::cycle`]).

use std::collections::HashSet;
use std::sync::Arc;

use super::PodSpec;

/// The number of specs from which unused ones are looked for.
const MIN_SWEEP: usize = 1024;

/// The specs in use.
#[derive(Debug)]
pub struct SpecInterner {
    specs: HashSet<Arc<PodSpec>>,
    /// At this size unused specs are dropped; then it is twice what is left.
    sweep_at: usize,
}

impl Default for SpecInterner {
    fn default() -> Self {
        Self {
            specs: HashSet::new(),
            sweep_at: MIN_SWEEP,
        }
    }
}

impl SpecInterner {
    /// The shared copy of the spec.
    pub fn intern(&mut self, spec: PodSpec) -> Arc<PodSpec> {
        if let Some(shared) = self.specs.get(&spec) {
            return shared.clone();
        }
        if self.specs.len() >= self.sweep_at {
            self.specs.retain(|spec| Arc::strong_count(spec) > 1);
            self.sweep_at = (2 * self.specs.len()).max(MIN_SWEEP);
        }
        let shared = Arc::new(spec);
        self.specs.insert(shared.clone());
        shared
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(priority: i32) -> PodSpec {
        PodSpec {
            priority,
            ..PodSpec::default()
        }
    }

    #[test]
    fn equal_specs_are_one_allocation() {
        let mut interner = SpecInterner::default();
        let first = interner.intern(spec(1));
        assert!(Arc::ptr_eq(&first, &interner.intern(spec(1))));
        assert!(!Arc::ptr_eq(&first, &interner.intern(spec(2))));
    }

    #[test]
    fn specs_without_a_pod_are_dropped_in_time() {
        let mut interner = SpecInterner::default();
        let kept = interner.intern(spec(-1));
        for priority in 0..5000 {
            interner.intern(spec(priority));
        }
        assert!(interner.specs.len() <= MIN_SWEEP);
        assert!(Arc::ptr_eq(&kept, &interner.intern(spec(-1))));
    }
}
