//! Field sets of managers that wrote in other API versions.
//!
//! A manager that wrote `spec.metrics` in one version owns that path, although it has another name in other versions. So a
//! change is compared once in each version that some manager wrote in.

use std::fmt::Debug;

use compact_str::CompactString;

use super::compare::{Comparison, compare};
use super::managed_fields::{ManagedFields, ManagedFieldsEntry};
use super::reconcile_with_schema::reconcile_field_set;
use super::traversal::ReadMode;
use super::update::FieldManager;
use crate::shape::Shape;
use crate::tree::Tree;

/// Conversion between the versions of a kind.
pub trait VersionConverter: Debug {
    /// The shape of a version; `None` if there is no such version.
    fn shape(&self, api_version: &str) -> Option<&Shape>;

    /// Converts an object of the request's version to another one.
    fn convert(&self, object: &Tree, api_version: &str) -> Option<Tree>;
}

/// The comparison of two objects in each version.
#[derive(Debug)]
pub(super) struct VersionedComparison {
    pub(super) own: Comparison,
    others: Vec<(CompactString, Comparison)>,
}

impl VersionedComparison {
    /// Compares two objects in every version that a manager wrote in.
    pub(super) fn of(
        managers: &ManagedFields,
        manager: &FieldManager<'_>,
        shape: &Shape,
        (old, new): (&Tree, &Tree),
        mode: ReadMode,
    ) -> Self {
        let mut others: Vec<(CompactString, Comparison)> = Vec::new();
        for entry in managers
            .entries()
            .iter()
            .filter(|entry| manager.is_other_version(entry))
        {
            let version = &entry.api_version;
            if others.iter().any(|(known, _)| known == version) {
                continue;
            }
            if let Some(comparison) = compare_in_version(manager, version, (old, new)) {
                others.push((version.clone(), comparison));
            }
        }
        VersionedComparison {
            own: compare(shape, (old, new), mode, manager.reset),
            others,
        }
    }

    /// The comparison in the version of an entry.
    pub(super) fn in_version_of(&self, entry: &ManagedFieldsEntry) -> &Comparison {
        let mut others = self.others.iter();
        let other = others.find(|(version, _)| *version == entry.api_version);
        other.map_or(&self.own, |(_, comparison)| comparison)
    }
}

fn compare_in_version(
    manager: &FieldManager<'_>,
    version: &str,
    (old, new): (&Tree, &Tree),
) -> Option<Comparison> {
    let converter = manager.converter?;
    let (old, new) = (converter.convert(old, version)?, converter.convert(new, version)?);
    let shape = converter.shape(version)?;
    Some(compare(shape, (&old, &new), ReadMode::Canonical, manager.reset))
}

/// Reconciles the field sets of all managers with the shape of their version. A manager that wrote in a version that no
/// longer exists owns nothing.
pub(super) fn reconcile_with_schemas(
    shape: &Shape,
    managers: &mut ManagedFields,
    manager: &FieldManager<'_>,
) {
    managers.retain(|entry| {
        let shape = match manager.converter.filter(|_| manager.is_other_version(entry)) {
            Some(converter) => converter.shape(&entry.api_version),
            None => Some(shape),
        };
        if let Some(shape) = shape {
            reconcile_field_set(shape, &mut entry.fields);
        }
        shape.is_some()
    });
}

impl FieldManager<'_> {
    /// Whether an entry was written in another version.
    fn is_other_version(&self, entry: &ManagedFieldsEntry) -> bool {
        self.converter.is_some() && entry.api_version != self.api_version
    }
}
