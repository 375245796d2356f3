//! VolumeBinding: a pod runs where its bound volumes can be used, and where its unbound claims with delayed binding find
//! volumes or can be provisioned. Before the pod is bound, its claims are (upstream: `plugins/volumebinding`).
//!
//! `find` decides for one node, `assumed` remembers volumes that were chosen and not yet written, `bind` writes and waits,
//! `hints` has the events that help.

mod assumed;
mod bind;
mod find;
mod hints;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use setpoint_api::Key;
use setpoint_runtime::Cache;

use super::storage::{Claim, ObjectView, Storage, claim_names};
use super::{PluginArgs, PluginError};
use crate::framework::{
    CycleState, Dependency, Filter, Handle, Plugin, PostBind, PreFilter, PreFilterResult, Registration,
    Rejection, Reserve, Sign,
};
use crate::pod_info::PodInfo;
use crate::state::{ClusterState, NodeProperties, NodeRef};
use assumed::AssumedVolumes;
use find::{PodVolumes, find_volumes};

const NAME: &str = "VolumeBinding";
const DEFAULT_BIND_TIMEOUT: Duration = Duration::from_secs(600);

/// The plugin.
#[derive(Debug)]
pub(super) struct VolumeBinding {
    storage: Storage,
    nodes: Option<Arc<Cache>>,
    pods: Option<Arc<Cache>>,
    assumed: AssumedVolumes,
    bind_timeout: Duration,
}

/// Its arguments (upstream: `VolumeBindingArgs`).
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct VolumeBindingArgs {
    bind_timeout_seconds: Option<i64>,
}

/// The claims of the pod.
#[derive(Debug, Clone, Default)]
pub(super) struct PodClaims {
    bound: Vec<ObjectView<Claim>>,
    /// Unbound claims whose class delays the binding until a pod uses them.
    delayed: Vec<ObjectView<Claim>>,
}

/// The volumes that were reserved for the pod.
#[derive(Debug, Clone)]
struct ReservedVolumes(PodVolumes);

pub(super) fn build(args: &PluginArgs, handle: &Handle) -> Result<Registration, PluginError> {
    let args: VolumeBindingArgs = args.decode()?;
    let bind_timeout = match args.bind_timeout_seconds {
        None => DEFAULT_BIND_TIMEOUT,
        Some(seconds) => Duration::from_secs(u64::try_from(seconds).map_err(|_| {
            PluginError(format!(
                "bindTimeoutSeconds: Invalid value: {seconds}: invalid BindTimeoutSeconds, should not be a negative value"
            ))
        })?),
    };
    let plugin = Arc::new(VolumeBinding {
        storage: Storage::new(handle),
        nodes: handle.cache("", "nodes"),
        pods: handle.cache("", "pods"),
        assumed: AssumedVolumes::default(),
        bind_timeout,
    });
    Ok(Registration {
        pre_filter: Some(plugin.clone()),
        filter: Some(plugin.clone()),
        reserve: Some(plugin.clone()),
        pre_bind: Some(plugin.clone()),
        post_bind: Some(plugin.clone()),
        enqueue: Some(plugin.clone()),
        sign: Some(plugin),
        ..Registration::new(NAME)
    })
}

impl Plugin for VolumeBinding {
    fn name(&self) -> &'static str {
        NAME
    }
}

impl PreFilter for VolumeBinding {
    fn pre_filter(
        &self,
        cycle: &mut CycleState,
        pod: &PodInfo,
        _: &ClusterState,
    ) -> Result<PreFilterResult, Rejection> {
        let claims = self.read_claims(pod)?;
        if claims.is_empty() {
            return Ok(PreFilterResult::Skip);
        }
        let claims = self.group_claims(claims)?;
        cycle.write(claims);
        Ok(PreFilterResult::AllNodes)
    }
}

impl Filter for VolumeBinding {
    fn filter(&self, cycle: &CycleState, _: &PodInfo, node: NodeRef<'_>) -> Result<(), Rejection> {
        let Some(claims) = cycle.read::<PodClaims>() else {
            return Ok(());
        };
        let label = |name: &str| node.label(name);
        let found = find_volumes(&self.storage, &self.assumed, claims, (node.name(), &label));
        found.map(|_| ())
    }
}

impl Reserve for VolumeBinding {
    fn reserve(&self, cycle: &mut CycleState, pod: &PodInfo, node: &str) -> Result<(), Rejection> {
        let Some(claims) = cycle
            .read::<PodClaims>()
            .filter(|claims| !claims.delayed.is_empty())
        else {
            return Ok(());
        };
        let object = self
            .nodes
            .as_ref()
            .and_then(|nodes| nodes.find(&Key::new("", node)));
        let properties = object.map_or_else(NodeProperties::default, |object| NodeProperties::read(&object));
        let label = |name: &str| properties.label(name);
        let volumes = find_volumes(&self.storage, &self.assumed, claims, (node, &label))?;
        self.assumed.reserve(&pod.uid, &volumes, node);
        cycle.write(ReservedVolumes(volumes));
        Ok(())
    }

    fn unreserve(&self, _: &mut CycleState, pod: &PodInfo, _: &str) {
        self.assumed.release(&pod.uid);
    }
}

impl PostBind for VolumeBinding {
    fn post_bind(&self, _: &CycleState, pod: &PodInfo, _: &str) {
        self.assumed.release(&pod.uid);
    }
}

impl Sign for VolumeBinding {
    fn dependency(&self, pod: &PodInfo, _: &ClusterState) -> Dependency {
        match claim_names(pod).next() {
            None => Dependency::Node,
            Some(_) => Dependency::Cluster,
        }
    }
}

impl VolumeBinding {
    /// The claims of the pod, all of which must exist and be usable.
    fn read_claims(&self, pod: &PodInfo) -> Result<Vec<ObjectView<Claim>>, Rejection> {
        let mut claims = Vec::new();
        for reference in claim_names(pod) {
            let name = &reference.name;
            let claim = self.storage.find_claim(pod.namespace(), name).ok_or_else(|| {
                Rejection::unresolvable(match reference.is_ephemeral {
                    true => format!(
                        "waiting for ephemeral volume controller to create the persistentvolumeclaim \"{name}\""
                    ),
                    false => format!("persistentvolumeclaim \"{name}\" not found"),
                })
            })?;
            check_usable(pod, &claim, reference.is_ephemeral)?;
            claims.push(claim);
        }
        Ok(claims)
    }

    fn group_claims(&self, claims: Vec<ObjectView<Claim>>) -> Result<PodClaims, Rejection> {
        let mut groups = PodClaims::default();
        for claim in claims {
            if claim.view.is_fully_bound() {
                groups.bound.push(claim);
            } else if claim.view.spec.volume_name.is_empty() && self.is_delayed(&claim.view)? {
                groups.delayed.push(claim);
            } else {
                let reason = "pod has unbound immediate PersistentVolumeClaims";
                return Err(Rejection::unresolvable(reason));
            }
        }
        Ok(groups)
    }

    /// Whether the claim's class delays its binding until a pod uses it.
    fn is_delayed(&self, claim: &Claim) -> Result<bool, Rejection> {
        let name = claim.class();
        let Some(class) = self.storage.find_class(name) else {
            return Ok(false);
        };
        match class.view.volume_binding_mode.as_deref() {
            Some(mode) => Ok(mode == "WaitForFirstConsumer"),
            None => Err(Rejection::error(format!(
                "VolumeBindingMode not set for StorageClass \"{name}\""
            ))),
        }
    }
}

fn check_usable(pod: &PodInfo, claim: &ObjectView<Claim>, is_ephemeral: bool) -> Result<(), Rejection> {
    let name = claim.object.key().name();
    if claim.view.status.phase == "Lost" {
        return Err(Rejection::unresolvable(format!(
            "persistentvolumeclaim \"{name}\" bound to non-existent persistentvolume \"{}\"",
            claim.view.spec.volume_name
        )));
    }
    if claim.object.header().deleting {
        return Err(Rejection::unresolvable(format!(
            "persistentvolumeclaim \"{name}\" is being deleted"
        )));
    }
    let is_owner = claim
        .object
        .controller()
        .is_some_and(|owner| owner.uid == pod.uid);
    if is_ephemeral && !is_owner {
        return Err(Rejection::unresolvable(format!(
            "PVC {} was not created for pod {} (pod is not owner)",
            claim.object.key(),
            pod.key
        )));
    }
    Ok(())
}
