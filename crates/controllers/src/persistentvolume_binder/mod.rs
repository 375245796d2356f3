//! Binds PersistentVolumeClaims to existing PersistentVolumes, and writes the phases of both.
//!
//! It neither provisions nor reclaims volumes: a volume whose claim is deleted stays, Released. [`mod@plan`] chooses
//! the volume of a claim.

mod plan;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use setpoint_api::{Change, Key, Status};
use setpoint_runtime::{
    Client, Context, Controller, Error, Lister, Next, Object, Reconcile, Recorder, TypedObject,
};
use tokio_util::sync::CancellationToken;

use crate::Config;
use crate::persistentvolume_binder::plan::{
    BIND_COMPLETED, Phase, bound_claim, bound_status, bound_volume, find, is_reserved_for, phase,
};

/// The name as kube-controller-manager has it.
pub const NAME: &str = "persistentvolume-binder-controller";

/// The node that the scheduler selected for the first pod of a claim.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// Runs the controller until stopped.
pub async fn run(context: Context, config: Config, stop: CancellationToken) -> Result<(), Error> {
    let binder = Binder::new(&context)?;
    let claims = binder.claims.clone();
    Controller::new(NAME, binder)
        .watches(PersistentVolumeClaim::resource().group_resource(), items_of_claim)
        .watches(PersistentVolume::resource().group_resource(), move |change| {
            items_of_volume(&claims, change)
        })
        .reads(StorageClass::resource().group_resource())
        .workers(config.workers(NAME))
        .run(&context, stop)
        .await
}

/// The keys of the work queue.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum WorkItem {
    Claim(Key),
    Volume(Key),
}

/// The reconciler.
#[derive(Debug)]
struct Binder {
    claims: Lister<PersistentVolumeClaim>,
    volumes: Lister<PersistentVolume>,
    classes: Lister<StorageClass>,
    events: Recorder,
}

/// The claim itself, and its volume.
fn items_of_claim(change: &Change) -> Vec<WorkItem> {
    let mut items = vec![WorkItem::Claim(change.key().clone())];
    let claim = change.object().decode::<PersistentVolumeClaim>().ok();
    let volume = claim
        .and_then(|claim| claim.spec?.volume_name)
        .filter(|name| !name.is_empty());
    items.extend(volume.map(|name| WorkItem::Volume(Key::new("", &name))));
    items
}

/// The volume itself, its claim, and, while it is unbound, all claims.
fn items_of_volume(claims: &Lister<PersistentVolumeClaim>, change: &Change) -> Vec<WorkItem> {
    let mut items = vec![WorkItem::Volume(change.key().clone())];
    let Ok(volume) = change.object().decode::<PersistentVolume>() else {
        return items;
    };
    let reference = volume.spec.and_then(|spec| spec.claim_ref);
    match reference {
        Some(reference) => {
            let (namespace, name) = (
                reference.namespace.unwrap_or_default(),
                reference.name.unwrap_or_default(),
            );
            items.push(WorkItem::Claim(Key::new(&namespace, &name)));
        }
        None => items.extend(
            claims
                .list()
                .iter()
                .map(|claim| WorkItem::Claim(claim.key().clone())),
        ),
    }
    items
}

impl Reconcile<WorkItem> for Binder {
    async fn reconcile(&self, item: &WorkItem, client: &Client) -> Result<Next, Error> {
        match item {
            WorkItem::Claim(key) => self.sync_claim(client, key).await?,
            WorkItem::Volume(key) => self.sync_volume(client, key).await?,
        }
        Ok(Next::Done)
    }
}

impl Binder {
    fn new(context: &Context) -> Result<Self, Error> {
        Ok(Self {
            claims: context.lister()?,
            volumes: context.lister()?,
            classes: context.lister()?,
            events: context.events.for_component("persistentvolume-controller"),
        })
    }

    async fn sync_claim(&self, client: &Client, key: &Key) -> Result<(), Error> {
        let Some(object) = self.claims.find(key).filter(|claim| !claim.header().deleting) else {
            return Ok(());
        };
        let claim = object.to_owned()?;
        let name = claim
            .spec
            .as_ref()
            .and_then(|spec| spec.volume_name.as_deref())
            .filter(|name| !name.is_empty());
        let volume = match name {
            Some(name) => self
                .volumes
                .find(&Key::new("", name))
                .map(|volume| volume.to_owned())
                .transpose()?,
            None => self.choose(&object, &claim)?,
        };
        let is_completed = claim
            .metadata
            .annotations
            .as_ref()
            .is_some_and(|own| own.contains_key(BIND_COMPLETED));
        match volume {
            Some(volume)
                if volume.spec.as_ref().is_some_and(|spec| spec.claim_ref.is_none())
                    || is_reserved_for(&volume, &claim) =>
            {
                bind(client, &claim, &volume).await
            }
            None if is_completed => {
                let message = "Bound claim has lost its PersistentVolume. Data on the volume is lost!";
                self.events.warning(&object, "ClaimLost", message);
                write_claim_phase(client, claim, "Lost").await
            }
            _ => write_claim_phase(client, claim, "Pending").await,
        }
    }

    /// The volume to bind a claim to; `None` if it has to wait.
    fn choose(
        &self,
        object: &TypedObject<PersistentVolumeClaim>,
        claim: &PersistentVolumeClaim,
    ) -> Result<Option<PersistentVolume>, Status> {
        let class = claim
            .spec
            .as_ref()
            .and_then(|spec| spec.storage_class_name.as_deref())
            .unwrap_or_default();
        let class = self
            .classes
            .find(&Key::new("", class))
            .map(|class| class.to_owned())
            .transpose()?;
        let waits = class
            .as_ref()
            .and_then(|class| class.volume_binding_mode.as_deref())
            == Some("WaitForFirstConsumer");
        let has_selected_node = claim
            .metadata
            .annotations
            .as_ref()
            .is_some_and(|own| own.contains_key(SELECTED_NODE));
        if waits && !has_selected_node {
            let message = "waiting for first consumer to be created before binding";
            self.events.normal(object, "WaitForFirstConsumer", message);
            return Ok(None);
        }
        let volumes: Result<Vec<PersistentVolume>, Status> =
            self.volumes.list().iter().map(TypedObject::to_owned).collect();
        let found = find(claim, &volumes?).cloned();
        if found.is_none() && class.is_none() {
            let message = "no persistent volumes available for this claim and no storage class is set";
            self.events.normal(object, "FailedBinding", message);
        }
        Ok(found)
    }

    async fn sync_volume(&self, client: &Client, key: &Key) -> Result<(), Error> {
        let Some(object) = self.volumes.find(key) else {
            return Ok(());
        };
        let mut volume = object.to_owned()?;
        let reference = volume
            .spec
            .as_ref()
            .and_then(|spec| spec.claim_ref.clone())
            .unwrap_or_default();
        let claim_key = Key::new(
            &reference.namespace.unwrap_or_default(),
            &reference.name.unwrap_or_default(),
        );
        let claim = self
            .claims
            .find(&claim_key)
            .map(|claim| claim.to_owned())
            .transpose()?;
        let word = match phase(&volume, claim.as_ref()) {
            Phase::Available => "Available",
            Phase::Bound => "Bound",
            Phase::Released => "Released",
        };
        let status = volume.status.get_or_insert_default();
        if status.phase.as_deref() == Some(word) {
            return Ok(());
        }
        status.phase = Some(word.to_owned());
        match client.all::<PersistentVolume>().update_status(&volume).await {
            Err(status) if status.is_not_found() => Ok(()),
            written => Ok(written.map(drop)?),
        }
    }
}

/// Binds both to each other, the volume first: it can belong to one claim only.
async fn bind(
    client: &Client,
    claim: &PersistentVolumeClaim,
    volume: &PersistentVolume,
) -> Result<(), Error> {
    let volumes = client.all::<PersistentVolume>();
    let bound_volume = bound_volume(volume, claim);
    if bound_volume != *volume {
        volumes.update(&bound_volume).await?;
    }
    let handle =
        client.namespaced::<PersistentVolumeClaim>(claim.metadata.namespace.as_deref().unwrap_or_default());
    let mut current = claim.clone();
    let bound_claim = bound_claim(claim, volume);
    if bound_claim != *claim {
        current = handle.update(&bound_claim).await?.to_owned()?;
    }
    let status = bound_status(&current, volume);
    if current.status.as_ref() != Some(&status) {
        current.status = Some(status);
        handle.update_status(&current).await?;
    }
    Ok(())
}

async fn write_claim_phase(
    client: &Client,
    mut claim: PersistentVolumeClaim,
    phase: &str,
) -> Result<(), Error> {
    let status = claim.status.get_or_insert_default();
    if status.phase.as_deref() == Some(phase) {
        return Ok(());
    }
    status.phase = Some(phase.to_owned());
    let namespace = claim.metadata.namespace.clone().unwrap_or_default();
    client
        .namespaced::<PersistentVolumeClaim>(&namespace)
        .update_status(&claim)
        .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use setpoint_api::options::DeleteOptions;
    use setpoint_testkit::{Cluster, Component};

    use super::*;

    fn phases(cluster: &Cluster) -> (Option<String>, Option<String>) {
        let claim: Option<PersistentVolumeClaim> = cluster.find("data");
        let volume: Option<PersistentVolume> = cluster.find("disk");
        (
            claim.and_then(|claim| claim.status?.phase),
            volume.and_then(|volume| volume.status?.phase),
        )
    }

    fn words(claim: &str, volume: &str) -> (Option<String>, Option<String>) {
        let some = |word: &str| (!word.is_empty()).then(|| word.to_owned());
        (some(claim), some(volume))
    }

    #[tokio::test]
    async fn a_claim_is_bound_to_a_volume_that_fits_and_releases_it() {
        let components =
            ["persistentvolume-binder", "persistentvolumeclaim-protection"].map(Component::Controller);
        let (cluster, _components) = Cluster::with(components).await;
        let client = cluster.client("test");
        let claim: PersistentVolumeClaim = serde_json::from_value(json!({"metadata": {"name": "data"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "", "resources": {"requests": {"storage": "1Gi"}}}}))
        .unwrap();
        let claims = client.namespaced::<PersistentVolumeClaim>("default");
        claims.create(&claim).await.unwrap();
        cluster
            .until("a pending claim", |cluster| {
                phases(cluster) == words("Pending", "")
            })
            .await;
        let volume: PersistentVolume = serde_json::from_value(json!({"metadata": {"name": "disk"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "2Gi"}, "hostPath": {"path": "/tmp/disk"}}}))
        .unwrap();
        client.all().create(&volume).await.unwrap();
        cluster
            .until("both bound", |cluster| phases(cluster) == words("Bound", "Bound"))
            .await;
        claims.delete("data", DeleteOptions::default()).await.unwrap();
        cluster
            .until("a released volume", |cluster| {
                phases(cluster) == words("", "Released")
            })
            .await;
    }
}
