//! CustomResourceDefinitions: their names are accepted or rejected, their kinds are served, and their objects are
//! deleted with them.
//!
//! [`CustomKinds`] holds the kinds of all served CRDs; the feed rebuilds it from the cache when a batch changes a CRD.
//! [`run`] is the loop that writes the status of CRDs and finalizes terminating ones. This is the one resource that the
//! registry itself acts on, since it changes what the registry serves.
//!
//! Start reading at [`CustomKinds`], then `status` for the rules of names.

mod cleanup;
mod status;
mod view;

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use setpoint_api::{GroupResource, Stored};
use setpoint_cache::Snapshot;
use setpoint_strategy::Kind;
use setpoint_strategy::custom::{self, KubeAwareVersion, StoredCrd};

use crate::error::Error;
use crate::registry::Registry;
pub(crate) use view::Crd;

/// The kinds of the served CRDs, by the name of the CRD.
#[derive(Debug, Default, Clone)]
pub(crate) struct CustomKinds {
    by_name: HashMap<String, CrdKinds>,
}

/// The kinds of one CRD.
#[derive(Debug, Clone)]
struct CrdKinds {
    object: Arc<Stored>,
    /// The kinds are rebuilt when this changes.
    fingerprint: String,
    source: Arc<StoredCrd>,
    kinds: Vec<Arc<dyn Kind>>,
}

/// The resource of CustomResourceDefinitions.
pub(crate) fn resource() -> GroupResource {
    custom::crd::resource().group_resource()
}

impl CustomKinds {
    /// The kinds of the CRDs in the snapshot. Kinds of CRDs that did not change are taken over from `before`.
    pub(crate) fn of(snapshot: &Snapshot, before: &CustomKinds) -> Self {
        let crd_kinds = snapshot.iter().filter_map(|object| {
            let name = object.key().name().to_owned();
            let crd_kinds = CrdKinds::of(object, before.by_name.get(&name))?;
            Some((name, crd_kinds))
        });
        Self {
            by_name: crd_kinds.collect(),
        }
    }

    /// The kinds, by group, version and name, in the order of discovery: the version of highest priority first.
    pub(crate) fn kinds(&self) -> Vec<Arc<dyn Kind>> {
        let mut kinds: Vec<Arc<dyn Kind>> = self
            .by_name
            .values()
            .flat_map(|crd_kinds| crd_kinds.kinds.iter().cloned())
            .collect();
        kinds.sort_by(|left, right| {
            let order = |kind: &Arc<dyn Kind>| {
                let gvr = &kind.info().gvr;
                let rank = Reverse(KubeAwareVersion::of(&gvr.version));
                (gvr.group.clone(), rank, gvr.resource.clone())
            };
            order(left).cmp(&order(right))
        });
        kinds
    }

    /// Whether both serve the same kinds.
    pub(crate) fn is_same(&self, other: &CustomKinds) -> bool {
        self.by_name.len() == other.by_name.len()
            && self.by_name.iter().all(|(name, crd_kinds)| {
                let other = other.by_name.get(name);
                other.is_some_and(|other| other.fingerprint == crd_kinds.fingerprint)
            })
    }
}

impl CrdKinds {
    fn of(object: &Arc<Stored>, before: Option<&CrdKinds>) -> Option<Self> {
        if let Some(crd_kinds) = before.filter(|crd_kinds| Arc::ptr_eq(&crd_kinds.object, object)) {
            return Some(crd_kinds.clone());
        }
        let crd = object.view::<Crd>().ok()?;
        if !crd.is_served() {
            return None;
        }
        let fingerprint = crd.fingerprint(object);
        let object = object.clone();
        if let Some(crd_kinds) = before.filter(|crd_kinds| crd_kinds.fingerprint == fingerprint) {
            // Forks of a cluster share the source: the bytes of each have the schemas of this generation.
            crd_kinds.source.replace(object.json());
            return Some(Self {
                object,
                ..crd_kinds.clone()
            });
        }
        let source = Arc::new(StoredCrd::new(object.json()));
        let kinds = custom::kinds_of(&source);
        Some(Self {
            object,
            fingerprint,
            source,
            kinds,
        })
    }
}

/// Keeps the status of CRDs up to date, and finalizes terminating ones.
pub(crate) async fn run(registry: &Registry) -> Result<(), Error> {
    let Some(resource) = registry.find_resource(&resource()) else {
        // A registry that does not serve CRDs has no custom kinds.
        return std::future::pending().await;
    };
    let mut subscription = match resource.cache.subscribe(None) {
        Ok(subscription) => subscription,
        Err(_) => return std::future::pending().await,
    };
    loop {
        status::update_all(registry, &resource.cache.snapshot()).await;
        let has_objects = cleanup::finalize_all(registry, &resource.cache.snapshot()).await;
        tokio::select! {
            next = subscription.next() => if next.is_err() {
                match resource.cache.subscribe(None) {
                    Ok(again) => subscription = again,
                    Err(_) => continue,
                }
            },
            () = registry.clock.sleep(cleanup::RETRY_AFTER), if has_objects => {}
        }
    }
}
