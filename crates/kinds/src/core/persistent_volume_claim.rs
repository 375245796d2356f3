//! PersistentVolumeClaim: a request for storage of a size and a class.

use setpoint_api::table::Cell;
use setpoint_schema::Tree;

use super::persistent_volume::{self, CLASS_ANNOTATION, spec};
use crate::columns::{self, Column, UNSET};
use crate::field::FieldRef;
use crate::shared::{diff, go_dump, label_selector, name};
use crate::strategy::{Names, RequestFacts, Rules, Strategy, Subresource};
use crate::{meta, top_level};

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
            columns::or_empty(&claim.at("spec").at("volumeName"))
        })
        .description("The bound volume."),
        Column::text("Capacity", |claim, _| {
            bound(claim, |claim| {
                persistent_volume::storage(&claim.at("status").at("capacity"))
            })
        })
        .description("The capacity of the bound volume."),
        Column::text("Access Modes", |claim, _| {
            bound(claim, |claim| {
                persistent_volume::modes(&claim.at("status").at("accessModes"))
            })
        })
        .description("The access modes."),
        Column::text("StorageClass", |claim, _| {
            let old = meta::entry(claim.value(), "annotations", CLASS_ANNOTATION);
            Cell::from(old.unwrap_or(claim.at("spec").at("storageClassName").str()))
        })
        .description("The storage class."),
        Column::text("VolumeAttributesClass", |claim, _| {
            let class = claim.at("spec").at("volumeAttributesClassName");
            Cell::from(class.find_str().unwrap_or(UNSET))
        })
        .description("The volume attributes class."),
        columns::AGE,
        Column::text("VolumeMode", |claim, _| {
            let mode = claim.at("spec").at("volumeMode");
            Cell::from(mode.find_str().unwrap_or(UNSET))
        })
        .wide()
        .description("The volume mode: file system or block device."),
    ];
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::STATUS];
    const RULES: Rules = Rules {
        returns_deleted: true,
        ..Rules::DEFAULT
    };

    fn default_fields(claim: &mut Tree) {
        claim.child("status").set_default("phase", "Pending");
        claim.child("spec").set_default("volumeMode", "Filesystem");
    }

    fn prepare_create(claim: &mut Tree, _facts: &RequestFacts) {
        top_level::drop(claim, "status");
        claim.set(&["status", "phase"], "Pending");
        default_data_source(claim.child("spec"), &Tree::Null);
    }

    fn prepare_update(claim: &mut Tree, old: &Tree, _facts: &RequestFacts) {
        top_level::keep(claim, old, "status");
        let null = Tree::Null;
        default_data_source(claim.child("spec"), old.get("spec").unwrap_or(&null));
    }

    // `CSIVolumeHealth` is disabled.
    fn prepare_status(claim: &mut Tree, old: &Tree, _facts: &RequestFacts) {
        top_level::keep_all_except(claim, old, &["metadata", "status"]);
        if old.at(&["status", "healthStatus"]).is_none() {
            claim.take(&["status", "healthStatus"]);
        }
    }

    fn validate(claim: &FieldRef<'_>) {
        validate_spec(&claim.at("spec"));
    }

    fn validate_update(claim: &FieldRef<'_>, old: &FieldRef<'_>) {
        validate_class_annotation(claim, old);
        validate_same(claim, old);
        validate_size(claim, old);
        let mode = claim.at("spec").at("volumeMode");
        mode.with_errors(claim.errors().at("volumeMode"))
            .immutable(&old.at("spec").at("volumeMode"));
        validate_attributes_class(claim, old);
    }

    fn validate_status(claim: &FieldRef<'_>, _old: &FieldRef<'_>) {
        if claim.at("spec").at("accessModes").is_empty() {
            claim.errors().at("Spec").at("accessModes").required("");
        }
        let status = claim.at("status");
        for (_, amount) in status.at("capacity").entries() {
            check_amount(&amount);
        }
        validate_resizing(&status);
    }

    fn warnings(claim: &FieldRef<'_>, _old: Option<&FieldRef<'_>>) -> Vec<String> {
        let mut warnings = Vec::new();
        if meta::entry(claim.value(), "annotations", CLASS_ANNOTATION).is_some() {
            warnings.push(format!(
                "metadata.annotations[{CLASS_ANNOTATION}]: deprecated since v1.8; use \"storageClassName\" attribute instead"
            ));
        }
        for field in ["requests", "limits"] {
            let amount = claim.at("spec").at("resources").at(field).key("storage");
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
    if claim.at("spec").at("volumeName").is_empty() {
        return Cell::from("");
    }
    Cell::from(cell(claim))
}

/// The data source has two fields, of which the older one supports only claims and snapshots. If one is absent it is
/// set from the other.
fn default_data_source(spec: &mut Tree, old: &Tree) {
    let named = |spec: &Tree, path: &[&str]| spec.str_at(path).is_some_and(|text| !text.is_empty());
    if named(spec, &["dataSourceRef", "namespace"]) && old.get("dataSourceRef").is_none() {
        spec.take(&["dataSourceRef"]);
    }
    let in_use = old.get("dataSource").is_some() || old.get("dataSourceRef").is_some();
    if !in_use && spec.get("dataSourceRef").is_none() && !is_old_source(spec.get("dataSource")) {
        spec.take(&["dataSource"]);
    }
    match (
        spec.get("dataSource").cloned(),
        spec.get("dataSourceRef").cloned(),
    ) {
        (Some(source), None) => spec.set(&["dataSourceRef"], source),
        (None, Some(mut source)) if !named(&source, &["namespace"]) => {
            source.take(&["namespace"]);
            spec.set(&["dataSource"], source);
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
        (text("kind"), text("apiGroup")),
        ("PersistentVolumeClaim", "") | ("VolumeSnapshot", SNAPSHOTS)
    )
}

/// Validates a claim's spec.
pub(crate) fn validate_spec(spec: &FieldRef<'_>) {
    let modes = spec.at("accessModes");
    if modes.is_empty() {
        modes.required("at least 1 access mode is required");
    }
    if spec.at("selector").is_set() {
        label_selector::validate(&spec.at("selector"));
    }
    spec::validate_mode_words(&modes);
    validate_request(spec);
    let class = spec.at("storageClassName");
    if !class.is_empty() {
        name::check(&class, name::check_dns1123_subdomain);
    }
    let mode = spec.at("volumeMode");
    if mode.is_set() && !spec::VOLUME_MODES.contains(&mode.str()) {
        mode.not_supported(spec::VOLUME_MODES);
    }
    validate_sources(spec);
    let class = spec.at("volumeAttributesClassName");
    if !class.is_empty() {
        name::check(&class, name::check_dns1123_subdomain);
    }
}

fn validate_request(spec: &FieldRef<'_>) {
    let amount = spec.at("resources").at("requests").key("storage");
    let amount = amount.with_errors(spec.at("resources").errors().key("storage"));
    match amount.quantity() {
        None => amount.required(""),
        Some(quantity) if quantity.is_negative() || quantity.is_zero() => {
            amount.invalid("must be greater than zero");
        }
        Some(_) => {}
    }
}

fn validate_sources(spec: &FieldRef<'_>) {
    let (source, reference) = (spec.at("dataSource"), spec.at("dataSourceRef"));
    for source in [&source, &reference].into_iter().filter(|source| source.is_set()) {
        validate_source(source);
    }
    let namespace = reference.at("namespace");
    if !namespace.is_empty() {
        name::check(&namespace, name::check_dns1123_label);
    }
    if !source.is_set() || !reference.is_set() {
        return;
    }
    let shown = spec.at("dataSource").errors().path();
    let same = ["apiGroup", "kind", "name"]
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
    source.at("name").require();
    source.at("kind").require();
    let (group, kind) = (source.at("apiGroup"), source.at("kind").str());
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
    meta::entry(claim.value(), "annotations", CLASS_ANNOTATION)
}

/// Whether an update only moves the class from the annotation to its field.
fn moves_class(claim: &FieldRef<'_>, old: &FieldRef<'_>) -> bool {
    let before = annotation(old);
    before.is_some()
        && !old.at("spec").at("storageClassName").is_set()
        && claim.at("spec").at("storageClassName").find_str() == before
        && (annotation(claim).is_none() || annotation(claim) == before)
}

fn validate_class_annotation(claim: &FieldRef<'_>, old: &FieldRef<'_>) {
    let (new, before) = (annotation(claim), annotation(old));
    if !moves_class(claim, old) && new.unwrap_or_default() != before.unwrap_or_default() {
        let field = claim.at("metadata").at("annotations");
        let field = field.errors().key(CLASS_ANNOTATION);
        field.invalid(new.unwrap_or_default(), "field is immutable");
    }
}

/// The spec is immutable, except for the volume name, a class where there was none, and the fields that may change
/// while in use.
fn validate_same(claim: &FieldRef<'_>, old: &FieldRef<'_>) {
    let (mut new, mut before) = (claim.at("spec").value().clone(), old.at("spec").value().clone());
    let copy = |to: &mut Tree, from: &Tree, path: &[&str]| match from.at(path) {
        Some(value) => to.set(path, value.clone()),
        None => _ = to.take(path),
    };
    if before.str_at(&["volumeName"]).unwrap_or_default().is_empty() {
        copy(&mut before, &new, &["volumeName"]);
    }
    let class = new.str_at(&["storageClassName"]);
    let first = class.is_some()
        && before.get("storageClassName").is_none()
        && annotation(old).is_none_or(|old| class == Some(old));
    if moves_class(claim, old) || first {
        copy(&mut new, &before, &["storageClassName"]);
    }
    if claim.at("status").at("phase").str() == "Bound" {
        if new.at(&["resources", "requests"]).is_some() {
            copy(&mut new, &before, &["resources", "requests", "storage"]);
        }
        copy(&mut new, &before, &["volumeAttributesClassName"]);
    }
    let Some(shape) = claim.at("spec").shape().filter(|_| !new.semantic_eq(&before)) else {
        return;
    };
    let shown = |tree: &Tree| go_dump::dump_pretty(shape, tree);
    claim.at("spec").forbidden(&format!(
        "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n{}",
        diff::unified(&shown(&before), &shown(&new))
    ));
}

/// A claim may shrink after a failed expansion, but not below its capacity.
fn validate_size(claim: &FieldRef<'_>, old: &FieldRef<'_>) {
    let size = |amounts: FieldRef<'_>| amounts.key("storage").quantity().unwrap_or_default();
    let requested = |claim: &FieldRef<'_>| size(claim.at("spec").at("resources").at("requests"));
    let new = requested(claim);
    if new < requested(old) && new <= size(old.at("status").at("capacity")) {
        let field = claim.at("spec").at("resources").at("requests");
        let field = field.errors().at("storage");
        field.forbidden("field can not be less than status.capacity");
    }
}

fn validate_attributes_class(claim: &FieldRef<'_>, old: &FieldRef<'_>) {
    let class = claim.at("spec").at("volumeAttributesClassName");
    let before = old.at("spec").at("volumeAttributesClassName");
    let in_use = old.at("status").at("currentVolumeAttributesClassName").is_set();
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
    let states = status.at("allocatedResourceStatuses");
    for (key, state) in states.entries() {
        check_key(key, &states);
        if !RESIZING.contains(&state.str()) {
            states.errors().not_supported(key, RESIZING);
        }
    }
    let amounts = status.at("allocatedResources");
    for (key, amount) in amounts.entries() {
        if check_key(key, &amounts) {
            check_amount(&amount);
        }
    }
}
