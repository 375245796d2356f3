//! The conditions of a Job.

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{JobCondition, JobStatus};

use super::plan::SuspendChange;
use crate::api_time;

pub(crate) const COMPLETE: &str = "Complete";
pub(crate) const FAILED: &str = "Failed";
pub(super) const SUCCESS_CRITERIA_MET: &str = "SuccessCriteriaMet";
pub(super) const FAILURE_TARGET: &str = "FailureTarget";
const SUSPENDED: &str = "Suspended";

/// Updates the Suspended condition, and returns the change if there is one.
pub(super) fn suspend_change(
    now: Timestamp,
    status: &mut JobStatus,
    is_suspended: bool,
) -> Option<SuspendChange> {
    let was_suspended = holds(status, SUSPENDED);
    if is_suspended == was_suspended {
        return None;
    }
    let (value, reason, message) = match is_suspended {
        true => ("True", "JobSuspended", "Job suspended"),
        false => ("False", "JobResumed", "Job resumed"),
    };
    let mut new = condition(now, SUSPENDED, reason, message);
    value.clone_into(&mut new.status);
    let conditions = status.conditions.get_or_insert_default();
    match conditions.iter_mut().find(|own| own.type_ == SUSPENDED) {
        Some(own) => *own = new,
        None => conditions.push(new),
    }
    status.start_time = (!is_suspended).then(|| api_time::from_timestamp(now));
    Some(if is_suspended {
        SuspendChange::Suspended
    } else {
        SuspendChange::Resumed
    })
}

/// Adds the target condition, and returns the terminal condition that will follow.
pub(super) fn end(
    now: Timestamp,
    status: &mut JobStatus,
    target: Option<JobCondition>,
) -> Option<JobCondition> {
    let target = target?;
    let (reason, message) = (
        target.reason.clone().unwrap_or_default(),
        target.message.clone().unwrap_or_default(),
    );
    let type_ = if target.type_ == SUCCESS_CRITERIA_MET {
        COMPLETE
    } else {
        FAILED
    };
    if !holds(status, &target.type_) {
        status.conditions.get_or_insert_default().push(target);
    }
    Some(condition(now, type_, &reason, &message))
}

pub(super) fn holds(status: &JobStatus, type_: &str) -> bool {
    find(status, type_).is_some()
}

pub(super) fn find<'a>(status: &'a JobStatus, type_: &str) -> Option<&'a JobCondition> {
    let mut conditions = status.conditions.iter().flatten();
    conditions.find(|own| own.type_ == type_ && own.status == "True")
}

pub(super) fn condition(now: Timestamp, type_: &str, reason: &str, message: &str) -> JobCondition {
    JobCondition {
        type_: type_.to_owned(),
        status: "True".to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_probe_time: Some(api_time::from_timestamp(now)),
        last_transition_time: Some(api_time::from_timestamp(now)),
    }
}
