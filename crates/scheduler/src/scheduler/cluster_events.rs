//! The objects besides pods and nodes whose changes plugins registered: one subscription each, merged into one channel.

use std::sync::Arc;

use setpoint_api::{Change, GroupResource};
use setpoint_runtime::{Cache, Context};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::framework::{EventResource, Profiles};
use crate::state::ClusterState;

/// Batches of changes that wait for the loop. A watch whose batch finds the channel full waits.
const CHANNEL_CAPACITY: usize = 64;

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
    let mut resources = profiles.event_resources();
    resources.insert(EventResource::Namespace);
    for resource in resources {
        let cache = group_resource(resource).and_then(|name| context.cache(&name).ok());
        if let Some(cache) = cache {
            tasks.spawn(forward(resource, cache, sender.clone()));
        }
    }
    receiver
}

/// Reads the labels of all namespaces.
pub(super) fn read_namespaces(context: &Context, cluster: &mut ClusterState) {
    let Ok(cache) = context.cache(&GroupResource::new("", "namespaces")) else {
        return;
    };
    for namespace in cache.snapshot().iter() {
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
