//! How an object goes: at once, after its grace, or when its finalizers are done.

use jiff::{SignedDuration, Timestamp};

use setpoint_api::options::{DeleteOptions, Propagation};
use setpoint_kinds::{Deletion, Kind, meta};
use setpoint_schema::Tree;

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";

const TIMESTAMP: &str = "deletionTimestamp";
const GRACE: &str = "deletionGracePeriodSeconds";
const FINALIZERS: &str = "finalizers";

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

/// Decides on the next step of a deletion, and marks the object accordingly.
///
/// For example, a bound pod: the first request marks it with a grace of 30 seconds, a second one without options is
/// pending, one with a grace of 5 marks it again, and the node agent's with a grace of 0 removes it.
pub(crate) fn begin(kind: &dyn Kind, object: &mut Tree, options: &DeleteOptions, now: Timestamp) -> Step {
    let rules = kind.deletion();
    if rules.is_held(object) {
        return begin_held(rules, object, now);
    }
    let grace = match grace(rules, object, options) {
        Grace::Pending => return Step::Pending,
        Grace::Unknown => None,
        Grace::Seconds(seconds) => Some(seconds),
    };
    if kind.about().rules.collects_dependents {
        let unsaid = kind
            .about()
            .rules
            .orphans_dependents
            .then_some(Propagation::Orphan);
        set_finalizers(object, options.propagation.or(unsaid));
    }
    let finalizers = has_finalizers(object);
    if let Some(seconds) = grace {
        mark(rules, object, seconds, now);
    } else if finalizers {
        mark_now(rules, object, now);
    }
    match finalizers || grace.is_some_and(|seconds| seconds > 0) {
        true => Step::Mark,
        false => Step::Remove,
    }
}

/// Whether nothing holds an object that is going.
pub(crate) fn is_over(kind: &dyn Kind, object: &Tree) -> bool {
    meta::is_deleting(object)
        && !has_finalizers(object)
        && meta::int(object, GRACE) == 0
        && !kind.deletion().is_held(object)
}

/// How long the object stays.
enum Grace {
    Seconds(i64),
    /// The kind knows no grace.
    Unknown,
    /// It runs already, and is not made shorter.
    Pending,
}

fn grace(rules: &dyn Deletion, object: &Tree, options: &DeleteOptions) -> Grace {
    if rules.grace(object, None).is_none() {
        return Grace::Unknown;
    }
    if !meta::is_deleting(object) {
        let seconds = rules.grace(object, options.grace_period_seconds);
        return seconds.map_or(Grace::Unknown, Grace::Seconds);
    }
    let running = meta::find(object, GRACE).and_then(Tree::as_i64);
    match (running, options.grace_period_seconds) {
        (None, _) => Grace::Unknown,
        (Some(running), Some(asked)) if asked < running => Grace::Seconds(asked.max(0)),
        (Some(_), _) => Grace::Pending,
    }
}

/// An object held by something besides finalizers is only marked; whatever holds it lets go by an update.
fn begin_held(rules: &dyn Deletion, object: &mut Tree, now: Timestamp) -> Step {
    if meta::is_deleting(object) {
        return Step::Pending;
    }
    meta::set(object, TIMESTAMP, meta::moment(now));
    rules.begin(object);
    Step::Mark
}

/// Marks for a time to come, or brings a mark nearer.
fn mark(rules: &dyn Deletion, object: &mut Tree, seconds: i64, now: Timestamp) {
    let running = SignedDuration::from_secs(meta::int(object, GRACE));
    let marked = meta::time(object, TIMESTAMP);
    let start = marked.map_or(now, |time| time.saturating_sub(running).unwrap_or(now));
    let end = start
        .saturating_add(SignedDuration::from_secs(seconds))
        .unwrap_or(Timestamp::MAX);
    meta::set(object, TIMESTAMP, meta::moment(end));
    meta::set(object, GRACE, seconds);
    if marked.is_none() {
        count_deletion(rules, object);
    }
}

/// Marks for now: the finalizers decide when it goes.
fn mark_now(rules: &dyn Deletion, object: &mut Tree, now: Timestamp) {
    let marked = meta::time(object, TIMESTAMP);
    if marked.is_none_or(|time| time > now) {
        meta::set(object, TIMESTAMP, meta::moment(now));
    }
    meta::set(object, GRACE, 0);
    if marked.is_none() {
        count_deletion(rules, object);
    }
}

/// That an object is to go is a change of what it asks for.
fn count_deletion(rules: &dyn Deletion, object: &mut Tree) {
    rules.begin(object);
    let generation = meta::int(object, "generation");
    if generation > 0 {
        meta::set(object, "generation", generation + 1);
    }
}

/// Dependents are waited for, let go, or left to the background; without a word it stays as it is.
fn set_finalizers(object: &mut Tree, propagation: Option<Propagation>) {
    let Some(propagation) = propagation else { return };
    let own = match propagation {
        Propagation::Orphan => Some(ORPHAN),
        Propagation::Foreground => Some(FOREGROUND),
        Propagation::Background => None,
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
