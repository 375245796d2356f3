//! Adoption and release of objects by an owner with a selector, as upstream's ControllerRefManager does it: an owner
//! keeps what it controls and selects, releases what it no longer selects, and adopts orphans that it selects. The
//! rules are in `setpoint_runtime::claim`.

use std::sync::Arc;

use compact_str::CompactString;
use setpoint_api::selector::LabelSelector;
use setpoint_api::{Change, Key, Stored};
use setpoint_runtime::controller_ref::ControllerRefManager;
use setpoint_runtime::{Client, Error, Lister, Object, TypedObject, owner};

/// The index of objects without a controller, by namespace.
const ORPHANS: &str = "orphan";

/// Makes sure that the cache has the index of orphans.
pub(crate) fn add_orphan_index<T: Object>(lister: &Lister<T>) {
    lister
        .cache()
        .add_index(ORPHANS, |object| match object.controller() {
            Some(_) => Vec::new(),
            None => vec![CompactString::from(object.key().namespace())],
        });
}

/// The objects of the owner, after releasing those it no longer selects and adopting the orphans that it does.
pub(crate) async fn claim<T: Object, U: Object>(
    client: &Client,
    objects: &Lister<U>,
    owner: &TypedObject<T>,
    selector: &LabelSelector,
) -> Result<Vec<Arc<Stored>>, Error> {
    let namespace = owner.key().namespace();
    let owned = objects.owned_by(owner.uid());
    let orphans = objects.indexed(ORPHANS, namespace);
    let candidates: Vec<_> = owned
        .into_iter()
        .chain(orphans)
        .map(TypedObject::into_stored)
        .collect();
    let (owners, handle) = (
        client.namespaced::<T>(namespace),
        client.namespaced::<U>(namespace),
    );
    let claims = ControllerRefManager {
        owner,
        selector,
        owners: &owners,
        objects: handle.dynamic(),
    };
    Ok(claims.claim_objects(&candidates).await?)
}

/// The owners to enqueue after a change of an object: its controller, or all that select it while it has none.
pub(crate) fn owners_to_enqueue<T: Object>(
    owners: &Lister<T>,
    change: &Change,
    selector_of: impl Fn(&TypedObject<T>) -> Option<LabelSelector>,
) -> Vec<Key> {
    let mut keys = owner::controllers_of::<T>(change);
    let object = change.object();
    if object.controller().is_some() || change.is_deletion() || object.header().labels.is_empty() {
        return keys;
    }
    for owner in owners.in_namespace(object.key().namespace()) {
        let selects =
            selector_of(&owner).is_some_and(|selector| selector.matches(|label| object.label(label)));
        if selects && !keys.contains(owner.key()) {
            keys.push(owner.key().clone());
        }
    }
    keys
}
