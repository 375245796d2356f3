//! Removes the protection finalizer of a terminating VolumeAttributesClass once no volume and no claim references it.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::VolumeAttributesClass;
use serde_json::Value;
use setpoint_api::{Change, Key, Stored};
use setpoint_runtime::{Client, Context, Controller, Error, Lister, Next, Object, Reconcile};
use tokio_util::sync::CancellationToken;

use crate::Config;

/// The name as kube-controller-manager has it.
pub const NAME: &str = "volumeattributesclass-protection-controller";

const FINALIZER: &str = "kubernetes.io/vac-protection";

/// Runs the controller until stopped.
pub async fn run(context: Context, config: Config, stop: CancellationToken) -> Result<(), Error> {
    let reconciler = Protection {
        classes: context.lister()?,
        volumes: context.lister()?,
        claims: context.lister()?,
    };
    Controller::new(NAME, reconciler)
        .reconciles::<VolumeAttributesClass>()
        .watches(
            PersistentVolumeClaim::resource().group_resource(),
            classes_to_enqueue,
        )
        .watches(PersistentVolume::resource().group_resource(), classes_to_enqueue)
        .workers(config.workers(NAME))
        .run(&context, stop)
        .await
}

/// The reconciler.
#[derive(Debug)]
struct Protection {
    classes: Lister<VolumeAttributesClass>,
    volumes: Lister<PersistentVolume>,
    claims: Lister<PersistentVolumeClaim>,
}

/// The classes that a volume or claim references, or did before the change.
fn classes_to_enqueue(change: &Change) -> Vec<Key> {
    let objects = change.old().into_iter().chain([change.object()]);
    let names = objects.flat_map(|object| classes_of(object));
    names.map(|name| Key::new("", &name)).collect()
}

fn classes_of(object: &Stored) -> Vec<String> {
    let Ok(body) = object.decode::<Value>() else {
        return Vec::new();
    };
    let fields = [
        &body["spec"]["volumeAttributesClassName"],
        &body["status"]["currentVolumeAttributesClassName"],
        &body["status"]["modifyVolumeStatus"]["targetVolumeAttributesClassName"],
    ];
    let names = fields
        .into_iter()
        .filter_map(Value::as_str)
        .filter(|name| !name.is_empty());
    names.map(ToOwned::to_owned).collect()
}

impl Reconcile for Protection {
    async fn reconcile(&self, key: &Key, client: &Client) -> Result<Next, Error> {
        let Some(class) = self.classes.find(key) else {
            return Ok(Next::Done);
        };
        let mut updated = class.to_owned()?;
        let finalizers = updated.metadata.finalizers.get_or_insert_default();
        let has = finalizers.iter().any(|own| own == FINALIZER);
        match (class.header().deleting, has) {
            (true, true) if !self.is_in_use(key.name()) => finalizers.retain(|own| own != FINALIZER),
            (false, false) => finalizers.push(FINALIZER.to_owned()),
            _ => return Ok(Next::Done),
        }
        match client.all::<VolumeAttributesClass>().update(&updated).await {
            Err(status) if status.is_not_found() => Ok(Next::Done),
            written => Ok(written.map(|_| Next::Done)?),
        }
    }
}

impl Protection {
    fn is_in_use(&self, name: &str) -> bool {
        let names = |object: &Stored| classes_of(object).iter().any(|own| own == name);
        self.claims.list().iter().any(|claim| names(claim))
            || self.volumes.list().iter().any(|volume| names(volume))
    }
}

#[cfg(test)]
mod tests {
    use setpoint_api::options::DeleteOptions;
    use setpoint_testkit::{Cluster, Component};

    use super::*;

    #[tokio::test]
    async fn an_unused_class_is_deleted() {
        let (cluster, _components) =
            Cluster::with([Component::Controller("volumeattributesclass-protection")]).await;
        let classes = cluster.client("test").all::<VolumeAttributesClass>();
        let body = serde_json::json!({"metadata": {"name": "gold"}, "driverName": "disk.example.com", "parameters": {"iops": "9"}});
        let class: VolumeAttributesClass = serde_json::from_value(body).unwrap();
        classes.create(&class).await.unwrap();
        cluster
            .until("protection", |cluster| {
                let class: Option<VolumeAttributesClass> = cluster.find("gold");
                class.is_some_and(|class| class.metadata.finalizers.is_some())
            })
            .await;
        classes.delete("gold", DeleteOptions::default()).await.unwrap();
        cluster
            .until("no class", |cluster| {
                cluster.list::<VolumeAttributesClass>().is_empty()
            })
            .await;
    }
}
