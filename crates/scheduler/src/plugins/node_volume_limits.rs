//! NodeVolumeLimits: a node attaches at most as many volumes of a CSI driver as its CSINode allows (upstream:
//! `plugins/nodevolumelimits`).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use compact_str::CompactString;

use super::storage::{Claim, CsiNode, ObjectView, Storage, claim_names, is_claim_of};
use super::{PluginArgs, PluginError};
use crate::framework::{
    ActionType, ClusterEvent, CycleState, Dependency, EnqueueExtensions, EventChange, EventResource, Filter,
    Handle, Plugin, PreFilter, PreFilterResult, QueueingHint, Registration, Rejection, Sign,
};
use crate::pod_info::PodInfo;
use crate::state::{ClusterState, NodeRef};

const NAME: &str = "NodeVolumeLimits";
const EXCEEDED: &str = "node(s) exceed max volume count";

#[derive(Debug)]
pub(super) struct NodeVolumeLimits {
    storage: Storage,
}

/// The driver of each volume, by driver and volume handle.
type AttachedVolumes = BTreeMap<(CompactString, CompactString), ()>;

pub(super) fn build(_: &PluginArgs, handle: &Handle) -> Result<Registration, PluginError> {
    let plugin = Arc::new(NodeVolumeLimits {
        storage: Storage::new(handle),
    });
    Ok(Registration {
        pre_filter: Some(plugin.clone()),
        filter: Some(plugin.clone()),
        enqueue: Some(plugin.clone()),
        sign: Some(plugin),
        ..Registration::new(NAME)
    })
}

impl Plugin for NodeVolumeLimits {
    fn name(&self) -> &'static str {
        NAME
    }
}

impl PreFilter for NodeVolumeLimits {
    fn pre_filter(
        &self,
        _: &mut CycleState,
        pod: &PodInfo,
        _: &ClusterState,
    ) -> Result<PreFilterResult, Rejection> {
        match claim_names(pod).next() {
            None => Ok(PreFilterResult::Skip),
            Some(_) => Ok(PreFilterResult::AllNodes),
        }
    }
}

impl Filter for NodeVolumeLimits {
    fn filter(&self, _: &CycleState, pod: &PodInfo, node: NodeRef<'_>) -> Result<(), Rejection> {
        let mut new = AttachedVolumes::new();
        self.add_volumes(pod, &mut new)?;
        let limits = self
            .storage
            .find_csi_node(node.name())
            .map(|node| limits(&node.view));
        let limits = limits.unwrap_or_default();
        if new.is_empty() || limits.is_empty() {
            return Ok(());
        }
        let attached = self.attached(node);
        new.retain(|volume, ()| !attached.contains_key(volume));
        let (attached, new) = (count_by_driver(&attached), count_by_driver(&new));
        let is_exceeded = |(driver, count): (&CompactString, &i64)| {
            let attached = attached.get(driver).copied().unwrap_or(0);
            limits.get(driver).is_some_and(|limit| attached + count > *limit)
        };
        match new.iter().any(is_exceeded) {
            true => Err(Rejection::unschedulable(EXCEEDED)),
            false => Ok(()),
        }
    }
}

impl EnqueueExtensions for NodeVolumeLimits {
    fn events_to_register(&self) -> Vec<ClusterEvent> {
        vec![
            ClusterEvent::new(EventResource::CsiNode, ActionType::ADD | ActionType::UPDATE),
            ClusterEvent::new(EventResource::AssignedPod, ActionType::DELETE),
            ClusterEvent::new(EventResource::PersistentVolumeClaim, ActionType::ADD),
            ClusterEvent::new(EventResource::VolumeAttachment, ActionType::DELETE),
        ]
    }

    fn queueing_hint(&self, pod: &PodInfo, event: ClusterEvent, change: &EventChange) -> QueueingHint {
        match (event.resource, change) {
            (EventResource::PersistentVolumeClaim, EventChange::Object { new: Some(claim), .. }) => {
                QueueingHint::queue_if(is_claim_of(pod, claim))
            }
            (
                EventResource::AssignedPod,
                EventChange::Pod {
                    old: Some(deleted), ..
                },
            ) => QueueingHint::queue_if(claim_names(deleted).next().is_some()),
            _ => QueueingHint::Queue,
        }
    }
}

impl Sign for NodeVolumeLimits {
    fn dependency(&self, pod: &PodInfo, _: &ClusterState) -> Dependency {
        match claim_names(pod).next() {
            None => Dependency::Node,
            Some(_) => Dependency::Cluster,
        }
    }
}

impl NodeVolumeLimits {
    /// The volumes that the pods of the node use, and those that are attached to it.
    fn attached(&self, node: NodeRef<'_>) -> AttachedVolumes {
        let mut volumes = AttachedVolumes::new();
        for pod in node.pods() {
            for name in claim_names(pod) {
                if let Some(claim) = self.storage.find_claim(pod.namespace(), &name.name) {
                    volumes.extend(self.driver_and_handle(&claim).map(|volume| (volume, ())));
                }
            }
        }
        for attachment in self.storage.attachments(node.name()) {
            let spec = &attachment.view.spec;
            let volume = spec.source.persistent_volume_name.as_deref();
            let volume = volume.and_then(|name| self.storage.find_volume(name));
            if let Some(csi) = volume.as_ref().and_then(|volume| volume.view.spec.csi.as_ref()) {
                volumes.insert((spec.attacher.clone(), csi.volume_handle.clone()), ());
            }
        }
        volumes
    }

    /// Adds the volumes of the pod to schedule. Its claims must exist.
    fn add_volumes(&self, pod: &PodInfo, volumes: &mut AttachedVolumes) -> Result<(), Rejection> {
        for name in claim_names(pod) {
            let claim = self.storage.find_claim(pod.namespace(), &name.name);
            let claim = claim.ok_or_else(|| {
                let name = &name.name;
                Rejection::unresolvable(format!(
                    "looking up PVC {}/{name}: persistentvolumeclaim \"{name}\" not found",
                    pod.namespace()
                ))
            })?;
            volumes.extend(self.driver_and_handle(&claim).map(|volume| (volume, ())));
        }
        Ok(())
    }

    /// The driver and the handle of a claim's volume: of the volume, or of the class that is going to provision it.
    fn driver_and_handle(&self, claim: &ObjectView<Claim>) -> Option<(CompactString, CompactString)> {
        let volume = &claim.view.spec.volume_name;
        if let Some(volume) = (!volume.is_empty())
            .then(|| self.storage.find_volume(volume))
            .flatten()
        {
            let csi = volume.view.spec.csi.as_ref()?;
            return Some((csi.driver.clone(), csi.volume_handle.clone()));
        }
        let class = self.storage.find_class(claim.view.class())?;
        let handle = format!("claim {}", claim.object.key());
        Some((class.view.provisioner.clone(), handle.into()))
    }
}

/// The number of volumes that the node can attach, by driver.
fn limits(node: &CsiNode) -> HashMap<CompactString, i64> {
    let drivers = node.spec.drivers.iter().filter_map(|driver| {
        let count = driver.allocatable.as_ref()?.count?;
        Some((driver.name.clone(), count))
    });
    drivers.collect()
}

fn count_by_driver(volumes: &AttachedVolumes) -> HashMap<CompactString, i64> {
    let mut counts = HashMap::new();
    for (driver, _) in volumes.keys() {
        *counts.entry(driver.clone()).or_default() += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_driver_without_a_count_is_unlimited() {
        let node: CsiNode = serde_json::from_value(json!({"spec": {"drivers": [
            {"name": "a", "allocatable": {"count": 3}},
            {"name": "b"},
        ]}}))
        .unwrap();
        assert_eq!(limits(&node), HashMap::from([("a".into(), 3)]));
    }

    #[test]
    fn a_volume_that_is_attached_twice_counts_once() {
        let volume = |driver: &str, handle: &str| ((driver.into(), handle.into()), ());
        let volumes: AttachedVolumes = [volume("a", "1"), volume("a", "1"), volume("a", "2")].into();
        assert_eq!(count_by_driver(&volumes), HashMap::from([("a".into(), 2)]));
    }
}
