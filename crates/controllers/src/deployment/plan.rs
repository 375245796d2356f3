//! Decides what to do about a Deployment. Pure.
//!
//! One step at a time: the sets that a step changes enqueue the Deployment again, and the next step sees the result.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use setpoint_values::int_or_percent::RoundingMode;

use super::sets::{self, age, available, desired, replicas, revision, size};
use super::sizes::{Bounds, grown, proportional, shrunk};
use crate::int_or_percent;

/// The next step towards the Deployment's spec.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    Nothing,
    /// Create the set of the newest template.
    Create(Box<ReplicaSet>),
    /// Update the annotations of the newest set.
    Amend(Box<ReplicaSet>),
    /// Scale sets; each with its previous size.
    Resize(Vec<(i32, ReplicaSet)>),
    /// Delete old sets beyond the revision history limit.
    Clean(Vec<ReplicaSet>),
}

/// Which parts of the status are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StatusMode {
    /// A rollout is in progress or complete: the `Progressing` condition is part of it.
    Rollout,
    /// It is paused, being scaled or terminating: only the counts, since no progress is expected.
    Counts,
}

/// What to do about a Deployment now.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plan {
    pub(crate) step: Step,
    pub(crate) status_mode: StatusMode,
}

/// The bounds that the Deployment's strategy allows.
pub(crate) fn bounds(deployment: &Deployment) -> Bounds {
    let desired_replicas = deployment.spec.replicas.unwrap_or(1);
    if !is_rolling(deployment) {
        return Bounds {
            replicas: desired_replicas,
            surge: 0,
            unavailable: 0,
        };
    }
    let strategy = deployment.spec.strategy.as_ref();
    let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
    let surge = rolling.and_then(|rolling| rolling.max_surge.as_ref());
    let unavailable = rolling.and_then(|rolling| rolling.max_unavailable.as_ref());
    let surge = int_or_percent::scaled_value(surge, desired_replicas, RoundingMode::Up);
    let mut unavailable = int_or_percent::scaled_value(unavailable, desired_replicas, RoundingMode::Down);
    if surge == 0 && unavailable == 0 {
        // If both were zero no pod could ever be replaced.
        unavailable = 1;
    }
    Bounds {
        replicas: desired_replicas,
        surge,
        unavailable: unavailable.min(desired_replicas),
    }
}

fn is_rolling(deployment: &Deployment) -> bool {
    let strategy = deployment.spec.strategy.as_ref();
    strategy.and_then(|strategy| strategy.type_.as_deref()) != Some("Recreate")
}

/// Plans for a Deployment with these sets. `old_pods` returns whether a pod of an old set still runs; it is only called
/// for the Recreate strategy.
pub(crate) fn plan(deployment: &Deployment, sets: &[ReplicaSet], old_pods: impl FnOnce() -> bool) -> Plan {
    if deployment.metadata.deletion_timestamp.is_some() {
        return Plan::of(Step::Nothing, StatusMode::Counts);
    }
    let (new, olds) = sets::split(deployment, sets);
    if let Some(amended) = new.and_then(|new| amendment(deployment, new, &olds)) {
        return Plan::of(Step::Amend(Box::new(amended)), StatusMode::Counts);
    }
    let is_paused = deployment.spec.paused == Some(true);
    if is_paused || is_scaled(deployment, new, &olds) {
        let step = match rescale(deployment, new, &olds) {
            Step::Nothing if is_paused => clean(deployment, &olds),
            step => step,
        };
        return Plan::of(step, StatusMode::Counts);
    }
    let step = match is_rolling(deployment) {
        true => roll(deployment, new, &olds),
        false => recreate(deployment, new, &olds, old_pods),
    };
    let step = match step {
        Step::Nothing if is_complete(deployment) => clean(deployment, &olds),
        step => step,
    };
    Plan::of(step, StatusMode::Rollout)
}

impl Plan {
    fn of(step: Step, status_mode: StatusMode) -> Self {
        Self { step, status_mode }
    }
}

/// The newest set as it should be; `None` if it already is.
fn amendment(deployment: &Deployment, new: &ReplicaSet, olds: &[&ReplicaSet]) -> Option<ReplicaSet> {
    let amended = sets::amended(deployment, new, sets::next_revision(olds));
    let same = amended
        .metadata
        .annotations
        .iter()
        .flatten()
        .eq(new.metadata.annotations.iter().flatten())
        && amended.spec.min_ready_seconds.unwrap_or(0) == new.spec.min_ready_seconds.unwrap_or(0);
    (!same).then_some(amended)
}

/// Whether the Deployment was scaled since its sets got their sizes.
fn is_scaled(deployment: &Deployment, new: Option<&ReplicaSet>, olds: &[&ReplicaSet]) -> bool {
    let desired_replicas = deployment.spec.replicas.unwrap_or(1);
    let active = active(new, olds);
    active
        .into_iter()
        .filter_map(desired)
        .any(|desired| desired != desired_replicas)
}

/// The sets that have replicas, newest first.
fn active<'a>(new: Option<&'a ReplicaSet>, olds: &[&'a ReplicaSet]) -> Vec<&'a ReplicaSet> {
    let mut all: Vec<&ReplicaSet> = olds.iter().copied().chain(new).collect();
    all.retain(|set| replicas(set) > 0);
    all.sort_by_key(|set| std::cmp::Reverse(age(set)));
    all
}

/// Scales the sets to the Deployment's replicas without continuing a rollout.
fn rescale(deployment: &Deployment, new: Option<&ReplicaSet>, olds: &[&ReplicaSet]) -> Step {
    let bounds = bounds(deployment);
    let active = active(new, olds);
    match active.as_slice() {
        [] => {
            let latest = new.or(olds.last().copied());
            latest.map_or(Step::Nothing, |set| resize(bounds, [(set, bounds.replicas)]))
        }
        // A set that happens to have the right size must still be annotated: until then the Deployment counts as
        // scaled.
        [only] => resize_and_note(bounds, [(*only, bounds.replicas)]),
        _ if new.is_some_and(|new| is_saturated(bounds, new)) => {
            let olds = active.iter().filter(|set| Some(**set) != new);
            resize(bounds, olds.map(|set| (*set, 0)))
        }
        _ if !is_rolling(deployment) => Step::Nothing,
        _ => {
            let sizes: Vec<_> = active.iter().map(|set| size(set)).collect();
            let status = deployment.status.as_ref().and_then(|status| status.replicas);
            let sizes = proportional(bounds, &sizes, status.unwrap_or(0));
            resize_and_note(bounds, active.into_iter().zip(sizes))
        }
    }
}

/// Whether the set has all desired pods, and they are available.
fn is_saturated(bounds: Bounds, set: &ReplicaSet) -> bool {
    let all = [Some(replicas(set)), desired(set), Some(available(set))];
    all.into_iter().all(|count| count == Some(bounds.replicas))
}

/// Continues a RollingUpdate.
fn roll(deployment: &Deployment, new: Option<&ReplicaSet>, olds: &[&ReplicaSet]) -> Step {
    let bounds = bounds(deployment);
    let total: i32 = olds.iter().map(|old| replicas(old)).sum();
    let Some(new) = new else {
        return create(deployment, olds, grown(bounds, 0, total));
    };
    let own = replicas(new);
    let desired_replicas = match own > bounds.replicas {
        true => bounds.replicas,
        false => grown(bounds, own, total + own),
    };
    if desired_replicas != own {
        return resize(bounds, [(new, desired_replicas)]);
    }
    let sizes: Vec<_> = olds.iter().map(|old| size(old)).collect();
    let sizes = shrunk(bounds, &sizes, size(new));
    resize(bounds, olds.iter().copied().zip(sizes))
}

/// Continues a Recreate: no new pod is created before the last old one is gone.
fn recreate(
    deployment: &Deployment,
    new: Option<&ReplicaSet>,
    olds: &[&ReplicaSet],
    old_pods: impl FnOnce() -> bool,
) -> Step {
    let bounds = bounds(deployment);
    let scaled_down = resize(bounds, olds.iter().map(|old| (*old, 0)));
    if scaled_down != Step::Nothing {
        return scaled_down;
    }
    let has_pods = |set: &ReplicaSet| set.status.as_ref().is_some_and(|status| status.replicas > 0);
    if olds.iter().any(|old| has_pods(old)) || old_pods() {
        return Step::Nothing;
    }
    match new {
        Some(new) => resize(bounds, [(new, bounds.replicas)]),
        None => create(deployment, olds, bounds.replicas),
    }
}

fn create(deployment: &Deployment, olds: &[&ReplicaSet], replicas: i32) -> Step {
    let revision = sets::next_revision(olds);
    Step::Create(Box::new(sets::new_set(
        deployment,
        bounds(deployment),
        replicas,
        revision,
    )))
}

/// The step that scales the sets to these sizes; `Nothing` if all have them.
fn resize<'a>(bounds: Bounds, sizes: impl IntoIterator<Item = (&'a ReplicaSet, i32)>) -> Step {
    let other = sizes.into_iter().filter(|(set, size)| replicas(set) != *size);
    to_step(
        other
            .map(|(set, size)| (replicas(set), sets::resized(set, bounds, size)))
            .collect(),
    )
}

/// Like [`resize`], and also updates the desired-replicas annotation of a set that keeps its size.
fn resize_and_note<'a>(bounds: Bounds, sizes: impl IntoIterator<Item = (&'a ReplicaSet, i32)>) -> Step {
    let resized = |(set, size): (&ReplicaSet, i32)| {
        let resized = sets::resized(set, bounds, size);
        (resized != *set).then(|| (replicas(set), resized))
    };
    to_step(sizes.into_iter().filter_map(resized).collect())
}

fn to_step(resized: Vec<(i32, ReplicaSet)>) -> Step {
    match resized.is_empty() {
        true => Step::Nothing,
        false => Step::Resize(resized),
    }
}

/// Whether the last written status reports a complete rollout.
fn is_complete(deployment: &Deployment) -> bool {
    let status = deployment.status.as_ref();
    status.is_some_and(|status| super::status::is_complete(deployment, status))
}

/// Deletes the oldest sets beyond the revision history limit. A set that has or may have pods stays.
fn clean(deployment: &Deployment, olds: &[&ReplicaSet]) -> Step {
    let limit = match deployment.spec.revision_history_limit {
        Some(limit) if limit != i32::MAX => usize::try_from(limit).unwrap_or(0),
        _ => return Step::Nothing,
    };
    let mut kept: Vec<&ReplicaSet> = olds.to_vec();
    kept.retain(|set| set.metadata.deletion_timestamp.is_none());
    kept.sort_by_key(|set| (revision(set), age(set)));
    let excess = kept.len().saturating_sub(limit);
    let excess_sets: Vec<ReplicaSet> = kept[..excess]
        .iter()
        .filter(|set| is_idle(set))
        .map(|set| (*set).clone())
        .collect();
    match excess_sets.is_empty() {
        true => Step::Nothing,
        false => Step::Clean(excess_sets),
    }
}

fn is_idle(set: &ReplicaSet) -> bool {
    let status = set.status.clone().unwrap_or_default();
    let is_seen = set.metadata.generation.unwrap_or(0) <= status.observed_generation.unwrap_or(0);
    replicas(set) == 0 && status.replicas == 0 && is_seen
}

#[cfg(test)]
mod tests;
