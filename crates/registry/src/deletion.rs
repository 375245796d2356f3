//! Graceful deletion: an object is removed at once, after its grace period, or when its finalizers are done.

use jiff::{SignedDuration, Timestamp};

use setpoint_api::options::{DeleteOptions, DeletionPropagation};
use setpoint_schema::Tree;
use setpoint_strategy::{Kind, meta};

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";

const TIMESTAMP: &str = "deletionTimestamp";
const GRACE: &str = "deletionGracePeriodSeconds";
const FINALIZERS: &str = "finalizers";

/// The effect of a delete request on the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing blocks the deletion: the object is removed.
    Remove,
    /// The object is marked as terminating, and stays for now.
    Mark,
    /// The object is terminating already, and this request changes nothing.
    Pending,
}

/// Determines the next step of a deletion, and marks the object accordingly.
///
/// For example, a bound pod: the first request marks it with a grace period of 30 seconds, a second one without options
/// is pending, one with a grace period of 5 marks it again, and the node agent's with a grace period of 0 removes it.
pub(crate) fn begin(kind: &dyn Kind, object: &mut Tree, options: &DeleteOptions, now: Timestamp) -> Step {
    if kind.is_held(object) {
        return begin_held(kind, object, now);
    }
    let grace = match grace(kind, object, options) {
        Grace::Pending => return Step::Pending,
        Grace::Unknown => None,
        Grace::Seconds(seconds) => Some(seconds),
    };
    let rules = kind.info().rules.deletion;
    if rules.garbage_collected {
        let default = rules.orphans_dependents.then_some(DeletionPropagation::Orphan);
        set_finalizers(object, options.propagation_policy.or(default));
    }
    let finalizers = has_finalizers(object);
    if let Some(seconds) = grace {
        mark(kind, object, seconds, now);
    } else if finalizers {
        mark_now(kind, object, now);
    }
    match finalizers || grace.is_some_and(|seconds| seconds > 0) {
        true => Step::Mark,
        false => Step::Remove,
    }
}

/// Whether the object is terminating and nothing blocks its removal any more.
pub(crate) fn is_finished(kind: &dyn Kind, object: &Tree) -> bool {
    meta::is_deleting(object)
        && !has_finalizers(object)
        && meta::int(object, GRACE) == 0
        && !kind.is_held(object)
}

/// How long the object stays after the request.
enum Grace {
    Seconds(i64),
    /// The kind has no grace period.
    Unknown,
    /// A grace period is running, and the request does not shorten it.
    Pending,
}

fn grace(kind: &dyn Kind, object: &Tree, options: &DeleteOptions) -> Grace {
    if kind.grace_period(object, None).is_none() {
        return Grace::Unknown;
    }
    if !meta::is_deleting(object) {
        let seconds = kind.grace_period(object, options.grace_period_seconds);
        return seconds.map_or(Grace::Unknown, Grace::Seconds);
    }
    let running = meta::find(object, GRACE).and_then(Tree::as_i64);
    match (running, options.grace_period_seconds) {
        (None, _) => Grace::Unknown,
        (Some(running), Some(requested)) if requested < running => Grace::Seconds(requested.max(0)),
        (Some(_), _) => Grace::Pending,
    }
}

/// An object held by something besides finalizers (a namespace by its content) is only marked; an update releases it.
fn begin_held(kind: &dyn Kind, object: &mut Tree, now: Timestamp) -> Step {
    if meta::is_deleting(object) {
        return Step::Pending;
    }
    meta::set(object, TIMESTAMP, meta::timestamp(now));
    kind.begin_deletion(object);
    Step::Mark
}

/// Sets the deletion timestamp to the end of the grace period, or moves it nearer.
fn mark(kind: &dyn Kind, object: &mut Tree, seconds: i64, now: Timestamp) {
    let running = SignedDuration::from_secs(meta::int(object, GRACE));
    let marked = meta::time(object, TIMESTAMP);
    let start = marked.map_or(now, |time| time.saturating_sub(running).unwrap_or(now));
    let end = start
        .saturating_add(SignedDuration::from_secs(seconds))
        .unwrap_or(Timestamp::MAX);
    meta::set(object, TIMESTAMP, meta::timestamp(end));
    meta::set(object, GRACE, seconds);
    if marked.is_none() {
        count_deletion(kind, object);
    }
}

/// Sets the deletion timestamp to now: the finalizers decide when the object is removed.
fn mark_now(kind: &dyn Kind, object: &mut Tree, now: Timestamp) {
    let marked = meta::time(object, TIMESTAMP);
    if marked.is_none_or(|time| time > now) {
        meta::set(object, TIMESTAMP, meta::timestamp(now));
    }
    meta::set(object, GRACE, 0);
    if marked.is_none() {
        count_deletion(kind, object);
    }
}

/// A deletion counts as a change of the desired state, so it increments the generation.
fn count_deletion(kind: &dyn Kind, object: &mut Tree) {
    kind.begin_deletion(object);
    let generation = meta::int(object, "generation");
    if generation > 0 {
        meta::set(object, "generation", generation + 1);
    }
}

/// Sets the finalizer of the propagation policy; without a policy the finalizers stay as they are.
fn set_finalizers(object: &mut Tree, propagation: Option<DeletionPropagation>) {
    let Some(propagation) = propagation else { return };
    let own = match propagation {
        DeletionPropagation::Orphan => Some(ORPHAN),
        DeletionPropagation::Foreground => Some(FOREGROUND),
        DeletionPropagation::Background => None,
    };
    let mut finalizers = finalizers(object).to_vec();
    finalizers.retain(|name| {
        let name = name.as_str();
        name == own || (name != Some(ORPHAN) && name != Some(FOREGROUND))
    });
    if let Some(own) = own.filter(|own| !finalizers.iter().any(|name| name.as_str() == Some(own))) {
        finalizers.push(own.into());
    }
    match finalizers.is_empty() {
        true => meta::clear(object, FINALIZERS),
        false => meta::set(object, FINALIZERS, finalizers),
    }
}

fn has_finalizers(object: &Tree) -> bool {
    !finalizers(object).is_empty()
}

fn finalizers(object: &Tree) -> &[Tree] {
    meta::find(object, FINALIZERS)
        .and_then(Tree::as_list)
        .unwrap_or_default()
}
