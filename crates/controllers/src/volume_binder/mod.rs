//! Gives claims the volumes that are there, and tells of both what they are to each other.
//!
//! It binds what exists; it makes no volumes and wipes none: a volume whose claim is gone stays, released, for whoever
//! made it. [`mod@plan`] decides which volume a claim gets.

mod plan;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use setpoint_api::{Change, Key, Status};
use setpoint_runtime::{
    Client, Context, Controller, Error, Lister, Next, Object, Reconcile, Recorder, Typed,
};
use tokio_util::sync::CancellationToken;

use crate::Config;
use crate::volume_binder::plan::{
    BIND_COMPLETED, Phase, bound_status, find, given, is_kept_for, phase, taken,
};

/// The name as kube-controller-manager has it.
pub const NAME: &str = "persistentvolume-binder-controller";

/// The node that the scheduler has chosen for the first pod of a claim.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// Runs the controller until stopped.
pub async fn run(context: Context, config: Config, stop: CancellationToken) -> Result<(), Error> {
    let binder = Binder::new(&context)?;
    let claims = binder.claims.clone();
    Controller::new(NAME, binder)
        .watches(
            PersistentVolumeClaim::resource().group_resource(),
            claim_and_volume,
        )
        .watches(PersistentVolume::resource().group_resource(), move |change| {
            concerned(&claims, change)
        })
        .reads(StorageClass::resource().group_resource())
        .workers(config.workers(NAME))
        .run(&context, stop)
        .await
}

/// A claim or a volume to look at.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Work {
    Claim(Key),
    Volume(Key),
}

/// The reconciler.
#[derive(Debug)]
struct Binder {
    claims: Lister<PersistentVolumeClaim>,
    volumes: Lister<PersistentVolume>,
    classes: Lister<StorageClass>,
    client: Client,
    events: Recorder,
}

/// The claim itself, and the volume it has.
fn claim_and_volume(change: &Change) -> Vec<Work> {
    let mut work = vec![Work::Claim(change.key().clone())];
    let claim = change.object().decode::<PersistentVolumeClaim>().ok();
    let volume = claim
        .and_then(|claim| claim.spec?.volume_name)
        .filter(|name| !name.is_empty());
    work.extend(volume.map(|name| Work::Volume(Key::new("", &name))));
    work
}

/// The volume itself, its claim, and, while it is nobody's, all claims that wait.
fn concerned(claims: &Lister<PersistentVolumeClaim>, change: &Change) -> Vec<Work> {
    let mut work = vec![Work::Volume(change.key().clone())];
    let Ok(volume) = change.object().decode::<PersistentVolume>() else {
        return work;
    };
    let reference = volume.spec.and_then(|spec| spec.claim_ref);
    match reference {
        Some(reference) => {
            let (namespace, name) = (
                reference.namespace.unwrap_or_default(),
                reference.name.unwrap_or_default(),
            );
            work.push(Work::Claim(Key::new(&namespace, &name)));
        }
        None => work.extend(claims.list().iter().map(|claim| Work::Claim(claim.key().clone()))),
    }
    work
}

impl Reconcile<Work> for Binder {
    async fn reconcile(&self, work: &Work) -> Result<Next, Error> {
        match work {
            Work::Claim(key) => self.bind(key).await?,
            Work::Volume(key) => self.tell_volume(key).await?,
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
            client: context.client.clone(),
            events: context.events.of("persistentvolume-controller"),
        })
    }

    async fn bind(&self, key: &Key) -> Result<(), Error> {
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
                    || is_kept_for(&volume, &claim) =>
            {
                self.tie(&claim, &volume).await
            }
            None if is_completed => {
                let message = "Bound claim has lost its PersistentVolume. Data on the volume is lost!";
                self.events.warning(&object, "ClaimLost", message);
                self.tell_claim(claim, "Lost").await
            }
            _ => self.tell_claim(claim, "Pending").await,
        }
    }

    /// The volume that a claim without one gets; nothing if it has to wait.
    fn choose(
        &self,
        object: &Typed<PersistentVolumeClaim>,
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
        let is_placed = claim
            .metadata
            .annotations
            .as_ref()
            .is_some_and(|own| own.contains_key(SELECTED_NODE));
        if waits && !is_placed {
            let message = "waiting for first consumer to be created before binding";
            self.events.normal(object, "WaitForFirstConsumer", message);
            return Ok(None);
        }
        let volumes: Result<Vec<PersistentVolume>, Status> =
            self.volumes.list().iter().map(Typed::to_owned).collect();
        let found = find(claim, &volumes?).cloned();
        if found.is_none() && class.is_none() {
            let message = "no persistent volumes available for this claim and no storage class is set";
            self.events.normal(object, "FailedBinding", message);
        }
        Ok(found)
    }

    /// Writes down on both that they belong together, the volume first: it can be but one's.
    async fn tie(&self, claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> Result<(), Error> {
        let volumes = self.client.all::<PersistentVolume>();
        let given = given(volume, claim);
        if given != *volume {
            volumes.update(&given).await?;
        }
        let handle = self
            .client
            .namespaced::<PersistentVolumeClaim>(claim.metadata.namespace.as_deref().unwrap_or_default());
        let mut current = claim.clone();
        let taken = taken(claim, volume);
        if taken != *claim {
            current = handle.update(&taken).await?.to_owned()?;
        }
        let status = bound_status(&current, volume);
        if current.status.as_ref() != Some(&status) {
            current.status = Some(status);
            handle.update_status(&current).await?;
        }
        Ok(())
    }

    async fn tell_claim(&self, mut claim: PersistentVolumeClaim, phase: &str) -> Result<(), Error> {
        let status = claim.status.get_or_insert_default();
        if status.phase.as_deref() == Some(phase) {
            return Ok(());
        }
        status.phase = Some(phase.to_owned());
        let namespace = claim.metadata.namespace.clone().unwrap_or_default();
        self.client
            .namespaced::<PersistentVolumeClaim>(&namespace)
            .update_status(&claim)
            .await?;
        Ok(())
    }

    async fn tell_volume(&self, key: &Key) -> Result<(), Error> {
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
        match self.client.all::<PersistentVolume>().update_status(&volume).await {
            Err(status) if status.is_not_found() => Ok(()),
            written => Ok(written.map(drop)?),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use setpoint_api::options::DeleteOptions;
    use setpoint_testkit::{Cluster, Part};

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
        let parts = ["persistentvolume-binder", "persistentvolumeclaim-protection"].map(Part::Controller);
        let (cluster, _parts) = Cluster::with(parts).await;
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
