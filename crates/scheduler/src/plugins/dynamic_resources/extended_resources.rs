//! Extended resources that DeviceClasses back: the special claim that the scheduler creates for a pod.
//!
//! A node that has none of a requested resource may have devices of the class that backs the resource. They are requested
//! by one claim for the whole pod, whose requests may differ by node: a device plugin may provide the resource on some. The
//! claim exists in memory until PreBind creates it. One that an earlier attempt left behind is deleted by PostFilter, and the
//! pod is tried again (upstream: `extendeddynamicresources.go`).

use std::sync::Arc;

use compact_str::CompactString;
use serde_json::{Value, json};
use setpoint_api::Key;
use setpoint_runtime::Cache;

use super::allocator::UnallocatedClaim;
use super::objects::{Claim, ObjectView};
use crate::framework::Rejection;
use crate::plugins::device_classes::{ClassesByResource, IMPLICIT_PREFIX};
use crate::pod_info::{ContainerRequests, PodInfo};
use crate::state::NodeRef;

/// Marks the claim.
const ANNOTATION: &str = "resource.kubernetes.io/extended-resource-claim";
/// The name of a claim that is not created yet.
const IN_MEMORY_NAME: &str = "<extended-resources>";

/// The special claim of a pod in one cycle.
#[derive(Debug, Clone)]
pub(super) enum ExtendedResourceClaim {
    /// It is created if a node needs it.
    New(Arc<ClassesByResource>),
    /// An earlier attempt left it behind.
    Stale(ObjectView<Claim>),
}

/// What the special claim requests on one node.
#[derive(Debug, Clone)]
pub(super) struct ExtendedRequests {
    /// The `spec.devices.requests` of the claim.
    pub(super) requests: Value,
    /// Which request each container has for which resource.
    pub(super) mappings: Vec<Value>,
    pub(super) claim: UnallocatedClaim,
}

/// A request for devices of one class.
#[derive(Debug, Clone)]
struct ClassRequest {
    name: String,
    count: i64,
}

/// The requests of the containers for one resource.
#[derive(Debug, Default)]
struct ResourceRequests {
    requests: Vec<ClassRequest>,
    /// The container and the request.
    mappings: Vec<(CompactString, String)>,
}

impl ExtendedResourceClaim {
    /// The claim of a pod; `None` if no class backs a resource that it requests.
    pub(super) fn of(
        pod: &PodInfo,
        classes: Arc<ClassesByResource>,
        claims: Option<&Arc<Cache>>,
    ) -> Option<Self> {
        if !is_backed(pod, &classes) {
            return None;
        }
        let claims = claims.map(|claims| claims.snapshot());
        let own = claims
            .iter()
            .flat_map(|claims| claims.in_namespace(pod.namespace()));
        let own = own.filter(|claim| claim.controller().is_some_and(|owner| owner.uid == pod.uid));
        let mut own = own.cloned().filter_map(ObjectView::<Claim>::of);
        let stale = own.find(|claim| claim.view.annotation(ANNOTATION) == Some("true"));
        Some(stale.map_or(Self::New(classes), Self::Stale))
    }

    /// What the claim requests on the node; `None` if device plugins of the node provide all resources.
    pub(super) fn requests_on(
        &self,
        pod: &PodInfo,
        node: NodeRef<'_>,
    ) -> Result<Option<ExtendedRequests>, Rejection> {
        let Self::New(classes) = self else {
            return Err(Rejection::unresolvable("cannot schedule extended resource claim"));
        };
        let mut backed = Vec::new();
        for (resource, _) in &pod.spec.requests.scalar_resources {
            if !may_be_backed(resource) || node.allocatable(resource) > 0 {
                continue;
            }
            match classes.get(resource) {
                Some(class) => backed.push((resource.as_str(), class.as_str())),
                None => return Err(Rejection::unresolvable("cannot fit resource")),
            }
        }
        Ok((!backed.is_empty()).then(|| ExtendedRequests::new(pod, &backed)))
    }
}

/// Whether a class backs a resource that the pod requests.
pub(super) fn is_backed(pod: &PodInfo, classes: &ClassesByResource) -> bool {
    let mut resources = pod.spec.requests.scalar_resources.iter();
    resources.any(|(resource, _)| classes.contains_key(resource))
}

/// Whether a class can back the resource: it has a domain other than that of Kubernetes, or the implicit prefix.
fn may_be_backed(resource: &str) -> bool {
    let is_native = !resource.contains('/') || resource.contains("kubernetes.io/");
    resource.starts_with(IMPLICIT_PREFIX) || !is_native && !resource.starts_with("requests.")
}

impl ExtendedRequests {
    /// For these resources with their classes, in the order of their names.
    fn new(pod: &PodInfo, backed: &[(&str, &str)]) -> Self {
        let mut requests = Vec::new();
        let mut mappings = Vec::new();
        for (resource, class) in backed {
            let of_resource = ResourceRequests::new(&pod.spec.containers_with_extended_resources, resource);
            let to_json = |request: ClassRequest| {
                let ClassRequest { name, count } = request;
                let exactly =
                    json!({"deviceClassName": class, "allocationMode": "ExactCount", "count": count});
                (name.clone(), json!({"name": name, "exactly": exactly}))
            };
            requests.extend(of_resource.requests.into_iter().map(to_json));
            mappings.extend(of_resource.mappings.into_iter().map(|(container, request)| {
                json!({"containerName": container, "resourceName": resource, "requestName": request})
            }));
        }
        requests.sort_by(|(a, _), (b, _)| a.cmp(b));
        let requests: Value = requests.into_iter().map(|(_, request)| request).collect();
        let spec = json!({"spec": {"devices": {"requests": requests}}});
        let view: Claim = serde_json::from_value(spec).unwrap_or_default();
        Self {
            requests,
            mappings,
            claim: UnallocatedClaim {
                key: Key::new(pod.namespace(), IN_MEMORY_NAME),
                view: Arc::new(view),
            },
        }
    }

    /// The claim as it is created: owned by the pod.
    pub(super) fn to_object(&self, pod: &PodInfo) -> Value {
        json!({
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {
                "namespace": pod.namespace(),
                "generateName": format!("{}-extended-resources-", pod.key.name()),
                "annotations": {ANNOTATION: "true"},
                "ownerReferences": [{
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": pod.key.name(),
                    "uid": pod.uid,
                    "controller": true,
                }],
            },
            "spec": {"devices": {"requests": self.requests}},
        })
    }
}

// === impl ResourceRequests ===

impl ResourceRequests {
    /// Containers and sidecars have requests of their own. An init container that ends before them uses theirs, as far as
    /// they come after it; for what it needs besides there is one request, which all such containers share.
    fn new(containers: &[ContainerRequests], resource: &str) -> Self {
        let mut own = Self::default();
        let mut long_lived: Vec<Option<ClassRequest>> = vec![None; containers.len()];
        for (position, container) in containers.iter().enumerate() {
            if !container.ends_before_others {
                long_lived[position] = own.add(position, container, resource, &[]);
            }
        }
        let (mut short_lived, mut extra) = (Self::default(), Vec::<ClassRequest>::new());
        for (position, container) in containers.iter().enumerate() {
            if container.ends_before_others {
                extra.extend(short_lived.add(position, container, resource, &long_lived[position..]));
            }
        }
        // The first of the largest ones.
        let largest = extra.iter().rev().max_by_key(|request| request.count).cloned();
        if let Some(largest) = &largest {
            for (_, request) in &mut short_lived.mappings {
                if extra.iter().any(|one| one.name == *request) {
                    request.clone_from(&largest.name);
                }
            }
        }
        own.mappings.append(&mut short_lived.mappings);
        own.requests.extend(largest);
        own.requests.extend(long_lived.into_iter().flatten());
        own
    }

    /// The request of a container for what `reusable` requests do not provide, `None` if nothing is missing.
    fn add(
        &mut self,
        position: usize,
        container: &ContainerRequests,
        resource: &str,
        reusable: &[Option<ClassRequest>],
    ) -> Option<ClassRequest> {
        let mut requests = container.requests.iter();
        let index = requests.position(|(name, _)| name == resource)?;
        let needed = container.requests[index].1;
        if needed == 0 {
            return None;
        }
        let mut available = 0;
        for request in reusable.iter().flatten() {
            available += request.count;
            self.mappings.push((container.name.clone(), request.name.clone()));
            if available >= needed {
                return None;
            }
        }
        let request = ClassRequest {
            name: format!("container-{position}-request-{index}"),
            count: needed - available,
        };
        self.mappings.push((container.name.clone(), request.name.clone()));
        Some(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{cluster_of, pod_from};
    use crate::plugins::device_classes::tests::classes;

    /// Containers as `name=gpus`: init containers have an `i`, sidecars an `s` before their name.
    fn pod(containers: &str) -> PodInfo {
        let (mut init, mut main) = (Vec::new(), Vec::new());
        for words in containers.split_whitespace() {
            let (name, count) = words.split_once('=').unwrap();
            let resources = json!({"requests": {"cpu": "1", "example.com/gpu": count}});
            let container = json!({"name": name, "resources": resources});
            match name.chars().next() {
                Some('i') => init.push(container),
                Some('s') => {
                    let mut sidecar = container;
                    sidecar["restartPolicy"] = json!("Always");
                    init.push(sidecar);
                }
                _ => main.push(container),
            }
        }
        pod_from(json!({"metadata": {"name": "p"}, "spec": {"initContainers": init, "containers": main}}))
    }

    fn requests_of(pod: &PodInfo, allocatable: Value) -> Result<Option<ExtendedRequests>, Rejection> {
        let classes = classes(&[("gpu", 1, Some("example.com/gpu"))]).by_resource();
        let cluster = cluster_of("n", json!({"status": {"allocatable": allocatable}}));
        let node = cluster.node(cluster.nodes().live()[0]);
        match ExtendedResourceClaim::of(pod, classes, None) {
            Some(claim) => claim.requests_on(pod, node),
            None => Ok(None),
        }
    }

    /// The requests as `name=count`, and the mappings as `container:request`.
    #[track_caller]
    fn check(containers: &str, expected: &str) {
        let found = requests_of(&pod(containers), json!({})).unwrap().unwrap();
        let text = |value: &Value| value.as_str().unwrap_or_default().replace("container-", "");
        let requests = found.requests.as_array().unwrap().iter();
        let requests = requests.map(|one| format!("{}={}", text(&one["name"]), one["exactly"]["count"]));
        let mappings = found.mappings.iter();
        let mappings =
            mappings.map(|one| format!("{}:{}", text(&one["containerName"]), text(&one["requestName"])));
        let parts: Vec<String> = requests.chain(mappings).collect();
        assert_eq!(parts.join(" "), expected);
    }

    #[test]
    fn each_container_has_a_request_of_its_own() {
        check(
            "a=1 b=2",
            "0-request-1=1 1-request-1=2 a:0-request-1 b:1-request-1",
        );
        check("a=1 b=0", "0-request-1=1 a:0-request-1");
        check(
            "sidecar=1 a=1",
            "0-request-1=1 1-request-1=1 sidecar:0-request-1 a:1-request-1",
        );
    }

    #[test]
    fn init_containers_use_the_devices_of_later_containers() {
        check("i=1 a=1", "1-request-1=1 a:1-request-1 i:1-request-1");
        check(
            "i=2 a=1",
            "0-request-1=1 1-request-1=1 a:1-request-1 i:1-request-1 i:0-request-1",
        );
        // A sidecar that starts before keeps its devices.
        check(
            "s=1 i=1 a=0",
            "0-request-1=1 1-request-1=1 s:0-request-1 i:1-request-1",
        );
    }

    #[test]
    fn init_containers_share_one_request() {
        check("i=1 i2=3 a=0", "1-request-1=3 i:1-request-1 i2:1-request-1");
    }

    #[test]
    fn a_node_with_a_device_plugin_needs_no_claim() {
        let found = requests_of(&pod("a=1"), json!({"example.com/gpu": "1"}));
        assert!(found.unwrap().is_none());
        assert!(requests_of(&pod("a=0"), json!({})).unwrap().is_none());
    }

    #[test]
    fn the_claim_is_owned_by_the_pod() {
        let pod = pod("a=1");
        let found = requests_of(&pod, json!({})).unwrap().unwrap();
        let metadata = &found.to_object(&pod)["metadata"];
        assert_eq!(metadata["generateName"], "p-extended-resources-");
        assert_eq!(metadata["annotations"][ANNOTATION], "true");
        assert_eq!(metadata["ownerReferences"][0]["uid"], "p");
        assert_eq!(found.claim.key.to_string(), "default/<extended-resources>");
    }
}
