//! [`CycleState`]: what plugins compute for one pod in PreFilter and PreScore, and read in Filter and Score.

use std::any::{Any, TypeId};
use std::fmt;

/// Values by type: each plugin writes values of its own private types, so that plugins cannot collide.
///
/// Cloning copies all values: preemption changes a clone with PreFilter's `add_pod` and `remove_pod` per candidate node.
#[derive(Default)]
pub struct CycleState {
    /// Few entries: found by a linear scan.
    values: Vec<(TypeId, Box<dyn Value>)>,
    /// The types of values that only the planning reads.
    planning: Vec<TypeId>,
    /// Filter plugins of the profile that PreFilter found irrelevant, by position.
    skipped_filters: u64,
    /// Score plugins that PreScore found irrelevant, by position.
    skipped_scores: u64,
    /// Whether the plugins are timed.
    is_sampled: bool,
}

trait Value: Any + Send + Sync {
    fn clone_value(&self) -> Box<dyn Value>;
}

impl<T: Any + Clone + Send + Sync> Value for T {
    fn clone_value(&self) -> Box<dyn Value> {
        Box::new(self.clone())
    }
}

impl CycleState {
    /// Writes a value, instead of an earlier one of the same type.
    pub fn write<T: Any + Clone + Send + Sync>(&mut self, value: T) {
        let id = TypeId::of::<T>();
        let value: Box<dyn Value> = Box::new(value);
        match self.values.iter_mut().find(|(own, _)| *own == id) {
            Some((_, old)) => *old = value,
            None => self.values.push((id, value)),
        }
    }

    /// Writes a value that Filter and Score read, but no later step: see [`Self::end_planning`].
    pub fn write_for_planning<T: Any + Clone + Send + Sync>(&mut self, value: T) {
        self.write(value);
        if !self.planning.contains(&TypeId::of::<T>()) {
            self.planning.push(TypeId::of::<T>());
        }
    }

    /// Drops the values of the planning. The scheduler calls it before it assumes the pod: these values share counters with
    /// the cluster state, which would have to copy them to count the pod while the binding goes on.
    pub fn end_planning(&mut self) {
        let planning = std::mem::take(&mut self.planning);
        self.values.retain(|(id, _)| !planning.contains(id));
    }

    pub fn read<T: Any>(&self) -> Option<&T> {
        let (_, value) = self.values.iter().find(|(own, _)| *own == TypeId::of::<T>())?;
        let value: &dyn Any = &**value;
        value.downcast_ref()
    }

    pub fn read_mut<T: Any>(&mut self) -> Option<&mut T> {
        let (_, value) = self
            .values
            .iter_mut()
            .find(|(own, _)| *own == TypeId::of::<T>())?;
        let value: &mut dyn Any = &mut **value;
        value.downcast_mut()
    }

    /// Whether the plugins of this cycle are timed (upstream: `ShouldRecordPluginMetrics`).
    pub(crate) fn is_sampled(&self) -> bool {
        self.is_sampled
    }

    pub(crate) fn set_sampled(&mut self, is_sampled: bool) {
        self.is_sampled = is_sampled;
    }

    pub(crate) fn skip_filter(&mut self, position: usize) {
        self.skipped_filters |= 1 << position;
    }

    /// Skips the plugins at these positions.
    pub(crate) fn skip_all(&mut self, filters: u64, scores: u64) {
        self.skipped_filters |= filters;
        self.skipped_scores |= scores;
    }

    /// Lets the plugins at these positions run again, until their PreFilter and PreScore skip them.
    pub(crate) fn unskip(&mut self, filters: u64, scores: u64) {
        self.skipped_filters &= !filters;
        self.skipped_scores &= !scores;
    }

    pub(crate) fn is_filter_skipped(&self, position: usize) -> bool {
        self.skipped_filters & (1 << position) != 0
    }

    /// The positions of skipped Filter plugins.
    pub(crate) fn skipped_filters(&self) -> u64 {
        self.skipped_filters
    }

    /// The positions of skipped Score plugins.
    pub(crate) fn skipped_scores(&self) -> u64 {
        self.skipped_scores
    }

    pub(crate) fn skip_score(&mut self, position: usize) {
        self.skipped_scores |= 1 << position;
    }

    pub(crate) fn is_score_skipped(&self, position: usize) -> bool {
        self.skipped_scores & (1 << position) != 0
    }
}

impl Clone for CycleState {
    fn clone(&self) -> Self {
        let values = self
            .values
            .iter()
            .map(|(id, value)| (*id, (**value).clone_value()));
        Self {
            values: values.collect(),
            planning: self.planning.clone(),
            skipped_filters: self.skipped_filters,
            skipped_scores: self.skipped_scores,
            is_sampled: self.is_sampled,
        }
    }
}

impl fmt::Debug for CycleState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CycleState")
            .field("values", &self.values.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_by_its_type_and_a_clone_is_independent() {
        let mut state = CycleState::default();
        state.write(7_u32);
        state.write(String::from("x"));
        state.write(8_u32);
        let mut copy = state.clone();
        *copy.read_mut::<u32>().unwrap() += 1;
        assert_eq!((state.read::<u32>(), copy.read::<u32>()), (Some(&8), Some(&9)));
        assert_eq!(copy.read::<String>().map(String::as_str), Some("x"));
        assert_eq!(state.read::<u64>(), None);
    }
}
