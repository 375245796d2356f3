//! Rules of kinds, admission plugins and the registry name fields by the generated constants of `schema/src/fields.rs`: a
//! misspelt literal compiles, and reads as an absent field.

use crate::tidy::report::Report;
use crate::tidy::source::Source;
use crate::tidy::tree::Tree;

/// Calls whose first argument is a field name.
const NAME_CALLS: &[&str] = &[
    ".at(",
    ".child(",
    ".find_mut(",
    ".items(",
    ".items_mut(",
    ".set_default(",
];

/// Calls whose first argument is a path of field names and map keys.
const PATH_CALLS: &[&str] = &[".at(&[", ".at_mut(&[", ".set(&[", ".str_at(&[", ".take(&["];

/// Path elements of error messages that are not field names: Kubernetes has them in its messages, and no type has them.
const ERROR_PATHS: &[&str] = &[
    "[]",
    "{topologyKey, whenUnsatisfiable}",
    "JSONPath",
    "LoadBalancerSourceRanges",
    "Phase",
    "Spec",
    "Type",
    "attachedRequired",
    "initiatorname",
    "nodeSwapStatus",
    "persistentvolumesource",
    "series.count",
    "series.lastObservedTime",
    "storage",
    "targetportal",
    "validation",
    "webhookClientConfig",
];

/// The crates that read and write fields of object trees.
const CRATES: &[&str] = &[
    "crates/admission/src/",
    "crates/kinds/src/",
    "crates/registry/src/",
    "crates/strategy/src/",
];

pub(super) fn check(tree: &Tree, report: &mut Report) {
    let is_rule = |path: &str| CRATES.iter().any(|of| path.starts_with(of));
    let kinds = tree.rust().filter(|source| is_rule(&source.path));
    for source in kinds {
        for (offset, name) in source.production_literals() {
            if is_field_name(source, offset) && !ERROR_PATHS.contains(&name) && !is_map_key(name) {
                let what =
                    format!("the field {name:?} is a literal: use its constant in `setpoint_schema::fields`");
                report.violation(source, offset, what);
            }
        }
    }
}

/// Whether the literal at this offset is the argument of such a call.
fn is_field_name(source: &Source, offset: usize) -> bool {
    let before = source.code[..offset].trim_end_matches('"').trim_end();
    let is_named = NAME_CALLS.iter().any(|call| before.ends_with(call));
    is_named || path_start(before).is_some_and(|path| PATH_CALLS.iter().any(|call| path.ends_with(call)))
}

/// The code up to the bracket that opens the list that goes on here.
fn path_start(before: &str) -> Option<&str> {
    let open = before.rfind(['[', ']', '(', ')', '{', '}', ';'])?;
    before[open..].starts_with('[').then(|| &before[..=open])
}

/// Whether this is a key of a map, such as a label or a file in a ConfigMap: these are domain names or file names.
fn is_map_key(name: &str) -> bool {
    name.contains(['.', '-', '/'])
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::planted;

    #[track_caller]
    fn check_text(text: &str, positions: &[&str]) {
        planted::check(check, &[("crates/kinds/src/core/pod.rs", text)], positions);
    }

    #[test]
    fn a_literal_field_name_is_found() {
        check_text(
            "fn a() {\n    pod.at(fields::SPEC).at(\"nodeNmae\");\n}\n",
            &["crates/kinds/src/core/pod.rs:2"],
        );
    }

    #[test]
    fn a_literal_in_a_path_is_found() {
        check_text(
            "fn a() {\n    pod.str_at(&[fields::SPEC, \"nodeNmae\"]);\n    pod.at(\n        \"spce\",\n    );\n}\n",
            &["crates/kinds/src/core/pod.rs:2", "crates/kinds/src/core/pod.rs:4"],
        );
    }

    #[test]
    fn map_keys_values_and_upstream_paths_may_be_literals() {
        check_text(
            "fn a() {\n    pod.set(&[fields::METADATA, fields::LABELS, \"a.b/c\"], \"d\");\n    \
             pod.errors().at(\"Spec\");\n    amounts.key(\"storage\");\n}\n",
            &[],
        );
    }

    #[test]
    fn tests_may_use_literals() {
        check_text(
            "#[cfg(test)]\nmod tests {\n    fn a() { pod.at(\"spec\"); }\n}\n",
            &[],
        );
    }
}
