//! What an applied document makes of an object, and of its owners.

use super::check::check;
use super::error::{Conflict, Conflicts, Error};
use super::field_set::FieldSet;
use super::last_applied;
use super::managers::{Entry, Id, Managers, Operation};
use super::merge::merge;
use super::place::Place;
use super::remove::{remove, with_holders};
use super::update::{Manager, STRIPPED, own_changes};
use super::versions::{Changes, settle};
use super::view::{Reading, complete, same};
use crate::shape::Shape;
use crate::tree::{Map, Tree};

/// The manager of what was there before anybody applied.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// Whether conflicts are an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Force {
    No,
    /// The manager takes what others own.
    Yes,
}

/// The object that an applied document makes of the live one, with its owners.
///
/// `live` is an empty map if there is no object yet. The result may hold nulls and zero values that the document names:
/// it still has to be pruned and defaulted. If nothing changes, it is the live object with its owners.
pub fn apply(
    live: &Tree,
    applied: &Tree,
    shape: &Shape,
    manager: &Manager<'_>,
    force: Force,
) -> Result<Tree, Error> {
    check_applied(applied, shape)?;
    let mut managers = managers_before(live, shape, manager);
    let mut live = complete(Place::of_shape(shape), live);
    live.take(&["metadata", "managedFields"]);

    let id = manager.id(Operation::Apply);
    let last = managers.find(&id).cloned();
    managers.set(Entry {
        api_version: manager.api_version.into(),
        time: last.as_ref().and_then(|last| last.time.clone()),
        fields: FieldSet::of(shape, applied).outside(manager.reset),
        id: id.clone(),
    });
    let merged = merge(shape, &live, applied);
    let mut object = give_up(shape, merged, &managers, last.as_ref());

    let changes = Changes::of(&managers, manager, shape, (&live, &object), Reading::Literal);
    if force == Force::No {
        let allowed = last_applied::allowed(shape, &live, manager.name);
        check_conflicts(&managers, &id, &changes, &allowed)?;
    }
    managers.lose(&changes, Some(&id));
    let changed = !same(Place::of_shape(shape), &live, &object, Reading::Literal);
    settle_own(&mut managers, &id, changed.then_some(manager.now));
    last_applied::keep_up(&mut object, applied, manager.name);
    managers.store(&mut object);
    Ok(object)
}

/// The managers of the live object. What it holds without any belongs to one that stands for its past.
fn managers_before(live: &Tree, shape: &Shape, manager: &Manager<'_>) -> Managers {
    let mut managers = Managers::of(live).unwrap_or_default();
    if managers.is_empty() {
        let nothing = Tree::Map(Map::default());
        let before = Manager {
            name: BEFORE_FIRST_APPLY,
            ..*manager
        };
        own_changes(&mut managers, (&nothing, live), shape, &before);
    }
    settle(shape, &mut managers, manager);
    managers
}

fn check_applied(applied: &Tree, shape: &Shape) -> Result<(), Error> {
    if applied
        .at(&["metadata", "managedFields"])
        .is_some_and(|given| !given.is_null())
    {
        return Err(Error::ManagedFieldsGiven);
    }
    check(shape, applied).map_err(|why| Error::Untyped {
        object: describe(applied),
        why,
    })
}

/// An object in messages: `namespace/name; group/version, Kind=kind`.
pub fn describe(object: &Tree) -> String {
    let text = |path: &[&str]| object.str_at(path).unwrap_or_default();
    let (namespace, name) = (text(&["metadata", "namespace"]), text(&["metadata", "name"]));
    let (version, kind) = (text(&["apiVersion"]), text(&["kind"]));
    let slash = if version.contains('/') { "" } else { "/" };
    format!("{namespace}/{name}; {slash}{version}, Kind={kind}")
}

/// Takes out what the manager applied before and does not apply now, unless somebody owns it.
fn give_up(shape: &Shape, merged: Tree, managers: &Managers, last: Option<&Entry>) -> Tree {
    let Some(last) = last.filter(|last| !last.fields.is_empty()) else {
        return merged;
    };
    let held = |set: &FieldSet| with_holders(shape, set);
    let before = held(&last.fields);
    let all = held(&FieldSet::of(shape, &merged));
    let left = remove(shape, merged.clone(), &before);
    let owned = held(&FieldSet::of(shape, &left)).union(held(&managers.all_fields()));
    let left = remove(shape, merged.clone(), &all.clone().difference(&owned));
    // What stands below something given up, but was never applied by this manager, stays where its holder stays.
    let left = held(&FieldSet::of(shape, &left));
    remove(shape, merged, &all.difference(&left).intersection(&before))
}

fn check_conflicts(managers: &Managers, id: &Id, changes: &Changes, allowed: &FieldSet) -> Result<(), Error> {
    let others = managers.entries().iter().filter(|entry| entry.id != *id);
    let mut overlaps: Vec<(&Id, FieldSet)> = others
        .map(|entry| {
            let set = changes.seen_by(entry).clone().into_set();
            (&entry.id, entry.fields.intersection(&set).difference(allowed))
        })
        .collect();
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

/// The applier's own entry in its last form: without what nobody owns, and with a new time if something changed.
fn settle_own(managers: &mut Managers, id: &Id, now: Option<&str>) {
    if let Some(mut own) = managers.take(id) {
        own.fields.subtract(&STRIPPED);
        own.time = now.map(Into::into).or(own.time);
        managers.set(own);
    }
    managers.drop_empty();
}
