//! The names of a definition: accepted where nobody else in its group has them.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::json;

use setpoint_api::call::Encoding;
use setpoint_api::options::{PatchType, WriteOptions};
use setpoint_api::{Payload, Request, Serve, Stored, Target, User, Verb};
use setpoint_cache::Snapshot;
use setpoint_kinds::apiextensions::custom_resource_definition;
use setpoint_kinds::meta;

use super::view::{Condition, Definition, Names};
use crate::registry::Registry;

/// The manager of what is written here.
const MANAGER: &str = "kube-apiserver";

/// Writes the status of every definition that has another than it should have.
///
/// A definition is established in two steps: its names are accepted, which makes its kinds served, and once they are, it
/// says so.
pub(super) async fn settle(registry: &Registry, snapshot: &Snapshot) {
    let mut all: Vec<(Arc<Stored>, Arc<Definition>)> = snapshot
        .iter()
        .filter_map(|object| Some((object.clone(), object.view::<Definition>().ok()?)))
        .collect();
    for at in 0..all.len() {
        let (object, definition) = all[at].clone();
        if object.header().deleting || definition.is_settled() {
            continue;
        }
        let others = all.iter().filter(|(other, _)| other.key() != object.key());
        let others = others.map(|(_, other)| &**other);
        let others = others.filter(|other| other.spec.group == definition.spec.group);
        let now = meta::moment(registry.clock.now());
        let wanted = judge(&definition, others, now.as_str().unwrap_or_default());
        if let Some((names, conditions)) = wanted {
            registry.progress.reached(object.resource_version()).await;
            write(registry, &object, &names, &conditions).await;
            // Those that follow see what this one has got.
            let mut definition = (*definition).clone();
            definition.status.accepted_names = names;
            all[at].1 = Arc::new(definition);
        }
    }
}

/// The names that are accepted and what is said about them; nothing if that is what stands there.
fn judge<'a>(
    definition: &Definition,
    others: impl Iterator<Item = &'a Definition>,
    now: &str,
) -> Option<(Names, Vec<Condition>)> {
    let (names, conflict) = accepted(definition, others);
    let was_established = definition.is_established();
    let accepted = match &conflict {
        None => ("True", "NoConflicts", "no conflicts found".to_owned()),
        Some((reason, message)) => ("False", *reason, message.clone()),
    };
    let established = match (&conflict, was_established) {
        (_, true) => None,
        (None, false) if !definition.is_accepted() => None,
        (None, false) => Some((
            "True",
            "InitialNamesAccepted",
            "the initial names have been accepted".to_owned(),
        )),
        (Some(_), false) => Some(("False", "NotAccepted", "not all names are accepted".to_owned())),
    };
    let mut conditions = definition.status.conditions.clone();
    set(&mut conditions, "NamesAccepted", accepted, now);
    if let Some(established) = established {
        set(&mut conditions, "Established", established, now);
    }
    let same = names == definition.status.accepted_names && conditions == definition.status.conditions;
    (!same).then_some((names, conditions))
}

/// Of the names asked for those that are free, and the last one that is not.
fn accepted<'a>(
    definition: &Definition,
    others: impl Iterator<Item = &'a Definition>,
) -> (Names, Option<(&'static str, String)>) {
    let (mut resources, mut kinds) = (BTreeSet::new(), BTreeSet::new());
    for other in others {
        let names = &other.status.accepted_names;
        resources.extend([names.plural.clone(), names.singular.clone()]);
        resources.extend(names.short_names.iter().cloned());
        kinds.extend([names.kind.clone(), names.list_kind.clone()]);
    }
    let asked = &definition.spec.names;
    let mut conflict = None;
    let mut take = |taken: &BTreeSet<String>, name: &str, reason: &'static str, own: &str| {
        if name.is_empty() || !taken.contains(name) {
            return name.to_owned();
        }
        conflict = Some((reason, format!("{name:?} is already in use")));
        own.to_owned()
    };
    let own = &definition.status.accepted_names;
    let names = Names {
        plural: take(&resources, &asked.plural, "PluralConflict", &own.plural),
        singular: take(&resources, &asked.singular, "SingularConflict", &own.singular),
        short_names: short_names(&resources, asked, own),
        kind: take(&kinds, &asked.kind, "KindConflict", &own.kind),
        list_kind: take(&kinds, &asked.list_kind, "ListKindConflict", &own.list_kind),
        categories: asked.categories.clone(),
    };
    (names, conflict)
}

fn short_names(taken: &BTreeSet<String>, asked: &Names, own: &Names) -> Vec<String> {
    match asked.short_names.iter().any(|name| taken.contains(name)) {
        true => own.short_names.clone(),
        false => asked.short_names.clone(),
    }
}

fn set(conditions: &mut Vec<Condition>, kind: &str, told: (&str, &str, String), now: &str) {
    let (status, reason, message) = told;
    let at = conditions.iter().position(|condition| condition.kind == kind);
    let since = at
        .map(|at| &conditions[at])
        .filter(|condition| condition.status == status)
        .map_or(now, |condition| &condition.last_transition_time)
        .to_owned();
    let condition = Condition {
        kind: kind.to_owned(),
        status: status.to_owned(),
        last_transition_time: since,
        reason: reason.to_owned(),
        message,
    };
    match at {
        Some(at) => conditions[at] = condition,
        None => conditions.push(condition),
    }
}

async fn write(registry: &Registry, object: &Stored, names: &Names, conditions: &[Condition]) {
    let patch = json!({"status": {"acceptedNames": names, "conditions": conditions}});
    let request = status_patch(object, &patch);
    // Someone else may have changed or removed it; its next change brings the loop back here.
    if let Err(status) = registry.call(request).await {
        tracing::debug!(definition = %object.key(), %status.message, "status of a definition is not written");
    }
}

/// A merge patch of a definition's status.
fn status_patch(object: &Stored, patch: &serde_json::Value) -> Request {
    let mut target = Target::object(custom_resource_definition::resource(), object.key());
    target.subresource = Some("status".into());
    let payload = Payload {
        encoding: Encoding::Json,
        bytes: Bytes::from(patch.to_string()),
    };
    let options = WriteOptions {
        field_manager: Some(MANAGER.to_owned()),
        ..WriteOptions::default()
    };
    Request {
        user: Arc::new(User::component("system:apiserver")),
        target,
        verb: Verb::Patch(PatchType::Merge, payload, options),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(plural: &str, kind: &str, accepted: bool) -> Definition {
        let names = Names {
            plural: plural.to_owned(),
            singular: kind.to_lowercase(),
            kind: kind.to_owned(),
            list_kind: format!("{kind}List"),
            ..Names::default()
        };
        let mut definition = Definition::default();
        definition.spec.names = names.clone();
        if accepted {
            definition.status.accepted_names = names;
        }
        definition
    }

    #[test]
    fn free_names_are_accepted_and_then_the_definition_is_established() {
        let mut own = definition("things", "Thing", false);
        let (names, conditions) = judge(&own, [].into_iter(), "now").unwrap();
        assert_eq!(names, own.spec.names);
        assert_eq!(conditions.len(), 1);
        (own.status.accepted_names, own.status.conditions) = (names, conditions);
        let (_, conditions) = judge(&own, [].into_iter(), "now").unwrap();
        let told: Vec<String> = conditions
            .iter()
            .map(|c| format!("{}={}", c.kind, c.status))
            .collect();
        assert_eq!(told, ["NamesAccepted=True", "Established=True"]);
    }

    #[test]
    fn a_name_that_is_taken_keeps_the_definition_out() {
        let other = definition("things", "Thing", true);
        let own = definition("widgets", "Thing", false);
        let (names, conditions) = judge(&own, [&other].into_iter(), "now").unwrap();
        assert_eq!((names.plural.as_str(), names.kind.as_str()), ("widgets", ""));
        assert_eq!(conditions[0].reason, "ListKindConflict");
        assert_eq!(conditions[1].reason, "NotAccepted");
    }

    #[test]
    fn what_stands_there_already_is_not_written_again() {
        let mut own = definition("things", "Thing", false);
        for _ in 0..2 {
            let (names, conditions) = judge(&own, [].into_iter(), "then").unwrap();
            (own.status.accepted_names, own.status.conditions) = (names, conditions);
        }
        assert!(own.is_settled());
        assert!(judge(&own, [].into_iter(), "now").is_none());
    }
}
