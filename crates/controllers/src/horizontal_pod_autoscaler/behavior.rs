//! Scaling behavior: how fast the replicas follow the recommendation. Pure.
//!
//! Two things slow it down. Stabilization windows: of the recent recommendations, the one that changes least applies.
//! And scaling policies: so many pods, or such a percentage, per period, of which [`History`] keeps count.

use jiff::{SignedDuration, Timestamp};

use crate::horizontal_pod_autoscaler::views::{Behavior, Policy, Rules, Select, Spec, Unit};

/// Recent recommendations and scale events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct History {
    /// The recommended replicas.
    recommendations: Vec<(i32, Timestamp)>,
    /// How many pods were added, and removed.
    ups: Vec<(i32, Timestamp)>,
    downs: Vec<(i32, Timestamp)>,
}

/// The replicas to set now, and the conditions that explain them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NormalizedReplicas {
    pub(crate) replicas: i32,
    pub(crate) able: ReasonAndMessage,
    /// Whether the recommendation was limited.
    pub(crate) limited: bool,
    pub(crate) limit: ReasonAndMessage,
}

/// Reason and message of a condition.
pub(crate) type ReasonAndMessage = (&'static str, &'static str);

/// Without a `behavior` a scale-up at most doubles the replicas, or reaches this.
const MIN_SCALE_UP_LIMIT: i32 = 4;

const READY: ReasonAndMessage = ("ReadyForNewScale", "recommended size matches current size");
const SCALE_DOWN_STABILIZED: ReasonAndMessage = (
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
);
const SCALE_UP_STABILIZED: ReasonAndMessage = (
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
);
const IN_RANGE: ReasonAndMessage = (
    "DesiredWithinRange",
    "the desired count is within the acceptable range",
);
const TOO_MANY_REPLICAS: ReasonAndMessage = (
    "TooManyReplicas",
    "the desired replica count is more than the maximum replica count",
);
const TOO_FEW_REPLICAS: ReasonAndMessage = (
    "TooFewReplicas",
    "the desired replica count is less than the minimum replica count",
);
const SCALE_UP_LIMIT: ReasonAndMessage = (
    "ScaleUpLimit",
    "the desired replica count is increasing faster than the maximum scale rate",
);
const SCALE_DOWN_LIMIT: ReasonAndMessage = (
    "ScaleDownLimit",
    "the desired replica count is decreasing faster than the maximum scale rate",
);

// === impl History ===

impl History {
    /// The first observed replicas count as a recommendation.
    pub(crate) fn begin(&mut self, current: i32, now: Timestamp) {
        if self.recommendations.is_empty() {
            self.recommendations.push((current, now));
        }
    }

    /// The replicas to set instead of `current` for the recommendation `desired`. `window` is the default stabilization
    /// window for scaling down.
    pub(crate) fn normalize(
        &mut self,
        spec: &Spec,
        (current, desired): (i32, i32),
        window: SignedDuration,
        now: Timestamp,
    ) -> NormalizedReplicas {
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
            (false, true) => SCALE_UP_STABILIZED,
            (false, false) => SCALE_DOWN_STABILIZED,
        };
        NormalizedReplicas {
            replicas: limited.0,
            able,
            limited: limited.0 != stable,
            limit: limited.1,
        }
    }

    /// Records a scale event.
    pub(crate) fn record_scale(
        &mut self,
        behavior: Option<&Behavior>,
        (before, after): (i32, i32),
        now: Timestamp,
    ) {
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

    /// The highest recent recommendation.
    fn stabilize(&mut self, desired: i32, cutoff: Timestamp, now: Timestamp) -> i32 {
        self.recommendations.retain(|(_, at)| *at >= cutoff);
        let recent = self.recommendations.iter().map(|(replicas, _)| *replicas);
        let stable = recent.fold(desired, i32::max);
        self.recommendations.push((desired, now));
        stable
    }

    /// The recent recommendation closest to the current replicas, by the window of each direction.
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

    /// The replicas as far as the scaling policies allow.
    fn limit_by(
        &self,
        spec: &Spec,
        behavior: &Behavior,
        (current, desired): (i32, i32),
        now: Timestamp,
    ) -> (i32, ReasonAndMessage) {
        if desired > current {
            let limit = self.up_limit(&behavior.scale_up, current, now).max(current);
            let (most, reason) = match spec.max_replicas > limit {
                true => (limit, SCALE_UP_LIMIT),
                false => (spec.max_replicas, TOO_MANY_REPLICAS),
            };
            if desired > most {
                return (most, reason);
            }
        } else if desired < current {
            let limit = self.down_limit(&behavior.scale_down, current, now).min(current);
            let (least, reason) = match spec.min() < limit {
                true => (limit, SCALE_DOWN_LIMIT),
                false => (spec.min(), TOO_FEW_REPLICAS),
            };
            if desired < least {
                return (least, reason);
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

    /// How many replicas there were at the start of a policy's period.
    fn at_start(&self, policy: &Policy, current: i32, now: Timestamp) -> i32 {
        let cutoff = ago(now, SignedDuration::from_secs(policy.period_seconds));
        let within = |changes: &[(i32, Timestamp)]| -> i32 {
            let recent = changes.iter().filter(|(_, at)| *at > cutoff);
            recent.map(|(count, _)| *count).sum()
        };
        current - within(&self.ups) + within(&self.downs)
    }
}

/// The replicas within the minimum and the maximum, at most doubled.
fn limit(spec: &Spec, current: i32, desired: i32) -> (i32, ReasonAndMessage) {
    let doubled = current.saturating_mul(2).max(MIN_SCALE_UP_LIMIT);
    let (most, reason) = match spec.max_replicas > doubled {
        true => (doubled, SCALE_UP_LIMIT),
        false => (spec.max_replicas, TOO_MANY_REPLICAS),
    };
    if desired < spec.min() {
        (spec.min(), TOO_FEW_REPLICAS)
    } else if desired > most {
        (most, reason)
    } else {
        (desired, IN_RANGE)
    }
}

fn ago(now: Timestamp, by: SignedDuration) -> Timestamp {
    now.checked_sub(by).unwrap_or(Timestamp::MIN)
}

// === impl Rules ===

impl Rules {
    /// Recommendations before this are ignored.
    fn cutoff(&self, now: Timestamp, fallback: SignedDuration) -> Timestamp {
        let own = self.stabilization_window_seconds.map(SignedDuration::from_secs);
        ago(now, own.unwrap_or(fallback))
    }
}

#[cfg(test)]
mod tests;
