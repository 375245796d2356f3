//! Which objects belong to an owner that picks them by labels: those it controls and still picks, and those of nobody
//! that it picks. The rules are the library's; here is how the controllers ask for them.

use std::sync::Arc;

use compact_str::CompactString;
use setpoint_api::selector::LabelSelector;
use setpoint_api::{Change, Key, Stored};
use setpoint_runtime::claim::Claims;
use setpoint_runtime::{Client, Error, Lister, Object, Typed, owner};

/// The index of objects that nobody controls, by namespace.
const ORPHANS: &str = "orphan";

/// Makes sure that the cache has the index of objects that nobody controls.
pub(crate) fn index<T: Object>(lister: &Lister<T>) {
    lister
        .cache()
        .add_index(ORPHANS, |object| match object.controller() {
            Some(_) => Vec::new(),
            None => vec![CompactString::from(object.key().namespace())],
        });
}

/// The objects of the owner, after letting go of those it no longer picks and taking in those of nobody that it does.
pub(crate) async fn claim<T: Object, U: Object>(
    client: &Client,
    objects: &Lister<U>,
    owner: &Typed<T>,
    selector: &LabelSelector,
) -> Result<Vec<Arc<Stored>>, Error> {
    let namespace = owner.key().namespace();
    let owned = objects.owned_by(owner.uid());
    let orphans = objects.indexed(ORPHANS, namespace);
    let candidates: Vec<_> = owned.into_iter().chain(orphans).map(Typed::into_stored).collect();
    let (owners, handle) = (
        client.namespaced::<T>(namespace),
        client.namespaced::<U>(namespace),
    );
    let claims = Claims {
        owner,
        selector,
        owners: &owners,
        objects: handle.dynamic(),
    };
    Ok(claims.carry_out(&candidates).await?)
}

/// The owners that a change of an object concerns: its controller, or all that pick it while it has none.
pub(crate) fn concerned<T: Object>(
    owners: &Lister<T>,
    change: &Change,
    selector_of: impl Fn(&Typed<T>) -> Option<LabelSelector>,
) -> Vec<Key> {
    let mut keys = owner::controllers_of::<T>(change);
    let object = change.object();
    if object.controller().is_some() || change.is_deletion() || object.header().labels.is_empty() {
        return keys;
    }
    for owner in owners.in_namespace(object.key().namespace()) {
        let picks = selector_of(&owner).is_some_and(|selector| selector.matches(|label| object.label(label)));
        if picks && !keys.contains(owner.key()) {
            keys.push(owner.key().clone());
        }
    }
    keys
}
