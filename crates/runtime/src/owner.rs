//! Owners: who controls an object, and how to say so.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use setpoint_api::object::Owner;
use setpoint_api::{Change, Key, Stored};
use setpoint_client::{Object, Typed};

/// A reference that makes the object of this key and uid the controller of another: it is woken by the other's changes,
/// and the other goes when it goes.
pub fn controller_reference<T: Object>(owner: &Typed<T>) -> OwnerReference {
    OwnerReference {
        api_version: T::API_VERSION.to_owned(),
        kind: T::KIND.to_owned(),
        name: owner.key().name().to_owned(),
        uid: owner.uid().to_owned(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// Whether this very object controls the other; one of the same name that came later does not.
pub fn controls(owner: &Stored, object: &Stored) -> bool {
    object
        .controller()
        .is_some_and(|controller| controller.uid == owner.uid())
}

/// The keys to wake when an object changes that a `T` may control: its controller's, and its former controller's if it
/// has changed hands.
pub fn controllers_of<T: Object>(change: &Change) -> Vec<Key> {
    let mut keys = Vec::new();
    for object in change.old().into_iter().chain([change.object()]) {
        let key = object.controller().filter(|owner| is_a::<T>(owner));
        let key = key.map(|owner| Key::new(object.key().namespace(), &owner.name));
        keys.extend(key.filter(|key| !keys.contains(key)));
    }
    keys
}

/// Whether the reference is to a `T`, in whatever version.
fn is_a<T: Object>(owner: &Owner) -> bool {
    let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
    owner.kind == T::KIND && group == T::GROUP
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::apps::v1::ReplicaSet;
    use setpoint_api::Header;

    use super::*;

    /// An object with this controller: `kind.group/name`, or nothing.
    fn object(uid: &str, controller: &str) -> Arc<Stored> {
        let mut header = Header::new(Key::new("a", "x"));
        header.uid = uid.into();
        if let Some((kind, name)) = controller.split_once('/') {
            let (kind, group) = kind.split_once('.').unwrap_or((kind, ""));
            header.owners = Box::new([Owner {
                uid: format!("uid-{name}").into(),
                kind: kind.into(),
                name: name.into(),
                api_version: format!("{group}/v1").trim_start_matches('/').into(),
                controller: true,
                blocks_deletion: true,
            }]);
        }
        Arc::new(Stored::new(header, "{}".into(), 1))
    }

    /// RS3: whom a change from one controller to another wakes.
    #[track_caller]
    fn check(old: &str, new: &str, expected: &[&str]) {
        let (old, new) = (object("u", old), object("u", new));
        let keys = controllers_of::<ReplicaSet>(&Change::Modified { old, new });
        let keys: Vec<_> = keys.iter().map(Key::as_str).collect();
        assert_eq!(keys, expected);
    }

    #[test]
    fn rs3_a_change_wakes_the_controller_and_the_one_before() {
        check("ReplicaSet.apps/web", "ReplicaSet.apps/web", &["a/web"]);
        check(
            "ReplicaSet.apps/web",
            "ReplicaSet.apps/other",
            &["a/web", "a/other"],
        );
        check("", "ReplicaSet.apps/web", &["a/web"]);
        check("ReplicaSet.apps/web", "", &["a/web"]);
    }

    #[test]
    fn rs3_controllers_of_another_kind_or_group_are_not_woken() {
        check("Job.batch/web", "Job.batch/web", &[]);
        check("ReplicaSet.example.com/web", "ReplicaSet/web", &[]);
    }

    /// RS10
    #[test]
    fn rs10_a_controller_reference_controls() {
        let owner = object("uid-web", "");
        let reference = controller_reference::<ReplicaSet>(&Typed::new(owner.clone()));
        assert_eq!(
            (reference.api_version.as_str(), reference.kind.as_str()),
            ("apps/v1", "ReplicaSet")
        );
        assert_eq!(
            (reference.controller, reference.block_owner_deletion),
            (Some(true), Some(true))
        );
        assert!(controls(&owner, &object("u", "ReplicaSet.apps/web")));
        assert!(!controls(
            &object("uid-later", ""),
            &object("u", "ReplicaSet.apps/web")
        ));
    }
}
