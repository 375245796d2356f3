//! Validation of a PersistentVolume's spec.

use setpoint_schema::{Tree, fields};
use setpoint_strategy::{FieldRef, name};

use super::sources;
use crate::shared::node_selector;

pub(crate) const ACCESS_MODES: &[&str] = &[
    "ReadOnlyMany",
    "ReadWriteMany",
    "ReadWriteOnce",
    "ReadWriteOncePod",
];
pub(crate) const VOLUME_MODES: &[&str] = &["Block", "Filesystem"];
const RECLAIM_POLICIES: &[&str] = &["Delete", "Recycle", "Retain"];
const INLINE: &str = "may not be specified in the context of inline volumes";
/// Node labels that were renamed.
const RENAMED: &[(&str, &str)] = &[
    (
        "failure-domain.beta.kubernetes.io/zone",
        "topology.kubernetes.io/zone",
    ),
    (
        "failure-domain.beta.kubernetes.io/region",
        "topology.kubernetes.io/region",
    ),
    ("beta.kubernetes.io/os", "kubernetes.io/os"),
    ("beta.kubernetes.io/arch", "kubernetes.io/arch"),
    (
        "beta.kubernetes.io/instance-type",
        "node.kubernetes.io/instance-type",
    ),
];

pub(super) fn set_defaults(spec: &mut Tree) {
    spec.set_default(fields::PERSISTENT_VOLUME_RECLAIM_POLICY, "Retain");
    spec.set_default(fields::VOLUME_MODE, "Filesystem");
    sources::set_defaults(spec);
}

/// Validates a volume. `bad_values` accepts a node affinity with invalid label values.
pub(super) fn validate(volume: &FieldRef<'_>, bad_values: bool) {
    let spec = volume.at(fields::SPEC);
    validate_modes(&spec.at(fields::ACCESS_MODES), "");
    validate_capacity(&spec.at(fields::CAPACITY));
    spec.at(fields::PERSISTENT_VOLUME_RECLAIM_POLICY)
        .one_of(RECLAIM_POLICIES);
    let affinity = spec.at(fields::NODE_AFFINITY);
    if affinity.is_set() {
        validate_affinity(&affinity, bad_values);
    }
    sources::validate(&spec, volume.at(fields::METADATA).at(fields::NAME).str());
    validate_recycling(&spec);
    let class = spec.at(fields::STORAGE_CLASS_NAME);
    if !class.is_empty() {
        name::check(&class, name::check_dns1123_subdomain);
    }
    let mode = spec.at(fields::VOLUME_MODE);
    if mode.is_set() && !VOLUME_MODES.contains(&mode.str()) {
        mode.not_supported(VOLUME_MODES);
    }
    validate_attributes_class(&spec);
}

/// Validates an inline volume spec, embedded in another object.
pub(crate) fn validate_inline(spec: &FieldRef<'_>) {
    for field in [fields::CLAIM_REF, fields::CAPACITY] {
        if !spec.at(field).is_empty() {
            spec.at(field).forbidden(INLINE);
        }
    }
    if !spec.at(fields::CSI).is_set() {
        spec.at(fields::CSI)
            .required("has to be specified in the context of inline volumes");
    }
    validate_modes(&spec.at(fields::ACCESS_MODES), "");
    let policy = spec.at(fields::PERSISTENT_VOLUME_RECLAIM_POLICY);
    if !matches!(policy.str(), "" | "Retain") {
        policy.forbidden("may only be Retain in the context of inline volumes");
    }
    if spec.at(fields::NODE_AFFINITY).is_set() {
        spec.at(fields::NODE_AFFINITY).forbidden(INLINE);
    }
    sources::validate(spec, "");
    validate_recycling(spec);
    if !spec.at(fields::STORAGE_CLASS_NAME).is_empty() {
        spec.at(fields::STORAGE_CLASS_NAME).forbidden(INLINE);
    }
    let mode = spec.at(fields::VOLUME_MODE);
    if mode.is_set() && mode.str() != "Filesystem" {
        mode.forbidden("may not specify volumeMode other than Filesystem in the context of inline volumes");
    }
}

/// Reports access modes that are invalid or exclude each other. `missing` is the message if there are none.
pub(crate) fn validate_modes(modes: &FieldRef<'_>, missing: &str) {
    if modes.is_empty() {
        modes.required(missing);
    }
    validate_mode_words(modes);
}

/// Reports access modes that are invalid or exclude each other.
pub(crate) fn validate_mode_words(modes: &FieldRef<'_>) {
    let known = |mode: &&str| ACCESS_MODES.contains(mode);
    for mode in modes.strs().filter(|mode| !known(mode)) {
        modes.errors().not_supported(mode, ACCESS_MODES);
    }
    let alone = modes.strs().any(|mode| mode == "ReadWriteOncePod");
    if alone && modes.strs().filter(known).any(|mode| mode != "ReadWriteOncePod") {
        modes.forbidden("may not use ReadWriteOncePod with other access modes");
    }
}

/// The only capacity of a volume is `storage`.
fn validate_capacity(capacity: &FieldRef<'_>) {
    if capacity.is_empty() {
        capacity.required("");
    }
    if !capacity.key("storage").is_set() || capacity.len() > 1 {
        capacity.not_supported(&["storage"]);
    }
    for (_, amount) in capacity.entries() {
        let quantity = amount.quantity().unwrap_or_default();
        if quantity.value() < 0 {
            amount.invalid_as(quantity.value(), "must be a valid resource quantity");
        }
        if quantity.is_negative() || quantity.is_zero() {
            amount.invalid("must be greater than zero");
        }
    }
}

fn validate_affinity(affinity: &FieldRef<'_>, bad_values: bool) {
    let required = affinity.at(fields::REQUIRED);
    if required.is_set() {
        node_selector::validate(&required, bad_values);
    } else {
        required.required("must specify required node constraints");
    }
}

fn validate_recycling(spec: &FieldRef<'_>) {
    let path = spec.at(fields::HOST_PATH).at(fields::PATH).str();
    let root = path.starts_with('/') && path.split('/').all(|step| matches!(step, "" | "." | ".."));
    let policy = spec.at(fields::PERSISTENT_VOLUME_RECLAIM_POLICY);
    if root && policy.str() == "Recycle" {
        policy.forbidden("may not be 'recycle' for a hostPath mount of '/'");
    }
}

fn validate_attributes_class(spec: &FieldRef<'_>) {
    let class = spec.at(fields::VOLUME_ATTRIBUTES_CLASS_NAME);
    if !class.is_set() {
        return;
    }
    if class.is_empty() {
        class.required("an empty string is disallowed");
    } else {
        name::check(&class, name::check_dns1123_subdomain);
    }
    if !spec.at(fields::CSI).is_set() {
        spec.at(fields::CSI)
            .required("has to be specified when using volumeAttributesClassName");
    }
}

/// A node affinity with renamed labels wherever the new affinity has them.
pub(super) fn with_new_labels(old: &Tree, new: &Tree) -> Tree {
    let mut renamed = old.clone();
    let null = Tree::Null;
    let (Some(required), other) = (
        renamed.get_mut(fields::REQUIRED),
        new.get(fields::REQUIRED).unwrap_or(&null),
    ) else {
        return renamed;
    };
    for (term, other) in required
        .items_mut(fields::NODE_SELECTOR_TERMS)
        .zip(other.items(fields::NODE_SELECTOR_TERMS))
    {
        for part in [fields::MATCH_EXPRESSIONS, fields::MATCH_FIELDS] {
            for (rule, other) in term.items_mut(part).zip(other.items(part)) {
                rename(rule, other);
            }
        }
    }
    renamed
}

fn rename(rule: &mut Tree, other: &Tree) {
    let (key, new) = (rule.str_at(&[fields::KEY]), other.str_at(&[fields::KEY]));
    let known = RENAMED.iter().find(|(old, _)| Some(*old) == key);
    if let Some((_, name)) = known.filter(|(_, name)| Some(*name) == new) {
        rule.set(&[fields::KEY], *name);
    }
}
