//! Status conditions of an object (`metav1.Condition`).
//!
//! A condition's transition time is the time its status changed, not the time it was last written: it shows for how long
//! the object has been ready.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// The condition of this type.
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Whether the condition of this type exists and is true.
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    find(conditions, type_).is_some_and(|condition| condition.status == "True")
}

/// A condition with these fields; [`set`] adds the transition time.
pub fn condition(type_: &str, status: bool, reason: &str, message: &str) -> Condition {
    Condition {
        type_: type_.to_owned(),
        status: if status { "True" } else { "False" }.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_transition_time: Time(Timestamp::UNIX_EPOCH),
        observed_generation: None,
    }
}

/// Adds a condition or replaces the one of its type; true if anything changed and the status must be written.
///
/// ```
/// use jiff::Timestamp;
/// use setpoint_runtime::conditions::{self, condition};
///
/// let (mut conditions, now) = (Vec::new(), Timestamp::UNIX_EPOCH);
/// let starting = condition("Ready", false, "Starting", "1 of 3 pods");
/// assert!(conditions::set(&mut conditions, starting.clone(), now));
/// assert!(!conditions::set(&mut conditions, starting, now), "nothing new, nothing to write");
/// conditions::set(&mut conditions, condition("Ready", true, "Up", "3 of 3 pods"), now);
/// assert!(conditions::is_true(&conditions, "Ready"));
/// ```
pub fn set(conditions: &mut Vec<Condition>, mut new: Condition, now: Timestamp) -> bool {
    let Some(own) = conditions.iter_mut().find(|own| own.type_ == new.type_) else {
        new.last_transition_time = Time(now);
        conditions.push(new);
        return true;
    };
    new.last_transition_time = match own.status == new.status {
        true => own.last_transition_time.clone(),
        false => Time(now),
    };
    let changed = *own != new;
    *own = new;
    changed
}

/// Removes the condition of this type; true if there was one.
pub fn remove(conditions: &mut Vec<Condition>, type_: &str) -> bool {
    let before = conditions.len();
    conditions.retain(|condition| condition.type_ != type_);
    conditions.len() != before
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// Sets `Ready` so at these seconds: whether the last was a change, and since when it has its status.
    #[track_caller]
    fn check(steps: &[(i64, bool, &str)], expected: (bool, i64)) {
        let (mut conditions, mut changed) = (Vec::new(), false);
        for (second, status, reason) in steps {
            changed = set(
                &mut conditions,
                condition("Ready", *status, reason, ""),
                at(*second),
            );
        }
        let since = conditions[0].last_transition_time.0.as_second();
        assert_eq!((changed, since, conditions.len()), (expected.0, expected.1, 1));
    }

    #[test]
    fn the_time_of_a_condition_is_when_its_status_changed() {
        check(&[(5, true, "Up")], (true, 5));
        check(&[(5, true, "Up"), (9, true, "Up")], (false, 5));
        check(&[(5, true, "Up"), (9, true, "StillUp")], (true, 5));
        check(&[(5, true, "Up"), (9, false, "Down")], (true, 9));
    }

    #[test]
    fn a_condition_is_found_and_removed_by_its_type() {
        let mut conditions = vec![
            condition("Ready", true, "Up", ""),
            condition("Old", false, "No", ""),
        ];
        assert!(
            is_true(&conditions, "Ready") && !is_true(&conditions, "Old") && !is_true(&conditions, "None")
        );
        assert!(remove(&mut conditions, "Ready") && !remove(&mut conditions, "Ready"));
        assert_eq!(conditions.len(), 1);
    }
}
