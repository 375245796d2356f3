//! Namespace: a room for objects with names of their own.
//!
//! A namespace goes in two steps. Deleting it only marks it as terminating; its finalizers in the spec hold it until a
//! controller has emptied it and taken them away through the `finalize` subresource.

use k8s_openapi::api::core::v1::Namespace;

use setpoint_api::field::Errors;
use setpoint_api::table::Cell;

use crate::columns::{self, Column};
use crate::meta;
use crate::strategy::{Facts, Field, NameRule, Names, Rules, Scope, Strategy, Subresource};

/// The label that repeats the name, for selectors.
pub const NAME_LABEL: &str = "kubernetes.io/metadata.name";
/// The finalizer of the controller that empties namespaces.
pub const FINALIZER: &str = "kubernetes";

impl Strategy for Namespace {
    const NAMES: Names = Names::new("namespaces", "namespace").short(&["ns"]);
    const SCOPE: Scope = Scope::Cluster;
    const COLUMNS: &'static [Column<Self>] = &[
        columns::name(),
        Column::text("Status", |namespace, _| Cell::from(phase(namespace)))
            .about("Whether it takes new objects."),
        columns::age(),
    ];
    const FIELDS: &'static [Field] = &[Field::new("status.phase", &[&["status", "phase"]])];
    const SUBRESOURCES: &'static [Subresource] =
        &[Subresource::slice("finalize", &["update"]), Subresource::STATUS];
    const RULES: Rules = Rules {
        verbs: &["create", "delete", "get", "list", "patch", "update", "watch"],
        name: NameRule::Label,
        returns_deleted: true,
        ..Rules::DEFAULT
    };

    fn default_fields(&mut self) {
        if let Some(name) = self.metadata.name.clone().filter(|name| !name.is_empty()) {
            let labels = self.metadata.labels.get_or_insert_default();
            labels.insert(NAME_LABEL.to_owned(), name);
        }
        let status = self.status.get_or_insert_default();
        if status.phase.as_ref().is_none_or(String::is_empty) {
            status.phase = Some("Active".to_owned());
        }
    }

    fn prepare_create(&mut self, _facts: &Facts) {
        let status = self.status.get_or_insert_default();
        (status.phase, status.conditions) = (Some("Active".to_owned()), None);
        let finalizers = self
            .spec
            .get_or_insert_default()
            .finalizers
            .get_or_insert_default();
        if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
            finalizers.push(FINALIZER.to_owned());
        }
        self.default_fields();
    }

    fn prepare_update(&mut self, old: &Self, _facts: &Facts) {
        self.spec.clone_from(&old.spec);
        self.status.clone_from(&old.status);
    }

    fn prepare_status(&mut self, old: &Self, _facts: &Facts) {
        self.spec.clone_from(&old.spec);
    }

    fn prepare_part(&mut self, _name: &str, old: &Self, _facts: &Facts) {
        self.status.clone_from(&old.status);
    }

    fn validate(&self, errors: &Errors<'_>) {
        let finalizers = self.spec.as_ref().and_then(|spec| spec.finalizers.as_ref());
        for finalizer in finalizers.into_iter().flatten() {
            meta::validate_finalizer(finalizer, &errors.at("spec").at("finalizers"));
        }
    }

    fn validate_status(&self, _old: &Self, errors: &Errors<'_>) {
        let terminating = phase(self) == "Terminating";
        let deleting = self.metadata.deletion_timestamp.is_some();
        let errors = errors.at("status");
        let errors = errors.at("Phase");
        if deleting && !terminating {
            let detail = "may only be 'Terminating' if `deletionTimestamp` is not empty";
            errors.invalid(phase(self), detail);
        }
        if !deleting && phase(self) != "Active" {
            let detail = "may only be 'Active' if `deletionTimestamp` is empty";
            errors.invalid(phase(self), detail);
        }
    }

    fn begin_deletion(&mut self) {
        self.status.get_or_insert_default().phase = Some("Terminating".to_owned());
    }

    fn is_held(&self) -> bool {
        let spec = self.spec.as_ref();
        spec.and_then(|spec| spec.finalizers.as_ref())
            .is_some_and(|finalizers| !finalizers.is_empty())
    }
}

fn phase(namespace: &Namespace) -> &str {
    let status = namespace.status.as_ref();
    status
        .and_then(|status| status.phase.as_deref())
        .unwrap_or_default()
}
