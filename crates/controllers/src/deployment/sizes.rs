//! The arithmetic of a rollout: how large each set shall be. Pure, in numbers only.

use std::cmp::Reverse;

/// What a Deployment asks for, in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) replicas: i32,
    /// How many pods there may be beyond `replicas`.
    pub(crate) surge: i32,
    /// How many of `replicas` may be missing.
    pub(crate) unavailable: i32,
}

/// One set of a Deployment, in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) wanted: i32,
    pub(crate) available: i32,
    /// The most pods that the Deployment could have when the set got its size, as far as the set knows.
    pub(crate) most_then: Option<i32>,
}

impl Bounds {
    /// The most pods that there may be.
    pub(crate) fn most(self) -> i32 {
        self.replicas + self.surge
    }

    /// The fewest pods that must be available.
    pub(crate) fn fewest_available(self) -> i32 {
        self.replicas - self.unavailable
    }
}

/// The size of the new set while it grows: as large as there is room for beside the old ones.
pub(crate) fn grown(bounds: Bounds, new: i32, total: i32) -> i32 {
    let room = bounds.most() - total;
    match room > 0 {
        true => new + room.min(bounds.replicas - new),
        false => new,
    }
}

/// The sizes of the old sets, given oldest first, when as many as may go have gone: those that do not work first.
pub(crate) fn shrunk(bounds: Bounds, olds: &[Size], new: Size) -> Vec<i32> {
    let mut sizes: Vec<i32> = olds.iter().map(|old| old.wanted).collect();
    let total: i32 = sizes.iter().sum::<i32>() + new.wanted;
    // A set that was made smaller a moment ago may still count pods that are about to go.
    let available = |set: &Size| set.available.min(set.wanted);
    let may_go = total - bounds.fewest_available() - (new.wanted - available(&new));
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
    let mut spare = (available - bounds.fewest_available()).max(0);
    for size in &mut sizes {
        let going = (*size).min(spare);
        *size -= going;
        spare -= going;
    }
    sizes
}

/// The sizes of the sets, given newest first, when the Deployment has become larger or smaller in the middle of a
/// rollout: each takes its share, so that the rollout is neither hastened nor held up. `status_replicas` is what the
/// Deployment last said it has, for sets that do not know how many there could be.
pub(crate) fn proportional(bounds: Bounds, sets: &[Size], status_replicas: i32) -> Vec<i32> {
    let mut sizes: Vec<i32> = sets.iter().map(|set| set.wanted).collect();
    let allowed = if bounds.replicas > 0 { bounds.most() } else { 0 };
    let to_add = allowed - sizes.iter().sum::<i32>();
    if to_add == 0 {
        return sizes;
    }
    let mut order: Vec<usize> = (0..sets.len()).collect();
    match to_add > 0 {
        true => order.sort_by_key(|&i| Reverse(sets[i].wanted)),
        // Of equal ones the oldest shrinks first.
        false => order.sort_by_key(|&i| (Reverse(sets[i].wanted), Reverse(i))),
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
        let share = if sets[i].wanted == 0 { 0 } else { share };
        sizes[i] += share;
        added += share;
    }
    if let Some(&largest) = order.first() {
        sizes[largest] = (sizes[largest] + to_add - added).max(0);
    }
    sizes
}

/// By how much a set would change to keep its share.
fn share(bounds: Bounds, set: Size, status_replicas: i32) -> i32 {
    if bounds.replicas == 0 {
        return -set.wanted;
    }
    let before = set.most_then.filter(|most| *most != 0).unwrap_or(status_replicas);
    if before == 0 {
        return 0;
    }
    let (wanted, most, before) = (i64::from(set.wanted), i64::from(bounds.most()), i64::from(before));
    // Rounded half up, in whole numbers.
    let size = (2 * wanted * most + before).div_euclid(2 * before);
    i32::try_from(size - wanted).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests;
