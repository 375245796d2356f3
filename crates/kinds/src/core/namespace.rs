//! Namespace: a scope for names of objects.
//!
//! A namespace is deleted in two steps. A delete marks it as terminating; the finalizers in its spec keep it until
//! the namespace controller has deleted its contents and removed the finalizer through the `finalize` subresource.

use setpoint_api::table::Cell;
use setpoint_api::{ApiVerb, ApiVerbs};
use setpoint_schema::{Tree, fields};
use setpoint_strategy::columns::{self, Column};
use setpoint_strategy::{
    FieldLabel, FieldRef, NameRule, Names, PartialRules, RequestFacts, Rules, Scope, Strategy, Subresource,
    meta, top_level,
};

/// The label with the namespace's name, for selectors.
pub const NAME_LABEL: &str = "kubernetes.io/metadata.name";
/// The finalizer of the namespace controller.
pub const FINALIZER: &str = "kubernetes";

/// The subresource that writes `spec.finalizers`.
const FINALIZE: Subresource = Subresource {
    verbs: ApiVerbs::new(&[ApiVerb::Update]),
    ..Subresource::partial(
        "finalize",
        PartialRules {
            prepare: |namespace, old, _| top_level::keep(namespace, old, fields::STATUS),
            validate: |namespace, _, _| validate_finalizers(namespace),
        },
    )
};

#[derive(Debug)]
pub struct Namespace;

impl Strategy for Namespace {
    const KIND: (&'static str, &'static str, &'static str) = ("", "v1", "Namespace");
    const NAMES: Names = Names::new("namespaces", "namespace").short(&["ns"]);
    const SCOPE: Scope = Scope::Cluster;
    const COLUMNS: &'static [Column] = &[
        columns::NAME,
        Column::text("Status", |namespace, _| {
            Cell::from(namespace.at(fields::STATUS).at(fields::PHASE).str())
        })
        .description("The phase of the namespace."),
        columns::AGE,
    ];
    const FIELDS: &'static [FieldLabel] = &[FieldLabel::new(
        "status.phase",
        &[&[fields::STATUS, fields::PHASE]],
    )];
    const SUBRESOURCES: &'static [Subresource] = &[FINALIZE, Subresource::STATUS];
    const RULES: Rules = Rules::DEFAULT
        .verbs(ApiVerbs::ALL.without(ApiVerb::DeleteCollection))
        .name(NameRule::Label)
        .returns_deleted();

    fn default_fields(namespace: &mut Tree) {
        let name = meta::name(namespace).to_owned();
        if !name.is_empty() {
            namespace.set(&[fields::METADATA, fields::LABELS, NAME_LABEL], name);
        }
        namespace
            .child(fields::STATUS)
            .set_default(fields::PHASE, "Active");
    }

    fn prepare_create(namespace: &mut Tree, _facts: &RequestFacts) {
        let status = namespace.child(fields::STATUS);
        status.set(&[fields::PHASE], "Active");
        status.take(&[fields::CONDITIONS]);
        let finalizers = namespace
            .child(fields::SPEC)
            .map_or_default()
            .entry(fields::FINALIZERS);
        let mut names = finalizers.as_list().unwrap_or_default().to_vec();
        if !names.iter().any(|name| name.as_str() == Some(FINALIZER)) {
            names.push(Tree::from(FINALIZER));
        }
        *finalizers = Tree::from(names);
    }

    /// Sets the name label of a generated name, which is valid only after validation.
    fn finish_create(namespace: &mut Tree) {
        Self::default_fields(namespace);
    }

    fn prepare_update(namespace: &mut Tree, old: &Tree, _facts: &RequestFacts) {
        top_level::keep(namespace, old, fields::SPEC);
        top_level::keep(namespace, old, fields::STATUS);
    }

    fn validate(namespace: &FieldRef<'_>, _facts: &RequestFacts) {
        let finalizers = namespace.at(fields::SPEC).at(fields::FINALIZERS);
        for finalizer in finalizers.items() {
            meta::validate_finalizer(&finalizer.with_errors(finalizers.errors().clone()));
        }
    }

    fn validate_status(namespace: &FieldRef<'_>, _old: &FieldRef<'_>, _facts: &RequestFacts) {
        let deleting = namespace
            .at(fields::METADATA)
            .at(fields::DELETION_TIMESTAMP)
            .is_set();
        let phase = namespace.at(fields::STATUS).at(fields::PHASE);
        let phase = phase.with_errors(namespace.errors().at(fields::STATUS).at("Phase"));
        match (deleting, phase.str()) {
            (true, "Terminating") | (false, "Active") => {}
            (true, _) => phase.invalid("may only be 'Terminating' if `deletionTimestamp` is not empty"),
            (false, _) => phase.invalid("may only be 'Active' if `deletionTimestamp` is empty"),
        }
    }

    fn begin_deletion(namespace: &mut Tree) {
        namespace.set(&[fields::STATUS, fields::PHASE], "Terminating");
    }

    fn is_held(namespace: &Tree) -> bool {
        let finalizers = namespace.at(&[fields::SPEC, fields::FINALIZERS]);
        finalizers
            .and_then(Tree::as_list)
            .is_some_and(|list| !list.is_empty())
    }
}

fn validate_finalizers(namespace: &FieldRef<'_>) {
    let finalizers = namespace.at(fields::SPEC).at(fields::FINALIZERS);
    finalizers
        .items()
        .for_each(|finalizer| meta::validate_finalizer(&finalizer));
}
