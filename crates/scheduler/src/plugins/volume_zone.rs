//! VolumeZone: a pod runs only in the zone and region that the labels of its volumes name (upstream:
//! `plugins/volumezone`).

use std::sync::Arc;

use compact_str::CompactString;

use super::storage::{Claim, Storage, Volume, is_claim_of};
use super::{PluginArgs, PluginError};
use crate::framework::{
    ActionType, ClusterEvent, CycleState, Dependency, EnqueueExtensions, EventChange, EventResource, Filter,
    Handle, Plugin, PreFilter, PreFilterResult, QueueingHint, Registration, Rejection, Sign,
};
use crate::pod_info::{PodInfo, VolumeSource};
use crate::state::{ClusterState, NodeRef};

const NAME: &str = "VolumeZone";
const CONFLICT: &str = "node(s) had no available volume zone";

/// Labels of volumes, with the label of nodes that replaced a deprecated one.
const TOPOLOGY_LABELS: [(&str, &str); 4] = [
    (
        "failure-domain.beta.kubernetes.io/zone",
        "topology.kubernetes.io/zone",
    ),
    (
        "failure-domain.beta.kubernetes.io/region",
        "topology.kubernetes.io/region",
    ),
    ("topology.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("topology.kubernetes.io/region", "topology.kubernetes.io/region"),
];

#[derive(Debug)]
pub(super) struct VolumeZone {
    storage: Storage,
}

/// The topology values that the volumes of the pod allow.
#[derive(Debug, Clone)]
struct VolumeTopologies(Vec<VolumeTopology>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct VolumeTopology {
    key: &'static str,
    current_key: &'static str,
    values: Vec<CompactString>,
}

pub(super) fn build(_: &PluginArgs, handle: &Handle) -> Result<Registration, PluginError> {
    let plugin = Arc::new(VolumeZone {
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

impl Plugin for VolumeZone {
    fn name(&self) -> &'static str {
        NAME
    }
}

impl PreFilter for VolumeZone {
    fn pre_filter(
        &self,
        cycle: &mut CycleState,
        pod: &PodInfo,
        _: &ClusterState,
    ) -> Result<PreFilterResult, Rejection> {
        let mut topologies = Vec::new();
        for volume in &pod.spec.volumes {
            if let VolumeSource::Claim { name, .. } = &volume.source {
                topologies.extend(self.topologies(pod.namespace(), name)?);
            }
        }
        if topologies.is_empty() {
            return Ok(PreFilterResult::Skip);
        }
        cycle.write_for_planning(VolumeTopologies(topologies));
        Ok(PreFilterResult::AllNodes)
    }
}

impl Filter for VolumeZone {
    fn filter(&self, cycle: &CycleState, _: &PodInfo, node: NodeRef<'_>) -> Result<(), Rejection> {
        let Some(VolumeTopologies(topologies)) = cycle.read::<VolumeTopologies>() else {
            return Ok(());
        };
        let mut labels = TOPOLOGY_LABELS.iter();
        if !labels.any(|(key, _)| node.label(key).is_some()) {
            return Ok(());
        }
        let allows = |one: &VolumeTopology| {
            let value = node.label(one.key).or_else(|| node.label(one.current_key));
            value.is_some_and(|value| one.values.iter().any(|own| own == value))
        };
        match topologies.iter().all(allows) {
            true => Ok(()),
            false => Err(Rejection::unresolvable(CONFLICT)),
        }
    }
}

impl EnqueueExtensions for VolumeZone {
    fn events_to_register(&self) -> Vec<ClusterEvent> {
        let change = ActionType::ADD | ActionType::UPDATE;
        let node = ActionType::ADD | ActionType::UPDATE_NODE_LABEL;
        vec![
            ClusterEvent::new(EventResource::StorageClass, ActionType::ADD),
            ClusterEvent::new(EventResource::Node, node),
            ClusterEvent::new(EventResource::PersistentVolumeClaim, change),
            ClusterEvent::new(EventResource::PersistentVolume, change),
        ]
    }

    fn queueing_hint(&self, pod: &PodInfo, event: ClusterEvent, change: &EventChange) -> QueueingHint {
        let EventChange::Object { old, new: Some(new) } = change else {
            return QueueingHint::Queue;
        };
        match event.resource {
            EventResource::PersistentVolumeClaim => QueueingHint::queue_if(is_claim_of(pod, new)),
            EventResource::PersistentVolume => {
                let labels = |object: &setpoint_api::Stored| {
                    let view = object.view::<Volume>().ok();
                    view.map(|view| volume_topologies(&view))
                };
                QueueingHint::queue_if(old.as_deref().and_then(labels) != labels(new))
            }
            _ => QueueingHint::Queue,
        }
    }
}

impl Sign for VolumeZone {
    fn dependency(&self, pod: &PodInfo, _: &ClusterState) -> Dependency {
        match pod.spec.volumes.is_empty() {
            true => Dependency::Node,
            false => Dependency::Cluster,
        }
    }
}

impl VolumeZone {
    /// The topologies of the volume of a claim; none for a claim that is bound with the pod.
    fn topologies(&self, namespace: &str, name: &str) -> Result<Vec<VolumeTopology>, Rejection> {
        if name.is_empty() {
            return Err(Rejection::unresolvable("PersistentVolumeClaim had no name"));
        }
        let claim = self.storage.find_claim(namespace, name);
        let claim = claim.ok_or_else(|| not_found("persistentvolumeclaim", name))?;
        let volume = &claim.view.spec.volume_name;
        if volume.is_empty() {
            return self.check_class(&claim.view).map(|()| Vec::new());
        }
        let volume_view = self.storage.find_volume(volume);
        let volume = volume_view.ok_or_else(|| not_found("persistentvolume", volume))?;
        Ok(volume_topologies(&volume.view))
    }

    /// An unbound claim must be of a class that binds it with the pod.
    fn check_class(&self, claim: &Claim) -> Result<(), Rejection> {
        let class = claim.class();
        if class.is_empty() {
            let reason = "PersistentVolumeClaim had no pv name and storageClass name";
            return Err(Rejection::unresolvable(reason));
        }
        let found = self.storage.find_class(class);
        let found = found.ok_or_else(|| not_found("storageclass.storage.k8s.io", class))?;
        match found.view.volume_binding_mode.as_deref() {
            Some("WaitForFirstConsumer") => Ok(()),
            Some(_) => Err(Rejection::unresolvable("PersistentVolume had no name")),
            None => Err(Rejection::unresolvable(format!(
                "VolumeBindingMode not set for StorageClass \"{class}\""
            ))),
        }
    }
}

fn not_found(resource: &str, name: &str) -> Rejection {
    Rejection::unresolvable(format!("{resource} \"{name}\" not found"))
}

/// The topology labels of a volume; a value may list several zones, separated by `__`.
fn volume_topologies(volume: &Volume) -> Vec<VolumeTopology> {
    let labels = TOPOLOGY_LABELS.iter().filter_map(|(key, current_key)| {
        let value = volume.metadata.labels.get(*key)?;
        Some(VolumeTopology {
            key,
            current_key,
            values: value.split("__").map(Into::into).collect(),
        })
    });
    labels.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixtures::{cluster_of, pod};

    #[track_caller]
    fn check(volume_labels: serde_json::Value, node_labels: serde_json::Value, expected: bool) {
        let volume: Volume = serde_json::from_value(json!({"metadata": {"labels": volume_labels}})).unwrap();
        let cluster = cluster_of("n", json!({"metadata": {"labels": node_labels}}));
        let mut cycle = CycleState::default();
        cycle.write(VolumeTopologies(volume_topologies(&volume)));
        let plugin = VolumeZone {
            storage: Storage::default(),
        };
        let fits = plugin.filter(&cycle, &pod("p", ""), cluster.find_node("n").unwrap());
        assert_eq!(fits.is_ok(), expected);
    }

    #[test]
    fn the_node_is_in_a_zone_of_the_volume() {
        let zone = |value: &str| json!({"topology.kubernetes.io/zone": value});
        check(zone("a"), zone("a"), true);
        check(zone("a"), zone("b"), false);
        check(zone("a__b"), zone("b"), true);
        check(zone("a"), json!({}), true);
        check(zone("a"), json!({"topology.kubernetes.io/region": "r"}), false);
    }

    #[test]
    fn a_deprecated_label_of_a_volume_is_compared_with_the_current_one() {
        let volume = json!({"failure-domain.beta.kubernetes.io/zone": "a"});
        check(volume.clone(), json!({"topology.kubernetes.io/zone": "a"}), true);
        check(volume, json!({"topology.kubernetes.io/zone": "b"}), false);
    }
}
