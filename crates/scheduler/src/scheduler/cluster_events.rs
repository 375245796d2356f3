//! The objects besides pods and nodes whose changes plugins registered: one subscription each, merged into one channel.

use std::collections::BTreeSet;
use std::sync::Arc;

use setpoint_api::{Change, GroupResource, Gvr, Key};
use setpoint_runtime::{Cache, Context};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::framework::{EventResource, Profiles};
use crate::state::ClusterState;

/// Batches of changes that wait for the loop. A watch whose batch finds the channel full waits.
const CHANNEL_CAPACITY: usize = 64;

/// The resources that the loop and the plugins read, in the versions that they understand.
const WATCHED: &[(&str, &str, &[&str])] = &[
    (
        "",
        "v1",
        &[
            "pods",
            "nodes",
            "namespaces",
            "services",
            "replicationcontrollers",
            "persistentvolumes",
            "persistentvolumeclaims",
        ],
    ),
    ("apps", "v1", &["replicasets", "statefulsets"]),
    ("policy", "v1", &["poddisruptionbudgets"]),
    (
        "storage.k8s.io",
        "v1",
        &[
            "storageclasses",
            "csinodes",
            "csidrivers",
            "csistoragecapacities",
            "volumeattachments",
        ],
    ),
    (
        "resource.k8s.io",
        "v1",
        &[
            "resourceclaims",
            "resourceslices",
            "deviceclasses",
            "devicetaintrules",
        ],
    ),
];

/// The resources that a scheduler reads. A process of its own watches those that its server serves.
pub fn resources_to_watch() -> Vec<Gvr> {
    let groups = WATCHED.iter();
    let resources =
        groups.flat_map(|(group, version, names)| names.iter().map(|name| Gvr::new(group, version, name)));
    resources.collect()
}

/// Waits until the caches of all of them have their objects. A scheduler that does not know all volumes, claims or budgets
/// yet would decide wrongly.
pub(super) async fn synced(context: &Context) {
    for resource in resources_to_watch() {
        if let Ok(cache) = context.cache(&resource.group_resource()) {
            cache.synced().await;
        }
    }
}

/// Changes of one resource.
#[derive(Debug)]
pub(super) struct ObjectChanges {
    pub(super) resource: EventResource,
    /// `None` if changes were lost: any object may have changed.
    pub(super) changes: Option<Vec<Change>>,
}

/// Subscribes to all resources that the profiles registered, and to namespaces.
pub(super) fn watch(
    context: &Context,
    profiles: &Profiles,
    tasks: &mut JoinSet<()>,
) -> mpsc::Receiver<ObjectChanges> {
    let (sender, receiver) = mpsc::channel(CHANNEL_CAPACITY);
    let mut resources: BTreeSet<EventResource> = profiles.event_resources().collect();
    resources.insert(EventResource::Namespace);
    for resource in resources {
        let cache = group_resource(resource).and_then(|name| context.cache(&name).ok());
        if let Some(cache) = cache {
            tasks.spawn(forward(resource, cache, sender.clone()));
        }
    }
    let rules = context.cache(&GroupResource::new("resource.k8s.io", "devicetaintrules"));
    if let Ok(rules) = rules {
        tasks.spawn(forward_taint_rules(rules, sender));
    }
    receiver
}

/// Reads the labels of all namespaces.
pub(super) fn read_namespaces(context: &Context, cluster: &mut ClusterState) {
    let Ok(cache) = context.cache(&GroupResource::new("", "namespaces")) else {
        return;
    };
    let snapshot = cache.snapshot();
    let known = cluster.namespaces().keys();
    let deleted: Vec<_> = known
        .filter(|name| snapshot.find(&Key::new("", name)).is_none())
        .cloned()
        .collect();
    for name in deleted {
        cluster.set_namespace(&name, None);
    }
    for namespace in snapshot.iter() {
        cluster.set_namespace(namespace.key().name(), Some(namespace.header().labels.clone()));
    }
}

/// The resource of an event; `None` for pods and nodes, which the loop subscribes to itself.
fn group_resource(resource: EventResource) -> Option<GroupResource> {
    let (group, name) = match resource {
        EventResource::Node | EventResource::AssignedPod | EventResource::TargetPod => return None,
        EventResource::Namespace => ("", "namespaces"),
        EventResource::PersistentVolume => ("", "persistentvolumes"),
        EventResource::PersistentVolumeClaim => ("", "persistentvolumeclaims"),
        EventResource::StorageClass => ("storage.k8s.io", "storageclasses"),
        EventResource::CsiNode => ("storage.k8s.io", "csinodes"),
        EventResource::CsiDriver => ("storage.k8s.io", "csidrivers"),
        EventResource::CsiStorageCapacity => ("storage.k8s.io", "csistoragecapacities"),
        EventResource::VolumeAttachment => ("storage.k8s.io", "volumeattachments"),
        EventResource::ResourceClaim => ("resource.k8s.io", "resourceclaims"),
        EventResource::ResourceSlice => ("resource.k8s.io", "resourceslices"),
        EventResource::DeviceClass => ("resource.k8s.io", "deviceclasses"),
    };
    Some(GroupResource::new(group, name))
}

async fn forward(resource: EventResource, cache: Arc<Cache>, sender: mpsc::Sender<ObjectChanges>) {
    cache.synced().await;
    loop {
        let Ok(mut subscription) = cache.subscribe(None) else {
            return;
        };
        let lost = ObjectChanges {
            resource,
            changes: None,
        };
        if sender.send(lost).await.is_err() {
            return;
        }
        while let Ok(batch) = subscription.next().await {
            let changes = Some(batch.changes().to_vec());
            if sender.send(ObjectChanges { resource, changes }).await.is_err() {
                return;
            }
        }
    }
}

/// Reports changes of DeviceTaintRules as changes of the devices that they taint: any slice may have one.
async fn forward_taint_rules(rules: Arc<Cache>, sender: mpsc::Sender<ObjectChanges>) {
    rules.synced().await;
    loop {
        let Ok(mut subscription) = rules.subscribe(None) else {
            return;
        };
        // The first one is for the rules before the subscription, of which changes may have been lost.
        loop {
            let changes = ObjectChanges {
                resource: EventResource::ResourceSlice,
                changes: None,
            };
            if sender.send(changes).await.is_err() {
                return;
            }
            if subscription.next().await.is_err() {
                break;
            }
        }
    }
}
