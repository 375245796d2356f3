//! Volume expansion: names the resizer of a volume whose claim requests more storage.
//!
//! Nothing is resized here: hostPath volumes have no size, and CSI volumes are resized by their drivers. For an in-tree
//! volume that was migrated to CSI the driver is annotated on the claim, for its external resizer.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use setpoint_api::{Change, Key, Quantity, Stored};
use setpoint_runtime::{
    Client, Context, Controller, Error, Lister, Next, Object, Patch, Reconcile, Recorder, TypedObject,
};
use tokio_util::sync::CancellationToken;

use crate::Config;

/// The name as kube-controller-manager has it.
pub const NAME: &str = "persistentvolume-expander-controller";

const RESIZER: &str = "volume.kubernetes.io/storage-resizer";

/// In-tree volume types that were migrated to CSI: the field, the plugin's name, and the driver.
const MIGRATED: [(&str, &str, &str); 7] = [
    ("awsElasticBlockStore", "kubernetes.io/aws-ebs", "ebs.csi.aws.com"),
    ("azureDisk", "kubernetes.io/azure-disk", "disk.csi.azure.com"),
    ("azureFile", "kubernetes.io/azure-file", "file.csi.azure.com"),
    ("cinder", "kubernetes.io/cinder", "cinder.csi.openstack.org"),
    (
        "gcePersistentDisk",
        "kubernetes.io/gce-pd",
        "pd.csi.storage.gke.io",
    ),
    (
        "portworxVolume",
        "kubernetes.io/portworx-volume",
        "pxd.portworx.com",
    ),
    (
        "vsphereVolume",
        "kubernetes.io/vsphere-volume",
        "csi.vsphere.vmware.com",
    ),
];

/// Runs the controller until stopped.
pub async fn run(context: Context, config: Config, stop: CancellationToken) -> Result<(), Error> {
    let reconciler = Expander {
        claims: context.lister()?,
        volumes: context.lister()?,
        events: context.events.for_component("volume_expand"),
    };
    Controller::new(NAME, reconciler)
        .watches(PersistentVolumeClaim::resource().group_resource(), grown)
        .reads(PersistentVolume::resource().group_resource())
        .workers(config.workers(NAME))
        .run(&context, stop)
        .await
}

/// The reconciler.
#[derive(Debug)]
struct Expander {
    claims: Lister<PersistentVolumeClaim>,
    volumes: Lister<PersistentVolume>,
    events: Recorder,
}

/// The fields of a claim that decide.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Claim {
    metadata: Meta,
    spec: ClaimSpec,
    status: ClaimStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Meta {
    annotations: Map<String, Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ClaimSpec {
    volume_name: String,
    resources: Resources,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Resources {
    requests: Storage,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ClaimStatus {
    phase: String,
    capacity: Storage,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Storage {
    storage: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Volume {
    spec: Map<String, Value>,
}

/// What resizes a volume.
#[derive(Debug, PartialEq, Eq)]
enum Resizer {
    /// Any external resizer.
    External,
    /// The CSI driver that this in-tree volume type was migrated to.
    Driver {
        kind: &'static str,
        driver: &'static str,
    },
}

/// A bound claim that is new in the cache, or whose request or capacity has grown.
fn grown(change: &Change) -> Vec<Key> {
    let view = |object: &Stored| object.view::<Claim>().ok();
    let is_grown = match change {
        Change::Deleted { .. } => false,
        Change::Added(_) => true,
        Change::Modified { old, new } => match (view(old), view(new)) {
            (Some(old), Some(new)) => new.requested() > old.requested() || new.capacity() > old.capacity(),
            _ => false,
        },
    };
    let is_bound = view(change.object()).is_some_and(|claim| claim.status.phase == "Bound");
    Vec::from_iter((is_grown && is_bound).then(|| change.key().clone()))
}

fn resizer(volume: &Volume) -> Resizer {
    let found = MIGRATED
        .iter()
        .find(|(field, ..)| volume.spec.contains_key(*field));
    found.map_or(Resizer::External, |(_, kind, driver)| Resizer::Driver {
        kind,
        driver,
    })
}

impl Reconcile for Expander {
    async fn reconcile(&self, key: &Key, client: &Client) -> Result<Next, Error> {
        let Some(object) = self.claims.find(key) else {
            return Ok(Next::Done);
        };
        let claim = object.view::<Claim>()?;
        let Some(volume) = self.volumes.find(&Key::new("", &claim.spec.volume_name)) else {
            return Err(Error::failed(format!("volume of claim {key} not found")));
        };
        let volume: Volume = volume.decode()?;
        let uid = volume
            .spec
            .get("claimRef")
            .and_then(|reference| reference["uid"].as_str());
        if uid != Some(object.uid()) {
            return Err(Error::failed(format!(
                "the volume of claim {key} is not bound to it"
            )));
        }
        if claim.requested() <= claim.capacity() {
            return Ok(Next::Done);
        }
        match resizer(&volume) {
            Resizer::External => {
                let message = "waiting for an external controller to expand this PVC";
                self.events.normal(&object, "ExternalExpanding", message);
            }
            Resizer::Driver { kind, driver } => {
                let message = format!(
                    "CSI migration enabled for {kind}; waiting for external resizer to expand the pvc"
                );
                self.events.normal(&object, "ExternalExpanding", message);
                set_resizer(client, &object, &claim, driver).await?;
            }
        }
        Ok(Next::Done)
    }
}

/// Annotates the claim with the driver that resizes its volume.
async fn set_resizer(
    client: &Client,
    object: &TypedObject<PersistentVolumeClaim>,
    claim: &Claim,
    driver: &str,
) -> Result<(), Error> {
    if claim.metadata.annotations.get(RESIZER).and_then(Value::as_str) == Some(driver) {
        return Ok(());
    }
    let metadata = json!({"uid": object.uid(), "annotations": {RESIZER: driver}});
    let patch = Patch::merge(&json!({"metadata": metadata}))?;
    let key = object.key();
    let handle = client.namespaced::<PersistentVolumeClaim>(key.namespace());
    match handle.patch(key.name(), &patch).await {
        Err(status) if status.is_not_found() || status.is_conflict() => Ok(()),
        written => Ok(written.map(drop)?),
    }
}

// === impl Claim ===

impl Claim {
    fn requested(&self) -> Quantity {
        self.spec.resources.requests.amount()
    }

    fn capacity(&self) -> Quantity {
        self.status.capacity.amount()
    }
}

impl Storage {
    fn amount(&self) -> Quantity {
        self.storage.parse().unwrap_or(Quantity::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Event;
    use setpoint_testkit::{Cluster, Component};

    use super::*;

    /// The event recorded for a claim that requests more of a volume of this type, and the driver annotated on it.
    #[track_caller]
    fn check(cluster: &Cluster, expected_message: &str, named: Option<&str>) {
        let claim: PersistentVolumeClaim = cluster.find("data").unwrap();
        let annotations = claim.metadata.annotations.unwrap_or_default();
        assert_eq!(annotations.get(RESIZER).map(String::as_str), named);
        let events: Vec<Event> = cluster.list();
        let [event] = &events[..] else {
            panic!("expected one event: {events:?}");
        };
        assert_eq!(event.reason.as_deref(), Some("ExternalExpanding"));
        assert_eq!(event.message.as_deref(), Some(expected_message));
    }

    /// A claim of 1Gi, bound to a volume, that requests 2Gi.
    async fn grow(source: (&str, Value)) -> Cluster {
        let (cluster, components) = Cluster::with([Component::Controller("persistentvolume-binder")]).await;
        let client = cluster.client("test");
        let (field, source) = source;
        let volume = json!({"metadata": {"name": "disk"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "storageClassName": "elastic",
            "persistentVolumeReclaimPolicy": "Retain", field: source,
        }});
        let class = json!({"metadata": {"name": "elastic"}, "provisioner": "example.com/none", "allowVolumeExpansion": true});
        let claim = json!({"metadata": {"name": "data"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "elastic", "resources": {"requests": {"storage": "1Gi"}},
        }});
        let rows = [
            (k8s_openapi::api::storage::v1::StorageClass::resource(), "", class),
            (PersistentVolume::resource(), "", volume),
            (PersistentVolumeClaim::resource(), "default", claim),
        ];
        for (resource, namespace, body) in rows {
            let handle = client.dynamic(resource, namespace);
            handle.create(body.to_string()).await.unwrap();
        }
        let is_bound = |cluster: &Cluster| {
            let claim: Option<PersistentVolumeClaim> = cluster.find("data");
            let status = claim.and_then(|claim| claim.status).unwrap_or_default();
            status.phase.as_deref() == Some("Bound") && status.capacity.is_some()
        };
        cluster.until("a bound claim", is_bound).await;
        for component in components {
            component.stop().await;
        }
        let _component = cluster.run(Component::Controller("persistentvolume-expander"));
        cluster.wait_until_quiet().await.unwrap();
        assert!(cluster.list::<Event>().is_empty(), "it has what it asks for");
        let more = Patch::merge(&json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}})).unwrap();
        let claims = client.namespaced::<PersistentVolumeClaim>("default");
        claims.patch("data", &more).await.unwrap();
        cluster
            .until("an event", |cluster| !cluster.list::<Event>().is_empty())
            .await;
        cluster.wait_until_quiet().await.unwrap();
        cluster
    }

    #[tokio::test]
    async fn a_volume_waits_for_an_external_resizer() {
        let cluster = grow(("hostPath", json!({"path": "/tmp/disk"}))).await;
        check(
            &cluster,
            "waiting for an external controller to expand this PVC",
            None,
        );
    }

    #[tokio::test]
    async fn the_csi_driver_of_a_migrated_volume_is_annotated() {
        let cluster = grow(("gcePersistentDisk", json!({"pdName": "disk"}))).await;
        check(
            &cluster,
            "CSI migration enabled for kubernetes.io/gce-pd; waiting for external resizer to expand the pvc",
            Some("pd.csi.storage.gke.io"),
        );
    }
}
