//! Views of pods and volumes: the names of the objects they use.

use std::collections::BTreeMap;

use compact_str::{CompactString, format_compact};
use serde::Deserialize;
use setpoint_api::Key;

use super::super::rule::nullable_list;

/// The annotation of a mirror pod, which its node created. Such a pod must not give its node access to anything.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// The objects that a pod uses, by name within its namespace.
#[derive(Debug, Default, Deserialize)]
#[serde(from = "Pod")]
pub(super) struct PodRefs {
    pub(super) service_account: CompactString,
    pub(super) secrets: Box<[CompactString]>,
    pub(super) config_maps: Box<[CompactString]>,
    pub(super) claims: Box<[CompactString]>,
    pub(super) resource_claims: Box<[CompactString]>,
}

/// The claim of a persistent volume, and the Secrets that a node needs to mount it.
#[derive(Debug, Deserialize)]
#[serde(from = "VolumeObject")]
pub(super) struct Volume {
    pub(super) claim: Option<Key>,
    pub(super) secrets: Box<[Key]>,
}

/// An object with `spec.nodeName`.
#[derive(Debug, Deserialize)]
pub(super) struct Node {
    #[serde(default)]
    pub(super) spec: NodeSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct NodeSpec {
    pub(super) node_name: CompactString,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Pod {
    metadata: Meta,
    spec: Spec,
    status: PodStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Meta {
    name: CompactString,
    annotations: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    service_account_name: CompactString,
    #[serde(deserialize_with = "nullable_list")]
    image_pull_secrets: Vec<ObjectRef>,
    #[serde(deserialize_with = "nullable_list")]
    containers: Vec<Container>,
    #[serde(deserialize_with = "nullable_list")]
    init_containers: Vec<Container>,
    #[serde(deserialize_with = "nullable_list")]
    ephemeral_containers: Vec<Container>,
    #[serde(deserialize_with = "nullable_list")]
    volumes: Vec<PodVolume>,
    #[serde(deserialize_with = "nullable_list")]
    resource_claims: Vec<PodClaim>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodStatus {
    #[serde(deserialize_with = "nullable_list")]
    resource_claim_statuses: Vec<PodClaim>,
    extended_resource_claim_status: Option<PodClaim>,
}

/// A resource claim of a pod: its name in the pod, and the ResourceClaim's name if it is known.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodClaim {
    name: CompactString,
    resource_claim_name: Option<CompactString>,
}

/// A reference to an object by name.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ObjectRef {
    name: CompactString,
    namespace: CompactString,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Container {
    #[serde(deserialize_with = "nullable_list")]
    env: Vec<Env>,
    #[serde(deserialize_with = "nullable_list")]
    env_from: Vec<ValueSource>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Env {
    value_from: Option<ValueSource>,
}

/// The source of environment variables or projected files; field names differ between `env` and `envFrom`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ValueSource {
    #[serde(alias = "secretKeyRef", alias = "secret")]
    secret_ref: Option<ObjectRef>,
    #[serde(alias = "configMapKeyRef", alias = "configMap")]
    config_map_ref: Option<ObjectRef>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodVolume {
    name: CompactString,
    secret: Option<SecretName>,
    config_map: Option<ObjectRef>,
    projected: Option<ProjectedVolume>,
    persistent_volume_claim: Option<ClaimName>,
    ephemeral: Option<serde::de::IgnoredAny>,
    #[serde(flatten)]
    remote: RemoteVolume,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SecretName {
    secret_name: CompactString,
    secret_namespace: Option<CompactString>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ProjectedVolume {
    #[serde(deserialize_with = "nullable_list")]
    sources: Vec<ValueSource>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClaimName {
    claim_name: CompactString,
}

/// A volume whose storage is accessed with a Secret; the fields are the same in pods and persistent volumes.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RemoteVolume {
    azure_file: Option<SecretName>,
    cephfs: Option<VolumeSecrets>,
    cinder: Option<VolumeSecrets>,
    flex_volume: Option<VolumeSecrets>,
    rbd: Option<VolumeSecrets>,
    #[serde(rename = "scaleIO")]
    scale_io: Option<VolumeSecrets>,
    iscsi: Option<VolumeSecrets>,
    storageos: Option<VolumeSecrets>,
    csi: Option<VolumeSecrets>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct VolumeSecrets {
    secret_ref: Option<ObjectRef>,
    node_publish_secret_ref: Option<ObjectRef>,
    node_stage_secret_ref: Option<ObjectRef>,
    node_expand_secret_ref: Option<ObjectRef>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct VolumeObject {
    spec: VolumeSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct VolumeSpec {
    claim_ref: Option<ObjectRef>,
    #[serde(flatten)]
    remote: RemoteVolume,
}

impl From<Pod> for PodRefs {
    fn from(pod: Pod) -> Self {
        let mirror = pod.metadata.annotations.as_ref();
        if mirror.is_some_and(|annotations| annotations.contains_key(MIRROR)) {
            return Self::default();
        }
        let spec = &pod.spec;
        let sources: Vec<&ValueSource> = value_sources(spec).collect();
        let secrets = sources.iter().filter_map(|source| source.secret_ref.as_ref());
        let config_maps = sources.iter().filter_map(|source| source.config_map_ref.as_ref());
        let mounted = spec.volumes.iter();
        Self {
            service_account: spec.service_account_name.clone(),
            secrets: names(
                spec.image_pull_secrets
                    .iter()
                    .chain(secrets)
                    .map(|named| named.name.clone())
                    .chain(mounted.clone().flat_map(secrets_of_volume)),
            ),
            config_maps: names(
                config_maps
                    .chain(mounted.clone().filter_map(|volume| volume.config_map.as_ref()))
                    .map(|named| named.name.clone()),
            ),
            claims: names(mounted.filter_map(|volume| claim_of_volume(&pod.metadata.name, volume))),
            resource_claims: resource_claims(&pod),
        }
    }
}

/// All value sources of a pod's containers and projected volumes.
fn value_sources(spec: &Spec) -> impl Iterator<Item = &ValueSource> {
    let containers = spec.containers.iter();
    let containers = containers
        .chain(&spec.init_containers)
        .chain(&spec.ephemeral_containers);
    let of_containers = containers.flat_map(|container| {
        let values = container.env.iter().filter_map(|env| env.value_from.as_ref());
        container.env_from.iter().chain(values)
    });
    let projected = spec.volumes.iter().filter_map(|volume| volume.projected.as_ref());
    of_containers.chain(projected.flat_map(|projected| &projected.sources))
}

fn secrets_of_volume(volume: &PodVolume) -> impl Iterator<Item = CompactString> {
    let own = volume.secret.iter().map(|secret| secret.secret_name.clone());
    own.chain(
        volume
            .remote
            .secrets("")
            .into_iter()
            .map(|secret| secret.name().into()),
    )
}

fn claim_of_volume(pod: &str, volume: &PodVolume) -> Option<CompactString> {
    match (&volume.persistent_volume_claim, &volume.ephemeral) {
        (Some(claim), _) => Some(claim.claim_name.clone()),
        (None, Some(_)) => Some(format_compact!("{pod}-{}", volume.name)),
        (None, None) => None,
    }
}

fn resource_claims(pod: &Pod) -> Box<[CompactString]> {
    let statuses = &pod.status.resource_claim_statuses;
    let named = pod.spec.resource_claims.iter().filter_map(|claim| {
        let status = statuses.iter().find(|status| status.name == claim.name);
        claim
            .resource_claim_name
            .clone()
            .or_else(|| status?.resource_claim_name.clone())
    });
    let extended = pod.status.extended_resource_claim_status.as_ref();
    names(named.chain(extended.and_then(|status| status.resource_claim_name.clone())))
}

fn names(names: impl Iterator<Item = CompactString>) -> Box<[CompactString]> {
    let mut names: Vec<CompactString> = names.filter(|name| !name.is_empty()).collect();
    names.sort_unstable();
    names.dedup();
    names.into()
}

impl From<VolumeObject> for Volume {
    fn from(object: VolumeObject) -> Self {
        let Some(claim) = &object.spec.claim_ref else {
            return Self {
                claim: None,
                secrets: Box::default(),
            };
        };
        Self {
            claim: Some(Key::new(&claim.namespace, &claim.name)),
            secrets: object.spec.remote.secrets(&claim.namespace).into(),
        }
    }
}

impl RemoteVolume {
    /// The Secrets that a node needs, in the referenced namespace or by default in this one.
    fn secrets(&self, namespace: &str) -> Vec<Key> {
        let key = |named: &ObjectRef| match named.namespace.as_str() {
            "" => Key::new(namespace, &named.name),
            own => Key::new(own, &named.name),
        };
        let azure = self.azure_file.iter().map(|azure| ObjectRef {
            name: azure.secret_name.clone(),
            namespace: azure.secret_namespace.clone().unwrap_or_default(),
        });
        let with_secret = [
            &self.cephfs,
            &self.cinder,
            &self.flex_volume,
            &self.rbd,
            &self.scale_io,
            &self.iscsi,
            &self.storageos,
            &self.csi,
        ];
        let named = with_secret.into_iter().flatten().flat_map(|one| {
            [
                &one.secret_ref,
                &one.node_publish_secret_ref,
                &one.node_stage_secret_ref,
                &one.node_expand_secret_ref,
            ]
        });
        azure
            .chain(named.flatten().cloned())
            .filter(|named| !named.name.is_empty())
            .map(|named| key(&named))
            .collect()
    }
}
