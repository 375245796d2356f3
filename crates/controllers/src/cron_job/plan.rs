//! Decides what to do about a CronJob. Pure.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{CronJob, CronJobStatus, Job};
use k8s_openapi::api::core::v1::ObjectReference;
use setpoint_runtime::EventType;
use setpoint_values::cron::{self, Schedule};

use crate::api_time;

/// Beyond this many missed times an event warns that something is wrong.
const TOO_MANY_MISSED: usize = 100;

/// What to do about a CronJob now.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) status: CronJobStatus,
    /// The events to record, in order.
    pub(crate) events: Vec<(EventType, &'static str, String)>,
    /// Jobs to delete: replaced ones, and finished ones beyond the history limit.
    pub(crate) delete: Vec<Job>,
    /// The scheduled time for which a Job is to start now.
    pub(crate) start: Option<Timestamp>,
    /// How long until the next scheduled time.
    pub(crate) next: Option<Duration>,
}

/// Plans for a CronJob that controls these Jobs.
pub(crate) fn plan(now: Timestamp, cron: &CronJob, jobs: &[Job]) -> Plan {
    let mut plan = Plan {
        status: cron.status.clone().unwrap_or_default(),
        delete: excess(cron, jobs),
        ..Plan::default()
    };
    follow(&mut plan, jobs);
    let spec = &cron.spec;
    if cron.metadata.deletion_timestamp.is_some() {
        return plan;
    }
    let name = spec.time_zone.as_deref().unwrap_or_default();
    let Ok(zone) = cron::zone(name) else {
        plan.warn(
            "UnknownTimeZone",
            format!("invalid timeZone: {name:?}: unknown time zone {name}"),
        );
        return plan;
    };
    if spec.suspend == Some(true) {
        return plan;
    }
    if spec.schedule.contains("TZ") {
        plan.warn("UnsupportedSchedule", unsupported_zone(&spec.schedule));
    }
    match Schedule::parse(&spec.schedule, zone) {
        Ok(schedule) => start(&mut plan, now, cron, &schedule, jobs),
        Err(why) => plan.warn(
            "UnparseableSchedule",
            format!("unparseable schedule: {:?} : {why}", spec.schedule),
        ),
    }
    plan
}

fn unsupported_zone(schedule: &str) -> String {
    let page = "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/";
    format!(
        "CRON_TZ or TZ used in schedule {schedule:?} is not officially supported, see {page} for more details"
    )
}

/// The name of the Job for this time.
pub(crate) fn job_name(cron: &CronJob, time: Timestamp) -> String {
    let name = cron.metadata.name.as_deref().unwrap_or_default();
    format!("{name}-{}", time.as_second() / 60)
}

/// The condition type with which the Job finished; `None` if it has not.
pub(crate) fn end(job: &Job) -> Option<&str> {
    let conditions = job
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    let mut ends =
        conditions.filter(|one| matches!(one.type_.as_str(), "Complete" | "Failed") && one.status == "True");
    ends.next().map(|one| one.type_.as_str())
}

/// Updates the list of active Jobs from the Jobs that exist.
fn follow(plan: &mut Plan, jobs: &[Job]) {
    let mut active = plan.status.active.take().unwrap_or_default();
    for job in jobs {
        let at = active.iter().position(|own| own.uid == job.metadata.uid);
        let name = job.metadata.name.as_deref().unwrap_or_default();
        match (at, end(job)) {
            (None, None) => plan.warn(
                "UnexpectedJob",
                format!("Saw a job that the controller did not create or forgot: {name}"),
            ),
            (Some(at), Some(end)) => {
                active.remove(at);
                plan.normal(
                    "SawCompletedJob",
                    format!("Saw completed job: {name}, condition: {end}"),
                );
            }
            _ => {}
        }
        let completion = job
            .status
            .as_ref()
            .and_then(|status| status.completion_time.clone());
        let is_newer = completion.as_ref().map(|time| time.0)
            > plan.status.last_successful_time.as_ref().map(|time| time.0);
        if end(job) == Some("Complete") && is_newer {
            plan.status.last_successful_time = completion;
        }
    }
    let exists = |own: &ObjectReference| jobs.iter().any(|job| job.metadata.uid == own.uid);
    for missing in active.iter().filter(|own| !exists(own)) {
        let name = missing.name.as_deref().unwrap_or_default();
        plan.events.push((
            EventType::Normal,
            "MissingJob",
            format!("Active job went missing: {name}"),
        ));
    }
    active.retain(exists);
    plan.status.active = (!active.is_empty()).then_some(active);
}

/// Starts a Job if one is due.
fn start(plan: &mut Plan, now: Timestamp, cron: &CronJob, schedule: &Schedule, jobs: &[Job]) {
    let spec = &cron.spec;
    // A schedule such as 30 February parses, but never fires.
    let Some(next) = schedule.next_after(now) else {
        let why = "time difference between two schedules is less than 1 second";
        plan.warn(
            "InvalidSchedule",
            format!("invalid schedule: {} : {why}", spec.schedule),
        );
        return;
    };
    plan.next = api_time::duration_until(now, next);
    let Some(time) = missed(plan, now, cron, schedule) else {
        return;
    };
    let deadline = spec.starting_deadline_seconds;
    if deadline.is_some_and(|deadline| api_time::add_seconds(time, deadline) < now) {
        let shown = time.strftime("%a, %d %b %Y %H:%M:%S +0000");
        plan.warn(
            "MissSchedule",
            format!("Missed scheduled time to start a job: {shown}"),
        );
        return;
    }
    let active = plan.status.active.clone().unwrap_or_default();
    let name = job_name(cron, time);
    let is_started = plan
        .status
        .last_schedule_time
        .as_ref()
        .is_some_and(|last| last.0 == time);
    if is_started || active.iter().any(|own| own.name.as_deref() == Some(&name)) {
        return;
    }
    match spec.concurrency_policy.as_deref() {
        Some("Forbid") if !active.is_empty() => {
            let message =
                "Not starting job because prior execution is running and concurrency policy is Forbid";
            plan.normal("JobAlreadyActive", message.to_owned());
            return;
        }
        Some("Replace") => {
            let is_active = |job: &&Job| active.iter().any(|own| own.uid == job.metadata.uid);
            plan.delete.extend(jobs.iter().filter(is_active).cloned());
            plan.status.active = None;
        }
        _ => {}
    }
    plan.start = Some(time);
}

/// The last scheduled time that has passed without a Job.
fn missed(plan: &mut Plan, now: Timestamp, cron: &CronJob, schedule: &Schedule) -> Option<Timestamp> {
    let created = cron.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let last = plan.status.last_schedule_time.as_ref().map(|time| time.0);
    let mut earliest = last.or(created)?;
    let deadline = cron.spec.starting_deadline_seconds;
    if let Some(deadline) = deadline {
        earliest = earliest.max(api_time::add_seconds(now, -deadline));
    }
    let mut found = schedule.next_after(earliest).filter(|time| *time <= now)?;
    let mut count = 1;
    while let Some(next) = schedule.next_after(found).filter(|time| *time <= now) {
        found = next;
        count += 1;
        if count > TOO_MANY_MISSED {
            found = last_before(schedule, found, now);
            let message = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
            plan.warn("TooManyMissedTimes", message.to_owned());
            break;
        }
    }
    Some(found)
}

/// The last scheduled time up to now, found by bisection, since there may be very many.
fn last_before(schedule: &Schedule, since: Timestamp, now: Timestamp) -> Timestamp {
    let (mut low, mut high) = (since, now);
    while high.duration_since(low).as_secs() > 60 {
        let half = api_time::add_seconds(low, high.duration_since(low).as_secs() / 2);
        match schedule.next_after(half).filter(|time| *time <= now) {
            Some(_) => low = half,
            None => high = half,
        }
    }
    let mut last = since;
    let mut from = low;
    while let Some(next) = schedule.next_after(from).filter(|time| *time <= now) {
        last = next;
        from = next;
    }
    last
}

/// The oldest finished Jobs beyond the history limits.
fn excess(cron: &CronJob, jobs: &[Job]) -> Vec<Job> {
    let spec = &cron.spec;
    let limits = [
        ("Complete", spec.successful_jobs_history_limit),
        ("Failed", spec.failed_jobs_history_limit),
    ];
    let mut deletions = Vec::new();
    for (kind, limit) in limits {
        let Some(limit) = limit.and_then(|limit| usize::try_from(limit).ok()) else {
            continue;
        };
        let mut finished: Vec<&Job> = jobs.iter().filter(|job| end(job) == Some(kind)).collect();
        let started = |job: &Job| {
            job.status
                .as_ref()
                .and_then(|status| status.start_time.as_ref())
                .map(|time| time.0)
        };
        finished.sort_by_key(|job| (started(job).is_none(), started(job), job.metadata.name.clone()));
        let excess = finished.len().saturating_sub(limit);
        deletions.extend(finished.into_iter().take(excess).cloned());
    }
    deletions.retain(|job| job.metadata.deletion_timestamp.is_none());
    deletions
}

// === impl Plan ===

impl Plan {
    fn normal(&mut self, reason: &'static str, message: String) {
        self.events.push((EventType::Normal, reason, message));
    }

    fn warn(&mut self, reason: &'static str, message: String) {
        self.events.push((EventType::Warning, reason, message));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn at(time: &str) -> Timestamp {
        time.parse().unwrap()
    }

    fn cron(spec: &Value) -> CronJob {
        let mut whole = json!({"schedule": "*/5 * * * *", "jobTemplate": {}, "successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1});
        for (name, value) in spec.as_object().unwrap() {
            whole[name] = value.clone();
        }
        let metadata = json!({"name": "tick", "creationTimestamp": "2026-01-01T00:01:00Z"});
        serde_json::from_value(json!({"metadata": metadata, "spec": whole})).unwrap()
    }

    /// The scheduled time of the Job that starts at `now`, and the seconds until the next one.
    #[track_caller]
    fn check(spec: &Value, last: Option<&str>, now: &str, expected: (Option<&str>, Option<u64>)) {
        let mut cron = cron(spec);
        let status = cron.status.get_or_insert_default();
        status.last_schedule_time = last.map(|time| api_time::from_timestamp(at(time)));
        let plan = plan(at(now), &cron, &[]);
        let start = plan.start.map(|time| time.to_string());
        assert_eq!((start.as_deref(), plan.next.map(|next| next.as_secs())), expected);
    }

    #[test]
    fn a_job_starts_for_the_last_time_that_was_missed() {
        check(&json!({}), None, "2026-01-01T00:04:00Z", (None, Some(60)));
        check(
            &json!({}),
            None,
            "2026-01-01T00:05:00Z",
            (Some("2026-01-01T00:05:00Z"), Some(300)),
        );
        check(
            &json!({}),
            None,
            "2026-01-01T00:17:00Z",
            (Some("2026-01-01T00:15:00Z"), Some(180)),
        );
        check(
            &json!({}),
            Some("2026-01-01T00:15:00Z"),
            "2026-01-01T00:17:00Z",
            (None, Some(180)),
        );
        check(
            &json!({"suspend": true}),
            None,
            "2026-01-01T00:17:00Z",
            (None, None),
        );
    }

    #[test]
    fn a_job_past_its_deadline_is_not_started() {
        let spec = json!({"startingDeadlineSeconds": 60});
        check(
            &spec,
            None,
            "2026-01-01T00:05:30Z",
            (Some("2026-01-01T00:05:00Z"), Some(270)),
        );
        check(&spec, None, "2026-01-01T00:07:00Z", (None, Some(180)));
    }

    #[test]
    fn a_thousand_missed_times_start_one_job() {
        let plan = plan(at("2026-02-01T00:03:00Z"), &cron(&json!({})), &[]);
        assert_eq!(plan.start, Some(at("2026-02-01T00:00:00Z")));
        assert_eq!(plan.events[0].1, "TooManyMissedTimes");
    }

    /// The events of a CronJob with this schedule, as `reason: message`.
    #[track_caller]
    fn check_events(schedule: &str, expected: &[&str]) {
        let cron = cron(&json!({"schedule": schedule}));
        let plan = plan(at("2026-01-01T00:02:00Z"), &cron, &[]);
        let events = plan.events.iter();
        let events: Vec<String> = events
            .map(|(_, reason, message)| format!("{reason}: {message}"))
            .collect();
        assert_eq!(events, expected);
    }

    #[test]
    fn a_schedule_that_never_fires_is_invalid() {
        let why = "time difference between two schedules is less than 1 second";
        for schedule in ["59 23 31 2 *", "0 0 30 2 *"] {
            check_events(
                schedule,
                &[&format!("InvalidSchedule: invalid schedule: {schedule} : {why}")],
            );
        }
        check_events("0 0 29 2 *", &[]);
    }

    #[test]
    fn a_time_zone_in_the_schedule_is_unsupported() {
        check_events(
            "TZ=UTC 0 0 * * *",
            &[&format!(
                "UnsupportedSchedule: {}",
                unsupported_zone("TZ=UTC 0 0 * * *")
            )],
        );
    }

    fn job(name: &str, end: Option<&str>, minute: u32) -> Job {
        let conditions: Vec<Value> = end
            .iter()
            .map(|end| json!({"type": end, "status": "True"}))
            .collect();
        let start = format!("2026-01-01T00:{minute:02}:00Z");
        let status = json!({"conditions": conditions, "startTime": start});
        serde_json::from_value(json!({"metadata": {"name": name, "uid": name}, "status": status})).unwrap()
    }

    fn with_active(mut cron: CronJob, names: &[&str]) -> CronJob {
        let reference = |name: &&str| ObjectReference {
            name: Some((*name).to_owned()),
            uid: Some((*name).to_owned()),
            ..ObjectReference::default()
        };
        cron.status.get_or_insert_default().active = Some(names.iter().map(reference).collect());
        cron
    }

    #[test]
    fn a_running_job_forbids_the_next_or_is_replaced() {
        let now = at("2026-01-01T00:05:00Z");
        let running = [job("old", None, 0)];
        for (policy, starts, deleted) in [("Allow", true, 0), ("Forbid", false, 0), ("Replace", true, 1)] {
            let cron = with_active(cron(&json!({"concurrencyPolicy": policy})), &["old"]);
            let plan = plan(now, &cron, &running);
            assert_eq!(
                (plan.start.is_some(), plan.delete.len()),
                (starts, deleted),
                "{policy}"
            );
        }
    }

    #[test]
    fn finished_and_missing_jobs_leave_the_list_and_the_oldest_are_deleted() {
        let jobs = [
            job("a", Some("Complete"), 1),
            job("b", Some("Complete"), 2),
            job("c", Some("Failed"), 3),
            job("d", Some("Failed"), 4),
        ];
        let cron = with_active(
            cron(&json!({"successfulJobsHistoryLimit": 1, "suspend": true})),
            &["b", "gone"],
        );
        let plan = plan(at("2026-01-01T00:05:00Z"), &cron, &jobs);
        let names: Vec<_> = plan
            .delete
            .iter()
            .filter_map(|job| job.metadata.name.as_deref())
            .collect();
        assert_eq!((names, plan.status.active), (vec!["a", "c"], None));
        let events: Vec<_> = plan.events.iter().map(|(_, reason, _)| *reason).collect();
        assert_eq!(events, ["SawCompletedJob", "MissingJob"]);
    }

    /// Carries out the plan on a list of Jobs, as the controller would.
    fn carry_out(cron: &mut CronJob, jobs: &mut Vec<Job>, plan: Plan) {
        jobs.retain(|job| {
            plan.delete
                .iter()
                .all(|gone| gone.metadata.uid != job.metadata.uid)
        });
        cron.status = Some(plan.status);
        let Some(time) = plan.start else { return };
        let name = job_name(cron, time);
        let active = cron.status.clone().unwrap().active.unwrap_or_default();
        let names: Vec<String> = active.iter().filter_map(|own| own.name.clone()).collect();
        let names = names.iter().map(String::as_str).chain([name.as_str()]);
        *cron = with_active(cron.clone(), &names.collect::<Vec<_>>());
        cron.status.as_mut().unwrap().last_schedule_time = Some(api_time::from_timestamp(time));
        jobs.push(job(&name, None, 0));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        /// However rarely it is reconciled and however long Jobs take: a scheduled time is never used twice, never
        /// early and never out of order, no more Jobs run at once than the policy allows, and no more finished ones are
        /// kept than the limits allow.
        #[test]
        fn times_are_used_once_and_in_order(
            every in 1..30u32,
            policy in prop::sample::select(vec!["Allow", "Forbid", "Replace"]),
            kept in (0..3usize, 0..3usize),
            naps in prop::collection::vec((1..2000i64, prop::bool::weighted(0.5), any::<bool>()), 1..60),
        ) {
            let mut cron = cron(&json!({
                "schedule": format!("*/{every} * * * *"), "concurrencyPolicy": policy,
                "successfulJobsHistoryLimit": kept.0, "failedJobsHistoryLimit": kept.1,
            }));
            let (mut now, mut last, mut jobs) = (at("2026-01-01T00:01:00Z"), None, Vec::new());
            for (nap, ends, well) in naps {
                now = api_time::add_seconds(now, nap);
                if ends {
                    for running in jobs.iter_mut().filter(|job| end(job).is_none()) {
                        let name = running.metadata.name.clone().unwrap();
                        *running = job(&name, Some(if well { "Complete" } else { "Failed" }), 0);
                    }
                }
                let plan = plan(now, &cron, &jobs);
                if let Some(time) = plan.start {
                    prop_assert!(time <= now && Some(time) > last);
                    prop_assert_eq!(time.as_second() / 60 % 60 % i64::from(every), 0);
                    last = Some(time);
                }
                carry_out(&mut cron, &mut jobs, plan);
                let active = jobs.iter().filter(|job| end(job).is_none()).count();
                prop_assert!(policy == "Allow" || active <= 1, "{active} jobs at once");
                let ended = |kind: &str| jobs.iter().filter(|job| end(job) == Some(kind)).count();
                prop_assert!(ended("Complete") <= kept.0 && ended("Failed") <= kept.1);
            }
        }
    }
}
