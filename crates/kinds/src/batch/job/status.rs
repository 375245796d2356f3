//! Validation of a Job's status.
//!
//! Users rely on the same guarantees whichever controller manages a Job: a finished Job stays finished, counts never
//! decrease, and index sets are well-formed. Each rule applies only if the fields it is about have changed, so that
//! an old violation does not block new reports.

use std::collections::BTreeSet;

use super::{indexes, spec};
use crate::field::FieldRef;
use crate::shared::condition;

const COMPLETE: &str = "Complete";
const FAILED: &str = "Failed";
const FAILURE_TARGET: &str = "FailureTarget";
const SUCCESS_CRITERIA_MET: &str = "SuccessCriteriaMet";
const SUSPENDED: &str = "Suspended";

/// The new and the old status of a Job.
struct StatusUpdate<'a> {
    spec: FieldRef<'a>,
    status: FieldRef<'a>,
    old: FieldRef<'a>,
}

/// Validates a status by itself and against the previous one.
pub(super) fn validate(job: &FieldRef<'_>, old: &FieldRef<'_>) {
    let report = StatusUpdate {
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

impl StatusUpdate<'_> {
    fn is_true(&self, kind: &str) -> bool {
        condition::is_true(&self.status.at("conditions"), kind)
    }

    fn was_true(&self, kind: &str) -> bool {
        condition::is_true(&self.old.at("conditions"), kind)
    }

    fn became_true(&self, kind: &str) -> bool {
        self.is_true(kind) != self.was_true(kind)
    }

    fn changed(&self, field: &str) -> bool {
        !self.status.at(field).is_same(&self.old.at(field))
    }

    fn is_finished(&self) -> bool {
        self.is_true(COMPLETE) || self.is_true(FAILED)
    }

    fn became_finished(&self) -> bool {
        self.is_finished() != (self.was_true(COMPLETE) || self.was_true(FAILED))
    }

    fn is_indexed(&self) -> bool {
        self.spec.at("completionMode").str() == spec::INDEXED
    }

    fn forbid_conditions(&self, violation: &str) {
        self.status
            .at("conditions")
            .errors()
            .invalid_omitting_value(violation);
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

    /// A Job is not both complete and failed.
    fn validate_ends(&self) {
        let complete = self.is_true(COMPLETE);
        if (self.became_true(COMPLETE) || self.became_true(FAILED)) && complete && self.is_true(FAILED) {
            self.forbid_conditions("cannot set Complete=True and Failed=true conditions");
        }
        if (self.became_true(COMPLETE) || self.became_true(FAILURE_TARGET))
            && complete
            && self.is_true(FAILURE_TARGET)
        {
            self.forbid_conditions("cannot set Complete=True and FailureTarget=true conditions");
        }
    }

    fn validate_times(&self) {
        let (start, end) = (self.status.at("startTime"), self.status.at("completionTime"));
        if self.became_true(COMPLETE) || self.changed("completionTime") {
            if end.is_set() && !self.is_true(COMPLETE) {
                end.invalid("cannot set completionTime when there is no Complete=True condition");
            }
            if !end.is_set() && self.is_true(COMPLETE) {
                end.required("completionTime is required for Complete jobs");
            }
        }
        let known = self.changed("startTime") || self.changed("completionTime");
        if known && start.is_set() && end.is_set() && end.time() < start.time() {
            end.invalid("must be equal to or after `startTime`");
        }
    }

    /// A terminal condition is set only after its target condition.
    fn validate_conditions(&self) {
        if (self.became_true(FAILED) || self.changed("failedIndexes"))
            && self.is_true(FAILED)
            && !self.is_true(FAILURE_TARGET)
        {
            self.forbid_conditions(
                "cannot set Failed=True condition without the FailureTarget=true condition",
            );
        }
        if (self.became_true(COMPLETE) || self.became_true(SUCCESS_CRITERIA_MET))
            && self.is_true(COMPLETE)
            && !self.is_true(SUCCESS_CRITERIA_MET)
        {
            self.forbid_conditions(
                "cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
            );
        }
    }

    fn validate_finished(&self) {
        if !self.is_finished() {
            return;
        }
        let turned = self.became_finished();
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
        if (self.became_finished() || self.changed("terminating"))
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
        let met = self.is_true(SUCCESS_CRITERIA_MET);
        if met && self.is_true(FAILED) {
            self.forbid_conditions("cannot set SuccessCriteriaMet=True and Failed=true conditions");
        }
        if met && self.is_true(FAILURE_TARGET) {
            self.forbid_conditions("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions");
        }
        if self.spec.at("successPolicy").is_set() && !met && self.is_true(COMPLETE) {
            self.forbid_conditions(
                "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True",
            );
        }
    }

    fn validate_following(&self) {
        for end in [FAILED, COMPLETE, FAILURE_TARGET] {
            if self.was_true(end) && !self.is_true(end) {
                self.forbid_conditions(&format!("cannot disable the terminal {end}=True condition"));
            }
        }
        self.validate_no_less();
        self.validate_same_times();
        if self.was_true(SUCCESS_CRITERIA_MET) && !self.is_true(SUCCESS_CRITERIA_MET) {
            self.forbid_conditions("cannot disable the SuccessCriteriaMet=True condition");
        }
        if self.was_true(COMPLETE)
            && !self.was_true(SUCCESS_CRITERIA_MET)
            && self.is_true(SUCCESS_CRITERIA_MET)
        {
            self.forbid_conditions(
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
        // Scaling down an indexed Job may reduce the number of successes.
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
            self.was_true(SUSPENDED) && condition::has(&self.status.at("conditions"), SUSPENDED, "False");
        let fixed = self.old.at("startTime").is_set() && !self.spec.at("suspend").bool();
        if self.changed("startTime") && !resuming && fixed {
            start.invalid("field is immutable for unsuspended job once set");
        }
    }
}
