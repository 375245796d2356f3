//! Warnings about schemas that are valid, but do not do what they seem to.

use std::collections::BTreeSet;

use setpoint_schema::custom::is_recognized_format;
use setpoint_schema::{Tree, fields};
use setpoint_strategy::FieldRef;

use super::schema::any_node;

/// The warnings about a CRD; on update only those that the old object has not.
pub(super) fn of(crd: &FieldRef<'_>, old: Option<&FieldRef<'_>>) -> Vec<String> {
    let old_formats = old.map(unrecognized_formats).unwrap_or_default();
    let old_sets = old.map(non_scalar_sets).unwrap_or_default();
    let formats = unrecognized_formats(crd).into_iter();
    let formats = formats.filter(|format| !old_formats.contains(format));
    let mut warnings: Vec<String> = formats
        .map(|format| format!("unrecognized format {format:?}"))
        .collect();
    let sets = non_scalar_sets(crd).into_iter();
    warnings.extend(sets.filter(|warning| !old_sets.contains(warning)));
    warnings
}

/// Calls `visit` on the schema of each version, or on the one that all versions share.
fn visit_schemas(crd: &FieldRef<'_>, visit: &mut dyn FnMut(&Tree)) {
    let versions = crd.at(fields::SPEC).at(fields::VERSIONS);
    let is_shared = super::versions::is_shared(&versions, fields::SCHEMA);
    let count = if is_shared { 1 } else { versions.len() };
    for version in versions.items().take(count) {
        let schema = version.at(fields::SCHEMA).at(fields::OPEN_APIV3_SCHEMA);
        any_node(schema.value(), &mut |node| {
            visit(node);
            false
        });
    }
}

/// The formats that validation ignores, each as often as it is used.
fn unrecognized_formats(crd: &FieldRef<'_>) -> Vec<String> {
    let mut found = Vec::new();
    visit_schemas(crd, &mut |node| {
        let format = node.str_at(&[fields::FORMAT]).unwrap_or_default();
        let value_type = node.str_at(&[fields::TYPE]).unwrap_or_default();
        if !format.is_empty() && !is_recognized_format(value_type, format) {
            found.push(format.to_owned());
        }
    });
    found
}

/// A warning for each type of items that are no scalars in a list of type set.
fn non_scalar_sets(crd: &FieldRef<'_>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    visit_schemas(crd, &mut |node| {
        let is_set = node.str_at(&[fields::X_KUBERNETES_LIST_TYPE]) == Some("set");
        let items = node.str_at(&[fields::ITEMS, fields::TYPE]);
        if let (true, Some(items @ ("object" | "array"))) = (is_set, items) {
            found.insert(format!("x-kubernetes-list-type: set for items of type {items:?} is not supported by server-side apply or CEL validation rules"));
        }
    });
    found
}
