//! Owner references: sets, removes and follows them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use setpoint_api::object::OwnerReference as StoredOwnerReference;
use setpoint_api::{Change, Key, Stored};
use setpoint_client::{Object, TypedObject};

/// A reference that makes `owner` the controller of another object: changes of that object enqueue the owner, and the
/// garbage collector deletes it with the owner.
pub fn controller_reference<T: Object>(owner: &TypedObject<T>) -> OwnerReference {
    let gvk = T::gvk();
    OwnerReference {
        api_version: gvk.api_version().into(),
        kind: gvk.kind.into(),
        name: owner.key().name().to_owned(),
        uid: owner.uid().to_owned(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// Another owner controls the object already, and there can be only one (controller-runtime's `AlreadyOwnedError`).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{object:?} is already owned by another {kind} controller {name}")]
pub struct AlreadyOwned {
    /// The name of the object.
    pub object: String,
    /// The kind of its controller.
    pub kind: String,
    /// The name of its controller.
    pub name: String,
}

/// Makes `owner` the controller of `object`; an error if it has another controller.
pub fn set_controller_reference<T: Object, U: Object>(
    owner: &TypedObject<T>,
    object: &mut U,
) -> Result<(), AlreadyOwned> {
    let name = object.meta().name.clone().unwrap_or_default();
    let references = object.meta_mut().owner_references.get_or_insert_default();
    let other = |own: &&OwnerReference| own.controller == Some(true) && own.uid != owner.uid();
    if let Some(other) = references.iter().find(other) {
        return Err(AlreadyOwned {
            object: name,
            kind: other.kind.clone(),
            name: other.name.clone(),
        });
    }
    references.retain(|own| own.uid != owner.uid());
    references.push(controller_reference(owner));
    Ok(())
}

/// Removes an owner reference; true if there was one.
pub fn remove_owner_reference<T: Object, U: Object>(owner: &TypedObject<T>, object: &mut U) -> bool {
    let Some(references) = &mut object.meta_mut().owner_references else {
        return false;
    };
    let before = references.len();
    references.retain(|own| own.uid != owner.uid());
    references.len() != before
}

/// Whether `owner` controls the object, by uid: a later object of the same name does not.
pub fn controls(owner: &Stored, object: &Stored) -> bool {
    object
        .controller()
        .is_some_and(|controller| controller.uid == owner.uid())
}

/// Maps a change to the `T` that controls the object, and to its former controller if that has changed.
pub fn controllers_of<T: Object>(change: &Change) -> Vec<Key> {
    let mut keys = Vec::new();
    for object in change.old().into_iter().chain([change.object()]) {
        let key = object.controller().filter(|owner| is_a::<T>(owner));
        let key = key.map(|owner| key_of::<T>(object, owner));
        keys.extend(key.filter(|key| !keys.contains(key)));
    }
    keys
}

/// Maps a change to every `T` that owns the object, or owned it before.
pub fn owners_of<T: Object>(change: &Change) -> Vec<Key> {
    let mut keys = Vec::new();
    for object in change.old().into_iter().chain([change.object()]) {
        let owners = object
            .header()
            .owner_references
            .iter()
            .filter(|owner| is_a::<T>(owner));
        for owner in owners {
            let key = key_of::<T>(object, owner);
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
    }
    keys
}

/// The key of an owner, which is in the namespace of the object it owns, or cluster-scoped.
fn key_of<T: Object>(object: &Stored, owner: &StoredOwnerReference) -> Key {
    match T::is_namespaced() {
        true => Key::new(object.key().namespace(), &owner.name),
        false => Key::new("", &owner.name),
    }
}

/// Whether the reference is to a `T`, in any version.
fn is_a<T: Object>(owner: &StoredOwnerReference) -> bool {
    let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
    let gvk = T::gvk();
    owner.kind == gvk.kind && group == gvk.group
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::apps::v1::ReplicaSet;
    use k8s_openapi::api::core::v1::Pod;
    use setpoint_api::Header;

    use super::*;

    /// An object with this controller: `kind.group/name`, or nothing.
    fn object(uid: &str, controller: &str) -> Arc<Stored> {
        let mut header = Header::new(Key::new("a", "x"));
        header.uid = uid.into();
        if let Some((kind, name)) = controller.split_once('/') {
            let (kind, group) = kind.split_once('.').unwrap_or((kind, ""));
            header.owner_references = Box::new([StoredOwnerReference {
                uid: format!("uid-{name}").into(),
                kind: kind.into(),
                name: name.into(),
                api_version: format!("{group}/v1").trim_start_matches('/').into(),
                controller: true,
                block_owner_deletion: true,
            }]);
        }
        Arc::new(Stored::new(header, "{}".into(), 1))
    }

    /// RS3: the keys enqueued by a change from one controller to another.
    #[track_caller]
    fn check(old: &str, new: &str, expected: &[&str]) {
        let (old, new) = (object("u", old), object("u", new));
        let keys = controllers_of::<ReplicaSet>(&Change::Modified { old, new });
        let keys: Vec<_> = keys.iter().map(Key::as_str).collect();
        assert_eq!(keys, expected);
    }

    #[test]
    fn rs3_a_change_enqueues_the_controller_and_the_former_one() {
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
    fn a_cluster_scoped_owner_is_enqueued_by_its_name_alone() {
        let object = object("u", "Node/n1");
        let keys = owners_of::<k8s_openapi::api::core::v1::Node>(&Change::Added(object));
        assert_eq!(keys.iter().map(Key::as_str).collect::<Vec<_>>(), ["n1"]);
    }

    #[test]
    fn rs3_controllers_of_another_kind_or_group_are_not_enqueued() {
        check("Job.batch/web", "Job.batch/web", &[]);
        check("ReplicaSet.example.com/web", "ReplicaSet/web", &[]);
    }

    /// TO5
    #[test]
    fn to5_an_object_has_one_controller_at_most() {
        let (one, two) = (object("uid-1", ""), object("uid-2", ""));
        let (one, two) = (
            TypedObject::<ReplicaSet>::new(one),
            TypedObject::<ReplicaSet>::new(two),
        );
        let mut pod = Pod::default();
        assert_eq!(set_controller_reference(&one, &mut pod), Ok(()));
        assert_eq!(set_controller_reference(&one, &mut pod), Ok(()));
        assert_eq!(pod.metadata.owner_references.as_ref().unwrap().len(), 1);
        assert!(set_controller_reference(&two, &mut pod).is_err());
        assert!(remove_owner_reference(&one, &mut pod) && !remove_owner_reference(&one, &mut pod));
        assert_eq!(set_controller_reference(&two, &mut pod), Ok(()));
    }

    /// RS10
    #[test]
    fn rs10_a_controller_reference_controls() {
        let owner = object("uid-web", "");
        let reference = controller_reference::<ReplicaSet>(&TypedObject::new(owner.clone()));
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
