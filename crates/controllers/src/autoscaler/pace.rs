//! How fast the number of replicas follows what the figures ask for: pure.
//!
//! Two things hold it back. Windows of stabilization: of all that was asked for lately, the least is added and the least
//! is taken away. And rates: so many pods, or such a part of them, in so much time, of which [`History`] keeps count.

use jiff::{SignedDuration, Timestamp};

use crate::autoscaler::views::{Behavior, Policy, Rules, Select, Spec, Unit};

/// What was asked for and done lately.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct History {
    /// What the figures asked for.
    recommendations: Vec<(i32, Timestamp)>,
    /// How many pods were added, and taken away.
    ups: Vec<(i32, Timestamp)>,
    downs: Vec<(i32, Timestamp)>,
}

/// The number of replicas to have now, and why it is that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Paced {
    pub(crate) replicas: i32,
    pub(crate) able: Said,
    /// Whether the number was held back.
    pub(crate) limited: bool,
    pub(crate) limit: Said,
}

/// A reason and what it means.
pub(crate) type Said = (&'static str, &'static str);

/// Without rules the number at most doubles, or becomes this.
const LEAST_LIMIT: i32 = 4;

const READY: Said = ("ReadyForNewScale", "recommended size matches current size");
const HELD_DOWN: Said = (
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
);
const HELD_UP: Said = (
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
);
const IN_RANGE: Said = (
    "DesiredWithinRange",
    "the desired count is within the acceptable range",
);
const TOO_MANY: Said = (
    "TooManyReplicas",
    "the desired replica count is more than the maximum replica count",
);
const TOO_FEW: Said = (
    "TooFewReplicas",
    "the desired replica count is less than the minimum replica count",
);
const TOO_FAST_UP: Said = (
    "ScaleUpLimit",
    "the desired replica count is increasing faster than the maximum scale rate",
);
const TOO_FAST_DOWN: Said = (
    "ScaleDownLimit",
    "the desired replica count is decreasing faster than the maximum scale rate",
);

// === impl History ===

impl History {
    /// The first number that is seen counts as asked for.
    pub(crate) fn begin(&mut self, current: i32, now: Timestamp) {
        if self.recommendations.is_empty() {
            self.recommendations.push((current, now));
        }
    }

    /// The number to have now instead of `current`, if the figures ask for `desired`. `window`: how long fewer must be
    /// asked for, where the autoscaler does not say.
    pub(crate) fn pace(
        &mut self,
        spec: &Spec,
        (current, desired): (i32, i32),
        window: SignedDuration,
        now: Timestamp,
    ) -> Paced {
        let (stable, limited) = match &spec.behavior {
            None => {
                let stable = self.stabilize(desired, ago(now, window), now);
                (stable, limit(spec, current, stable))
            }
            Some(behavior) => {
                let down = behavior.scale_down.cutoff(now, window);
                let up = behavior.scale_up.cutoff(now, SignedDuration::ZERO);
                let stable = self.stabilize_by((up, down), current, desired, now);
                (stable, self.limit_by(spec, behavior, (current, stable), now))
            }
        };
        let able = match (stable == desired, desired >= current && spec.behavior.is_some()) {
            (true, _) => READY,
            (false, true) => HELD_UP,
            (false, false) => HELD_DOWN,
        };
        Paced {
            replicas: limited.0,
            able,
            limited: limited.0 != stable,
            limit: limited.1,
        }
    }

    /// Keeps in mind that the number was changed.
    pub(crate) fn note(&mut self, behavior: Option<&Behavior>, (before, after): (i32, i32), now: Timestamp) {
        let Some(behavior) = behavior else { return };
        let (changes, rules) = match after > before {
            true => (&mut self.ups, &behavior.scale_up),
            false => (&mut self.downs, &behavior.scale_down),
        };
        let longest = rules.policies.iter().map(|policy| policy.period_seconds).max();
        let cutoff = ago(now, SignedDuration::from_secs(longest.unwrap_or(0)));
        changes.retain(|(_, at)| *at >= cutoff);
        changes.push(((after - before).abs(), now));
    }

    /// The most that was asked for lately.
    fn stabilize(&mut self, desired: i32, cutoff: Timestamp, now: Timestamp) -> i32 {
        self.recommendations.retain(|(_, at)| *at >= cutoff);
        let recent = self.recommendations.iter().map(|(replicas, _)| *replicas);
        let stable = recent.fold(desired, i32::max);
        self.recommendations.push((desired, now));
        stable
    }

    /// The number that is closest to the present one of those that were asked for lately, by each direction's window.
    fn stabilize_by(
        &mut self,
        (up_cutoff, down_cutoff): (Timestamp, Timestamp),
        current: i32,
        desired: i32,
        now: Timestamp,
    ) -> i32 {
        let since = |cutoff: Timestamp| {
            let recent = self.recommendations.iter().filter(move |(_, at)| *at > cutoff);
            recent.map(|(replicas, _)| *replicas)
        };
        let (least, most) = (
            since(up_cutoff).fold(desired, i32::min),
            since(down_cutoff).fold(desired, i32::max),
        );
        let oldest = up_cutoff.min(down_cutoff);
        self.recommendations.retain(|(_, at)| *at >= oldest);
        self.recommendations.push((desired, now));
        current.max(least).min(most)
    }

    /// The number as far as the rates allow it.
    fn limit_by(
        &self,
        spec: &Spec,
        behavior: &Behavior,
        (current, desired): (i32, i32),
        now: Timestamp,
    ) -> (i32, Said) {
        if desired > current {
            let limit = self.up_limit(&behavior.scale_up, current, now).max(current);
            let (most, said) = match spec.max_replicas > limit {
                true => (limit, TOO_FAST_UP),
                false => (spec.max_replicas, TOO_MANY),
            };
            if desired > most {
                return (most, said);
            }
        } else if desired < current {
            let limit = self.down_limit(&behavior.scale_down, current, now).min(current);
            let (least, said) = match spec.min() < limit {
                true => (limit, TOO_FAST_DOWN),
                false => (spec.min(), TOO_FEW),
            };
            if desired < least {
                return (least, said);
            }
        }
        (desired, IN_RANGE)
    }

    fn up_limit(&self, rules: &Rules, current: i32, now: Timestamp) -> i32 {
        let allowed = rules.policies.iter().map(|policy| {
            let start = self.at_start(policy, current, now);
            match policy.unit {
                Unit::Pods => start.saturating_add(policy.value),
                // Rounded up, since a small number would never grow otherwise.
                Unit::Percent => (f64::from(start) * (1.0 + f64::from(policy.value) / 100.0)).ceil() as i32,
            }
        });
        match rules.select_policy {
            Some(Select::Disabled) => current,
            Some(Select::Min) => allowed.min().unwrap_or(i32::MAX),
            _ => allowed.max().unwrap_or(i32::MIN),
        }
    }

    fn down_limit(&self, rules: &Rules, current: i32, now: Timestamp) -> i32 {
        let allowed = rules.policies.iter().map(|policy| {
            let start = self.at_start(policy, current, now);
            match policy.unit {
                Unit::Pods => start.saturating_sub(policy.value),
                Unit::Percent => (f64::from(start) * (1.0 - f64::from(policy.value) / 100.0)) as i32,
            }
        });
        match rules.select_policy {
            Some(Select::Disabled) => current,
            Some(Select::Min) => allowed.max().unwrap_or(i32::MIN),
            _ => allowed.min().unwrap_or(i32::MAX),
        }
    }

    /// How many replicas there were when the period of a policy began.
    fn at_start(&self, policy: &Policy, current: i32, now: Timestamp) -> i32 {
        let cutoff = ago(now, SignedDuration::from_secs(policy.period_seconds));
        let within = |changes: &[(i32, Timestamp)]| -> i32 {
            let recent = changes.iter().filter(|(_, at)| *at > cutoff);
            recent.map(|(count, _)| *count).sum()
        };
        current - within(&self.ups) + within(&self.downs)
    }
}

/// The number within its bounds, and growing by no more than twice.
fn limit(spec: &Spec, current: i32, desired: i32) -> (i32, Said) {
    let doubled = current.saturating_mul(2).max(LEAST_LIMIT);
    let (most, said) = match spec.max_replicas > doubled {
        true => (doubled, TOO_FAST_UP),
        false => (spec.max_replicas, TOO_MANY),
    };
    if desired < spec.min() {
        (spec.min(), TOO_FEW)
    } else if desired > most {
        (most, said)
    } else {
        (desired, IN_RANGE)
    }
}

fn ago(now: Timestamp, by: SignedDuration) -> Timestamp {
    now.checked_sub(by).unwrap_or(Timestamp::MIN)
}

// === impl Rules ===

impl Rules {
    /// What was asked for before this no longer counts.
    fn cutoff(&self, now: Timestamp, usual: SignedDuration) -> Timestamp {
        let own = self.stabilization_window_seconds.map(SignedDuration::from_secs);
        ago(now, own.unwrap_or(usual))
    }
}

#[cfg(test)]
mod tests;
