//! VolumeRestrictions: disks that cannot be shared, and claims that only one pod may use (upstream:
//! `plugins/volumerestrictions`).

use std::sync::Arc;

use compact_str::CompactString;

use super::storage::{Storage, is_claim_of};
use super::{PluginArgs, PluginError};
use crate::framework::{
    ActionType, ClusterEvent, CycleState, Dependency, EnqueueExtensions, EventChange, EventResource, Filter,
    Handle, Plugin, PreFilter, PreFilterResult, QueueingHint, Registration, Rejection, Sign,
};
use crate::pod_info::spec::Disk;
use crate::pod_info::{PodInfo, VolumeSource};
use crate::state::{ClusterState, NodeRef};

const NAME: &str = "VolumeRestrictions";
const DISK_CONFLICT: &str = "node(s) had no available disk";
const CLAIM_CONFLICT: &str = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod";

#[derive(Debug)]
pub(super) struct VolumeRestrictions {
    storage: Storage,
}

/// The claims of the pod that only one pod may use.
#[derive(Debug, Clone)]
struct ExclusiveClaims {
    names: Vec<CompactString>,
    /// How often other pods use them.
    uses: i64,
}

pub(super) fn build(_: &PluginArgs, handle: &Handle) -> Result<Registration, PluginError> {
    let plugin = Arc::new(VolumeRestrictions {
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

impl Plugin for VolumeRestrictions {
    fn name(&self) -> &'static str {
        NAME
    }
}

impl PreFilter for VolumeRestrictions {
    fn pre_filter(
        &self,
        cycle: &mut CycleState,
        pod: &PodInfo,
        cluster: &ClusterState,
    ) -> Result<PreFilterResult, Rejection> {
        let names = self.exclusive_claims(pod)?;
        let mut claims = ExclusiveClaims { names, uses: 0 };
        if !claims.names.is_empty() {
            // Such claims are rare, so their users are not counted all the time.
            let others = cluster
                .pods()
                .filter(|other| other.namespace() == pod.namespace());
            claims.uses = others.map(|other| claims.uses_of(other)).sum::<i64>().min(1);
        }
        if disks(pod).next().is_none() && claims.uses == 0 {
            return Ok(PreFilterResult::Skip);
        }
        cycle.write_for_planning(claims);
        Ok(PreFilterResult::AllNodes)
    }

    fn add_pod(&self, cycle: &mut CycleState, pod: &PodInfo, added: &PodInfo, _: NodeRef<'_>) {
        count(cycle, pod, added, 1);
    }

    fn remove_pod(&self, cycle: &mut CycleState, pod: &PodInfo, removed: &PodInfo, _: NodeRef<'_>) {
        count(cycle, pod, removed, -1);
    }
}

impl Filter for VolumeRestrictions {
    fn filter(&self, cycle: &CycleState, pod: &PodInfo, node: NodeRef<'_>) -> Result<(), Rejection> {
        let in_use = |disk: &Disk| {
            let mut others = node.pods().iter().flat_map(|other| disks(other));
            others.any(|other| conflicts(disk, other))
        };
        if disks(pod).any(in_use) {
            return Err(Rejection::unschedulable(DISK_CONFLICT));
        }
        match cycle
            .read::<ExclusiveClaims>()
            .is_some_and(|claims| claims.uses > 0)
        {
            true => Err(Rejection::unschedulable(CLAIM_CONFLICT)),
            false => Ok(()),
        }
    }
}

impl EnqueueExtensions for VolumeRestrictions {
    fn events_to_register(&self) -> Vec<ClusterEvent> {
        vec![
            ClusterEvent::new(EventResource::AssignedPod, ActionType::DELETE),
            ClusterEvent::new(EventResource::Node, ActionType::ADD),
            ClusterEvent::new(EventResource::PersistentVolumeClaim, ActionType::ADD),
        ]
    }

    fn queueing_hint(&self, pod: &PodInfo, _: ClusterEvent, change: &EventChange) -> QueueingHint {
        match change {
            EventChange::Object { new: Some(claim), .. } => QueueingHint::queue_if(is_claim_of(pod, claim)),
            EventChange::Pod {
                old: Some(deleted), ..
            } => {
                let mut own = disks(pod);
                let shares_disk = own.any(|disk| disks(deleted).any(|other| conflicts(disk, other)));
                let mut claims = super::storage::claim_names(pod);
                let shares_claim = deleted.namespace() == pod.namespace()
                    && claims.any(|claim| super::storage::claim_names(deleted).any(|other| other == claim));
                QueueingHint::queue_if(shares_disk || shares_claim)
            }
            _ => QueueingHint::Queue,
        }
    }
}

impl Sign for VolumeRestrictions {
    fn dependency(&self, pod: &PodInfo, _: &ClusterState) -> Dependency {
        let uses_claim =
            |volume: &crate::pod_info::PodVolume| matches!(volume.source, VolumeSource::Claim { .. });
        match pod.spec.volumes.iter().any(uses_claim) {
            true => Dependency::Cluster,
            false => Dependency::Node,
        }
    }
}

impl VolumeRestrictions {
    fn exclusive_claims(&self, pod: &PodInfo) -> Result<Vec<CompactString>, Rejection> {
        let mut exclusive = Vec::new();
        for name in claimed(pod) {
            let Some(claim) = self.storage.find_claim(pod.namespace(), name) else {
                let reason = format!("persistentvolumeclaim \"{name}\" not found");
                return Err(Rejection::unresolvable(reason));
            };
            let mut modes = claim.view.spec.access_modes.iter();
            if modes.any(|mode| mode == "ReadWriteOncePod") {
                exclusive.push(name.clone());
            }
        }
        Ok(exclusive)
    }
}

impl ExclusiveClaims {
    /// How often a pod of the same namespace uses the claims.
    fn uses_of(&self, other: &PodInfo) -> i64 {
        let used = claimed(other).filter(|name| self.names.contains(name)).count();
        i64::try_from(used).unwrap_or(i64::MAX)
    }
}

fn count(cycle: &mut CycleState, pod: &PodInfo, other: &PodInfo, by: i64) {
    if let Some(claims) = cycle.read_mut::<ExclusiveClaims>()
        && other.namespace() == pod.namespace()
    {
        claims.uses += by * claims.uses_of(other);
    }
}

/// The names of the claims in the pod's volumes.
fn claimed(pod: &PodInfo) -> impl Iterator<Item = &CompactString> {
    pod.spec.volumes.iter().filter_map(|volume| match &volume.source {
        VolumeSource::Claim { name, .. } => Some(name),
        _ => None,
    })
}

fn disks(pod: &PodInfo) -> impl Iterator<Item = &Disk> {
    pod.spec.volumes.iter().filter_map(|volume| match &volume.source {
        VolumeSource::Disk(disk) => Some(disk),
        _ => None,
    })
}

/// Whether one node cannot attach both: the same disk, unless both only read it.
fn conflicts(disk: &Disk, other: &Disk) -> bool {
    match (disk, other) {
        (
            Disk::GcePersistentDisk { pd_name, read_only },
            Disk::GcePersistentDisk {
                pd_name: other_name,
                read_only: other_reads,
            },
        ) => pd_name == other_name && !(*read_only && *other_reads),
        (Disk::AwsElasticBlockStore { volume_id }, Disk::AwsElasticBlockStore { volume_id: other_id }) => {
            volume_id == other_id
        }
        (
            Disk::Iscsi { iqn, read_only },
            Disk::Iscsi {
                iqn: other_iqn,
                read_only: other_reads,
            },
        ) => iqn == other_iqn && !(*read_only && *other_reads),
        (
            Disk::Rbd {
                monitors,
                pool,
                image,
                read_only,
            },
            Disk::Rbd {
                monitors: other_monitors,
                pool: other_pool,
                image: other_image,
                read_only: other_reads,
            },
        ) => {
            monitors.iter().any(|one| other_monitors.contains(one))
                && (pool, image) == (other_pool, other_image)
                && !(*read_only && *other_reads)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::fixtures::{cluster_of, pod_from};

    /// Whether a pod with the volume fits a node with a pod that has the other one.
    #[track_caller]
    fn check(volume: Value, other: Value, expected: bool) {
        let mut cluster = cluster_of("n", json!({}));
        let with = |name: &str, node: &str, volume: Value| {
            let mut volume = volume;
            volume["name"] = json!("v");
            pod_from(json!({"metadata": {"name": name}, "spec": {"nodeName": node, "volumes": [volume]}}))
        };
        cluster.set_pod(Arc::new(with("other", "n", other)));
        let plugin = VolumeRestrictions {
            storage: Storage::default(),
        };
        let node = cluster.find_node("n").unwrap();
        let fits = plugin.filter(&CycleState::default(), &with("p", "", volume), node);
        assert_eq!(fits.is_ok(), expected);
    }

    #[test]
    fn a_disk_is_shared_only_by_readers() {
        let gce = |name: &str, read_only: bool| json!({"gcePersistentDisk": {"pdName": name, "readOnly": read_only}});
        check(gce("a", false), gce("a", false), false);
        check(gce("a", true), gce("a", true), true);
        check(gce("a", true), gce("a", false), false);
        check(gce("a", false), gce("b", false), true);
    }

    #[test]
    fn ceph_images_conflict_if_a_monitor_is_the_same() {
        let rbd = |monitors: &[&str], image: &str| json!({"rbd": {"monitors": monitors, "image": image}});
        check(rbd(&["1", "2"], "i"), rbd(&["2"], "i"), false);
        check(rbd(&["1"], "i"), rbd(&["2"], "i"), true);
        check(rbd(&["1"], "i"), rbd(&["1"], "j"), true);
    }

    #[test]
    fn a_pod_whose_claim_does_not_exist_is_rejected() {
        let volume = json!({"name": "v", "persistentVolumeClaim": {"claimName": "c"}});
        let pod = pod_from(json!({"spec": {"volumes": [volume]}}));
        let plugin = VolumeRestrictions {
            storage: Storage::default(),
        };
        let rejection = plugin.pre_filter(&mut CycleState::default(), &pod, &cluster_of("n", json!({})));
        let rejection = rejection.unwrap_err().to_string();
        assert_eq!(rejection, "persistentvolumeclaim \"c\" not found");
    }
}
