//! How an object goes: at once, after its grace, or when its finalizers are done.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use setpoint_api::options::{DeleteOptions, Propagation};
use setpoint_kinds::{Draft, Rules};

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";

/// What a deletion comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing holds the object: it is removed.
    Remove,
    /// It is marked as going, and stays for now.
    Mark,
    /// It is going already, and this request changes nothing.
    Pending,
}

/// Decides on the next step of a deletion, and marks the draft accordingly.
///
/// For example, a bound pod: the first request marks it with a grace of 30 seconds, a second one without options is
/// pending, one with a grace of 5 marks it again, and the node agent's with a grace of 0 removes it.
pub(crate) fn begin(draft: &mut dyn Draft, options: &DeleteOptions, rules: &Rules, now: Timestamp) -> Step {
    if draft.is_held() {
        return begin_held(draft, now);
    }
    let grace = match grace(draft, options) {
        Grace::Pending => return Step::Pending,
        Grace::Unknown => None,
        Grace::Seconds(seconds) => Some(seconds),
    };
    if rules.collects_dependents {
        set_finalizers(draft.metadata_mut(), options.propagation);
    }
    let finalizers = has_finalizers(draft.metadata());
    if let Some(seconds) = grace {
        mark(draft, seconds, now);
    } else if finalizers {
        mark_now(draft, now);
    }
    match finalizers || grace.is_some_and(|seconds| seconds > 0) {
        true => Step::Mark,
        false => Step::Remove,
    }
}

/// Whether nothing holds an object that is going.
pub(crate) fn is_over(draft: &dyn Draft) -> bool {
    let meta = draft.metadata();
    meta.deletion_timestamp.is_some()
        && !has_finalizers(meta)
        && meta.deletion_grace_period_seconds.unwrap_or_default() == 0
        && !draft.is_held()
}

/// How long the object stays.
enum Grace {
    Seconds(i64),
    /// The kind knows no grace.
    Unknown,
    /// It runs already, and is not made shorter.
    Pending,
}

fn grace(draft: &dyn Draft, options: &DeleteOptions) -> Grace {
    let meta = draft.metadata();
    if draft.graceful_deletion(None).is_none() {
        return Grace::Unknown;
    }
    let (Some(_), running) = (&meta.deletion_timestamp, meta.deletion_grace_period_seconds) else {
        let seconds = draft.graceful_deletion(options.grace_period_seconds);
        return seconds.map_or(Grace::Unknown, Grace::Seconds);
    };
    match (running, options.grace_period_seconds) {
        (None, _) => Grace::Unknown,
        (Some(running), Some(asked)) if asked < running => Grace::Seconds(asked.max(0)),
        (Some(_), _) => Grace::Pending,
    }
}

/// An object held by something besides finalizers is only marked; whatever holds it lets go by an update.
fn begin_held(draft: &mut dyn Draft, now: Timestamp) -> Step {
    if draft.metadata().deletion_timestamp.is_some() {
        return Step::Pending;
    }
    draft.metadata_mut().deletion_timestamp = Some(Time(now));
    draft.begin_deletion();
    Step::Mark
}

/// Marks for a time to come, or brings a mark nearer.
fn mark(draft: &mut dyn Draft, seconds: i64, now: Timestamp) {
    let meta = draft.metadata_mut();
    let running = meta.deletion_grace_period_seconds.unwrap_or_default();
    let start = match &meta.deletion_timestamp {
        Some(time) => time
            .0
            .saturating_sub(SignedDuration::from_secs(running))
            .unwrap_or(now),
        None => now,
    };
    let first = meta.deletion_timestamp.is_none();
    let end = start
        .saturating_add(SignedDuration::from_secs(seconds))
        .unwrap_or(Timestamp::MAX);
    meta.deletion_timestamp = Some(Time(end));
    meta.deletion_grace_period_seconds = Some(seconds);
    if first {
        count_deletion(draft);
    }
}

/// Marks for now: the finalizers decide when it goes.
fn mark_now(draft: &mut dyn Draft, now: Timestamp) {
    let meta = draft.metadata_mut();
    let first = meta.deletion_timestamp.is_none();
    if meta.deletion_timestamp.as_ref().is_none_or(|time| time.0 > now) {
        meta.deletion_timestamp = Some(Time(now));
    }
    meta.deletion_grace_period_seconds = Some(0);
    if first {
        count_deletion(draft);
    }
}

/// That an object is to go is a change of what it asks for.
fn count_deletion(draft: &mut dyn Draft) {
    draft.begin_deletion();
    let generation = &mut draft.metadata_mut().generation;
    if let Some(generation) = generation.as_mut().filter(|generation| **generation > 0) {
        *generation += 1;
    }
}

/// Dependents are waited for, let go, or left to the background; without a word it stays as it is.
fn set_finalizers(meta: &mut ObjectMeta, propagation: Option<Propagation>) {
    let Some(propagation) = propagation else { return };
    let finalizers = meta.finalizers.get_or_insert_default();
    let own = match propagation {
        Propagation::Orphan => Some(ORPHAN),
        Propagation::Foreground => Some(FOREGROUND),
        Propagation::Background => None,
    };
    finalizers.retain(|name| Some(name.as_str()) == own || (name != ORPHAN && name != FOREGROUND));
    if let Some(own) = own.filter(|own| !finalizers.iter().any(|name| name == own)) {
        finalizers.push(own.to_owned());
    }
    if finalizers.is_empty() {
        meta.finalizers = None;
    }
}

fn has_finalizers(meta: &ObjectMeta) -> bool {
    meta.finalizers
        .as_ref()
        .is_some_and(|finalizers| !finalizers.is_empty())
}
