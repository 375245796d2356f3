//! The arithmetic of a rollout: the size of each set. Pure.

use std::cmp::Reverse;

/// The Deployment's replicas and its strategy, in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) replicas: i32,
    /// How many pods may exist beyond `replicas`.
    pub(crate) surge: i32,
    /// How many of `replicas` may be unavailable.
    pub(crate) unavailable: i32,
}

/// One set of a Deployment, in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) desired_replicas: i32,
    pub(crate) available: i32,
    /// The max-replicas annotation: the most pods that the Deployment could have when the set got its size.
    pub(crate) max_replicas: Option<i32>,
}

impl Bounds {
    /// The most pods that may exist.
    pub(crate) fn max_pods(self) -> i32 {
        self.replicas + self.surge
    }

    /// The fewest pods that must be available.
    pub(crate) fn min_available(self) -> i32 {
        self.replicas - self.unavailable
    }
}

/// The size of the new set while it grows: as large as the surge allows beside the old ones.
pub(crate) fn grown(bounds: Bounds, new: i32, total: i32) -> i32 {
    let headroom = bounds.max_pods() - total;
    match headroom > 0 {
        true => new + headroom.min(bounds.replicas - new),
        false => new,
    }
}

/// The sizes of the old sets, given oldest first, after removing as many pods as may be removed, unavailable ones
/// first.
pub(crate) fn shrunk(bounds: Bounds, olds: &[Size], new: Size) -> Vec<i32> {
    let mut sizes: Vec<i32> = olds.iter().map(|old| old.desired_replicas).collect();
    let total: i32 = sizes.iter().sum::<i32>() + new.desired_replicas;
    // A set that was just scaled down may still count pods that are about to be deleted.
    let available = |set: &Size| set.available.min(set.desired_replicas);
    let may_go = total - bounds.min_available() - (new.desired_replicas - available(&new));
    if sizes.iter().sum::<i32>() == 0 || may_go <= 0 {
        return sizes;
    }
    let mut left = may_go;
    for (size, old) in sizes.iter_mut().zip(olds) {
        let broken = (*size - available(old)).clamp(0, left);
        *size -= broken;
        left -= broken;
    }
    let available = olds.iter().map(available).sum::<i32>() + available(&new);
    let mut spare = (available - bounds.min_available()).max(0);
    for size in &mut sizes {
        let removed = (*size).min(spare);
        *size -= removed;
        spare -= removed;
    }
    sizes
}

/// The sizes of the sets, given newest first, when the Deployment is scaled during a rollout: each set gets its share,
/// so that the rollout is neither sped up nor held up. `status_replicas` replaces the max-replicas annotation where a
/// set lacks it.
pub(crate) fn proportional(bounds: Bounds, sets: &[Size], status_replicas: i32) -> Vec<i32> {
    let mut sizes: Vec<i32> = sets.iter().map(|set| set.desired_replicas).collect();
    let allowed = if bounds.replicas > 0 { bounds.max_pods() } else { 0 };
    let to_add = allowed - sizes.iter().sum::<i32>();
    if to_add == 0 {
        return sizes;
    }
    let mut order: Vec<usize> = (0..sets.len()).collect();
    match to_add > 0 {
        true => order.sort_by_key(|&i| Reverse(sets[i].desired_replicas)),
        // Among equal sets the oldest shrinks first.
        false => order.sort_by_key(|&i| (Reverse(sets[i].desired_replicas), Reverse(i))),
    }
    let mut added = 0;
    for &i in &order {
        let share = share(bounds, sets[i], status_replicas);
        let left = to_add - added;
        let share = if to_add > 0 {
            share.min(left)
        } else {
            share.max(left)
        };
        let share = if sets[i].desired_replicas == 0 { 0 } else { share };
        sizes[i] += share;
        added += share;
    }
    if let Some(&largest) = order.first() {
        sizes[largest] = (sizes[largest] + to_add - added).max(0);
    }
    sizes
}

/// By how much a set changes to keep its share.
fn share(bounds: Bounds, set: Size, status_replicas: i32) -> i32 {
    if bounds.replicas == 0 {
        return -set.desired_replicas;
    }
    let before = set
        .max_replicas
        .filter(|max_pods| *max_pods != 0)
        .unwrap_or(status_replicas);
    if before == 0 {
        return 0;
    }
    let (desired_replicas, max_pods, before) = (
        i64::from(set.desired_replicas),
        i64::from(bounds.max_pods()),
        i64::from(before),
    );
    // Rounded half up, in whole numbers.
    let size = (2 * desired_replicas * max_pods + before).div_euclid(2 * before);
    i32::try_from(size - desired_replicas).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests;
