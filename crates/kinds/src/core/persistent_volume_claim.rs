//! PersistentVolumeClaim: a request for storage of a size and a class.

use setpoint_api::table::Cell;
use setpoint_schema::{Tree, fields};
use setpoint_strategy::columns::{self, Column, UNSET};
use setpoint_strategy::{
    FieldRef, Names, RequestFacts, Rules, Strategy, Subresource, go_dump, label_selector, meta, name,
    top_level,
};

use super::persistent_volume::{self, CLASS_ANNOTATION, spec};
use crate::shared::diff;

const SNAPSHOTS: &str = "snapshot.storage.k8s.io";
const RESIZING: &[&str] = &[
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
];

#[derive(Debug)]
pub struct PersistentVolumeClaim;

impl Strategy for PersistentVolumeClaim {
    const KIND: (&'static str, &'static str, &'static str) = ("", "v1", "PersistentVolumeClaim");
    const NAMES: Names = Names::new("persistentvolumeclaims", "persistentvolumeclaim").short(&["pvc"]);
    const COLUMNS: &'static [Column] = &[
        columns::NAME,
        Column::text("Status", |claim, _| Cell::from(persistent_volume::phase(claim)))
            .description("The phase of the claim."),
        Column::text("Volume", |claim, _| {
            columns::or_empty(&claim.at(fields::SPEC).at(fields::VOLUME_NAME))
        })
        .description("The bound volume."),
        Column::text("Capacity", |claim, _| {
            bound(claim, |claim| {
                persistent_volume::storage(&claim.at(fields::STATUS).at(fields::CAPACITY))
            })
        })
        .description("The capacity of the bound volume."),
        Column::text("Access Modes", |claim, _| {
            bound(claim, |claim| {
                persistent_volume::modes(&claim.at(fields::STATUS).at(fields::ACCESS_MODES))
            })
        })
        .description("The access modes."),
        Column::text("StorageClass", |claim, _| {
            let old = meta::entry(claim.value(), fields::ANNOTATIONS, CLASS_ANNOTATION);
            Cell::from(old.unwrap_or(claim.at(fields::SPEC).at(fields::STORAGE_CLASS_NAME).str()))
        })
        .description("The storage class."),
        Column::text("VolumeAttributesClass", |claim, _| {
            let class = claim.at(fields::SPEC).at(fields::VOLUME_ATTRIBUTES_CLASS_NAME);
            Cell::from(class.find_str().unwrap_or(UNSET))
        })
        .description("The volume attributes class."),
        columns::AGE,
        Column::text("VolumeMode", |claim, _| {
            let mode = claim.at(fields::SPEC).at(fields::VOLUME_MODE);
            Cell::from(mode.find_str().unwrap_or(UNSET))
        })
        .wide()
        .description("The volume mode: file system or block device."),
    ];
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::STATUS];
    const RULES: Rules = Rules::DEFAULT.returns_deleted();

    fn default_fields(claim: &mut Tree) {
        claim.child(fields::STATUS).set_default(fields::PHASE, "Pending");
        claim
            .child(fields::SPEC)
            .set_default(fields::VOLUME_MODE, "Filesystem");
    }

    fn prepare_create(claim: &mut Tree, _facts: &RequestFacts) {
        top_level::drop(claim, fields::STATUS);
        claim.set(&[fields::STATUS, fields::PHASE], "Pending");
        default_data_source(claim.child(fields::SPEC), &Tree::Null);
    }

    fn prepare_update(claim: &mut Tree, old: &Tree, _facts: &RequestFacts) {
        top_level::keep(claim, old, fields::STATUS);
        let null = Tree::Null;
        default_data_source(claim.child(fields::SPEC), old.get(fields::SPEC).unwrap_or(&null));
    }

    // `CSIVolumeHealth` is disabled.
    fn prepare_status(claim: &mut Tree, old: &Tree, _facts: &RequestFacts) {
        top_level::keep_all_except(claim, old, &[fields::METADATA, fields::STATUS]);
        if old.at(&[fields::STATUS, fields::HEALTH_STATUS]).is_none() {
            claim.take(&[fields::STATUS, fields::HEALTH_STATUS]);
        }
    }

    fn validate(claim: &FieldRef<'_>, _facts: &RequestFacts) {
        validate_spec(&claim.at(fields::SPEC));
    }

    fn validate_update(claim: &FieldRef<'_>, old: &FieldRef<'_>, _facts: &RequestFacts) {
        validate_class_annotation(claim, old);
        validate_same(claim, old);
        validate_size(claim, old);
        let mode = claim.at(fields::SPEC).at(fields::VOLUME_MODE);
        mode.with_errors(claim.errors().at(fields::VOLUME_MODE))
            .immutable(&old.at(fields::SPEC).at(fields::VOLUME_MODE));
        validate_attributes_class(claim, old);
    }

    fn validate_status(claim: &FieldRef<'_>, _old: &FieldRef<'_>, _facts: &RequestFacts) {
        if claim.at(fields::SPEC).at(fields::ACCESS_MODES).is_empty() {
            claim.errors().at("Spec").at(fields::ACCESS_MODES).required("");
        }
        let status = claim.at(fields::STATUS);
        for (_, amount) in status.at(fields::CAPACITY).entries() {
            check_amount(&amount);
        }
        validate_resizing(&status);
    }

    fn warnings(claim: &FieldRef<'_>, _old: Option<&FieldRef<'_>>) -> Vec<String> {
        let mut warnings = Vec::new();
        if meta::entry(claim.value(), fields::ANNOTATIONS, CLASS_ANNOTATION).is_some() {
            warnings.push(format!(
                "metadata.annotations[{CLASS_ANNOTATION}]: deprecated since v1.8; use \"storageClassName\" attribute instead"
            ));
        }
        for field in [fields::REQUESTS, fields::LIMITS] {
            let amount = claim
                .at(fields::SPEC)
                .at(fields::RESOURCES)
                .at(field)
                .key("storage");
            let whole = amount
                .quantity()
                .is_none_or(|amount| amount.milli_value() % 1000 == 0);
            if !whole {
                warnings.push(format!(
                    "{}: fractional byte value {:?} is invalid, must be an integer",
                    amount.errors().path(),
                    amount.str()
                ));
            }
        }
        warnings
    }
}

fn bound(claim: &FieldRef<'_>, cell: fn(&FieldRef<'_>) -> String) -> Cell {
    if claim.at(fields::SPEC).at(fields::VOLUME_NAME).is_empty() {
        return Cell::from("");
    }
    Cell::from(cell(claim))
}

/// The data source has two fields, of which the older one supports only claims and snapshots. If one is absent it is
/// set from the other.
fn default_data_source(spec: &mut Tree, old: &Tree) {
    let named = |spec: &Tree, path: &[&str]| spec.str_at(path).is_some_and(|text| !text.is_empty());
    if named(spec, &[fields::DATA_SOURCE_REF, fields::NAMESPACE])
        && old.get(fields::DATA_SOURCE_REF).is_none()
    {
        spec.take(&[fields::DATA_SOURCE_REF]);
    }
    let in_use = old.get(fields::DATA_SOURCE).is_some() || old.get(fields::DATA_SOURCE_REF).is_some();
    if !in_use && spec.get(fields::DATA_SOURCE_REF).is_none() && !is_old_source(spec.get(fields::DATA_SOURCE))
    {
        spec.take(&[fields::DATA_SOURCE]);
    }
    match (
        spec.get(fields::DATA_SOURCE).cloned(),
        spec.get(fields::DATA_SOURCE_REF).cloned(),
    ) {
        (Some(source), None) => spec.set(&[fields::DATA_SOURCE_REF], source),
        (None, Some(mut source)) if !named(&source, &[fields::NAMESPACE]) => {
            source.take(&[fields::NAMESPACE]);
            spec.set(&[fields::DATA_SOURCE], source);
        }
        _ => {}
    }
}

fn is_old_source(source: Option<&Tree>) -> bool {
    let text = |field: &str| {
        source
            .and_then(|source| source.str_at(&[field]))
            .unwrap_or_default()
    };
    matches!(
        (text(fields::KIND), text(fields::API_GROUP)),
        ("PersistentVolumeClaim", "") | ("VolumeSnapshot", SNAPSHOTS)
    )
}

/// Validates a claim's spec.
pub(crate) fn validate_spec(spec: &FieldRef<'_>) {
    let modes = spec.at(fields::ACCESS_MODES);
    if modes.is_empty() {
        modes.required("at least 1 access mode is required");
    }
    if spec.at(fields::SELECTOR).is_set() {
        label_selector::validate(&spec.at(fields::SELECTOR));
    }
    spec::validate_mode_words(&modes);
    validate_request(spec);
    let class = spec.at(fields::STORAGE_CLASS_NAME);
    if !class.is_empty() {
        name::check(&class, name::check_dns1123_subdomain);
    }
    let mode = spec.at(fields::VOLUME_MODE);
    if mode.is_set() && !spec::VOLUME_MODES.contains(&mode.str()) {
        mode.not_supported(spec::VOLUME_MODES);
    }
    validate_sources(spec);
    let class = spec.at(fields::VOLUME_ATTRIBUTES_CLASS_NAME);
    if !class.is_empty() {
        name::check(&class, name::check_dns1123_subdomain);
    }
}

fn validate_request(spec: &FieldRef<'_>) {
    let amount = spec.at(fields::RESOURCES).at(fields::REQUESTS).key("storage");
    let amount = amount.with_errors(spec.at(fields::RESOURCES).errors().key("storage"));
    match amount.quantity() {
        None => amount.required(""),
        Some(quantity) if quantity.is_negative() || quantity.is_zero() => {
            amount.invalid("must be greater than zero");
        }
        Some(_) => {}
    }
}

fn validate_sources(spec: &FieldRef<'_>) {
    let (source, reference) = (spec.at(fields::DATA_SOURCE), spec.at(fields::DATA_SOURCE_REF));
    for source in [&source, &reference].into_iter().filter(|source| source.is_set()) {
        validate_source(source);
    }
    let namespace = reference.at(fields::NAMESPACE);
    if !namespace.is_empty() {
        name::check(&namespace, name::check_dns1123_label);
    }
    if !source.is_set() || !reference.is_set() {
        return;
    }
    let shown = spec.at(fields::DATA_SOURCE).errors().path();
    let same = [fields::API_GROUP, fields::KIND, fields::NAME]
        .iter()
        .all(|field| source.at(field).is_same(&reference.at(field)));
    if !namespace.is_empty() {
        spec.invalid_as(
            &shown,
            "may not be specified when dataSourceRef.namespace is specified",
        );
    } else if !same {
        spec.invalid_as(&shown, "must match dataSourceRef");
    }
}

fn validate_source(source: &FieldRef<'_>) {
    source.at(fields::NAME).require();
    source.at(fields::KIND).require();
    let (group, kind) = (source.at(fields::API_GROUP), source.at(fields::KIND).str());
    if !group.is_empty() {
        name::check(&group, name::check_dns1123_subdomain);
    } else if kind != "PersistentVolumeClaim" {
        source.invalid_as(
            kind,
            "must be 'PersistentVolumeClaim' when referencing the default apiGroup",
        );
    }
}

fn annotation<'a>(claim: &FieldRef<'a>) -> Option<&'a str> {
    meta::entry(claim.value(), fields::ANNOTATIONS, CLASS_ANNOTATION)
}

/// Whether an update only moves the class from the annotation to its field.
fn moves_class(claim: &FieldRef<'_>, old: &FieldRef<'_>) -> bool {
    let before = annotation(old);
    before.is_some()
        && !old.at(fields::SPEC).at(fields::STORAGE_CLASS_NAME).is_set()
        && claim.at(fields::SPEC).at(fields::STORAGE_CLASS_NAME).find_str() == before
        && (annotation(claim).is_none() || annotation(claim) == before)
}

fn validate_class_annotation(claim: &FieldRef<'_>, old: &FieldRef<'_>) {
    let (new, before) = (annotation(claim), annotation(old));
    if !moves_class(claim, old) && new.unwrap_or_default() != before.unwrap_or_default() {
        let field = claim.at(fields::METADATA).at(fields::ANNOTATIONS);
        let field = field.errors().key(CLASS_ANNOTATION);
        field.invalid(new.unwrap_or_default(), "field is immutable");
    }
}

/// The spec is immutable, except for the volume name, a class where there was none, and the fields that may change
/// while in use.
fn validate_same(claim: &FieldRef<'_>, old: &FieldRef<'_>) {
    let (mut new, mut before) = (
        claim.at(fields::SPEC).value().clone(),
        old.at(fields::SPEC).value().clone(),
    );
    let copy = |to: &mut Tree, from: &Tree, path: &[&str]| match from.at(path) {
        Some(value) => to.set(path, value.clone()),
        None => _ = to.take(path),
    };
    if before
        .str_at(&[fields::VOLUME_NAME])
        .unwrap_or_default()
        .is_empty()
    {
        copy(&mut before, &new, &[fields::VOLUME_NAME]);
    }
    let class = new.str_at(&[fields::STORAGE_CLASS_NAME]);
    let first = class.is_some()
        && before.get(fields::STORAGE_CLASS_NAME).is_none()
        && annotation(old).is_none_or(|old| class == Some(old));
    if moves_class(claim, old) || first {
        copy(&mut new, &before, &[fields::STORAGE_CLASS_NAME]);
    }
    if claim.at(fields::STATUS).at(fields::PHASE).str() == "Bound" {
        if new.at(&[fields::RESOURCES, fields::REQUESTS]).is_some() {
            copy(
                &mut new,
                &before,
                &[fields::RESOURCES, fields::REQUESTS, "storage"],
            );
        }
        copy(&mut new, &before, &[fields::VOLUME_ATTRIBUTES_CLASS_NAME]);
    }
    let Some(shape) = claim
        .at(fields::SPEC)
        .shape()
        .filter(|_| !new.semantic_eq(&before))
    else {
        return;
    };
    let shown = |tree: &Tree| go_dump::dump_pretty(shape, tree);
    claim.at(fields::SPEC).forbidden(&format!(
        "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n{}",
        diff::unified(&shown(&before), &shown(&new))
    ));
}

/// A claim may shrink after a failed expansion, but not below its capacity.
fn validate_size(claim: &FieldRef<'_>, old: &FieldRef<'_>) {
    let size = |amounts: FieldRef<'_>| amounts.key("storage").quantity().unwrap_or_default();
    let requested =
        |claim: &FieldRef<'_>| size(claim.at(fields::SPEC).at(fields::RESOURCES).at(fields::REQUESTS));
    let new = requested(claim);
    if new < requested(old) && new <= size(old.at(fields::STATUS).at(fields::CAPACITY)) {
        let field = claim.at(fields::SPEC).at(fields::RESOURCES).at(fields::REQUESTS);
        let field = field.errors().at("storage");
        field.forbidden("field can not be less than status.capacity");
    }
}

fn validate_attributes_class(claim: &FieldRef<'_>, old: &FieldRef<'_>) {
    let class = claim.at(fields::SPEC).at(fields::VOLUME_ATTRIBUTES_CLASS_NAME);
    let before = old.at(fields::SPEC).at(fields::VOLUME_ATTRIBUTES_CLASS_NAME);
    let in_use = old
        .at(fields::STATUS)
        .at(fields::CURRENT_VOLUME_ATTRIBUTES_CLASS_NAME)
        .is_set();
    if class.is_same(&before) || !in_use {
        return;
    }
    let because = "is forbidden when status.currentVolumeAttributesClassName is not nil";
    if !class.is_set() {
        class.forbidden(&format!("update to nil {because}"));
    } else if class.is_empty() {
        class.forbidden(&format!("update to empty string {because}"));
    }
}

fn check_amount(amount: &FieldRef<'_>) {
    let value = amount.quantity().unwrap_or_default().value();
    if value < 0 {
        amount.invalid_as(value, "must be a valid resource quantity");
    }
}

/// Resize status keys must be `storage` or a custom, qualified name.
fn check_key(key: &str, field: &FieldRef<'_>) -> bool {
    let violations = name::check_qualified_name(key);
    let native = !key.contains('/') || key.contains("kubernetes.io/");
    if violations.is_empty() && native && key != "storage" {
        field.errors().not_supported(key, &["storage"]);
        return false;
    }
    let fine = violations.is_empty();
    name::report(key, violations, field.errors());
    fine
}

fn validate_resizing(status: &FieldRef<'_>) {
    let states = status.at(fields::ALLOCATED_RESOURCE_STATUSES);
    for (key, state) in states.entries() {
        check_key(key, &states);
        if !RESIZING.contains(&state.str()) {
            states.errors().not_supported(key, RESIZING);
        }
    }
    let amounts = status.at(fields::ALLOCATED_RESOURCES);
    for (key, amount) in amounts.entries() {
        if check_key(key, &amounts) {
            check_amount(&amount);
        }
    }
}
