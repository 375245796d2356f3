//! Removes the protection finalizer of a terminating PersistentVolumeClaim once no pod uses it.
//!
//! Admission adds the finalizer when the claim is created; an older claim gets it here.

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use setpoint_api::{Change, Key, Stored};
use setpoint_runtime::{Client, Context, Controller, Error, Lister, Next, Object, Reconcile};
use tokio_util::sync::CancellationToken;

use crate::pod_volumes::PodVolumes;
use crate::{Config, pods};

/// The name as kube-controller-manager has it.
pub const NAME: &str = "persistentvolumeclaim-protection-controller";

const FINALIZER: &str = "kubernetes.io/pvc-protection";

/// Runs the controller until stopped.
pub async fn run(context: Context, config: Config, stop: CancellationToken) -> Result<(), Error> {
    let reconciler = Protection {
        claims: context.lister()?,
        pods: context.lister()?,
    };
    let claims = reconciler.claims.clone();
    Controller::new(NAME, reconciler)
        .reconciles::<PersistentVolumeClaim>()
        .watches(Pod::resource().group_resource(), move |change| {
            claims_to_enqueue(&claims, change)
        })
        .workers(config.workers(NAME))
        .run(&context, stop)
        .await
}

/// The reconciler. Its keys are those of claims.
#[derive(Debug)]
struct Protection {
    claims: Lister<PersistentVolumeClaim>,
    pods: Lister<Pod>,
}

/// The names of the claims that a pod uses.
fn claims_of(pod: &Stored) -> Vec<String> {
    let volumes: PodVolumes = pod.decode().unwrap_or_default();
    let volumes = volumes.spec.volumes.iter();
    volumes
        .filter_map(|volume| volume.claim_name(pod.key().name()))
        .collect()
}

/// The terminating claims in the namespace of a pod that was deleted or has finished.
fn claims_to_enqueue(claims: &Lister<PersistentVolumeClaim>, change: &Change) -> Vec<Key> {
    let here = claims.in_namespace(change.key().namespace()).into_iter();
    let terminating: Vec<Key> = here
        .filter(|claim| claim.header().deleting)
        .map(|claim| claim.key().clone())
        .collect();
    let is_over = || change.is_deletion() || pods::Pod::read(change.object().clone()).is_finished();
    if terminating.is_empty() || !is_over() {
        return Vec::new();
    }
    terminating
}

impl Reconcile for Protection {
    async fn reconcile(&self, key: &Key, client: &Client) -> Result<Next, Error> {
        let Some(claim) = self.claims.find(key) else {
            return Ok(Next::Done);
        };
        let mut updated = claim.to_owned()?;
        let finalizers = updated.metadata.finalizers.get_or_insert_default();
        let has = finalizers.iter().any(|own| own == FINALIZER);
        match (claim.header().deleting, has) {
            (true, true) if !self.is_in_use(key) => finalizers.retain(|own| own != FINALIZER),
            (false, false) => finalizers.push(FINALIZER.to_owned()),
            _ => return Ok(Next::Done),
        }
        let handle = client.namespaced::<PersistentVolumeClaim>(key.namespace());
        match handle.update(&updated).await {
            Err(status) if status.is_not_found() => Ok(Next::Done),
            written => Ok(written.map(|_| Next::Done)?),
        }
    }
}

impl Protection {
    /// Whether a pod that has not finished uses the claim.
    fn is_in_use(&self, key: &Key) -> bool {
        let here = self.pods.in_namespace(key.namespace()).into_iter();
        let mut users = here.filter(|pod| claims_of(pod).iter().any(|name| name == key.name()));
        users.any(|pod| !pods::Pod::read(pod.into_stored()).is_finished())
    }
}

#[cfg(test)]
mod tests {
    use setpoint_api::options::DeleteOptions;
    use setpoint_testkit::{Cluster, Component, pod};

    use super::*;

    #[tokio::test]
    async fn a_claim_is_deleted_when_its_last_pod_is() {
        let (cluster, _components) =
            Cluster::with([Component::Controller("persistentvolumeclaim-protection")]).await;
        let client = cluster.client("test");
        let body = serde_json::json!({"metadata": {"name": "data"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
        let claim: PersistentVolumeClaim = serde_json::from_value(body).unwrap();
        let claims = client.namespaced::<PersistentVolumeClaim>("default");
        claims.create(&claim).await.unwrap();
        let mut user = pod("user").build();
        let volume = serde_json::json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
        user.spec.as_mut().unwrap().volumes = Some(serde_json::from_value(volume).unwrap());
        let pods = client.namespaced::<Pod>("default");
        pods.create(&user).await.unwrap();
        let is_protected = |cluster: &Cluster| {
            let claim: Option<PersistentVolumeClaim> = cluster.find("data");
            claim.is_some_and(|claim| claim.metadata.finalizers.is_some())
        };
        cluster.until("protection", is_protected).await;
        claims.delete("data", DeleteOptions::default()).await.unwrap();
        cluster.settle().await;
        assert!(is_protected(&cluster));
        let at_once = DeleteOptions {
            grace_period_seconds: Some(0),
            ..DeleteOptions::default()
        };
        pods.delete("user", at_once).await.unwrap();
        cluster
            .until("no claim", |cluster| {
                cluster.list::<PersistentVolumeClaim>().is_empty()
            })
            .await;
    }
}
