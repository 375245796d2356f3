//! Managers that wrote in other versions: what they own is told in theirs.
//!
//! Whoever wrote `spec.metrics` in one version owns that path, although another version calls it something else. So a
//! change is looked at once in each version that some manager wrote in.

use std::fmt::Debug;

use compact_str::CompactString;

use super::compare::{Change, compare};
use super::managers::{Entry, Managers};
use super::settle::settle_fields;
use super::update::Manager;
use super::view::Reading;
use crate::shape::Shape;
use crate::tree::Tree;

/// The other versions of a kind.
pub trait Versions: Debug {
    /// What documents of a version are made of; nothing if there is no such version.
    fn shape(&self, api_version: &str) -> Option<&Shape>;

    /// A document of the request's version in another one.
    fn convert(&self, document: &Tree, api_version: &str) -> Option<Tree>;
}

/// A change, as each version sees it.
#[derive(Debug)]
pub(super) struct Changes {
    pub(super) own: Change,
    others: Vec<(CompactString, Change)>,
}

impl Changes {
    /// What changed from one document to another, for every version that a manager wrote in.
    pub(super) fn of(
        managers: &Managers,
        manager: &Manager<'_>,
        shape: &Shape,
        (old, new): (&Tree, &Tree),
        reading: Reading,
    ) -> Self {
        let mut others: Vec<(CompactString, Change)> = Vec::new();
        for entry in managers
            .entries()
            .iter()
            .filter(|entry| manager.is_foreign(entry))
        {
            let version = &entry.api_version;
            if others.iter().any(|(known, _)| known == version) {
                continue;
            }
            if let Some(change) = in_version(manager, version, (old, new)) {
                others.push((version.clone(), change));
            }
        }
        Changes {
            own: compare(shape, (old, new), reading, manager.reset),
            others,
        }
    }

    /// The change as the version of an entry sees it.
    pub(super) fn seen_by(&self, entry: &Entry) -> &Change {
        let mut others = self.others.iter();
        let other = others.find(|(version, _)| *version == entry.api_version);
        other.map_or(&self.own, |(_, change)| change)
    }
}

fn in_version(manager: &Manager<'_>, version: &str, (old, new): (&Tree, &Tree)) -> Option<Change> {
    let versions = manager.versions?;
    let (old, new) = (versions.convert(old, version)?, versions.convert(new, version)?);
    let shape = versions.shape(version)?;
    Some(compare(shape, (&old, &new), Reading::Canonical, manager.reset))
}

/// Brings what everybody owns into line with the shape of their version. Who wrote in a version that is no more owns
/// nothing.
pub(super) fn settle(shape: &Shape, managers: &mut Managers, manager: &Manager<'_>) {
    managers.retain(|entry| {
        let shape = match manager.versions.filter(|_| manager.is_foreign(entry)) {
            Some(versions) => versions.shape(&entry.api_version),
            None => Some(shape),
        };
        if let Some(shape) = shape {
            settle_fields(shape, &mut entry.fields);
        }
        shape.is_some()
    });
}

impl Manager<'_> {
    /// Whether an entry was written in another version.
    fn is_foreign(&self, entry: &Entry) -> bool {
        self.versions.is_some() && entry.api_version != self.api_version
    }
}
