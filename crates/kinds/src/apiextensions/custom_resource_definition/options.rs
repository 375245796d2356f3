//! What the old object of an update changes in validation (upstream: `validationOptions`): a rule does not apply to what
//! was stored before it, as long as it is unchanged.

use std::collections::BTreeSet;

use setpoint_schema::{Tree, fields};
use setpoint_strategy::FieldRef;

use super::conversion::{ca_bundle, is_bundle_valid, is_recognized};
use super::selectable_fields::MAX_SELECTABLE_FIELDS;

/// The rules that depend on the old object.
#[derive(Debug)]
pub(super) struct ValidationOptions {
    /// The conversion review versions must have one that the API server knows.
    pub(super) require_recognized_review_version: bool,
    /// Scope and kind are immutable: the CRD is established.
    pub(super) require_immutable_names: bool,
    /// Every version needs a schema, not only those that are served.
    pub(super) require_schema: bool,
    pub(super) allow_invalid_ca_bundle: bool,
    /// The versions whose schemas are unchanged: the cost of one expression is not limited.
    unchanged_schemas: BTreeSet<String>,
    /// The versions with too many selectable fields, all unchanged.
    many_selectable_fields: BTreeSet<String>,
}

impl ValidationOptions {
    /// The options of a create.
    pub(super) fn of_create() -> Self {
        Self {
            require_recognized_review_version: true,
            require_immutable_names: false,
            require_schema: true,
            allow_invalid_ca_bundle: true,
            unchanged_schemas: BTreeSet::new(),
            many_selectable_fields: BTreeSet::new(),
        }
    }

    pub(super) fn of_update(crd: &FieldRef<'_>, old: &FieldRef<'_>) -> Self {
        let spec = old.at(fields::SPEC);
        let webhook = spec.at(fields::CONVERSION).at(fields::WEBHOOK);
        let review_versions = webhook.at(fields::CONVERSION_REVIEW_VERSIONS);
        let is_established = super::is_established(old);
        let bundle = ca_bundle(&webhook);
        Self {
            require_recognized_review_version: review_versions.is_empty()
                || review_versions.strs().any(is_recognized),
            require_immutable_names: is_established,
            require_schema: spec
                .at(fields::VERSIONS)
                .items()
                .all(|version| version.at(fields::SCHEMA).at(fields::OPEN_APIV3_SCHEMA).is_set()),
            allow_invalid_ca_bundle: !is_established || !bundle.is_empty() && !is_bundle_valid(bundle),
            unchanged_schemas: unchanged(crd, old, fields::SCHEMA, |_| true),
            many_selectable_fields: unchanged(crd, old, fields::SELECTABLE_FIELDS, |selectable| {
                selectable
                    .as_list()
                    .is_some_and(|list| list.len() > MAX_SELECTABLE_FIELDS)
            }),
        }
    }

    pub(super) fn is_schema_unchanged(&self, version: &str) -> bool {
        self.unchanged_schemas.contains(version)
    }

    pub(super) fn allows_many_selectable_fields(&self, version: &str) -> bool {
        self.many_selectable_fields.contains(version)
    }
}

/// The versions in which the value of a field is unchanged and fits a condition.
fn unchanged(
    crd: &FieldRef<'_>,
    old: &FieldRef<'_>,
    field: &str,
    fits: impl Fn(&Tree) -> bool,
) -> BTreeSet<String> {
    let versions = crd.at(fields::SPEC).at(fields::VERSIONS);
    let old_versions = old.at(fields::SPEC).at(fields::VERSIONS);
    let is_unchanged = |version: &FieldRef<'_>| {
        let name = version.at(fields::NAME);
        let mut old_versions = old_versions.items();
        let old = old_versions.find(|old| old.at(fields::NAME).str() == name.str());
        old.is_some_and(|old| {
            let (value, old) = (version.at(field).value(), old.at(field).value());
            value.semantic_eq(old) && fits(old)
        })
    };
    let names = versions.items().filter(is_unchanged);
    names
        .map(|version| version.at(fields::NAME).str().to_owned())
        .collect()
}
