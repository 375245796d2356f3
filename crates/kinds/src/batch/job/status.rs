//! Validation of a Job's status.
//!
//! Users rely on the same guarantees whichever controller manages a Job: a finished Job stays finished, counts never
//! decrease, and index sets are well-formed. Each rule applies only if the fields it is about have changed, so that
//! an old violation does not block new reports.

use std::collections::BTreeSet;

use setpoint_schema::fields;
use setpoint_strategy::FieldRef;
use setpoint_values::indexes;

use super::spec;
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
        spec: job.at(fields::SPEC),
        status: job.at(fields::STATUS),
        old: old.at(fields::STATUS),
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
        condition::is_true(&self.status.at(fields::CONDITIONS), kind)
    }

    fn was_true(&self, kind: &str) -> bool {
        condition::is_true(&self.old.at(fields::CONDITIONS), kind)
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
        self.spec.at(fields::COMPLETION_MODE).str() == spec::INDEXED
    }

    fn forbid_conditions(&self, violation: &str) {
        self.status
            .at(fields::CONDITIONS)
            .errors()
            .invalid_omitting_value(violation);
    }

    fn validate_counts(&self) {
        for count in [
            fields::ACTIVE,
            fields::SUCCEEDED,
            fields::FAILED,
            fields::READY,
            fields::TERMINATING,
        ] {
            self.status.at(count).not_negative();
        }
        let uncounted = self.status.at(fields::UNCOUNTED_TERMINATED_PODS);
        let mut seen = BTreeSet::new();
        for uid in [fields::SUCCEEDED, fields::FAILED]
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
        let (start, end) = (
            self.status.at(fields::START_TIME),
            self.status.at(fields::COMPLETION_TIME),
        );
        if self.became_true(COMPLETE) || self.changed(fields::COMPLETION_TIME) {
            if end.is_set() && !self.is_true(COMPLETE) {
                end.invalid("cannot set completionTime when there is no Complete=True condition");
            }
            if !end.is_set() && self.is_true(COMPLETE) {
                end.required("completionTime is required for Complete jobs");
            }
        }
        let known = self.changed(fields::START_TIME) || self.changed(fields::COMPLETION_TIME);
        if known && start.is_set() && end.is_set() && end.time() < start.time() {
            end.invalid("must be equal to or after `startTime`");
        }
    }

    /// A terminal condition is set only after its target condition.
    fn validate_conditions(&self) {
        if (self.became_true(FAILED) || self.changed(fields::FAILED_INDEXES))
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
        let (active, start) = (self.status.at(fields::ACTIVE), self.status.at(fields::START_TIME));
        if (turned || self.changed(fields::ACTIVE)) && active.int() > 0 {
            active.invalid("active>0 is invalid for finished job");
        }
        let suspended_at_zero =
            self.spec.at(fields::SUSPEND).bool() && self.spec.at(fields::COMPLETIONS).find_int() == Some(0);
        if (turned || self.changed(fields::START_TIME)) && !suspended_at_zero && !start.is_set() {
            start.required("startTime is required for finished job");
        }
        let uncounted = self.status.at(fields::UNCOUNTED_TERMINATED_PODS);
        let some = uncounted.at(fields::FAILED).len() + uncounted.at(fields::SUCCEEDED).len() > 0;
        if (turned || self.changed(fields::UNCOUNTED_TERMINATED_PODS)) && some {
            uncounted.invalid("must be empty for finished job");
        }
    }

    fn validate_indexes(&self) {
        let (completed, failed) = (
            self.status.at(fields::COMPLETED_INDEXES),
            self.status.at(fields::FAILED_INDEXES),
        );
        let (completed_changed, failed_changed) = (
            self.changed(fields::COMPLETED_INDEXES),
            self.changed(fields::FAILED_INDEXES),
        );
        let completions = self.spec.at(fields::COMPLETIONS).find_int();
        let per_index = self.spec.at(fields::BACKOFF_LIMIT_PER_INDEX).is_set();
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
        let (terminating, ready) = (self.status.at(fields::TERMINATING), self.status.at(fields::READY));
        if (self.became_finished() || self.changed(fields::TERMINATING))
            && terminating.int() > 0
            && self.is_finished()
        {
            terminating.invalid("terminating>0 is invalid for finished job");
        }
        if (self.changed(fields::READY) || self.changed(fields::ACTIVE))
            && ready.is_set()
            && ready.int() > self.status.at(fields::ACTIVE).int()
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
        if self.spec.at(fields::SUCCESS_POLICY).is_set() && !met && self.is_true(COMPLETE) {
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
        if less(fields::FAILED) {
            self.status
                .at(fields::FAILED)
                .invalid("cannot decrease the failed counter");
        }
        // Scaling down an indexed Job may reduce the number of successes.
        let may_shrink = self.is_indexed()
            && self
                .spec
                .at(fields::COMPLETIONS)
                .is_same(&self.spec.at(fields::PARALLELISM));
        if less(fields::SUCCEEDED) && !may_shrink {
            self.status
                .at(fields::SUCCEEDED)
                .invalid("cannot decrease the succeeded counter");
        }
    }

    fn validate_same_times(&self) {
        let (start, end) = (
            self.status.at(fields::START_TIME),
            self.status.at(fields::COMPLETION_TIME),
        );
        if end.is_set() && self.old.at(fields::COMPLETION_TIME).is_set() {
            end.immutable(&self.old.at(fields::COMPLETION_TIME));
        }
        let resuming = self.was_true(SUSPENDED)
            && condition::has(&self.status.at(fields::CONDITIONS), SUSPENDED, "False");
        let fixed = self.old.at(fields::START_TIME).is_set() && !self.spec.at(fields::SUSPEND).bool();
        if self.changed(fields::START_TIME) && !resuming && fixed {
            start.invalid("field is immutable for unsuspended job once set");
        }
    }
}
