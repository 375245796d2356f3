//! ReplicaSet: so many pods of one template, no more and no less.

use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetSpec, ReplicaSetStatus};
use k8s_openapi::api::core::v1::{Container, PodTemplateSpec};

use setpoint_api::field::Errors;
use setpoint_api::selector::LabelSelector;
use setpoint_api::table::Cell;

use crate::columns::{self, Column};
use crate::core::pod;
use crate::shared::label_selector;
use crate::strategy::{Facts, Names, Rules, Strategy, Subresource};

impl Strategy for ReplicaSet {
    const NAMES: Names = Names::new("replicasets", "replicaset")
        .short(&["rs"])
        .categories(&["all"]);
    const COLUMNS: &'static [Column<Self>] = &[
        columns::name(),
        Column::number("Desired", |set: &Self, _| {
            Cell::from(i64::from(set.spec.replicas.unwrap_or_default()))
        })
        .about("How many pods there should be."),
        Column::number("Current", |set, _| Cell::from(i64::from(status(set).replicas)))
            .about("How many pods there are."),
        Column::number("Ready", |set, _| {
            Cell::from(i64::from(status(set).ready_replicas.unwrap_or_default()))
        })
        .about("How many pods are ready."),
        columns::age(),
        Column::text("Containers", |set, _| {
            Cell::from(containers(set, |container| &container.name))
        })
        .wide()
        .about("The containers of the template."),
        Column::text("Images", |set, _| Cell::from(images(set)))
            .wide()
            .about("The images of the template."),
        Column::text("Selector", |set: &Self, _| {
            Cell::from(label_selector::print(Some(&set.spec.selector)))
        })
        .wide()
        .about("Which pods belong to it."),
    ];
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::STATUS];
    const RULES: Rules = Rules {
        tracks_generation: true,
        ..Rules::DEFAULT
    };

    fn default_fields(&mut self) {
        let spec = &mut self.spec;
        spec.replicas.get_or_insert(1);
        pod::default_template(spec.template.get_or_insert_default());
    }

    fn prepare_create(&mut self, _facts: &Facts) {
        self.status = Some(ReplicaSetStatus::default());
    }

    fn prepare_update(&mut self, old: &Self, _facts: &Facts) {
        self.status.clone_from(&old.status);
        if self.spec != old.spec {
            let generation = self.metadata.generation.get_or_insert_default();
            *generation += 1;
        }
    }

    fn prepare_status(&mut self, old: &Self, _facts: &Facts) {
        self.spec.clone_from(&old.spec);
    }

    fn validate(&self, errors: &Errors<'_>) {
        let spec = &self.spec;
        let errors = errors.at("spec");
        not_negative(spec.replicas, &errors.at("replicas"));
        not_negative(spec.min_ready_seconds, &errors.at("minReadySeconds"));
        validate_selector(spec, &errors);
    }

    fn validate_update(&self, old: &Self, errors: &Errors<'_>) {
        let selector = &self.spec.selector;
        if *selector != old.spec.selector {
            errors
                .at("spec")
                .at("selector")
                .invalid(selector, "field is immutable");
        }
    }

    fn validate_status(&self, _old: &Self, errors: &Errors<'_>) {
        let status = status(self);
        let errors = errors.at("status");
        not_negative(Some(status.replicas), &errors.at("replicas"));
        not_negative(status.fully_labeled_replicas, &errors.at("fullyLabeledReplicas"));
        not_negative(status.ready_replicas, &errors.at("readyReplicas"));
        not_negative(status.available_replicas, &errors.at("availableReplicas"));
        let more = "cannot be greater than status.replicas";
        for (field, count) in [
            ("fullyLabeledReplicas", status.fully_labeled_replicas),
            ("readyReplicas", status.ready_replicas),
            ("availableReplicas", status.available_replicas),
        ] {
            if let Some(count) = count.filter(|count| *count > status.replicas) {
                errors.at(field).invalid(count, more);
            }
        }
        let (ready, available) = (status.ready_replicas, status.available_replicas);
        if available.unwrap_or_default() > ready.unwrap_or_default() {
            let detail = "cannot be greater than readyReplicas";
            errors.at("availableReplicas").invalid(available, detail);
        }
    }
}

fn validate_selector(spec: &ReplicaSetSpec, errors: &Errors<'_>) {
    let empty = label_selector::is_empty(&spec.selector);
    label_selector::validate(&spec.selector, &errors.at("selector"));
    if empty {
        errors.at("selector").required("");
    }
    let default = PodTemplateSpec::default();
    let template = spec.template.as_ref().unwrap_or(&default);
    let labels = template
        .metadata
        .as_ref()
        .and_then(|metadata| metadata.labels.as_ref());
    let errors = errors.at("template");
    if let Ok(selector) = LabelSelector::try_from(&spec.selector) {
        let value = |label: &str| labels.and_then(|labels| labels.get(label)).map(String::as_str);
        if empty || !selector.matches(value) {
            errors
                .at("metadata")
                .at("labels")
                .invalid(labels, "`selector` does not match template `labels`");
        }
    }
    pod::validate_template(template, &errors);
    pod::require_always_restart(template, &errors.at("spec"));
}

fn not_negative(number: Option<i32>, errors: &Errors<'_>) {
    if let Some(number) = number.filter(|number| *number < 0) {
        errors.invalid(number, "must be greater than or equal to 0");
    }
}

fn status(set: &ReplicaSet) -> ReplicaSetStatus {
    set.status.clone().unwrap_or_default()
}

fn containers(set: &ReplicaSet, field: fn(&Container) -> &String) -> String {
    let template = set.spec.template.as_ref();
    let spec = template.and_then(|template| template.spec.as_ref());
    let texts: Vec<&str> = spec
        .into_iter()
        .flat_map(|spec| &spec.containers)
        .map(|container| field(container).as_str())
        .collect();
    texts.join(",")
}

fn images(set: &ReplicaSet) -> String {
    static NONE: String = String::new();
    containers(set, |container| container.image.as_ref().unwrap_or(&NONE))
}
