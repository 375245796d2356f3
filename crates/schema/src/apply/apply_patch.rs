//! Apply: the merge of an applied configuration into the live object, with conflicts and field ownership.

use super::check::check;
use super::compare::Comparison;
use super::error::{Conflict, Conflicts, Error};
use super::field_set::FieldSet;
use super::last_applied;
use super::managed_fields::{ManagedFields, ManagedFieldsEntry, ManagerId, Operation};
use super::merge::merge;
use super::remove::{remove, with_named_fields};
use super::schema_node::SchemaNode;
use super::traversal::{ReadMode, same, to_canonical};
use super::update::{FieldManager, UNMANAGED_FIELDS, own_changes};
use super::versions::{VersionedComparison, reconcile_with_schemas};
use crate::shape::Shape;
use crate::time::{self, Precision};
use crate::tree::{Map, Tree};

/// The manager of the fields set before the first apply.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// Whether conflicts are an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Force {
    No,
    /// The manager takes over the conflicting fields.
    Yes,
}

/// Merges an applied configuration into the live object, and updates `managedFields`.
///
/// `live` is an empty map if there is no object yet. The result may hold nulls and zero values of the configuration: it
/// still has to be pruned and defaulted. If nothing changes, it is the live object with its managers.
pub fn apply(
    live: &Tree,
    applied: &Tree,
    shape: &Shape,
    manager: &FieldManager<'_>,
    force: Force,
) -> Result<Tree, Error> {
    check_applied(applied, shape)?;
    let mut managers = managers_before(live, shape, manager);
    let mut live = to_canonical(SchemaNode::of_shape(shape), live);
    live.take(&["metadata", "managedFields"]);

    let id = manager.id(Operation::Apply);
    let last = managers.find(&id).cloned();
    managers.set(ManagedFieldsEntry {
        api_version: manager.api_version.into(),
        time: last.as_ref().and_then(|last| last.time.clone()),
        fields: FieldSet::from_value(shape, applied).recursive_difference(manager.reset),
        id: id.clone(),
    });
    let merged = merge(shape, &live, applied);
    let mut object = prune_unapplied(shape, merged, &managers, last.as_ref());

    let changes = VersionedComparison::of(&managers, manager, shape, (&live, &object), ReadMode::Literal);
    if force == Force::No {
        let allowed = last_applied::takeover_allowed(shape, &live, manager.name);
        check_conflicts(&managers, &id, &changes, &allowed)?;
    }
    managers.remove_changed(&changes, Some(&id));
    let changed = !same(SchemaNode::of_shape(shape), &live, &object, ReadMode::Literal);
    finish_own_entry(&mut managers, &id, changed.then_some(manager.now));
    last_applied::update_annotation(&mut object, applied, manager.name);
    managers.store(&mut object);
    Ok(object)
}

/// The managers of the live object. If it has none, its fields are assigned to `before-first-apply`.
fn managers_before(live: &Tree, shape: &Shape, manager: &FieldManager<'_>) -> ManagedFields {
    let mut managers = ManagedFields::of(live).unwrap_or_default();
    if managers.is_empty() {
        let nothing = Tree::Map(Map::default());
        let before = FieldManager {
            name: BEFORE_FIRST_APPLY,
            ..*manager
        };
        own_changes(&mut managers, (&nothing, live), shape, &before);
    }
    reconcile_with_schemas(shape, &mut managers, manager);
    managers
}

/// Whether this is a list of managed fields. The reference server ignores one that it cannot decode, whose type is then
/// checked as that of any other field.
fn is_managed_fields(value: &Tree) -> bool {
    let is_entry = |entry: &Tree| {
        let Tree::Map(entry) = entry else { return false };
        entry.iter().all(|(name, value)| match (name, value) {
            (_, Tree::Null) | ("fieldsV1", _) => true,
            ("time", Tree::Str(text)) => time::to_unix(text, Precision::Seconds).is_ok(),
            ("manager" | "operation" | "apiVersion" | "time" | "fieldsType" | "subresource", value) => {
                matches!(value, Tree::Str(_))
            }
            _ => true,
        })
    };
    matches!(value, Tree::List(entries) if entries.iter().all(is_entry))
}

fn check_applied(applied: &Tree, shape: &Shape) -> Result<(), Error> {
    let managed = applied.at(&["metadata", "managedFields"]);
    if managed.is_some_and(is_managed_fields) {
        return Err(Error::ManagedFieldsNotNil);
    }
    check(shape, applied).map_err(|why| Error::Untyped {
        object: describe(applied),
        why,
    })
}

/// Describes an object in messages: `namespace/name; group/version, Kind=kind`.
pub fn describe(object: &Tree) -> String {
    let text = |path: &[&str]| object.str_at(path).unwrap_or_default();
    let (namespace, name) = (text(&["metadata", "namespace"]), text(&["metadata", "name"]));
    let (version, kind) = (text(&["apiVersion"]), text(&["kind"]));
    let slash = if version.contains('/') { "" } else { "/" };
    format!("{namespace}/{name}; {slash}{version}, Kind={kind}")
}

/// Removes the fields that the manager applied before and does not apply now, unless another manager owns them.
fn prune_unapplied(
    shape: &Shape,
    merged: Tree,
    managers: &ManagedFields,
    last: Option<&ManagedFieldsEntry>,
) -> Tree {
    let Some(last) = last.filter(|last| !last.fields.is_empty()) else {
        return merged;
    };
    let with_parents = |set: &FieldSet| with_named_fields(shape, set);
    let before = with_parents(&last.fields);
    let all = with_parents(&FieldSet::from_value(shape, &merged));
    let left = remove(shape, merged.clone(), &before);
    let owned = with_parents(&FieldSet::from_value(shape, &left)).union(with_parents(&managers.all_fields()));
    let left = remove(shape, merged.clone(), &all.clone().difference(&owned));
    // Fields below a removed one that were never applied by this manager stay if their parent stays.
    let left = with_parents(&FieldSet::from_value(shape, &left));
    remove(shape, merged, &all.difference(&left).intersection(&before))
}

fn check_conflicts(
    managers: &ManagedFields,
    id: &ManagerId,
    changes: &VersionedComparison,
    allowed: &FieldSet,
) -> Result<(), Error> {
    let others = managers.entries().iter().filter(|entry| entry.id != *id);
    // The changed paths in each version, since an object may have many managers.
    let mut changed: Vec<(&Comparison, FieldSet)> = Vec::new();
    let mut overlaps: Vec<(&ManagerId, FieldSet)> = Vec::new();
    for entry in others {
        let comparison = changes.in_version_of(entry);
        let known = changed
            .iter()
            .position(|(known, _)| std::ptr::eq(*known, comparison));
        let at = known.unwrap_or_else(|| {
            changed.push((comparison, comparison.clone().into_changed()));
            changed.len() - 1
        });
        let overlap = entry.fields.intersection(&changed[at].1).difference(allowed);
        overlaps.push((&entry.id, overlap));
    }
    overlaps.sort_by(|left, right| left.0.cmp(right.0));
    let conflicts = overlaps.into_iter().flat_map(|(owner, overlap)| {
        let paths = overlap.paths().into_iter();
        paths.map(|path| Conflict {
            owner: owner.clone(),
            path,
        })
    });
    let list: Vec<Conflict> = conflicts.collect();
    match list.is_empty() {
        true => Ok(()),
        false => Err(Error::Conflicts(Conflicts { list })),
    }
}

/// Finishes the applier's own entry: without unmanaged fields, and with a new time if something changed.
fn finish_own_entry(managers: &mut ManagedFields, id: &ManagerId, now: Option<&str>) {
    if let Some(mut own) = managers.take(id) {
        own.fields.subtract(&UNMANAGED_FIELDS);
        own.time = now.map(Into::into).or(own.time);
        managers.set(own);
    }
    managers.drop_empty();
}
