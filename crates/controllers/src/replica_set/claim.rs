//! Which pods belong to a set: those it controls and still selects, and orphans that it selects.

use std::sync::Arc;

use compact_str::CompactString;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1;
use setpoint_api::{Status, Stored};
use setpoint_runtime::{Error, Typed, owner};

use super::ReplicaSets;
use super::views::{Pod, SetView};

/// The index of pods that nobody controls, by namespace.
pub(super) const ORPHANS: &str = "orphan";

/// The values of [`ORPHANS`].
pub(super) fn orphan_namespace(pod: &Stored) -> Vec<CompactString> {
    match pod.controller() {
        Some(_) => Vec::new(),
        None => vec![pod.key().namespace().into()],
    }
}

impl ReplicaSets {
    /// The pods of the set, after letting go of those it no longer selects and taking in orphans that it does.
    pub(super) async fn claim(&self, set: &Typed<ReplicaSet>, view: &SetView) -> Result<Vec<Pod>, Error> {
        let selects = |pod: &Stored| view.selector.matches(|label| pod.label(label));
        let owned = self.pods.owned_by(set.uid());
        let (mut claimed, strays): (Vec<_>, Vec<_>) = owned.into_iter().partition(|pod| selects(pod));
        if !set.header().deleting {
            for pod in strays {
                self.release(set, &pod).await?;
            }
            let orphans = self.pods.indexed(ORPHANS, set.key().namespace());
            let orphans: Vec<_> = orphans
                .into_iter()
                .filter(|pod| selects(pod) && !pod.header().deleting)
                .collect();
            self.adopt(set, &orphans).await?;
            claimed.extend(orphans);
        }
        Ok(claimed
            .into_iter()
            .map(|pod| Pod::read(pod.into_stored()))
            .collect())
    }

    async fn adopt(&self, set: &Typed<ReplicaSet>, orphans: &[Typed<v1::Pod>]) -> Result<(), Error> {
        if orphans.is_empty() {
            return Ok(());
        }
        self.check_still_there(set).await?;
        for orphan in orphans {
            let mut pod = orphan.to_owned()?;
            let owners = pod.metadata.owner_references.get_or_insert_default();
            owners.push(owner::controller_reference(set));
            self.update(&pod).await?;
        }
        Ok(())
    }

    /// A set that the cache still shows may be gone; an orphan must not be given to it.
    async fn check_still_there(&self, set: &Typed<ReplicaSet>) -> Result<(), Error> {
        let sets = self.client.namespaced::<ReplicaSet>(set.key().namespace());
        let fresh = sets.get(set.key().name()).await?;
        match fresh.uid() == set.uid() && !fresh.header().deleting {
            true => Ok(()),
            false => Err(Error::failed(format!("replica set {} is gone", set.key()))),
        }
    }

    /// Takes the set's reference away from the pod. A pod that is gone needs no release.
    async fn release(&self, set: &Typed<ReplicaSet>, stray: &Typed<v1::Pod>) -> Result<(), Error> {
        let mut pod = stray.to_owned()?;
        if let Some(owners) = &mut pod.metadata.owner_references {
            owners.retain(|one| one.uid != set.uid());
        }
        match self.update(&pod).await {
            Err(status) if status.is_not_found() || status.is_invalid() => Ok(()),
            updated => Ok(updated.map(drop)?),
        }
    }

    async fn update(&self, pod: &v1::Pod) -> Result<Arc<Stored>, Status> {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let updated = self.client.namespaced::<v1::Pod>(namespace).update(pod).await?;
        Ok(updated.into_stored())
    }
}
