//! Conversion between v1 and v1beta1, in which Kubernetes stores CustomResourceDefinitions in etcd to this day. v1beta1
//! has the fields that all versions have in common once, in the spec, and other names for those of a webhook.
//!
//! Facts: `apiextensions-apiserver/pkg/apis/apiextensions/v1/conversion.go` and `v1beta1/defaults.go` in Kubernetes.

use setpoint_schema::{Map, Tree, fields};

/// Fields of v1beta1 that v1 does not have.
const VALIDATION: &str = "validation";
const WEBHOOK_CLIENT_CONFIG: &str = "webhookClientConfig";
const UPPER_JSON_PATH: &str = "JSONPath";

/// The fields of a version that v1beta1 may have in the spec, and their names there.
const COMMON_FIELDS: [(&str, &str); 4] = [
    (fields::SCHEMA, VALIDATION),
    (fields::SUBRESOURCES, fields::SUBRESOURCES),
    (
        fields::ADDITIONAL_PRINTER_COLUMNS,
        fields::ADDITIONAL_PRINTER_COLUMNS,
    ),
    (fields::SELECTABLE_FIELDS, fields::SELECTABLE_FIELDS),
];

/// Converts an object of v1 to v1beta1.
pub(super) fn to_v1beta1(crd: &mut Tree) {
    let Some(spec) = crd.find_mut(fields::SPEC) else {
        return;
    };
    rename_json_paths(spec, fields::JSON_PATH, UPPER_JSON_PATH);
    let first = spec.items(fields::VERSIONS).first();
    if let Some(name) = first.and_then(|version| version.get(fields::NAME)).cloned() {
        spec.set(&[fields::VERSION], name);
    }
    for (of_version, of_spec) in COMMON_FIELDS {
        move_to_spec(spec, of_version, of_spec);
    }
    if let Some(conversion) = spec.find_mut(fields::CONVERSION) {
        let webhook = conversion.take(&[fields::WEBHOOK]).unwrap_or_default();
        for (field, renamed) in WEBHOOK_FIELDS {
            if let Some(value) = webhook.get(field) {
                conversion.set(&[renamed], value.clone());
            }
        }
    }
    // Absent means true in v1beta1 and false in v1.
    spec.set_default(fields::PRESERVE_UNKNOWN_FIELDS, false);
}

/// Converts an object of v1beta1 to v1.
pub(super) fn from_v1beta1(crd: &mut Tree) {
    let Some(spec) = crd.find_mut(fields::SPEC) else {
        return;
    };
    spec.set_default(fields::SCOPE, "Namespaced");
    spec.set_default(fields::PRESERVE_UNKNOWN_FIELDS, true);
    let version = spec.take(&[fields::VERSION]);
    if let (true, Some(name)) = (spec.items(fields::VERSIONS).is_empty(), version) {
        let mut only = Tree::from(Map::default());
        only.set(&[fields::NAME], name);
        only.set(&[fields::SERVED], true);
        only.set(&[fields::STORAGE], true);
        spec.set(&[fields::VERSIONS], Tree::List(vec![only]));
    }
    for (of_version, of_spec) in COMMON_FIELDS {
        let Some(value) = spec.take(&[of_spec]) else {
            continue;
        };
        for version in spec.items_mut(fields::VERSIONS) {
            version.set(&[of_version], value.clone());
        }
    }
    rename_json_paths(spec, UPPER_JSON_PATH, fields::JSON_PATH);
    if let Some(conversion) = spec.find_mut(fields::CONVERSION) {
        let is_webhook = conversion.str_at(&[fields::STRATEGY]) == Some("Webhook");
        for (renamed, field) in WEBHOOK_FIELDS {
            if let Some(value) = conversion.take(&[field]) {
                conversion.set(&[fields::WEBHOOK, renamed], value);
            }
        }
        if is_webhook {
            let webhook = conversion.child(fields::WEBHOOK);
            if webhook.items(fields::CONVERSION_REVIEW_VERSIONS).is_empty() {
                let oldest = Tree::List(vec!["v1beta1".into()]);
                webhook.set(&[fields::CONVERSION_REVIEW_VERSIONS], oldest);
            }
        }
    }
}

/// The fields of a conversion webhook, and their names in v1beta1.
const WEBHOOK_FIELDS: [(&str, &str); 2] = [
    (fields::CLIENT_CONFIG, WEBHOOK_CLIENT_CONFIG),
    (
        fields::CONVERSION_REVIEW_VERSIONS,
        fields::CONVERSION_REVIEW_VERSIONS,
    ),
];

/// Moves a field from the versions to the spec if all versions have the same value.
fn move_to_spec(spec: &mut Tree, of_version: &str, of_spec: &str) {
    let mut versions = spec.items(fields::VERSIONS).iter();
    let Some(first) = versions.next().map(|version| version.get(of_version)) else {
        return;
    };
    if !versions.all(|version| version.get(of_version) == first) {
        return;
    }
    let Some(value) = first.cloned() else { return };
    for version in spec.items_mut(fields::VERSIONS) {
        version.take(&[of_version]);
    }
    spec.set(&[of_spec], value);
}

fn rename_json_paths(spec: &mut Tree, from: &str, to: &str) {
    for version in spec.items_mut(fields::VERSIONS) {
        for column in version.items_mut(fields::ADDITIONAL_PRINTER_COLUMNS) {
            if let Some(path) = column.take(&[from]) {
                column.set(&[to], path);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(v1: &str, v1beta1: &str) {
        let parse = |json: &str| setpoint_codec::json::parse(json.as_bytes()).unwrap();
        let mut tree = parse(v1);
        to_v1beta1(&mut tree);
        assert!(tree.unordered_eq(&parse(v1beta1)), "{tree:?}");
        from_v1beta1(&mut tree);
        assert!(tree.unordered_eq(&parse(v1)), "{tree:?}");
    }

    #[test]
    fn what_all_versions_have_is_in_the_spec() {
        check(
            r#"{"spec":{"scope":"Cluster","preserveUnknownFields":false,"versions":[
                {"name":"v1","schema":{"openAPIV3Schema":{"type":"object"}},"subresources":{"status":{}}},
                {"name":"v2","schema":{"openAPIV3Schema":{"type":"object"}}}]}}"#,
            r#"{"spec":{"scope":"Cluster","version":"v1","validation":{"openAPIV3Schema":{"type":"object"}},
                "versions":[{"name":"v1","subresources":{"status":{}}},{"name":"v2"}],"preserveUnknownFields":false}}"#,
        );
    }

    #[test]
    fn columns_and_webhooks_have_other_names() {
        check(
            r#"{"spec":{"scope":"Cluster","preserveUnknownFields":false,
                "versions":[{"name":"v1","additionalPrinterColumns":[{"name":"A","jsonPath":".a"}]}],
                "conversion":{"strategy":"Webhook","webhook":{"clientConfig":{"url":"u"},"conversionReviewVersions":["v1"]}}}}"#,
            r#"{"spec":{"scope":"Cluster","version":"v1","preserveUnknownFields":false,"versions":[{"name":"v1"}],
                "additionalPrinterColumns":[{"name":"A","JSONPath":".a"}],
                "conversion":{"strategy":"Webhook","webhookClientConfig":{"url":"u"},"conversionReviewVersions":["v1"]}}}"#,
        );
    }

    #[test]
    fn a_single_version_is_that_of_the_spec() {
        let parse = |json: &str| setpoint_codec::json::parse(json.as_bytes()).unwrap();
        let mut tree = parse(r#"{"spec":{"version":"v1"}}"#);
        from_v1beta1(&mut tree);
        let expected = r#"{"spec":{"scope":"Namespaced","preserveUnknownFields":true,"versions":[{"name":"v1","served":true,"storage":true}]}}"#;
        assert!(tree.unordered_eq(&parse(expected)), "{tree:?}");
    }
}
