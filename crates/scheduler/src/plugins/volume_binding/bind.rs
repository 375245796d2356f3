//! PreBind: writes the chosen volumes and nodes, and waits until the claims are bound.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use serde_json::{Value, json};
use setpoint_api::{ResourceVersion, Status};
use setpoint_runtime::{Cache, Patch, Subscription};

use super::find::{PodVolumes, SELECTED_NODE};
use super::{NAME, ReservedVolumes, VolumeBinding};
use crate::framework::{BindRequest, BoxFuture, CycleState, PreBind, Rejection};
use crate::plugins::storage::{Claim, ObjectView, Volume};
use crate::pod_info::PodInfo;
use crate::state::NodeProperties;

const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

/// At least this often, the pod is looked for: it may have been deleted.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

impl PreBind for VolumeBinding {
    fn pre_bind_pre_flight(&self, cycle: &CycleState, _: &PodInfo, _: &str) -> bool {
        cycle.read::<ReservedVolumes>().is_some()
    }

    fn pre_bind<'a>(
        &'a self,
        request: &'a BindRequest,
    ) -> BoxFuture<'a, Result<Option<ResourceVersion>, Rejection>> {
        Box::pin(async move {
            let Some(ReservedVolumes(volumes)) = request.cycle.read::<ReservedVolumes>() else {
                return Ok(None);
            };
            write(volumes, request).await.map_err(|status| failed(&status))?;
            self.wait(volumes, request)
                .await
                .map_err(|reason| Rejection::error(format!("binding volumes: {reason}")))?;
            Ok(None)
        })
    }
}

fn failed(status: &Status) -> Rejection {
    Rejection::error(status.to_string())
}

/// Writes the claim to each volume, and the node to each claim that is to be provisioned. Each write fails if the object
/// changed since the decision.
async fn write(volumes: &PodVolumes, request: &BindRequest) -> Result<(), Status> {
    let all_volumes = request.client.all::<PersistentVolume>();
    for (volume, claim) in &volumes.bindings {
        let patch = Patch::merge(&bind_patch(volume, claim))?;
        all_volumes.patch(volume.object.key().name(), &patch).await?;
    }
    for claim in &volumes.provisions {
        let claims = request
            .client
            .namespaced::<PersistentVolumeClaim>(claim.object.key().namespace());
        let patch = Patch::merge(&json!({"metadata": {
            "resourceVersion": claim.object.resource_version().to_string(),
            "annotations": {SELECTED_NODE: request.node},
        }}))?;
        claims.patch(claim.object.key().name(), &patch).await?;
    }
    Ok(())
}

/// The reference of a volume to its claim. The annotation is for a volume that the user did not reserve for the claim.
fn bind_patch(volume: &ObjectView<Volume>, claim: &ObjectView<Claim>) -> Value {
    let key = claim.object.key();
    let mut metadata = json!({"resourceVersion": volume.object.resource_version().to_string()});
    if volume.view.spec.claim_ref.is_none() {
        metadata["annotations"] = json!({BOUND_BY_CONTROLLER: "yes"});
    }
    json!({
        "metadata": metadata,
        "spec": {"claimRef": {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": key.namespace(),
            "name": key.name(),
            "uid": claim.object.uid(),
            "resourceVersion": claim.object.resource_version().to_string(),
        }},
    })
}

impl VolumeBinding {
    /// Waits until all claims are bound, the pod is deleted, or the time is over.
    async fn wait(&self, chosen: &PodVolumes, request: &BindRequest) -> Result<(), String> {
        let (Some(all_claims), Some(all_volumes)) = (&self.storage.claims, &self.storage.volumes) else {
            return Err(format!("{NAME} has no caches"));
        };
        let (mut claims, mut volumes) = (subscribe(all_claims), subscribe(all_volumes));
        let deadline = request.clock.now() + self.bind_timeout;
        loop {
            if self.is_bound(chosen, request)? {
                return Ok(());
            }
            if request.clock.now() >= deadline {
                return Err("context deadline exceeded".to_owned());
            }
            tokio::select! {
                changed = claims.next() => if changed.is_err() { claims = subscribe(all_claims) },
                changed = volumes.next() => if changed.is_err() { volumes = subscribe(all_volumes) },
                () = request.clock.sleep(CHECK_INTERVAL) => {}
            }
        }
    }

    /// Whether all claims are bound; an error if they never will be.
    fn is_bound(&self, volumes: &PodVolumes, request: &BindRequest) -> Result<bool, String> {
        let pod = &request.pod;
        let exists = |pods: &Arc<Cache>| pods.find(&pod.key).is_some_and(|object| object.uid() == pod.uid);
        if !self.pods.as_ref().is_none_or(exists) {
            return Err(format!(
                "pod does not exist any more: pod \"{}\" not found",
                pod.key.name()
            ));
        }
        for (volume, claim) in &volumes.bindings {
            let name = volume.object.key().name();
            let current = self.storage.find_volume(name);
            let current = current
                .ok_or_else(|| format!("failed to check binding: persistentvolume \"{name}\" not found"))?;
            if current.object.resource_version() > volume.object.resource_version()
                && current
                    .view
                    .spec
                    .claim_ref
                    .as_ref()
                    .is_none_or(|one| one.uid.is_empty())
            {
                return Err(format!("ClaimRef got reset for pv \"{name}\""));
            }
            if !self.is_claim_bound(claim, request)? {
                return Ok(false);
            }
        }
        for claim in &volumes.provisions {
            if !self.is_claim_bound(claim, request)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether the claim is bound to a volume that the node can use.
    fn is_claim_bound(&self, claim: &ObjectView<Claim>, request: &BindRequest) -> Result<bool, String> {
        let key = claim.object.key();
        let Some(current) = self.storage.find_claim(key.namespace(), key.name()) else {
            return Err(format!(
                "failed to check provisioning pvc: persistentvolumeclaim \"{}\" not found",
                key.name()
            ));
        };
        let name = &current.view.spec.volume_name;
        if name.is_empty() {
            return Ok(false);
        }
        let Some(volume) = self.storage.find_volume(name) else {
            return Ok(false);
        };
        let node = self.nodes.as_ref();
        let node = node.and_then(|nodes| nodes.find(&setpoint_api::Key::new("", &request.node)));
        let properties = node.map_or_else(NodeProperties::default, |object| NodeProperties::read(&object));
        let label = |name: &str| properties.label(name);
        if !volume.view.matches_node(&request.node, &label) {
            return Err(format!(
                "pv \"{name}\" node affinity doesn't match node \"{}\": no matching NodeSelectorTerms",
                request.node
            ));
        }
        Ok(current.view.is_fully_bound())
    }
}

fn subscribe(cache: &Arc<Cache>) -> Subscription {
    let subscribed = cache.subscribe(None);
    subscribed.expect("a subscription from the current state cannot be too old")
}
