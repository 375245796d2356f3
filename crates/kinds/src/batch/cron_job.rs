//! CronJob: creates Jobs on a schedule.

use jiff::tz::TimeZone;
use setpoint_api::table::Cell;
use setpoint_schema::{Tree, fields};
use setpoint_strategy::columns::{self, Column, NONE};
use setpoint_strategy::{
    FieldRef, Names, RequestFacts, Rules, Strategy, Subresource, label_selector, name, top_level,
};
use setpoint_values::cron::{self, Schedule};

use super::job::spec;
use crate::core::pod::template;

const POLICIES: &[&str] = &["Allow", "Forbid", "Replace"];
/// The rest of a name's length is taken by the scheduled time in the name of each Job.
const MAX_NAME_BYTES: usize = 52;

#[derive(Debug)]
pub struct CronJob;

impl Strategy for CronJob {
    const KIND: (&'static str, &'static str, &'static str) = ("batch", "v1", "CronJob");
    const NAMES: Names = Names::new("cronjobs", "cronjob")
        .short(&["cj"])
        .categories(&["all"]);
    const COLUMNS: &'static [Column] = &[
        columns::NAME,
        Column::text("Schedule", |cron, _| {
            columns::or_empty(&cron.at(fields::SPEC).at(fields::SCHEDULE))
        })
        .description("The cron schedule."),
        Column::text("Timezone", |cron, _| {
            let zone = cron.at(fields::SPEC).at(fields::TIME_ZONE);
            Cell::from(zone.find_str().unwrap_or(NONE))
        })
        .description("The time zone of the schedule."),
        Column::boolean("Suspend", |cron, _| {
            let word = match cron.at(fields::SPEC).at(fields::SUSPEND).find_bool() {
                Some(true) => "True",
                Some(false) => "False",
                None => "<unset>",
            };
            Cell::from(word)
        })
        .description("Whether new Jobs are suspended."),
        Column::number("Active", |cron, _| {
            let active = cron.at(fields::STATUS).at(fields::ACTIVE).len();
            Cell::from(i64::try_from(active).expect("a list fits into memory"))
        })
        .description("The number of active Jobs."),
        Column::text("Last Schedule", |cron, now| {
            let last = cron.at(fields::STATUS).at(fields::LAST_SCHEDULE_TIME);
            match last.is_set() {
                true => columns::age_cell(&last, now),
                false => Cell::from(NONE),
            }
        })
        .description("The time since the last Job was created."),
        columns::AGE,
        Column::text("Containers", |cron, _| {
            Cell::from(of_containers(cron, fields::NAME))
        })
        .wide()
        .description("The containers of the pod template."),
        Column::text("Images", |cron, _| Cell::from(of_containers(cron, fields::IMAGE)))
            .wide()
            .description("The images of the pod template."),
        Column::text("Selector", |cron, _| {
            Cell::from(label_selector::print(&job(cron).at(fields::SELECTOR)))
        })
        .wide()
        .description("The label selector of its Jobs' pods."),
    ];
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::STATUS];
    const RULES: Rules = Rules::DEFAULT.tracks_generation();

    fn default_fields(cron: &mut Tree) {
        let spec = cron.child(fields::SPEC);
        spec.set_default(fields::CONCURRENCY_POLICY, POLICIES[0]);
        spec.set_default(fields::SUSPEND, false);
        spec.set_default(fields::SUCCESSFUL_JOBS_HISTORY_LIMIT, 3);
        spec.set_default(fields::FAILED_JOBS_HISTORY_LIMIT, 1);
        spec::set_defaults(spec.child(fields::JOB_TEMPLATE).child(fields::SPEC));
    }

    fn prepare_create(cron: &mut Tree, _facts: &RequestFacts) {
        top_level::drop(cron, fields::STATUS);
        let job = cron
            .child(fields::SPEC)
            .child(fields::JOB_TEMPLATE)
            .child(fields::SPEC);
        spec::drop_disabled(job, None);
    }

    fn prepare_update(cron: &mut Tree, old: &Tree, _facts: &RequestFacts) {
        top_level::keep(cron, old, fields::STATUS);
        let job = cron
            .child(fields::SPEC)
            .child(fields::JOB_TEMPLATE)
            .child(fields::SPEC);
        spec::drop_disabled(job, old.at(&[fields::SPEC, fields::JOB_TEMPLATE, fields::SPEC]));
    }

    fn validate(cron: &FieldRef<'_>, facts: &RequestFacts) {
        validate_spec(cron, None, facts);
        let name = cron.at(fields::METADATA).at(fields::NAME);
        if name.str().len() > MAX_NAME_BYTES {
            name.invalid("must be no more than 52 characters");
        }
        validate_declarative(cron);
    }

    fn validate_for_update(cron: &FieldRef<'_>, old: &FieldRef<'_>, facts: &RequestFacts) {
        validate_spec(cron, Some(&old.at(fields::SPEC)), facts);
        validate_declarative(cron);
    }

    fn warnings(cron: &FieldRef<'_>, old: Option<&FieldRef<'_>>) -> Vec<String> {
        let name = cron.at(fields::METADATA).at(fields::NAME).str();
        let recommended = old.is_none().then(|| name::recommend_label(name)).flatten();
        let before = old.map(job);
        let mut warnings: Vec<String> = recommended
            .into_iter()
            .chain(spec::warnings(
                "spec.jobTemplate.spec",
                &job(cron),
                before.as_ref(),
            ))
            .collect();
        if old.is_some() && cron.at(fields::SPEC).at(fields::SCHEDULE).str().contains("TZ") {
            warnings.push("cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details".to_owned());
        }
        warnings
    }
}

fn job<'a>(cron: &FieldRef<'a>) -> FieldRef<'a> {
    cron.at(fields::SPEC).at(fields::JOB_TEMPLATE).at(fields::SPEC)
}

fn of_containers(cron: &FieldRef<'_>, field: &str) -> String {
    template::of_containers(&job(cron).at(fields::TEMPLATE), field)
}

fn validate_spec(cron: &FieldRef<'_>, old: Option<&FieldRef<'_>>, facts: &RequestFacts) {
    let spec = cron.at(fields::SPEC);
    if !spec.at(fields::SCHEDULE).is_empty() {
        validate_schedule(&spec, old);
    }
    spec.at(fields::STARTING_DEADLINE_SECONDS).not_negative();
    let zone = spec.at(fields::TIME_ZONE);
    if old.is_none_or(|old| !zone.is_same(&old.at(fields::TIME_ZONE))) {
        validate_zone(&zone);
    }
    spec.at(fields::CONCURRENCY_POLICY).require_one_of(POLICIES);
    let before = old.map(|old| old.at(fields::JOB_TEMPLATE).at(fields::SPEC));
    validate_job(&job(cron), before.as_ref(), facts);
    spec.at(fields::SUCCESSFUL_JOBS_HISTORY_LIMIT).not_negative();
    spec.at(fields::FAILED_JOBS_HISTORY_LIMIT).not_negative();
}

/// Reports what upstream's declarative validation reports, which runs last.
fn validate_declarative(cron: &FieldRef<'_>) {
    cron.at(fields::SPEC).at(fields::SCHEDULE).require();
    spec::validate_declarative(&job(cron));
}

/// A `TZ=` prefix in the schedule is accepted only if the old schedule has one.
fn validate_schedule(spec: &FieldRef<'_>, old: Option<&FieldRef<'_>>) {
    let schedule = spec.at(fields::SCHEDULE);
    if let Err(why) = Schedule::parse(schedule.str(), TimeZone::UTC) {
        schedule.invalid(&why);
    }
    let had_zone = old.is_some_and(|old| old.at(fields::SCHEDULE).str().contains("TZ"));
    match (schedule.str().contains("TZ"), had_zone) {
        (true, false) => schedule.invalid("cannot use TZ or CRON_TZ in schedule, use timeZone field instead"),
        (true, true) if spec.at(fields::TIME_ZONE).is_set() => {
            schedule.invalid("cannot use both timeZone field and TZ or CRON_TZ in schedule");
        }
        _ => {}
    }
}

fn validate_zone(zone: &FieldRef<'_>) {
    let Some(text) = zone.find_str() else { return };
    if text.is_empty() {
        return zone.invalid("timeZone must be nil or non-empty string");
    }
    if !text.split('/').all(is_zone_part) {
        return zone.invalid(&format!("unknown time zone {text}"));
    }
    if text.eq_ignore_ascii_case("Local") {
        zone.invalid("timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones");
    }
    if let Err(why) = cron::zone(text) {
        zone.invalid(&why);
    }
}

fn is_zone_part(part: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_+".contains(&byte);
    !matches!(part, "." | "..")
        && (1..=14).contains(&part.len())
        && !part.starts_with('-')
        && part.bytes().all(allowed)
}

/// The Jobs of a CronJob always get generated selectors.
fn validate_job(job: &FieldRef<'_>, old: Option<&FieldRef<'_>>, facts: &RequestFacts) {
    spec::validate(job, old, facts);
    if job.at(fields::SELECTOR).is_set() {
        job.at(fields::SELECTOR)
            .invalid("`selector` will be auto-generated");
    }
    if job.at(fields::MANUAL_SELECTOR).bool() {
        job.at(fields::MANUAL_SELECTOR).not_supported(&["nil", "false"]);
    }
}
