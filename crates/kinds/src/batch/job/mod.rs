//! Job: pods that run until enough of them have succeeded.
//!
//! A Job finds its pods by labels that carry its own uid, which the server adds unless the Job asks to choose its
//! selector by itself. What its pods are made of never changes once they may have started.
//!
//! Start reading here, then [`spec`] for the rules of Jobs and of the templates in CronJobs alike, [`update`] for what
//! may change, and [`status`] for what a controller may report.

pub(super) mod spec;

mod indexes;
mod policies;
mod status;
mod update;

use setpoint_api::table::Cell;
use setpoint_schema::{Map, Tree};

use crate::apps::pods::MISMATCH;
use crate::apps::replica_set::SELECTOR;
use crate::at::At;
use crate::columns::{self, Column};
use crate::core::pod::template;
use crate::shared::{condition, label_selector, name, resources};
use crate::strategy::{Facts, Field, Names, Rules, Strategy, Subresource};
use crate::{meta, parts};

const UID_LABEL: &str = "batch.kubernetes.io/controller-uid";
const NAME_LABEL: &str = "batch.kubernetes.io/job-name";
/// The same labels by the names they had before they had a domain.
const OLD_UID_LABEL: &str = "controller-uid";
const OLD_NAME_LABEL: &str = "job-name";

#[derive(Debug)]
pub struct Job;

impl Strategy for Job {
    const KIND: (&'static str, &'static str, &'static str) = ("batch", "v1", "Job");
    const NAMES: Names = Names::new("jobs", "job").categories(&["all"]);
    const COLUMNS: &'static [Column] = &[
        columns::NAME,
        Column::text("Status", |job, _| Cell::from(word(job))).about("What it is doing."),
        Column::text("Completions", |job, _| Cell::from(completions(job)))
            .about("How many pods have succeeded, of how many have to."),
        Column::text("Duration", |job, now| {
            let status = job.at("status");
            let end = status.at("completionTime").time().unwrap_or(now);
            let start = status.at("startTime").time();
            Cell::from(start.map_or_else(String::new, |start| columns::ago(start, end)))
        })
        .about("How long it has taken."),
        columns::AGE,
        template::CONTAINERS,
        template::IMAGES,
        SELECTOR,
    ];
    const FIELDS: &'static [Field] = &[Field::new("status.successful", &[&["status", "succeeded"]]).or("0")];
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::STATUS];
    const RULES: Rules = Rules {
        tracks_generation: true,
        orphans_dependents: true,
        deletion_warning: "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning",
        unselectable: "field label {quoted} not supported for Job",
        ..Rules::DEFAULT
    };

    fn default_fields(job: &mut Tree) {
        label_like_pods(job);
        let spec = job.child("spec");
        spec::fill(spec);
        fill_counts(spec);
    }

    fn prepare_create(job: &mut Tree, _facts: &Facts) {
        parts::drop(job, "status");
        spec::drop_disabled(job.child("spec"), None);
        if job.at(&["spec", "manualSelector"]).and_then(Tree::as_bool) != Some(true) {
            generate_selector(job);
        }
    }

    fn prepare_update(job: &mut Tree, old: &Tree, _facts: &Facts) {
        parts::keep(job, old, "status");
        spec::drop_disabled(job.child("spec"), old.get("spec"));
    }

    fn validate(job: &At<'_>) {
        validate_generated(job);
        validate_spec(&job.at("spec"), None);
        validate_host_name(job);
        spec::validate_declared(&job.at("spec"));
    }

    fn validate_again(job: &At<'_>, old: &At<'_>) {
        validate_spec(&job.at("spec"), Some(&old.at("spec")));
    }

    fn validate_update(job: &At<'_>, old: &At<'_>) {
        update::validate(job, old);
        validate_host_name(job);
        spec::validate_declared(&job.at("spec"));
    }

    fn validate_status(job: &At<'_>, old: &At<'_>) {
        status::validate(job, old);
    }

    fn warnings(job: &At<'_>, old: Option<&At<'_>>) -> Vec<String> {
        let own = job.at("metadata").at("name").str();
        let recommended = old.is_none().then(|| name::recommend_label(own)).flatten();
        let specs = (job.at("spec"), old.map(|old| old.at("spec")));
        recommended
            .into_iter()
            .chain(spec::warnings("spec", &specs.0, specs.1.as_ref()))
            .collect()
    }
}

/// A Job that says nothing runs one pod once.
fn fill_counts(spec: &mut Tree) {
    if spec.find_mut("completions").is_none() && spec.find_mut("parallelism").is_none() {
        spec.set(&["completions"], 1);
    }
    spec.fill("parallelism", 1);
    let limit = match spec.find_mut("backoffLimitPerIndex") {
        Some(_) => i32::MAX,
        None => 6,
    };
    spec.fill("backoffLimit", limit);
    spec.fill("completionMode", spec::NON_INDEXED);
    spec.fill("suspend", false);
    let replacement = match spec.find_mut("podFailurePolicy") {
        Some(_) => "Failed",
        None => "TerminatingOrFailed",
    };
    spec.fill("podReplacementPolicy", replacement);
    spec.fill("manualSelector", false);
}

/// Labels the pods by the Job's name and uid, and selects them by the uid. What the caller has set stays, to be refused
/// if it does not fit.
fn generate_selector(job: &mut Tree) {
    let uid = meta::str(job, "uid").to_owned();
    let name = meta::name(job).to_owned();
    let spec = job.child("spec");
    let labels = spec.child("template").child("metadata").child("labels");
    for (label, value) in [
        (OLD_NAME_LABEL, &name),
        (NAME_LABEL, &name),
        (OLD_UID_LABEL, &uid),
        (UID_LABEL, &uid),
    ] {
        labels.fill(label, value.as_str());
    }
    resources::sort(labels.map_or_default());
    let selected = spec.child("selector").child("matchLabels");
    selected.fill(UID_LABEL, uid);
    resources::sort(selected.map_or_default());
    // A Job without labels of its own has those of its pods. A name that is no label is told where the pods have it.
    if name::label_value(&name).is_empty() {
        label_like_pods(job);
    }
}

fn label_like_pods(job: &mut Tree) {
    let labels = job.at(&["spec", "template", "metadata", "labels"]).cloned();
    if let Some(labels @ Tree::Map(_)) = labels
        && meta::find(job, "labels").is_none()
    {
        meta::set(job, "labels", labels);
    }
}

/// Reports a generated selector that the caller has spoilt.
fn validate_generated(job: &At<'_>) {
    let (spec, metadata) = (job.at("spec"), job.at("metadata"));
    let selector = spec.at("selector");
    if spec.at("manualSelector").bool() || !selector.is_set() {
        return;
    }
    metadata.at("uid").require();
    let labels = spec.at("template").at("metadata").at("labels");
    let (uid, name) = (metadata.at("uid").str(), metadata.at("name").str());
    let expected = [
        (OLD_UID_LABEL, uid),
        (OLD_NAME_LABEL, name),
        (UID_LABEL, uid),
        (NAME_LABEL, name),
    ];
    for (label, value) in expected {
        let complaint = format!("must be '{value}'");
        match labels.key(label).find_str() {
            None => labels.key(label).required(&complaint),
            Some(found) if found != value => labels.key(label).invalid_as(&labels, &complaint),
            Some(_) => {}
        }
    }
    let expected: Tree = expected.into_iter().collect::<Map>().into();
    let generated = label_selector::parse(selector.value())
        .map(|selector| selector.matches(|label| expected.get(label).and_then(Tree::as_str)));
    if generated == Ok(false) {
        selector.invalid("`selector` not auto-generated");
    }
}

fn validate_spec(spec: &At<'_>, old: Option<&At<'_>>) {
    spec::validate(spec, old);
    let selector = spec.at("selector");
    if selector.is_set() {
        label_selector::validate(&selector);
    } else {
        selector.required("");
    }
    let labels = spec.at("template").at("metadata").at("labels");
    if label_selector::selects(&selector, &labels) == Some(false) {
        labels.invalid(MISMATCH);
    }
}

/// The pod with the last index carries it in its host name.
fn validate_host_name(job: &At<'_>) {
    let completions = job.at("spec").at("completions").int();
    if job.at("spec").at("completionMode").str() != spec::INDEXED || completions <= 0 {
        return;
    }
    let own = job.at("metadata").at("name");
    let last = format!("{}-{}", own.str(), completions - 1);
    if !name::label(&last).is_empty() {
        own.invalid(&format!(
            "will not able to create pod with invalid DNS label: {last}"
        ));
    }
}

fn word(job: &At<'_>) -> &'static str {
    let conditions = job.at("status").at("conditions");
    let is = |kind: &str| condition::is_true(&conditions, kind);
    let deleting = job.at("metadata").at("deletionTimestamp").is_set();
    match () {
        () if is("Complete") => "Complete",
        () if is("Failed") => "Failed",
        () if deleting => "Terminating",
        () if is("Suspended") => "Suspended",
        () if is("FailureTarget") => "FailureTarget",
        () if is("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    }
}

fn completions(job: &At<'_>) -> String {
    let succeeded = job.at("status").at("succeeded").int();
    let spec = job.at("spec");
    match (spec.at("completions").find_int(), spec.at("parallelism").int()) {
        (Some(completions), _) => format!("{succeeded}/{completions}"),
        (None, parallelism @ 2..) => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    }
}
