//! Conversion between the versions of a custom kind.
//!
//! Without a conversion webhook versions differ only in their schemas: conversion sets the `apiVersion` and drops
//! fields that the target version's schema does not have. With a webhook only the webhook knows how they differ, so
//! objects have to be converted before they come here.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::sync::Arc;

use compact_str::CompactString;

use setpoint_schema::custom::{DefaultsTooLarge, Schema};
use setpoint_schema::{Tree, fields};

use super::lazy_schema::LazySchema;
use crate::kind::{ConversionWebhook, InvalidObject};

/// The schemas of all versions.
#[derive(Debug)]
pub(super) struct Versions {
    /// By `apiVersion`, such as `example.com/v1`.
    pub(super) schemas: Vec<(CompactString, LazySchema)>,
    /// The `apiVersion` of the storage version.
    pub(super) stored: CompactString,
    pub(super) converter: Converter,
}

/// `spec.conversion.strategy` of a CRD.
#[derive(Debug)]
pub(super) enum Converter {
    /// Only the `apiVersion` changes.
    None,
    Webhook(Arc<ConversionWebhook>),
}

impl Versions {
    /// The index of an existing version.
    pub(super) fn index_of(&self, version: &str) -> usize {
        let index = self.schemas.iter().position(|(name, _)| name == version);
        index.expect("every version has a schema")
    }

    pub(super) fn schema_at(&self, index: usize) -> &LazySchema {
        &self.schemas[index].1
    }

    pub(super) fn webhook(&self) -> Option<&Arc<ConversionWebhook>> {
        match &self.converter {
            Converter::None => None,
            Converter::Webhook(webhook) => Some(webhook),
        }
    }

    pub(super) fn schema(&self, version: &str) -> Option<&Schema> {
        let mut schemas = self.schemas.iter();
        let (_, schema) = schemas.find(|(name, _)| name == version)?;
        Some(&schema.compiled().schema)
    }

    /// Applies the schema of its version to a stored object: the schema may have changed since the write.
    pub(super) fn apply_schema(&self, tree: &mut Tree) -> Result<(), DefaultsTooLarge> {
        let version = tree.str_at(&[fields::API_VERSION]).unwrap_or_default();
        if let Some(schema) = self.schema(version) {
            schema.prune(tree);
            schema.prune_non_nullable_nulls(tree);
            schema.apply_defaults(tree)?;
        }
        Ok(())
    }

    /// Converts an object to another version.
    pub(super) fn convert(
        &self,
        tree: &mut Tree,
        version: &str,
        schema: &Schema,
    ) -> Result<(), InvalidObject> {
        let text = |field: &str| tree.str_at(&[field]).unwrap_or_default().to_owned();
        if text(fields::API_VERSION) == version {
            return Ok(());
        }
        if self.webhook().is_some() {
            return Err(InvalidObject::Unconverted {
                api_version: text(fields::API_VERSION),
                kind: text(fields::KIND),
            });
        }
        schema.prune(tree);
        schema.prune_non_nullable_nulls(tree);
        tree.set(&[fields::API_VERSION], version);
        Ok(())
    }

    /// The object in the storage version.
    pub(super) fn to_storage_version<'a>(&self, tree: &'a Tree) -> Result<Cow<'a, Tree>, InvalidObject> {
        let is_other = tree.str_at(&[fields::API_VERSION]) != Some(&self.stored);
        let stored = is_other.then(|| self.schema(&self.stored)).flatten();
        Ok(match stored {
            None => Cow::Borrowed(tree),
            Some(schema) => {
                let mut tree = tree.clone();
                self.convert(&mut tree, &self.stored, schema)?;
                Cow::Owned(tree)
            }
        })
    }
}

/// The priority of a version by its name (upstream: kube-aware version order): `v2` before `v1` before `v2beta1`
/// before `v1alpha1` before anything else.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct KubeAwareVersion {
    maturity: u8,
    major: u64,
    minor: u64,
    /// Names of any other form, in alphabetical order.
    other: Reverse<CompactString>,
}

impl KubeAwareVersion {
    pub fn of(version: &str) -> Self {
        let known = numbered(version).map(|(maturity, major, minor)| KubeAwareVersion {
            maturity,
            major,
            minor,
            other: Reverse(CompactString::default()),
        });
        known.unwrap_or_else(|| KubeAwareVersion {
            maturity: 0,
            major: 0,
            minor: 0,
            other: Reverse(version.into()),
        })
    }
}

/// `v1beta2` as maturity, major and minor number.
fn numbered(version: &str) -> Option<(u8, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    let end = rest
        .find(|next: char| !next.is_ascii_digit())
        .unwrap_or(rest.len());
    let (major, rest) = rest.split_at(end);
    let (maturity, minor) = match (rest.strip_prefix("beta"), rest.strip_prefix("alpha")) {
        _ if rest.is_empty() => (3, "0"),
        (Some(minor), _) => (2, minor),
        (_, Some(minor)) => (1, minor),
        _ => return None,
    };
    let number = |digits: &str| {
        digits
            .bytes()
            .all(|digit| digit.is_ascii_digit())
            .then(|| digits.parse().ok())?
    };
    Some((maturity, number(major)?, number(minor)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ranked_by_maturity_then_by_number() {
        let names = [
            "v10",
            "v2",
            "v1",
            "v11beta2",
            "v10beta3",
            "v3beta1",
            "v12alpha1",
            "v11alpha2",
            "foo1",
            "foo10",
        ];
        let ranks: Vec<KubeAwareVersion> = names.map(KubeAwareVersion::of).into();
        assert!(ranks.is_sorted_by(|left, right| left > right), "{ranks:?}");
    }
}
