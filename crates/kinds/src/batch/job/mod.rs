//! Job: pods that run until enough of them have succeeded.
//!
//! A Job selects its pods by labels with its own uid, which the server adds unless `manualSelector` is set. The pod
//! template never changes once pods may have started.
//!
//! Start reading here, then [`spec`] for the rules of Jobs and of CronJobs' templates, [`update`] for what may
//! change, and [`status`] for what a controller may report.

pub(super) mod spec;

mod policies;
mod status;
mod update;

use setpoint_api::table::Cell;
use setpoint_schema::{Map, Tree, fields};
use setpoint_strategy::columns::{self, Column};
use setpoint_strategy::{
    FieldLabel, FieldRef, Names, RequestFacts, Rules, Strategy, Subresource, label_selector, meta, name,
    top_level,
};

use crate::apps::pods::MISMATCH;
use crate::apps::replica_set::SELECTOR;
use crate::core::pod::template;
use crate::shared::{condition, resources};

const UID_LABEL: &str = "batch.kubernetes.io/controller-uid";
const NAME_LABEL: &str = "batch.kubernetes.io/job-name";
/// The same labels without a domain, as older versions have them.
const OLD_UID_LABEL: &str = "controller-uid";
const OLD_NAME_LABEL: &str = "job-name";

const DELETION_WARNING: &str = "child pods are preserved by default when jobs are deleted; set \
    propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning";

#[derive(Debug)]
pub struct Job;

impl Strategy for Job {
    const KIND: (&'static str, &'static str, &'static str) = ("batch", "v1", "Job");
    const NAMES: Names = Names::new("jobs", "job").categories(&["all"]);
    const COLUMNS: &'static [Column] = &[
        columns::NAME,
        Column::text("Status", |job, _| Cell::from(status_column(job))).description("The current state."),
        Column::text("Completions", |job, _| Cell::from(completions(job)))
            .description("The number of succeeded pods, of those required."),
        Column::text("Duration", |job, now| {
            let status = job.at(fields::STATUS);
            let end = status.at(fields::COMPLETION_TIME).time().unwrap_or(now);
            let start = status.at(fields::START_TIME).time();
            Cell::from(start.map_or_else(String::new, |start| columns::human_age(start, end)))
        })
        .description("The run time."),
        columns::AGE,
        template::CONTAINERS,
        template::IMAGES,
        SELECTOR,
    ];
    const FIELDS: &'static [FieldLabel] =
        &[FieldLabel::new("status.successful", &[&[fields::STATUS, fields::SUCCEEDED]]).or("0")];
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::STATUS];
    const RULES: Rules = Rules::DEFAULT
        .tracks_generation()
        .orphans_dependents()
        .deletion_warning(DELETION_WARNING)
        .bad_field_label_message("field label {quoted} not supported for Job");

    fn default_fields(job: &mut Tree) {
        copy_pod_labels(job);
        let spec = job.child(fields::SPEC);
        spec::set_defaults(spec);
        default_counts(spec);
    }

    fn prepare_create(job: &mut Tree, _facts: &RequestFacts) {
        top_level::drop(job, fields::STATUS);
        spec::drop_disabled(job.child(fields::SPEC), None);
        if job
            .at(&[fields::SPEC, fields::MANUAL_SELECTOR])
            .and_then(Tree::as_bool)
            != Some(true)
        {
            generate_selector(job);
        }
    }

    fn prepare_update(job: &mut Tree, old: &Tree, _facts: &RequestFacts) {
        top_level::keep(job, old, fields::STATUS);
        spec::drop_disabled(job.child(fields::SPEC), old.get(fields::SPEC));
    }

    fn prepare_status(job: &mut Tree, old: &Tree, _facts: &RequestFacts) {
        top_level::keep_all_except(job, old, &[fields::METADATA, fields::STATUS]);
        copy_pod_labels(job);
    }

    fn validate(job: &FieldRef<'_>, facts: &RequestFacts) {
        validate_generated(job);
        validate_spec(&job.at(fields::SPEC), None, facts);
        validate_host_name(job);
        spec::validate_declarative(&job.at(fields::SPEC));
    }

    fn validate_for_update(job: &FieldRef<'_>, old: &FieldRef<'_>, facts: &RequestFacts) {
        validate_spec(&job.at(fields::SPEC), Some(&old.at(fields::SPEC)), facts);
    }

    fn validate_update(job: &FieldRef<'_>, old: &FieldRef<'_>, _facts: &RequestFacts) {
        update::validate(job, old);
        validate_host_name(job);
        spec::validate_declarative(&job.at(fields::SPEC));
    }

    fn validate_status(job: &FieldRef<'_>, old: &FieldRef<'_>, _facts: &RequestFacts) {
        status::validate(job, old);
    }

    fn warnings(job: &FieldRef<'_>, old: Option<&FieldRef<'_>>) -> Vec<String> {
        let name = job.at(fields::METADATA).at(fields::NAME).str();
        let recommended = old.is_none().then(|| name::recommend_label(name)).flatten();
        let specs = (job.at(fields::SPEC), old.map(|old| old.at(fields::SPEC)));
        recommended
            .into_iter()
            .chain(spec::warnings("spec", &specs.0, specs.1.as_ref()))
            .collect()
    }
}

/// Defaults: one pod, once.
fn default_counts(spec: &mut Tree) {
    if spec.find_mut(fields::COMPLETIONS).is_none() && spec.find_mut(fields::PARALLELISM).is_none() {
        spec.set(&[fields::COMPLETIONS], 1);
    }
    spec.set_default(fields::PARALLELISM, 1);
    let limit = match spec.find_mut(fields::BACKOFF_LIMIT_PER_INDEX) {
        Some(_) => i32::MAX,
        None => 6,
    };
    spec.set_default(fields::BACKOFF_LIMIT, limit);
    spec.set_default(fields::COMPLETION_MODE, spec::NON_INDEXED);
    spec.set_default(fields::SUSPEND, false);
    let replacement = match spec.find_mut(fields::POD_FAILURE_POLICY) {
        Some(_) => "Failed",
        None => "TerminatingOrFailed",
    };
    spec.set_default(fields::POD_REPLACEMENT_POLICY, replacement);
    spec.set_default(fields::MANUAL_SELECTOR, false);
}

/// Adds the Job's name and uid to the pod labels, and selects the pods by the uid. Values that the caller has set
/// stay; validation rejects them if they do not match.
fn generate_selector(job: &mut Tree) {
    let uid = meta::str(job, fields::UID).to_owned();
    let name = meta::name(job).to_owned();
    let spec = job.child(fields::SPEC);
    let labels = spec
        .child(fields::TEMPLATE)
        .child(fields::METADATA)
        .child(fields::LABELS);
    for (label, value) in [
        (OLD_NAME_LABEL, &name),
        (NAME_LABEL, &name),
        (OLD_UID_LABEL, &uid),
        (UID_LABEL, &uid),
    ] {
        labels.set_default(label, value.as_str());
    }
    resources::sort(labels.map_or_default());
    let selected = spec.child(fields::SELECTOR).child(fields::MATCH_LABELS);
    selected.set_default(UID_LABEL, uid);
    resources::sort(selected.map_or_default());
    // A Job without labels gets those of its pods. A name that is not a label value is reported at the pod template.
    if name::check_label_value(&name).is_empty() {
        copy_pod_labels(job);
    }
}

fn copy_pod_labels(job: &mut Tree) {
    let labels = job
        .at(&[fields::SPEC, fields::TEMPLATE, fields::METADATA, fields::LABELS])
        .cloned();
    if let Some(labels @ Tree::Map(_)) = labels
        && meta::find(job, fields::LABELS).is_none()
    {
        meta::set(job, fields::LABELS, labels);
    }
}

/// Reports a selector or labels that differ from the generated ones.
fn validate_generated(job: &FieldRef<'_>) {
    let (spec, metadata) = (job.at(fields::SPEC), job.at(fields::METADATA));
    let selector = spec.at(fields::SELECTOR);
    if spec.at(fields::MANUAL_SELECTOR).bool() || !selector.is_set() {
        return;
    }
    metadata.at(fields::UID).require();
    let labels = spec.at(fields::TEMPLATE).at(fields::METADATA).at(fields::LABELS);
    let (uid, name) = (metadata.at(fields::UID).str(), metadata.at(fields::NAME).str());
    let expected = [
        (OLD_UID_LABEL, uid),
        (OLD_NAME_LABEL, name),
        (UID_LABEL, uid),
        (NAME_LABEL, name),
    ];
    for (label, value) in expected {
        let violation = format!("must be '{value}'");
        match labels.key(label).find_str() {
            None => labels.key(label).required(&violation),
            Some(found) if found != value => labels.key(label).invalid_as(&labels, &violation),
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

fn validate_spec(spec: &FieldRef<'_>, old: Option<&FieldRef<'_>>, facts: &RequestFacts) {
    spec::validate(spec, old, facts);
    let selector = spec.at(fields::SELECTOR);
    if selector.is_set() {
        label_selector::validate(&selector);
    } else {
        selector.required("");
    }
    let labels = spec.at(fields::TEMPLATE).at(fields::METADATA).at(fields::LABELS);
    if label_selector::selects(&selector, &labels) == Some(false) {
        labels.invalid(MISMATCH);
    }
}

/// The pod with the highest index has it in its host name, which must not become too long.
fn validate_host_name(job: &FieldRef<'_>) {
    let completions = job.at(fields::SPEC).at(fields::COMPLETIONS).int();
    if job.at(fields::SPEC).at(fields::COMPLETION_MODE).str() != spec::INDEXED || completions <= 0 {
        return;
    }
    let name = job.at(fields::METADATA).at(fields::NAME);
    let last = format!("{}-{}", name.str(), completions - 1);
    if !name::check_dns1123_label(&last).is_empty() {
        name.invalid(&format!(
            "will not able to create pod with invalid DNS label: {last}"
        ));
    }
}

fn status_column(job: &FieldRef<'_>) -> &'static str {
    let conditions = job.at(fields::STATUS).at(fields::CONDITIONS);
    let is = |kind: &str| condition::is_true(&conditions, kind);
    let deleting = job.at(fields::METADATA).at(fields::DELETION_TIMESTAMP).is_set();
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

fn completions(job: &FieldRef<'_>) -> String {
    let succeeded = job.at(fields::STATUS).at(fields::SUCCEEDED).int();
    let spec = job.at(fields::SPEC);
    match (
        spec.at(fields::COMPLETIONS).find_int(),
        spec.at(fields::PARALLELISM).int(),
    ) {
        (Some(completions), _) => format!("{succeeded}/{completions}"),
        (None, parallelism @ 2..) => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    }
}
