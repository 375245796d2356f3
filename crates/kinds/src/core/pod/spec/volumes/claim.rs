//! The claim that is made for a volume of the pod's own.

use crate::at::At;
use crate::shared::{label_selector, name, resources};

const ACCESS_MODES: &[&str] = &[
    "ReadOnlyMany",
    "ReadWriteMany",
    "ReadWriteOnce",
    "ReadWriteOncePod",
];
const ALONE: &str = "ReadWriteOncePod";

/// Reports what is wrong with what the claim asks for.
pub(super) fn validate(spec: &At<'_>) {
    validate_modes(&spec.at("accessModes"), &spec.at("selector"));
    validate_size(spec);
    for class in ["storageClassName", "volumeAttributesClassName"] {
        if !spec.at(class).is_empty() {
            name::check(&spec.at(class), name::subdomain);
        }
        if class == "storageClassName" {
            spec.at("volumeMode").one_of(&["Block", "Filesystem"]);
            validate_sources(spec);
        }
    }
}

fn validate_modes(modes: &At<'_>, selector: &At<'_>) {
    if modes.is_empty() {
        modes.required("at least 1 access mode is required");
    }
    label_selector::validate(selector);
    for mode in modes.strs().filter(|mode| !ACCESS_MODES.contains(mode)) {
        modes.errors().not_supported(mode, ACCESS_MODES);
    }
    let known = |mode: &str| ACCESS_MODES.contains(&mode) && mode != ALONE;
    if modes.strs().any(|mode| mode == ALONE) && modes.strs().any(known) {
        modes.forbidden("may not use ReadWriteOncePod with other access modes");
    }
}

fn validate_size(spec: &At<'_>) {
    let own = spec.at("resources");
    let size = own
        .at("requests")
        .key("storage")
        .reported_at(own.errors().key("storage"));
    match size.quantity() {
        None => size.required(""),
        Some(amount) if amount.is_zero() || amount.is_negative() => size.invalid("must be greater than zero"),
        Some(_) => resources::validate_amount("storage", &size),
    }
}

fn validate_sources(spec: &At<'_>) {
    let (source, reference) = (spec.at("dataSource"), spec.at("dataSourceRef"));
    for place in [&source, &reference].into_iter().filter(|place| place.is_set()) {
        place.at("name").require();
        place.at("kind").require();
        let group = place.at("apiGroup");
        if group.is_empty() && place.at("kind").str() != "PersistentVolumeClaim" {
            place.invalid_as(
                place.at("kind").str(),
                "must be 'PersistentVolumeClaim' when referencing the default apiGroup",
            );
        }
        if !group.is_empty() {
            name::check(&group, name::subdomain);
        }
    }
    let same = ["apiGroup", "kind", "name"]
        .iter()
        .all(|field| source.at(field).is_same(&reference.at(field)));
    if source.is_set() && reference.is_set() && !same {
        spec.invalid_as(source.errors().path(), "must match dataSourceRef");
    }
}
