//! The JSON of a Pod, as far as it matters to scheduling.

use std::collections::BTreeMap;

use compact_str::CompactString;
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::ResourceClaimReference;
use super::affinity::{RawPodAffinity, RawSpreadConstraint, pod_affinity};
use super::node_selector::{NodeSelector, PreferredSchedulingTerm};
use super::requests::{containers_with_extended_resources, pod_requests};
use super::spec::{Disk, HostPort, PodSpec, PodVolume, PreemptionPolicy, Toleration, VolumeSource};
use crate::resources::ResourceList;

#[derive(Deserialize)]
pub(super) struct RawPod {
    #[serde(default)]
    pub(super) metadata: RawMeta,
    pub(super) spec: RawSpec,
    #[serde(default)]
    pub(super) status: RawStatus,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RawMeta {
    pub(super) creation_timestamp: Option<Timestamp>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RawSpec {
    pub(super) node_name: CompactString,
    scheduler_name: CompactString,
    priority: i32,
    preemption_policy: CompactString,
    tolerations: Vec<Toleration>,
    node_selector: BTreeMap<CompactString, CompactString>,
    affinity: RawAffinity,
    topology_spread_constraints: Vec<RawSpreadConstraint>,
    pub(super) scheduling_gates: Vec<RawGate>,
    pub(super) containers: Vec<RawContainer>,
    pub(super) init_containers: Vec<RawContainer>,
    pub(super) overhead: ResourceList,
    pub(super) resources: RawResources,
    volumes: Vec<RawVolume>,
    resource_claims: Vec<RawClaim>,
    host_network: bool,
    host_users: Option<bool>,
}

#[derive(Deserialize)]
pub(super) struct RawGate {
    pub(super) name: CompactString,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawAffinity {
    node_affinity: RawNodeAffinity,
    pod_affinity: RawPodAffinity,
    pod_anti_affinity: RawPodAffinity,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawNodeAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    required: Option<NodeSelector>,
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
    preferred: Vec<PreferredSchedulingTerm>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RawContainer {
    pub(super) name: CompactString,
    image: CompactString,
    pub(super) resources: RawResources,
    pub(super) restart_policy: CompactString,
    ports: Vec<RawPort>,
    volume_mounts: Vec<RawMount>,
    restart_policy_rules: Vec<RawRestartRule>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawRestartRule {
    action: CompactString,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawMount {
    bind_mount_options: Vec<IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawPort {
    host_port: i32,
    #[serde(rename = "hostIP")]
    host_ip: CompactString,
    protocol: CompactString,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct RawResources {
    pub(super) requests: ResourceList,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawVolume {
    name: CompactString,
    persistent_volume_claim: Option<RawClaimVolume>,
    ephemeral: Option<IgnoredAny>,
    image: Option<RawImageVolume>,
    csi: Option<RawCsi>,
    gce_persistent_disk: Option<RawDisk>,
    aws_elastic_block_store: Option<RawDisk>,
    iscsi: Option<RawDisk>,
    rbd: Option<RawDisk>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawClaimVolume {
    claim_name: CompactString,
    read_only: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawImageVolume {
    reference: CompactString,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawCsi {
    driver: CompactString,
}

/// The identifying fields of all in-tree disks; each source has some of them.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawDisk {
    pd_name: CompactString,
    #[serde(rename = "volumeID")]
    volume_id: CompactString,
    iqn: CompactString,
    monitors: Vec<CompactString>,
    pool: CompactString,
    image: CompactString,
    read_only: bool,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawClaim {
    name: CompactString,
    resource_claim_name: Option<CompactString>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RawStatus {
    pub(super) phase: CompactString,
    pub(super) nominated_node_name: CompactString,
    pub(super) start_time: Option<Timestamp>,
    pub(super) container_statuses: Vec<RawContainerStatus>,
    pub(super) init_container_statuses: Vec<RawContainerStatus>,
    resource_claim_statuses: Vec<RawClaim>,
    conditions: Vec<RawCondition>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RawContainerStatus {
    pub(super) name: CompactString,
    pub(super) resources: RawResources,
    pub(super) allocated_resources: ResourceList,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawCondition {
    r#type: CompactString,
    status: CompactString,
    reason: CompactString,
}

impl RawPod {
    /// Whether the DisruptionTarget condition names a scheduler's preemption.
    pub(super) fn is_disrupted_by_scheduler(&self) -> bool {
        let mut conditions = self.status.conditions.iter();
        let target = conditions.find(|one| one.r#type == "DisruptionTarget");
        target.is_some_and(|one| one.status == "True" && one.reason == "PreemptionByScheduler")
    }

    pub(super) fn resource_claims(&self) -> Box<[ResourceClaimReference]> {
        let generated = |name: &str| {
            let statuses = self.status.resource_claim_statuses.iter();
            statuses
                .filter(|one| one.name == name)
                .find_map(|one| one.resource_claim_name.clone())
        };
        let references = self
            .spec
            .resource_claims
            .iter()
            .map(|claim| ResourceClaimReference {
                name: claim.name.clone(),
                claim: claim
                    .resource_claim_name
                    .clone()
                    .or_else(|| generated(&claim.name)),
                is_generated: claim.resource_claim_name.is_none(),
            });
        references.collect()
    }

    pub(super) fn into_spec(self, namespace: &str) -> PodSpec {
        let (requests, non_zero_requests) = pod_requests(&self);
        let required_features = self.required_features();
        let containers_with_extended_resources = containers_with_extended_resources(&self, &requests);
        let spec = self.spec;
        let affinity = spec.affinity;
        let containers = spec
            .init_containers
            .iter()
            .chain(&spec.containers)
            .map(|one| &one.image);
        let volumes = spec.volumes.iter().filter_map(|volume| volume.image.as_ref());
        let images = containers.chain(volumes.map(|image| &image.reference));
        let images = images.map(|image| normalize_image(image));
        PodSpec {
            scheduler: spec.scheduler_name,
            priority: spec.priority,
            preemption_policy: match spec.preemption_policy.as_str() {
                "Never" => PreemptionPolicy::Never,
                _ => PreemptionPolicy::PreemptLowerPriority,
            },
            requests,
            non_zero_requests,
            host_ports: host_ports(&spec.containers, &spec.init_containers),
            images: images.collect(),
            containers_with_extended_resources,
            required_features,
            tolerations: spec.tolerations,
            node_selector: spec.node_selector,
            required_node_affinity: affinity.node_affinity.required,
            preferred_node_affinity: affinity.node_affinity.preferred,
            affinity: pod_affinity(namespace, affinity.pod_affinity, affinity.pod_anti_affinity),
            topology_spread_constraints: spec
                .topology_spread_constraints
                .into_iter()
                .map(Into::into)
                .collect(),
            volumes: spec
                .volumes
                .into_iter()
                .filter_map(RawVolume::into_volume)
                .collect(),
        }
    }

    /// The node features that the fields require, sorted (upstream: `component-helpers/nodedeclaredfeatures`).
    fn required_features(&self) -> Vec<CompactString> {
        let spec = &self.spec;
        let mut containers = spec.containers.iter().chain(&spec.init_containers);
        let mut features = Vec::new();
        if containers.clone().any(|one| {
            one.restart_policy_rules
                .iter()
                .any(|rule| rule.action == "RestartAllContainers")
        }) {
            features.push("RestartAllContainersOnContainerExits".into());
        }
        if spec.host_network && spec.host_users == Some(false) {
            features.push("UserNamespacesHostNetworkSupport".into());
        }
        if containers.any(|one| {
            one.volume_mounts
                .iter()
                .any(|mount| !mount.bind_mount_options.is_empty())
        }) {
            features.push("VolumeBindMountOptions".into());
        }
        features
    }
}

impl RawVolume {
    fn into_volume(self) -> Option<PodVolume> {
        let source = if let Some(claim) = self.persistent_volume_claim {
            VolumeSource::Claim {
                name: claim.claim_name,
                read_only: claim.read_only,
            }
        } else if self.ephemeral.is_some() {
            VolumeSource::Ephemeral
        } else if let Some(csi) = self.csi {
            VolumeSource::Csi { driver: csi.driver }
        } else if let Some(disk) = self.gce_persistent_disk {
            VolumeSource::Disk(Disk::GcePersistentDisk {
                pd_name: disk.pd_name,
                read_only: disk.read_only,
            })
        } else if let Some(disk) = self.aws_elastic_block_store {
            VolumeSource::Disk(Disk::AwsElasticBlockStore {
                volume_id: disk.volume_id,
            })
        } else if let Some(disk) = self.iscsi {
            VolumeSource::Disk(Disk::Iscsi {
                iqn: disk.iqn,
                read_only: disk.read_only,
            })
        } else {
            let disk = self.rbd?;
            VolumeSource::Disk(Disk::Rbd {
                monitors: disk.monitors,
                pool: disk.pool,
                image: disk.image,
                read_only: disk.read_only,
            })
        };
        Some(PodVolume {
            name: self.name,
            source,
        })
    }
}

/// The host ports of containers and sidecars.
fn host_ports(containers: &[RawContainer], init_containers: &[RawContainer]) -> Vec<HostPort> {
    let sidecars = init_containers
        .iter()
        .filter(|one| one.restart_policy == "Always");
    let ports = containers.iter().chain(sidecars).flat_map(|one| &one.ports);
    let or = |text: &CompactString, default: &str| match text.is_empty() {
        true => default.into(),
        false => text.clone(),
    };
    ports
        .filter(|port| port.host_port > 0)
        .map(|port| HostPort {
            ip: or(&port.host_ip, "0.0.0.0"),
            protocol: or(&port.protocol, "TCP"),
            port: port.host_port,
        })
        .collect()
}

/// The image with a tag: as nodes report it (upstream: `normalizedImageName`).
fn normalize_image(image: &str) -> CompactString {
    match image.rfind(':') > image.rfind('/') {
        true => image.into(),
        false => format!("{image}:latest").into(),
    }
}
