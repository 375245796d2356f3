//! What to do about a Deployment, from what is seen: pure.
//!
//! One step at a time: the sets that a step changes wake the Deployment again, and the next step sees what came of it.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};

use super::sets::{self, age, available, desired, replicas, revision, size};
use super::sizes::{Bounds, grown, proportional, shrunk};
use crate::portion::{self, Rounding};

/// The next step towards what a Deployment asks for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    Nothing,
    /// There is no set of the newest template yet: make this one.
    Create(Box<ReplicaSet>),
    /// The set of the newest template must say something else about itself.
    Amend(Box<ReplicaSet>),
    /// Sets shall have other sizes; each with the size it had.
    Resize(Vec<(i32, ReplicaSet)>),
    /// Old sets that are no longer kept.
    Clean(Vec<ReplicaSet>),
}

/// How the status is to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Telling {
    /// A rollout is going on or is complete: whether it makes progress is a part of it.
    Rollout,
    /// It is paused, being scaled or on its way out: nobody expects progress.
    Counts,
}

/// What to do about a Deployment now.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plan {
    pub(crate) step: Step,
    pub(crate) telling: Telling,
}

/// What a Deployment allows, in numbers.
pub(crate) fn bounds(deployment: &Deployment) -> Bounds {
    let wanted = deployment.spec.replicas.unwrap_or(1);
    if !is_rolling(deployment) {
        return Bounds {
            replicas: wanted,
            surge: 0,
            unavailable: 0,
        };
    }
    let strategy = deployment.spec.strategy.as_ref();
    let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
    let surge = rolling.and_then(|rolling| rolling.max_surge.as_ref());
    let unavailable = rolling.and_then(|rolling| rolling.max_unavailable.as_ref());
    let surge = portion::of(surge, wanted, Rounding::Up);
    let mut unavailable = portion::of(unavailable, wanted, Rounding::Down);
    if surge == 0 && unavailable == 0 {
        // Where nothing may be more and nothing less, nothing could ever move.
        unavailable = 1;
    }
    Bounds {
        replicas: wanted,
        surge,
        unavailable: unavailable.min(wanted),
    }
}

fn is_rolling(deployment: &Deployment) -> bool {
    let strategy = deployment.spec.strategy.as_ref();
    strategy.and_then(|strategy| strategy.type_.as_deref()) != Some("Recreate")
}

/// Decides for a Deployment with these sets. `old_pods` tells whether a pod of an old set still runs; it is only asked
/// where pods of two templates must not run at the same time.
pub(crate) fn plan(deployment: &Deployment, sets: &[ReplicaSet], old_pods: impl FnOnce() -> bool) -> Plan {
    if deployment.metadata.deletion_timestamp.is_some() {
        return Plan::of(Step::Nothing, Telling::Counts);
    }
    let (new, olds) = sets::split(deployment, sets);
    if let Some(amended) = new.and_then(|new| amendment(deployment, new, &olds)) {
        return Plan::of(Step::Amend(Box::new(amended)), Telling::Counts);
    }
    let is_paused = deployment.spec.paused == Some(true);
    if is_paused || is_scaled(deployment, new, &olds) {
        let step = match rescale(deployment, new, &olds) {
            Step::Nothing if is_paused => clean(deployment, &olds),
            step => step,
        };
        return Plan::of(step, Telling::Counts);
    }
    let step = match is_rolling(deployment) {
        true => roll(deployment, new, &olds),
        false => recreate(deployment, new, &olds, old_pods),
    };
    let step = match step {
        Step::Nothing if is_complete(deployment) => clean(deployment, &olds),
        step => step,
    };
    Plan::of(step, Telling::Rollout)
}

impl Plan {
    fn of(step: Step, telling: Telling) -> Self {
        Self { step, telling }
    }
}

/// The set of the newest template as it should be, if it is not so.
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

/// Whether the Deployment has become larger or smaller since its sets got their sizes.
fn is_scaled(deployment: &Deployment, new: Option<&ReplicaSet>, olds: &[&ReplicaSet]) -> bool {
    let wanted = deployment.spec.replicas.unwrap_or(1);
    let active = active(new, olds);
    active
        .into_iter()
        .filter_map(desired)
        .any(|desired| desired != wanted)
}

/// The sets that are to have pods, newest first.
fn active<'a>(new: Option<&'a ReplicaSet>, olds: &[&'a ReplicaSet]) -> Vec<&'a ReplicaSet> {
    let mut all: Vec<&ReplicaSet> = olds.iter().copied().chain(new).collect();
    all.retain(|set| replicas(set) > 0);
    all.sort_by_key(|set| std::cmp::Reverse(age(set)));
    all
}

/// Brings the sets to what the Deployment wants in numbers, without going on with a rollout.
fn rescale(deployment: &Deployment, new: Option<&ReplicaSet>, olds: &[&ReplicaSet]) -> Step {
    let bounds = bounds(deployment);
    let active = active(new, olds);
    match active.as_slice() {
        [] => {
            let latest = new.or(olds.last().copied());
            latest.map_or(Step::Nothing, |set| resize(bounds, [(set, bounds.replicas)]))
        }
        // Of the size that is wanted by chance, it still has to note that: until then the Deployment counts as scaled.
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

/// Whether the set has all pods that the Deployment wants, and they are available.
fn is_saturated(bounds: Bounds, set: &ReplicaSet) -> bool {
    let all = [Some(replicas(set)), desired(set), Some(available(set))];
    all.into_iter().all(|count| count == Some(bounds.replicas))
}

/// Goes on with a rollout in which new pods come as old ones go.
fn roll(deployment: &Deployment, new: Option<&ReplicaSet>, olds: &[&ReplicaSet]) -> Step {
    let bounds = bounds(deployment);
    let total: i32 = olds.iter().map(|old| replicas(old)).sum();
    let Some(new) = new else {
        return create(deployment, olds, grown(bounds, 0, total));
    };
    let own = replicas(new);
    let wanted = match own > bounds.replicas {
        true => bounds.replicas,
        false => grown(bounds, own, total + own),
    };
    if wanted != own {
        return resize(bounds, [(new, wanted)]);
    }
    let sizes: Vec<_> = olds.iter().map(|old| size(old)).collect();
    let sizes = shrunk(bounds, &sizes, size(new));
    resize(bounds, olds.iter().copied().zip(sizes))
}

/// Goes on with a rollout in which all old pods are gone before the first new one comes.
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
    let turn = sets::next_revision(olds);
    Step::Create(Box::new(sets::new_set(
        deployment,
        bounds(deployment),
        replicas,
        turn,
    )))
}

/// The step to these sizes; nothing if all have them.
fn resize<'a>(bounds: Bounds, sizes: impl IntoIterator<Item = (&'a ReplicaSet, i32)>) -> Step {
    let other = sizes.into_iter().filter(|(set, size)| replicas(set) != *size);
    to_step(
        other
            .map(|(set, size)| (replicas(set), sets::resized(set, bounds, size)))
            .collect(),
    )
}

/// The same, where a set that keeps its size may have to note what the Deployment wants now.
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

/// Whether the status that was last told says that the rollout is done.
fn is_complete(deployment: &Deployment) -> bool {
    let status = deployment.status.as_ref();
    status.is_some_and(|status| super::status::is_complete(deployment, status))
}

/// Takes away the oldest sets beyond those that are kept to go back to. A set that has or may have pods stays.
fn clean(deployment: &Deployment, olds: &[&ReplicaSet]) -> Step {
    let limit = match deployment.spec.revision_history_limit {
        Some(limit) if limit != i32::MAX => usize::try_from(limit).unwrap_or(0),
        _ => return Step::Nothing,
    };
    let mut kept: Vec<&ReplicaSet> = olds.to_vec();
    kept.retain(|set| set.metadata.deletion_timestamp.is_none());
    kept.sort_by_key(|set| (revision(set), age(set)));
    let excess = kept.len().saturating_sub(limit);
    let going: Vec<ReplicaSet> = kept[..excess]
        .iter()
        .filter(|set| is_idle(set))
        .map(|set| (*set).clone())
        .collect();
    match going.is_empty() {
        true => Step::Nothing,
        false => Step::Clean(going),
    }
}

fn is_idle(set: &ReplicaSet) -> bool {
    let status = set.status.clone().unwrap_or_default();
    let is_seen = set.metadata.generation.unwrap_or(0) <= status.observed_generation.unwrap_or(0);
    replicas(set) == 0 && status.replicas == 0 && is_seen
}

#[cfg(test)]
mod tests;
