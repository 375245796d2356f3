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
