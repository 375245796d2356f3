//! Lets a PersistentVolume that is being deleted go once no claim is bound to it any more.

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
        client: context.client.clone(),
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
    client: Client,
}

impl Reconcile for Protection {
    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let Some(volume) = self.volumes.find(key) else {
            return Ok(Next::Done);
        };
        let mut wanted = volume.to_owned()?;
        let is_bound = wanted.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound");
        let finalizers = wanted.metadata.finalizers.get_or_insert_default();
        let has = finalizers.iter().any(|own| own == FINALIZER);
        match (volume.header().deleting, has) {
            (true, true) if !is_bound => finalizers.retain(|own| own != FINALIZER),
            (false, false) => finalizers.push(FINALIZER.to_owned()),
            _ => return Ok(Next::Done),
        }
        match self.client.all::<PersistentVolume>().update(&wanted).await {
            Err(status) if status.is_not_found() => Ok(Next::Done),
            written => Ok(written.map(|_| Next::Done)?),
        }
    }
}

#[cfg(test)]
mod tests {
    use setpoint_api::options::DeleteOptions;
    use setpoint_testkit::{Cluster, Part};

    use super::*;

    #[tokio::test]
    async fn a_volume_that_nobody_is_bound_to_goes() {
        let (cluster, _parts) = Cluster::with([Part::Controller("persistentvolume-protection")]).await;
        let volumes = cluster.client("test").all::<PersistentVolume>();
        let document = serde_json::json!({"metadata": {"name": "disk"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/tmp/disk"}}});
        let volume: PersistentVolume = serde_json::from_value(document).unwrap();
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
