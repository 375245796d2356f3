//! Relations between nodes and objects.
//!
//! Unlike upstream there is no graph to maintain: the pods of a node are found by an index, and the objects that a pod
//! uses by a small view of it. A check looks at the pods of one node, a hundred or so.

use std::sync::{Arc, OnceLock};

use compact_str::{CompactString, format_compact};
use setpoint_api::{GroupResource, Key, Stored};
use setpoint_cache::{Cache, Caches};

use super::view::{Node, PodRefs, Volume};

/// Pods by the node they are bound to.
const PODS_BY_NODE: &str = "auth/node";
/// Volumes by the claim they are bound to.
const VOLUMES_BY_CLAIM: &str = "auth/claim";

/// The kind of an object that may be related to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RelatedKind {
    Pod,
    Secret,
    ConfigMap,
    ServiceAccount,
    Claim,
    Volume,
    ResourceClaim,
    Attachment,
    Slice,
    PodCertificate,
}

pub(super) struct NodeRelations {
    caches: Arc<dyn Caches>,
    /// With their indexes.
    pods: OnceLock<Arc<Cache>>,
    volumes: OnceLock<Arc<Cache>>,
}

impl NodeRelations {
    pub(super) fn new(caches: Arc<dyn Caches>) -> Self {
        Self {
            caches,
            pods: OnceLock::new(),
            volumes: OnceLock::new(),
        }
    }

    /// Whether the object is related to the node.
    pub(super) fn is_related(&self, node: &str, related: RelatedKind, namespace: &str, name: &str) -> bool {
        match related {
            RelatedKind::Pod => self
                .find("", "pods", namespace, name)
                .is_some_and(|pod| is_on(&pod, node)),
            RelatedKind::Secret => {
                self.used(node, namespace, |refs| refs.secrets.iter().any(|own| own == name))
                    || self.secret_of_volume(node, namespace, name)
            }
            RelatedKind::ConfigMap => self.used(node, namespace, |refs| has(&refs.config_maps, name)),
            RelatedKind::ServiceAccount => self.used(node, namespace, |refs| refs.service_account == name),
            RelatedKind::Claim => self.used(node, namespace, |refs| has(&refs.claims, name)),
            RelatedKind::ResourceClaim => self.used(node, namespace, |refs| has(&refs.resource_claims, name)),
            RelatedKind::Volume => self.volume(node, name),
            RelatedKind::Attachment => {
                names_node(self.find("storage.k8s.io", "volumeattachments", "", name), node)
            }
            RelatedKind::Slice => names_node(self.find("resource.k8s.io", "resourceslices", "", name), node),
            RelatedKind::PodCertificate => {
                let resource = "podcertificaterequests";
                names_node(self.find("certificates.k8s.io", resource, namespace, name), node)
            }
        }
    }

    /// Whether a pod of the node in this namespace uses something.
    fn used(&self, node: &str, namespace: &str, uses: impl Fn(&PodRefs) -> bool) -> bool {
        let pods = self.pods_on(node);
        let mut in_namespace = pods.iter().filter(|pod| pod.key().namespace() == namespace);
        in_namespace.any(|pod| pod.view::<PodRefs>().is_ok_and(|refs| uses(&refs)))
    }

    /// Whether the volume is bound to a claim that a pod of the node uses.
    fn volume(&self, node: &str, name: &str) -> bool {
        let Some(volume) = self.find("", "persistentvolumes", "", name) else {
            return false;
        };
        let Ok(volume) = volume.view::<Volume>() else {
            return false;
        };
        let Some(claim) = &volume.claim else {
            return false;
        };
        self.used(node, claim.namespace(), |refs| has(&refs.claims, claim.name()))
    }

    /// Whether a volume that a pod of the node uses needs this secret.
    fn secret_of_volume(&self, node: &str, namespace: &str, name: &str) -> bool {
        let secret = Key::new(namespace, name);
        let Some(volumes) = self.volumes() else {
            return false;
        };
        let needs = |volume: &Arc<Stored>| {
            volume
                .view::<Volume>()
                .is_ok_and(|volume| volume.secrets.contains(&secret))
        };
        self.pods_on(node).iter().any(|pod| {
            let Ok(refs) = pod.view::<PodRefs>() else {
                return false;
            };
            let in_namespace = pod.key().namespace();
            refs.claims.iter().any(|claim| {
                let claim = format_compact!("{in_namespace}/{claim}");
                volumes.indexed(VOLUMES_BY_CLAIM, &claim).iter().any(needs)
            })
        })
    }

    fn pods_on(&self, node: &str) -> Vec<Arc<Stored>> {
        self.pods()
            .map(|pods| pods.indexed(PODS_BY_NODE, node))
            .unwrap_or_default()
    }

    fn pods(&self) -> Option<&Arc<Cache>> {
        if self.pods.get().is_none() {
            let pods = self.caches.cache(&GroupResource::new("", "pods"))?;
            pods.add_index(PODS_BY_NODE, |pod| node_of(pod).into_iter().collect());
            return Some(self.pods.get_or_init(|| pods));
        }
        self.pods.get()
    }

    fn volumes(&self) -> Option<&Arc<Cache>> {
        if self.volumes.get().is_none() {
            let volumes = self.caches.cache(&GroupResource::new("", "persistentvolumes"))?;
            volumes.add_index(VOLUMES_BY_CLAIM, |volume| claim_of(volume).into_iter().collect());
            return Some(self.volumes.get_or_init(|| volumes));
        }
        self.volumes.get()
    }

    fn find(&self, group: &str, resource: &str, namespace: &str, name: &str) -> Option<Arc<Stored>> {
        let cache = self.caches.cache(&GroupResource::new(group, resource))?;
        cache.find(&Key::new(namespace, name))
    }
}

fn names_node(object: Option<Arc<Stored>>, node: &str) -> bool {
    object
        .and_then(|object| object.view::<Node>().ok())
        .is_some_and(|named| named.spec.node_name == node)
}

fn is_on(pod: &Stored, node: &str) -> bool {
    node_of(pod).is_some_and(|own| own == node)
}

fn node_of(pod: &Stored) -> Option<CompactString> {
    let node = pod.field("spec.nodeName").unwrap_or_default();
    (!node.is_empty()).then(|| node.into())
}

fn claim_of(volume: &Stored) -> Option<CompactString> {
    let volume = volume.view::<Volume>().ok()?;
    Some(volume.claim.as_ref()?.as_str().into())
}

fn has(list: &[CompactString], name: &str) -> bool {
    list.iter().any(|own| own == name)
}
