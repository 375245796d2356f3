//! Name acceptance of CRDs: a name is accepted if no other CRD of the group has it (upstream: the naming controller).

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::json;

use setpoint_api::call::Encoding;
use setpoint_api::options::{PatchType, WriteOptions};
use setpoint_api::{Payload, Request, Serve, Stored, Target, User, Verb};
use setpoint_cache::Snapshot;
use setpoint_strategy::{custom, meta};

use super::view::{APPROVAL_CONDITION, Condition, Crd, Names};
use crate::registry::Registry;

/// The field manager of the status.
const MANAGER: &str = "kube-apiserver";

/// Updates the status of every CRD where it is out of date.
///
/// A CRD is established in two steps: its names are accepted, which makes its kinds served, and once they are served the
/// condition `Established` is set.
pub(super) async fn update_all(registry: &Registry, snapshot: &Snapshot) {
    let mut all: Vec<(Arc<Stored>, Arc<Crd>)> = snapshot
        .iter()
        .filter_map(|object| Some((object.clone(), object.view::<Crd>().ok()?)))
        .collect();
    for at in 0..all.len() {
        let (object, crd) = all[at].clone();
        if object.header().deleting || crd.is_up_to_date() {
            continue;
        }
        let others = all.iter().filter(|(other, _)| other.key() != object.key());
        let others = others.map(|(_, other)| &**other);
        let others = others.filter(|other| other.spec.group == crd.spec.group);
        let now = meta::timestamp(registry.clock.now());
        let change = names_and_conditions(&crd, others, now.as_str().unwrap_or_default());
        if let Some((names, conditions)) = change {
            let progress = &registry.default_backend().progress;
            progress.reached(object.resource_version()).await;
            write(registry, &object, &names, &conditions).await;
            // The CRDs that follow must see the names that this one has got.
            let mut crd = (*crd).clone();
            crd.status.accepted_names = names;
            all[at].1 = Arc::new(crd);
        }
    }
}

/// The accepted names and the conditions; none if the status has them already.
fn names_and_conditions<'a>(
    crd: &Crd,
    others: impl Iterator<Item = &'a Crd>,
    now: &str,
) -> Option<(Names, Vec<Condition>)> {
    let (names, conflict) = accept_names(crd, others);
    let was_established = crd.is_established();
    let accepted = match &conflict {
        None => ("True", "NoConflicts", "no conflicts found".to_owned()),
        Some((reason, message)) => ("False", *reason, message.clone()),
    };
    let established = match (&conflict, was_established) {
        (_, true) => None,
        (None, false) if !crd.is_accepted() => None,
        (None, false) => Some((
            "True",
            "InitialNamesAccepted",
            "the initial names have been accepted".to_owned(),
        )),
        (Some(_), false) => Some(("False", "NotAccepted", "not all names are accepted".to_owned())),
    };
    let mut conditions = crd.status.conditions.clone();
    if let Some(approval) = crd.approval() {
        set(&mut conditions, APPROVAL_CONDITION, approval, now);
    }
    set(&mut conditions, "NamesAccepted", accepted, now);
    if let Some(established) = established {
        set(&mut conditions, "Established", established, now);
    }
    let is_same = names == crd.status.accepted_names && conditions == crd.status.conditions;
    (!is_same).then_some((names, conditions))
}

/// Reports that the objects of a terminating CRD are being deleted.
pub(super) async fn report_deletion(registry: &Registry, object: &Stored, crd: &Crd) {
    const TERMINATING: &str = "Terminating";
    const IN_PROGRESS: &str = "InstanceDeletionInProgress";
    let reported = crd.condition(TERMINATING);
    if reported.is_some_and(|condition| condition.reason == IN_PROGRESS) {
        return;
    }
    let message = "CustomResource deletion is in progress".to_owned();
    let now = meta::timestamp(registry.clock.now());
    let mut conditions = crd.status.conditions.clone();
    set(
        &mut conditions,
        TERMINATING,
        ("True", IN_PROGRESS, message),
        now.as_str().unwrap_or_default(),
    );
    write(registry, object, &crd.status.accepted_names, &conditions).await;
}

/// The requested names that are free, and the last conflict.
fn accept_names<'a>(
    crd: &Crd,
    others: impl Iterator<Item = &'a Crd>,
) -> (Names, Option<(&'static str, String)>) {
    let (mut resources, mut kinds) = (BTreeSet::new(), BTreeSet::new());
    for other in others {
        let names = &other.status.accepted_names;
        resources.extend([names.plural.clone(), names.singular.clone()]);
        resources.extend(names.short_names.iter().cloned());
        kinds.extend([names.kind.clone(), names.list_kind.clone()]);
    }
    let requested = &crd.spec.names;
    let mut conflict = None;
    let mut take = |taken: &BTreeSet<String>, name: &str, reason: &'static str, accepted: &str| {
        if name.is_empty() || !taken.contains(name) {
            return name.to_owned();
        }
        conflict = Some((reason, format!("{name:?} is already in use")));
        accepted.to_owned()
    };
    let accepted = &crd.status.accepted_names;
    let names = Names {
        plural: take(&resources, &requested.plural, "PluralConflict", &accepted.plural),
        singular: take(
            &resources,
            &requested.singular,
            "SingularConflict",
            &accepted.singular,
        ),
        short_names: short_names(&resources, requested, accepted),
        kind: take(&kinds, &requested.kind, "KindConflict", &accepted.kind),
        list_kind: take(
            &kinds,
            &requested.list_kind,
            "ListKindConflict",
            &accepted.list_kind,
        ),
        categories: requested.categories.clone(),
    };
    (names, conflict)
}

fn short_names(taken: &BTreeSet<String>, requested: &Names, accepted: &Names) -> Vec<String> {
    match requested.short_names.iter().any(|name| taken.contains(name)) {
        true => accepted.short_names.clone(),
        false => requested.short_names.clone(),
    }
}

fn set(conditions: &mut Vec<Condition>, kind: &str, condition: (&str, &str, String), now: &str) {
    let (status, reason, message) = condition;
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
        observed_generation: at.and_then(|at| conditions[at].observed_generation),
    };
    match at {
        Some(at) => conditions[at] = condition,
        None => conditions.push(condition),
    }
}

async fn write(registry: &Registry, object: &Stored, names: &Names, conditions: &[Condition]) {
    let patch = json!({"status": {"acceptedNames": names, "conditions": conditions}});
    let request = status_patch(object, &patch);
    // On a conflict with another writer, the next change of the CRD runs the loop again.
    if let Err(status) = registry.call(request).await {
        tracing::debug!(crd = %object.key(), %status.message, "cannot update the status of a CustomResourceDefinition");
    }
}

/// A merge patch of a CRD's status.
fn status_patch(object: &Stored, patch: &serde_json::Value) -> Request {
    let mut target = Target::object(custom::crd::resource(), object.key());
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

    fn crd(plural: &str, kind: &str, accepted: bool) -> Crd {
        let names = Names {
            plural: plural.to_owned(),
            singular: kind.to_lowercase(),
            kind: kind.to_owned(),
            list_kind: format!("{kind}List"),
            ..Names::default()
        };
        let mut crd = Crd::default();
        crd.spec.names = names.clone();
        if accepted {
            crd.status.accepted_names = names;
        }
        crd
    }

    #[test]
    fn free_names_are_accepted_and_then_the_crd_is_established() {
        let mut own = crd("things", "Thing", false);
        let (names, conditions) = names_and_conditions(&own, [].into_iter(), "now").unwrap();
        assert_eq!(names, own.spec.names);
        assert_eq!(conditions.len(), 1);
        (own.status.accepted_names, own.status.conditions) = (names, conditions);
        let (_, conditions) = names_and_conditions(&own, [].into_iter(), "now").unwrap();
        let condition: Vec<String> = conditions
            .iter()
            .map(|c| format!("{}={}", c.kind, c.status))
            .collect();
        assert_eq!(condition, ["NamesAccepted=True", "Established=True"]);
    }

    #[test]
    fn a_crd_with_a_taken_name_is_not_accepted() {
        let other = crd("things", "Thing", true);
        let own = crd("widgets", "Thing", false);
        let (names, conditions) = names_and_conditions(&own, [&other].into_iter(), "now").unwrap();
        assert_eq!((names.plural.as_str(), names.kind.as_str()), ("widgets", ""));
        assert_eq!(conditions[0].reason, "ListKindConflict");
        assert_eq!(conditions[1].reason, "NotAccepted");
    }

    #[test]
    fn a_crd_of_a_community_group_has_its_approval_as_a_condition() {
        let mut own = crd("things", "Thing", true);
        own.spec.group = "example.k8s.io".to_owned();
        own.metadata.annotations.api_approved = "https://example.com/pull/1".to_owned();
        for _ in 0..2 {
            let (names, conditions) = names_and_conditions(&own, [].into_iter(), "then").unwrap();
            (own.status.accepted_names, own.status.conditions) = (names, conditions);
        }
        let condition = own.condition(APPROVAL_CONDITION).unwrap();
        assert_eq!(
            (
                condition.status.as_str(),
                condition.reason.as_str(),
                condition.message.as_str()
            ),
            (
                "True",
                "ApprovedAnnotation",
                "approved in https://example.com/pull/1"
            )
        );
        assert!(own.is_up_to_date());
        own.metadata.annotations.api_approved = "unapproved, a trial".to_owned();
        assert!(!own.is_up_to_date());
        let (_, conditions) = names_and_conditions(&own, [].into_iter(), "now").unwrap();
        assert_eq!(
            (conditions[0].status.as_str(), conditions[0].reason.as_str()),
            ("False", "UnapprovedAnnotation")
        );
        assert_eq!(conditions[0].last_transition_time, "now");
    }

    #[test]
    fn an_up_to_date_status_is_not_written_again() {
        let mut own = crd("things", "Thing", false);
        for _ in 0..2 {
            let (names, conditions) = names_and_conditions(&own, [].into_iter(), "then").unwrap();
            (own.status.accepted_names, own.status.conditions) = (names, conditions);
        }
        assert!(own.is_up_to_date());
        assert!(names_and_conditions(&own, [].into_iter(), "now").is_none());
    }
}
