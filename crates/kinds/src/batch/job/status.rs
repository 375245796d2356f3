//! What may be reported of a Job.
//!
//! Whoever takes care of a Job, Kubernetes' own controller or another, its users rely on the same facts: a Job that is
//! over stays over, counts do not go back, and the indexes make sense. A rule is only applied where what it is about has
//! changed, so that an old mistake does not keep new facts out.

use std::collections::BTreeSet;

use super::{indexes, spec};
use crate::at::At;
use crate::shared::condition;

const COMPLETE: &str = "Complete";
const FAILED: &str = "Failed";
const FAILURE_TARGET: &str = "FailureTarget";
const SUCCESS_CRITERIA_MET: &str = "SuccessCriteriaMet";
const SUSPENDED: &str = "Suspended";

/// A Job's status beside the one before it.
struct Report<'a> {
    spec: At<'a>,
    status: At<'a>,
    old: At<'a>,
}

/// Reports what is wrong with a status, and what may not follow from the one before.
pub(super) fn validate(job: &At<'_>, old: &At<'_>) {
    let report = Report {
        spec: job.at("spec"),
        status: job.at("status"),
        old: old.at("status"),
    };
    report.validate_counts();
    report.validate_ends();
    report.validate_times();
    report.validate_conditions();
    report.validate_finished();
    report.validate_indexes();
    report.validate_pods();
    report.validate_success();
    report.validate_following();
}

impl Report<'_> {
    fn is(&self, kind: &str) -> bool {
        condition::is_true(&self.status.at("conditions"), kind)
    }

    fn was(&self, kind: &str) -> bool {
        condition::is_true(&self.old.at("conditions"), kind)
    }

    fn turned(&self, kind: &str) -> bool {
        self.is(kind) != self.was(kind)
    }

    fn changed(&self, field: &str) -> bool {
        !self.status.at(field).is_same(&self.old.at(field))
    }

    fn is_finished(&self) -> bool {
        self.is(COMPLETE) || self.is(FAILED)
    }

    fn turned_finished(&self) -> bool {
        self.is_finished() != (self.was(COMPLETE) || self.was(FAILED))
    }

    fn is_indexed(&self) -> bool {
        self.spec.at("completionMode").str() == spec::INDEXED
    }

    fn refuse_conditions(&self, complaint: &str) {
        self.status.at("conditions").errors().invalid_whole(complaint);
    }

    fn validate_counts(&self) {
        for count in ["active", "succeeded", "failed", "ready", "terminating"] {
            self.status.at(count).not_negative();
        }
        let uncounted = self.status.at("uncountedTerminatedPods");
        let mut seen = BTreeSet::new();
        for uid in ["succeeded", "failed"]
            .iter()
            .flat_map(|list| uncounted.at(list).items())
        {
            if uid.is_empty() {
                uid.invalid("must not be empty");
            } else if !seen.insert(uid.str()) {
                uid.duplicate();
            }
        }
    }

    /// A Job ends one way.
    fn validate_ends(&self) {
        let complete = self.is(COMPLETE);
        if (self.turned(COMPLETE) || self.turned(FAILED)) && complete && self.is(FAILED) {
            self.refuse_conditions("cannot set Complete=True and Failed=true conditions");
        }
        if (self.turned(COMPLETE) || self.turned(FAILURE_TARGET)) && complete && self.is(FAILURE_TARGET) {
            self.refuse_conditions("cannot set Complete=True and FailureTarget=true conditions");
        }
    }

    fn validate_times(&self) {
        let (start, end) = (self.status.at("startTime"), self.status.at("completionTime"));
        if self.turned(COMPLETE) || self.changed("completionTime") {
            if end.is_set() && !self.is(COMPLETE) {
                end.invalid("cannot set completionTime when there is no Complete=True condition");
            }
            if !end.is_set() && self.is(COMPLETE) {
                end.required("completionTime is required for Complete jobs");
            }
        }
        let known = self.changed("startTime") || self.changed("completionTime");
        if known && start.is_set() && end.is_set() && end.time() < start.time() {
            end.invalid("must be equal to or after `startTime`");
        }
    }

    /// What ends a Job is announced before.
    fn validate_conditions(&self) {
        if (self.turned(FAILED) || self.changed("failedIndexes"))
            && self.is(FAILED)
            && !self.is(FAILURE_TARGET)
        {
            self.refuse_conditions(
                "cannot set Failed=True condition without the FailureTarget=true condition",
            );
        }
        if (self.turned(COMPLETE) || self.turned(SUCCESS_CRITERIA_MET))
            && self.is(COMPLETE)
            && !self.is(SUCCESS_CRITERIA_MET)
        {
            self.refuse_conditions(
                "cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
            );
        }
    }

    fn validate_finished(&self) {
        if !self.is_finished() {
            return;
        }
        let turned = self.turned_finished();
        let (active, start) = (self.status.at("active"), self.status.at("startTime"));
        if (turned || self.changed("active")) && active.int() > 0 {
            active.invalid("active>0 is invalid for finished job");
        }
        let suspended_at_zero =
            self.spec.at("suspend").bool() && self.spec.at("completions").find_int() == Some(0);
        if (turned || self.changed("startTime")) && !suspended_at_zero && !start.is_set() {
            start.required("startTime is required for finished job");
        }
        let uncounted = self.status.at("uncountedTerminatedPods");
        let some = uncounted.at("failed").len() + uncounted.at("succeeded").len() > 0;
        if (turned || self.changed("uncountedTerminatedPods")) && some {
            uncounted.invalid("must be empty for finished job");
        }
    }

    fn validate_indexes(&self) {
        let (completed, failed) = (
            self.status.at("completedIndexes"),
            self.status.at("failedIndexes"),
        );
        let (completed_changed, failed_changed) =
            (self.changed("completedIndexes"), self.changed("failedIndexes"));
        let completions = self.spec.at("completions").find_int();
        let per_index = self.spec.at("backoffLimitPerIndex").is_set();
        if let Some(completions) = completions {
            if completed_changed && let Err(why) = indexes::count(completed.str(), completions) {
                completed.invalid(&format!("error parsing completedIndexes: {why}"));
            }
            if failed_changed
                && per_index
                && let Err(why) = indexes::count(failed.str(), completions)
            {
                failed.invalid(&format!("error parsing failedIndexes: {why}"));
            }
        }
        if completed_changed && !completed.is_empty() && !self.is_indexed() {
            completed.invalid("cannot set non-empty completedIndexes when non-indexed completion mode");
        }
        if failed_changed && !per_index && failed.is_set() {
            failed.invalid("cannot set non-null failedIndexes when backoffLimitPerIndex is null");
        }
        let common = completions
            .filter(|_| completed_changed || failed_changed)
            .and_then(|completions| indexes::overlap(completed.str(), failed.str(), completions));
        if let Some(index) = common {
            failed.invalid(&format!(
                "failedIndexes and completedIndexes overlap at index: {index}"
            ));
        }
    }

    fn validate_pods(&self) {
        let (terminating, ready) = (self.status.at("terminating"), self.status.at("ready"));
        if (self.turned_finished() || self.changed("terminating"))
            && terminating.int() > 0
            && self.is_finished()
        {
            terminating.invalid("terminating>0 is invalid for finished job");
        }
        if (self.changed("ready") || self.changed("active"))
            && ready.is_set()
            && ready.int() > self.status.at("active").int()
        {
            ready.invalid("cannot set more ready pods than active");
        }
    }

    fn validate_success(&self) {
        let met = self.is(SUCCESS_CRITERIA_MET);
        if met && self.is(FAILED) {
            self.refuse_conditions("cannot set SuccessCriteriaMet=True and Failed=true conditions");
        }
        if met && self.is(FAILURE_TARGET) {
            self.refuse_conditions("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions");
        }
        if self.spec.at("successPolicy").is_set() && !met && self.is(COMPLETE) {
            self.refuse_conditions(
                "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True",
            );
        }
    }

    fn validate_following(&self) {
        for end in [FAILED, COMPLETE, FAILURE_TARGET] {
            if self.was(end) && !self.is(end) {
                self.refuse_conditions(&format!("cannot disable the terminal {end}=True condition"));
            }
        }
        self.validate_no_less();
        self.validate_same_times();
        if self.was(SUCCESS_CRITERIA_MET) && !self.is(SUCCESS_CRITERIA_MET) {
            self.refuse_conditions("cannot disable the SuccessCriteriaMet=True condition");
        }
        if self.was(COMPLETE) && !self.was(SUCCESS_CRITERIA_MET) && self.is(SUCCESS_CRITERIA_MET) {
            self.refuse_conditions(
                "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions",
            );
        }
    }

    fn validate_no_less(&self) {
        let less = |count: &str| self.status.at(count).int() < self.old.at(count).int();
        if less("failed") {
            self.status
                .at("failed")
                .invalid("cannot decrease the failed counter");
        }
        // A Job that may shrink as a whole may have fewer successes afterwards.
        let may_shrink =
            self.is_indexed() && self.spec.at("completions").is_same(&self.spec.at("parallelism"));
        if less("succeeded") && !may_shrink {
            self.status
                .at("succeeded")
                .invalid("cannot decrease the succeeded counter");
        }
    }

    fn validate_same_times(&self) {
        let (start, end) = (self.status.at("startTime"), self.status.at("completionTime"));
        if end.is_set() && self.old.at("completionTime").is_set() {
            end.immutable(&self.old.at("completionTime"));
        }
        let resuming =
            self.was(SUSPENDED) && condition::has(&self.status.at("conditions"), SUSPENDED, "False");
        let fixed = self.old.at("startTime").is_set() && !self.spec.at("suspend").bool();
        if self.changed("startTime") && !resuming && fixed {
            start.invalid("field is immutable for unsuspended job once set");
        }
    }
}
