//! [`Storage`]: the claims, volumes, classes and CSI objects that the volume plugins read, and views of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use compact_str::CompactString;
use serde::Deserialize;
use setpoint_api::{Key, Stored};
use setpoint_runtime::Cache;

use crate::framework::Handle;
use crate::pod_info::node_selector::NodeSelector;
use crate::pod_info::selector::RawSelector;
use crate::pod_info::{PodInfo, VolumeSource};
use crate::resources::ResourceList;

const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const ATTACHMENTS_BY_NODE: &str = "volumeattachment-node";

/// The caches of storage objects. A cache is absent if its resource is not served, and in tests.
#[derive(Debug, Clone, Default)]
pub(super) struct Storage {
    pub(super) claims: Option<Arc<Cache>>,
    pub(super) volumes: Option<Arc<Cache>>,
    classes: Option<Arc<Cache>>,
    csi_nodes: Option<Arc<Cache>>,
    csi_drivers: Option<Arc<Cache>>,
    capacities: Option<Arc<Cache>>,
    attachments: Option<Arc<Cache>>,
}

/// An object and a view of it.
#[derive(Debug)]
pub(super) struct ObjectView<T> {
    pub(super) object: Arc<Stored>,
    pub(super) view: Arc<T>,
}

/// The name of the claim of a pod's volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ClaimName {
    pub(super) name: CompactString,
    /// Whether it is created with the pod.
    pub(super) is_ephemeral: bool,
}

/// A PersistentVolumeClaim.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Claim {
    pub(super) metadata: Metadata,
    pub(super) spec: ClaimSpec,
    pub(super) status: PhaseStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Metadata {
    pub(super) annotations: BTreeMap<CompactString, String>,
    pub(super) labels: BTreeMap<CompactString, CompactString>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ClaimSpec {
    pub(super) access_modes: Vec<CompactString>,
    pub(super) volume_name: CompactString,
    storage_class_name: Option<CompactString>,
    pub(super) volume_mode: Option<CompactString>,
    pub(super) volume_attributes_class_name: Option<CompactString>,
    pub(super) selector: Option<RawSelector>,
    resources: ClaimResources,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ClaimResources {
    requests: ResourceList,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PhaseStatus {
    pub(super) phase: CompactString,
}

/// A PersistentVolume.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Volume {
    pub(super) metadata: Metadata,
    pub(super) spec: VolumeSpec,
    pub(super) status: PhaseStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct VolumeSpec {
    capacity: ResourceList,
    pub(super) access_modes: Vec<CompactString>,
    storage_class_name: CompactString,
    pub(super) volume_mode: Option<CompactString>,
    pub(super) volume_attributes_class_name: Option<CompactString>,
    pub(super) claim_ref: Option<ClaimReference>,
    node_affinity: Option<VolumeNodeAffinity>,
    pub(super) csi: Option<CsiSource>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ClaimReference {
    pub(super) namespace: CompactString,
    pub(super) name: CompactString,
    pub(super) uid: CompactString,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct VolumeNodeAffinity {
    required: Option<NodeSelector>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct CsiSource {
    pub(super) driver: CompactString,
    pub(super) volume_handle: CompactString,
}

/// A StorageClass.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Class {
    pub(super) provisioner: CompactString,
    pub(super) volume_binding_mode: Option<CompactString>,
    pub(super) allowed_topologies: Vec<TopologySelectorTerm>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct TopologySelectorTerm {
    match_label_expressions: Vec<TopologySelectorRequirement>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TopologySelectorRequirement {
    key: CompactString,
    values: Vec<CompactString>,
}

/// A CSINode.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CsiNode {
    pub(super) spec: CsiNodeSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CsiNodeSpec {
    pub(super) drivers: Vec<CsiNodeDriver>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CsiNodeDriver {
    pub(super) name: CompactString,
    pub(super) allocatable: Option<VolumeNodeResources>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct VolumeNodeResources {
    pub(super) count: Option<i64>,
}

/// A CSIDriver.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CsiDriver {
    pub(super) spec: CsiDriverSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct CsiDriverSpec {
    pub(super) storage_capacity: bool,
}

/// A CSIStorageCapacity.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct StorageCapacity {
    pub(super) storage_class_name: CompactString,
    pub(super) node_topology: Option<RawSelector>,
    capacity: Option<CompactString>,
    maximum_volume_size: Option<CompactString>,
}

/// A VolumeAttachment.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Attachment {
    pub(super) spec: AttachmentSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct AttachmentSpec {
    pub(super) attacher: CompactString,
    node_name: CompactString,
    pub(super) source: AttachmentSource,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct AttachmentSource {
    pub(super) persistent_volume_name: Option<CompactString>,
}

// === impl Storage ===

impl Storage {
    pub(super) fn new(handle: &Handle) -> Self {
        let storage = |resource| handle.cache("storage.k8s.io", resource);
        let attachments = storage("volumeattachments");
        if let Some(cache) = &attachments {
            cache.add_index(ATTACHMENTS_BY_NODE, |object| {
                let view = object.view::<Attachment>().ok();
                view.map(|view| view.spec.node_name.clone()).into_iter().collect()
            });
        }
        Self {
            claims: handle.cache("", "persistentvolumeclaims"),
            volumes: handle.cache("", "persistentvolumes"),
            classes: storage("storageclasses"),
            csi_nodes: storage("csinodes"),
            csi_drivers: storage("csidrivers"),
            capacities: storage("csistoragecapacities"),
            attachments,
        }
    }

    /// Storage of these caches alone.
    #[cfg(test)]
    pub(super) fn of_caches(
        claims: Option<Arc<Cache>>,
        volumes: Option<Arc<Cache>>,
        classes: Option<Arc<Cache>>,
    ) -> Self {
        Self {
            claims,
            volumes,
            classes,
            ..Self::default()
        }
    }

    pub(super) fn find_claim(&self, namespace: &str, name: &str) -> Option<ObjectView<Claim>> {
        find(self.claims.as_ref(), &Key::new(namespace, name))
    }

    pub(super) fn find_volume(&self, name: &str) -> Option<ObjectView<Volume>> {
        find(self.volumes.as_ref(), &Key::new("", name))
    }

    pub(super) fn find_class(&self, name: &str) -> Option<ObjectView<Class>> {
        find(self.classes.as_ref(), &Key::new("", name))
    }

    pub(super) fn find_csi_node(&self, name: &str) -> Option<ObjectView<CsiNode>> {
        find(self.csi_nodes.as_ref(), &Key::new("", name))
    }

    pub(super) fn find_csi_driver(&self, name: &str) -> Option<ObjectView<CsiDriver>> {
        find(self.csi_drivers.as_ref(), &Key::new("", name))
    }

    /// The volumes of a class.
    pub(super) fn volumes_of_class(&self, class: &str) -> Vec<ObjectView<Volume>> {
        let mut volumes = all(self.volumes.as_ref());
        volumes.retain(|volume: &ObjectView<Volume>| volume.view.class() == class);
        volumes
    }

    pub(super) fn capacities(&self) -> Vec<ObjectView<StorageCapacity>> {
        all(self.capacities.as_ref())
    }

    pub(super) fn attachments(&self, node: &str) -> Vec<ObjectView<Attachment>> {
        let objects = self
            .attachments
            .as_ref()
            .map(|cache| cache.indexed(ATTACHMENTS_BY_NODE, node));
        objects.into_iter().flatten().filter_map(ObjectView::of).collect()
    }
}

fn find<T: for<'a> Deserialize<'a> + Send + Sync + 'static>(
    cache: Option<&Arc<Cache>>,
    key: &Key,
) -> Option<ObjectView<T>> {
    ObjectView::of(cache?.find(key)?)
}

fn all<T: for<'a> Deserialize<'a> + Send + Sync + 'static>(cache: Option<&Arc<Cache>>) -> Vec<ObjectView<T>> {
    let snapshot = cache.map(|cache| cache.snapshot());
    let objects = snapshot.iter().flat_map(|snapshot| snapshot.iter().cloned());
    objects.filter_map(ObjectView::of).collect()
}

impl<T: for<'a> Deserialize<'a> + Send + Sync + 'static> ObjectView<T> {
    pub(super) fn of(object: Arc<Stored>) -> Option<Self> {
        let view = object.view::<T>().ok()?;
        Some(Self { object, view })
    }
}

impl<T> Clone for ObjectView<T> {
    fn clone(&self) -> Self {
        Self {
            object: self.object.clone(),
            view: self.view.clone(),
        }
    }
}

// === impl Claim ===

impl Claim {
    pub(super) fn class(&self) -> &str {
        let annotated = self.metadata.annotations.get(CLASS_ANNOTATION);
        let specified = self.spec.storage_class_name.as_deref();
        annotated.map(String::as_str).or(specified).unwrap_or_default()
    }

    /// The requested bytes.
    pub(super) fn request(&self) -> Option<i64> {
        self.spec.resources.requests.find("storage")
    }

    pub(super) fn is_fully_bound(&self) -> bool {
        !self.spec.volume_name.is_empty() && self.metadata.annotations.contains_key(BIND_COMPLETED)
    }
}

// === impl Volume ===

impl Volume {
    pub(super) fn class(&self) -> &str {
        let annotated = self.metadata.annotations.get(CLASS_ANNOTATION);
        annotated.map_or(&self.spec.storage_class_name, String::as_str)
    }

    /// Its size in bytes.
    pub(super) fn capacity(&self) -> i64 {
        self.spec.capacity.find("storage").unwrap_or(0)
    }

    /// Whether a node with these labels can use it.
    pub(super) fn matches_node<'a>(&self, node: &str, label: &'a dyn Fn(&str) -> Option<&'a str>) -> bool {
        let affinity = self.spec.node_affinity.as_ref();
        let required = affinity.and_then(|affinity| affinity.required.as_ref());
        required.is_none_or(|required| required.matches(node, label))
    }
}

// === impl Class ===

impl Class {
    /// Whether the class can provision for a node with these labels.
    pub(super) fn allows<'a>(&self, label: &dyn Fn(&str) -> Option<&'a str>) -> bool {
        let matches = |term: &TopologySelectorTerm| {
            term.match_label_expressions
                .iter()
                .all(|one| label(&one.key).is_some_and(|value| one.values.iter().any(|own| own == value)))
        };
        self.allowed_topologies.is_empty() || self.allowed_topologies.iter().any(matches)
    }
}

// === impl StorageCapacity ===

impl StorageCapacity {
    /// The largest volume in bytes.
    pub(super) fn limit(&self) -> Option<i64> {
        let limit = self.maximum_volume_size.as_ref().or(self.capacity.as_ref());
        let quantity: setpoint_api::Quantity = limit?.parse().ok()?;
        Some(quantity.value())
    }
}

/// The claims of a pod's volumes, in their order.
pub(super) fn claim_names(pod: &PodInfo) -> impl Iterator<Item = ClaimName> + '_ {
    pod.spec.volumes.iter().filter_map(|volume| match &volume.source {
        VolumeSource::Claim { name, .. } => Some(ClaimName {
            name: name.clone(),
            is_ephemeral: false,
        }),
        VolumeSource::Ephemeral => Some(ClaimName {
            name: format!("{}-{}", pod.key.name(), volume.name).into(),
            is_ephemeral: true,
        }),
        _ => None,
    })
}

/// Whether the object of an event is a claim of the pod.
pub(super) fn is_claim_of(pod: &PodInfo, object: &Stored) -> bool {
    object.key().namespace() == pod.namespace()
        && claim_names(pod).any(|claim| claim.name == object.key().name())
}
