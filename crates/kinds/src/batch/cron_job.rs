//! CronJob: a Job again and again, by a schedule.

use setpoint_api::table::Cell;
use setpoint_schema::Tree;

use super::job::spec;
use super::schedule;
use crate::at::At;
use crate::columns::{self, Column, NONE};
use crate::core::pod::template;
use crate::parts;
use crate::shared::{label_selector, name};
use crate::strategy::{Facts, Names, Rules, Strategy, Subresource};

const POLICIES: &[&str] = &["Allow", "Forbid", "Replace"];
/// The time that goes into the name of each Job takes the rest of what a name may have.
const MOST_NAME_BYTES: usize = 52;

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
            columns::or_empty(&cron.at("spec").at("schedule"))
        })
        .about("When it makes a Job, as in a crontab."),
        Column::text("Timezone", |cron, _| {
            let zone = cron.at("spec").at("timeZone");
            Cell::from(zone.find_str().unwrap_or(NONE))
        })
        .about("The time zone of the schedule."),
        Column::boolean("Suspend", |cron, _| {
            let word = match cron.at("spec").at("suspend").find_bool() {
                Some(true) => "True",
                Some(false) => "False",
                None => "<unset>",
            };
            Cell::from(word)
        })
        .about("Whether it makes no Jobs for now."),
        Column::number("Active", |cron, _| {
            let active = cron.at("status").at("active").len();
            Cell::from(i64::try_from(active).expect("a list fits into memory"))
        })
        .about("How many of its Jobs are running."),
        Column::text("Last Schedule", |cron, now| {
            let last = cron.at("status").at("lastScheduleTime");
            match last.is_set() {
                true => columns::since(&last, now),
                false => Cell::from(NONE),
            }
        })
        .about("The time since it last made a Job."),
        columns::AGE,
        Column::text("Containers", |cron, _| Cell::from(of_containers(cron, "name")))
            .wide()
            .about("The containers of the template."),
        Column::text("Images", |cron, _| Cell::from(of_containers(cron, "image")))
            .wide()
            .about("The images of the template."),
        Column::text("Selector", |cron, _| {
            Cell::from(label_selector::print(&job(cron).at("selector")))
        })
        .wide()
        .about("Which pods belong to its Jobs."),
    ];
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::STATUS];
    const RULES: Rules = Rules {
        tracks_generation: true,
        ..Rules::DEFAULT
    };

    fn default_fields(cron: &mut Tree) {
        let spec = cron.child("spec");
        spec.fill("concurrencyPolicy", POLICIES[0]);
        spec.fill("suspend", false);
        spec.fill("successfulJobsHistoryLimit", 3);
        spec.fill("failedJobsHistoryLimit", 1);
        spec::fill(spec.child("jobTemplate").child("spec"));
    }

    fn prepare_create(cron: &mut Tree, _facts: &Facts) {
        parts::drop(cron, "status");
        let job = cron.child("spec").child("jobTemplate").child("spec");
        spec::drop_disabled(job, None);
    }

    fn prepare_update(cron: &mut Tree, old: &Tree, _facts: &Facts) {
        parts::keep(cron, old, "status");
        let job = cron.child("spec").child("jobTemplate").child("spec");
        spec::drop_disabled(job, old.at(&["spec", "jobTemplate", "spec"]));
    }

    fn validate(cron: &At<'_>) {
        validate_spec(cron, None);
        let own = cron.at("metadata").at("name");
        if own.str().len() > MOST_NAME_BYTES {
            own.invalid("must be no more than 52 characters");
        }
        validate_declared(cron);
    }

    fn validate_again(cron: &At<'_>, old: &At<'_>) {
        validate_spec(cron, Some(&old.at("spec")));
        validate_declared(cron);
    }

    fn warnings(cron: &At<'_>, old: Option<&At<'_>>) -> Vec<String> {
        let own = cron.at("metadata").at("name").str();
        let recommended = old.is_none().then(|| name::recommend_label(own)).flatten();
        let before = old.map(job);
        let mut warnings: Vec<String> = recommended
            .into_iter()
            .chain(spec::warnings(
                "spec.jobTemplate.spec",
                &job(cron),
                before.as_ref(),
            ))
            .collect();
        if old.is_some() && cron.at("spec").at("schedule").str().contains("TZ") {
            warnings.push("cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details".to_owned());
        }
        warnings
    }
}

fn job<'a>(cron: &At<'a>) -> At<'a> {
    cron.at("spec").at("jobTemplate").at("spec")
}

fn of_containers(cron: &At<'_>, field: &str) -> String {
    template::of_containers(&job(cron).at("template"), field)
}

fn validate_spec(cron: &At<'_>, old: Option<&At<'_>>) {
    let spec = cron.at("spec");
    if !spec.at("schedule").is_empty() {
        validate_schedule(&spec, old);
    }
    spec.at("startingDeadlineSeconds").not_negative();
    let zone = spec.at("timeZone");
    if old.is_none_or(|old| !zone.is_same(&old.at("timeZone"))) {
        validate_zone(&zone);
    }
    spec.at("concurrencyPolicy").require_one_of(POLICIES);
    let before = old.map(|old| old.at("jobTemplate").at("spec"));
    validate_job(&job(cron), before.as_ref());
    spec.at("successfulJobsHistoryLimit").not_negative();
    spec.at("failedJobsHistoryLimit").not_negative();
}

/// Reports what Kubernetes checks by declaration, which it does last.
fn validate_declared(cron: &At<'_>) {
    cron.at("spec").at("schedule").require();
    spec::validate_declared(&job(cron));
}

/// A zone in the schedule itself is only kept where it was before.
fn validate_schedule(spec: &At<'_>, old: Option<&At<'_>>) {
    let own = spec.at("schedule");
    if let Err(why) = schedule::check(own.str()) {
        own.invalid(&why);
    }
    let had_zone = old.is_some_and(|old| old.at("schedule").str().contains("TZ"));
    match (own.str().contains("TZ"), had_zone) {
        (true, false) => own.invalid("cannot use TZ or CRON_TZ in schedule, use timeZone field instead"),
        (true, true) if spec.at("timeZone").is_set() => {
            own.invalid("cannot use both timeZone field and TZ or CRON_TZ in schedule");
        }
        _ => {}
    }
}

fn validate_zone(zone: &At<'_>) {
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
    if let Err(why) = schedule::check_zone(text) {
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

/// The Jobs of a CronJob always get selectors of their own.
fn validate_job(job: &At<'_>, old: Option<&At<'_>>) {
    spec::validate(job, old);
    if job.at("selector").is_set() {
        job.at("selector").invalid("`selector` will be auto-generated");
    }
    if job.at("manualSelector").bool() {
        job.at("manualSelector").not_supported(&["nil", "false"]);
    }
}
