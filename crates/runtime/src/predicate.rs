//! Predicates: which changes enqueue a key.
//!
//! Objects of the initial list count as added. Additions and deletions pass every predicate that compares an old and a new
//! object.

use std::fmt;
use std::ops;
use std::sync::Arc;

use setpoint_api::selector::LabelSelector;
use setpoint_api::{Change, Stored};
use setpoint_client::metadata::metadata;

/// A filter of changes. `&`, `|` and `!` combine predicates.
#[derive(Clone)]
pub struct Predicate(Arc<dyn Fn(&Change) -> bool + Send + Sync>);

impl Predicate {
    /// A predicate by a function.
    pub fn new(predicate: impl Fn(&Change) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(predicate))
    }

    /// The generation has changed: a status update does not pass. For kinds whose generation counts spec changes.
    pub fn generation_changed() -> Self {
        Self::differs(|old, new| old.header().generation != new.header().generation)
    }

    /// The resource version has changed: a resync does not pass.
    pub fn resource_version_changed() -> Self {
        Self::differs(|old, new| old.resource_version() != new.resource_version())
    }

    /// The labels have changed, or the object was added or deleted.
    pub fn labels_changed() -> Self {
        Self::differs(|old, new| old.header().labels != new.header().labels)
    }

    /// The annotations have changed, or the object was added or deleted.
    pub fn annotations_changed() -> Self {
        let annotations = |object: &Stored| metadata(object).ok().map(|own| own.metadata.annotations.clone());
        Self::differs(move |old, new| annotations(old) != annotations(new))
    }

    /// The labels of the old or of the new object match.
    pub fn labels_match(selector: LabelSelector) -> Self {
        Self::new(move |change| {
            let matches = |object: &Arc<Stored>| selector.matches(|label| object.label(label));
            matches(change.object()) || change.old().is_some_and(matches)
        })
    }

    /// Whether a change passes.
    pub fn passes(&self, change: &Change) -> bool {
        (self.0)(change)
    }

    fn differs(differ: impl Fn(&Stored, &Stored) -> bool + Send + Sync + 'static) -> Self {
        Self::new(move |change| match change {
            Change::Modified { old, new } => differ(old, new),
            Change::Added(_) | Change::Deleted { .. } => true,
        })
    }
}

impl ops::BitAnd for Predicate {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self::new(move |change| self.passes(change) && other.passes(change))
    }
}

impl ops::BitOr for Predicate {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self::new(move |change| self.passes(change) || other.passes(change))
    }
}

impl ops::Not for Predicate {
    type Output = Self;

    fn not(self) -> Self {
        Self::new(move |change| !self.passes(change))
    }
}

impl fmt::Debug for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Predicate")
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use setpoint_api::{Header, Key, ResourceVersion};

    use super::*;

    /// An object of this version and generation, with `app` set to `label`, and an annotation.
    fn object(version: u64, generation: i64, label: &str, annotation: &str) -> Arc<Stored> {
        let mut header = Header::new(Key::new("a", "x"));
        header.resource_version = ResourceVersion(version);
        header.generation = generation;
        header.labels = Box::new([("app".into(), label.into())]);
        let json = format!(r#"{{"metadata":{{"annotations":{{"note":"{annotation}"}}}}}}"#);
        Arc::new(Stored::new(header, Bytes::from(json), 1))
    }

    /// Whether a change of version, generation, label and annotation passes, each if named.
    #[track_caller]
    fn check(predicate: &Predicate, changed: &str, expected: bool) {
        let is = |what: &str| changed.contains(what);
        let old = object(1, 1, "web", "a");
        let new = object(
            if is("version") { 2 } else { 1 },
            if is("generation") { 2 } else { 1 },
            if is("label") { "db" } else { "web" },
            if is("annotation") { "b" } else { "a" },
        );
        let change = Change::Modified { old, new };
        assert_eq!(predicate.passes(&change), expected, "{changed}");
    }

    #[test]
    fn each_predicate_compares_its_own_field() {
        check(&Predicate::generation_changed(), "version label", false);
        check(&Predicate::generation_changed(), "version generation", true);
        check(&Predicate::resource_version_changed(), "", false);
        check(&Predicate::resource_version_changed(), "version", true);
        check(&Predicate::labels_changed(), "version", false);
        check(&Predicate::labels_changed(), "label", true);
        check(&Predicate::annotations_changed(), "version label", false);
        check(&Predicate::annotations_changed(), "annotation", true);
    }

    #[test]
    fn predicates_can_be_combined() {
        let spec_or_labels = Predicate::generation_changed() | Predicate::labels_changed();
        check(&spec_or_labels, "label", true);
        check(&spec_or_labels, "annotation", false);
        let both = Predicate::generation_changed() & Predicate::labels_changed();
        check(&both, "label", false);
        check(&!both, "label", true);
    }

    #[test]
    fn an_object_whose_old_labels_match_passes() {
        let web = Predicate::labels_match("app=web".parse().unwrap());
        check(&web, "label", true);
        check(
            &Predicate::labels_match("app=none".parse().unwrap()),
            "label",
            false,
        );
    }

    #[test]
    fn additions_and_deletions_pass() {
        let one = object(1, 1, "web", "a");
        let deleted = Change::Deleted {
            old: one.clone(),
            last: one.clone(),
        };
        for predicate in [Predicate::generation_changed(), Predicate::annotations_changed()] {
            assert!(predicate.passes(&Change::Added(one.clone())) && predicate.passes(&deleted));
        }
    }
}
