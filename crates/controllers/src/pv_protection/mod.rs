//! Removes the protection finalizer of a terminating PersistentVolume once no claim is bound to it.

use k8s_openapi::api::core::v1::PersistentVolume;
use setpoint_api::Key;
use setpoint_runtime::{Client, Context, Controller, Error, Lister, Next, Reconcile};
use tokio_util::sync::CancellationToken;

use crate::Config;

/// The name as kube-controller-manager has it.
pub const NAME: &str = "persistentvolume-protection-controller";

const FINALIZER: &str = "kubernetes.io/pv-protection";

/// Runs the controller until stopped.
pub async fn run(context: Context, config: Config, stop: CancellationToken) -> Result<(), Error> {
    let reconciler = Protection {
        volumes: context.lister()?,
    };
    Controller::new(NAME, reconciler)
        .reconciles::<PersistentVolume>()
        .workers(config.workers(NAME))
        .run(&context, stop)
        .await
}

/// The reconciler.
#[derive(Debug)]
struct Protection {
    volumes: Lister<PersistentVolume>,
}

impl Reconcile for Protection {
    async fn reconcile(&self, key: &Key, client: &Client) -> Result<Next, Error> {
        let Some(volume) = self.volumes.find(key) else {
            return Ok(Next::Done);
        };
        let mut updated = volume.to_owned()?;
        let is_bound = updated.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound");
        let finalizers = updated.metadata.finalizers.get_or_insert_default();
        let has = finalizers.iter().any(|own| own == FINALIZER);
        match (volume.header().deleting, has) {
            (true, true) if !is_bound => finalizers.retain(|own| own != FINALIZER),
            (false, false) => finalizers.push(FINALIZER.to_owned()),
            _ => return Ok(Next::Done),
        }
        match client.all::<PersistentVolume>().update(&updated).await {
            Err(status) if status.is_not_found() => Ok(Next::Done),
            written => Ok(written.map(|_| Next::Done)?),
        }
    }
}

#[cfg(test)]
mod tests {
    use setpoint_api::options::DeleteOptions;
    use setpoint_testkit::{Cluster, Component};

    use super::*;

    #[tokio::test]
    async fn an_unbound_volume_is_deleted() {
        let (cluster, _components) =
            Cluster::with([Component::Controller("persistentvolume-protection")]).await;
        let volumes = cluster.client("test").all::<PersistentVolume>();
        let body = serde_json::json!({"metadata": {"name": "disk"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/tmp/disk"}}});
        let volume: PersistentVolume = serde_json::from_value(body).unwrap();
        volumes.create(&volume).await.unwrap();
        cluster
            .until("protection", |cluster| {
                let volume: Option<PersistentVolume> = cluster.find("disk");
                volume.is_some_and(|volume| volume.metadata.finalizers.is_some())
            })
            .await;
        volumes.delete("disk", DeleteOptions::default()).await.unwrap();
        cluster
            .until("no volume", |cluster| {
                cluster.list::<PersistentVolume>().is_empty()
            })
            .await;
    }
}
