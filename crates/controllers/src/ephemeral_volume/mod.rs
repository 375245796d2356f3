//! Creates the PersistentVolumeClaims of generic ephemeral volumes: one for each volume, owned by its pod.

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use serde_json::{Value, json};
use setpoint_api::{Change, Key, Stored};
use setpoint_runtime::{Client, Context, Controller, Error, Lister, Next, Object, Reconcile, Recorder};
use tokio_util::sync::CancellationToken;

use crate::Config;
use crate::pod_volumes::PodVolumes;

/// The name as kube-controller-manager has it.
pub const NAME: &str = "ephemeral-volume-controller";

/// Runs the controller until stopped.
pub async fn run(context: Context, config: Config, stop: CancellationToken) -> Result<(), Error> {
    let reconciler = Ephemeral {
        pods: context.lister()?,
        claims: context.lister()?,
        events: context.events.for_component("ephemeral_volume"),
    };
    let pods = reconciler.pods.clone();
    Controller::new(NAME, reconciler)
        .watches(Pod::resource().group_resource(), |change| {
            let is_new = matches!(change, Change::Added(_));
            Vec::from_iter((is_new && has_ephemeral_volumes(change.object())).then(|| change.key().clone()))
        })
        .watches(
            PersistentVolumeClaim::resource().group_resource(),
            move |change| Vec::from_iter(owner_of_deleted_claim(&pods, change)),
        )
        .workers(config.workers(NAME))
        .run(&context, stop)
        .await
}

/// The reconciler.
#[derive(Debug)]
struct Ephemeral {
    pods: Lister<Pod>,
    claims: Lister<PersistentVolumeClaim>,
    events: Recorder,
}

/// Whether a pod may have ephemeral volumes. Most do not mention them.
fn has_ephemeral_volumes(pod: &Stored) -> bool {
    str::from_utf8(pod.json()).is_ok_and(|text| text.contains("\"ephemeral\":"))
}

/// The pod that owned a deleted claim.
fn owner_of_deleted_claim(pods: &Lister<Pod>, change: &Change) -> Option<Key> {
    let owner = change.object().controller().filter(|owner| owner.kind == "Pod")?;
    let key = Key::new(change.key().namespace(), &owner.name);
    let exists = change.is_deletion() && pods.find(&key).is_some_and(|pod| pod.uid() == owner.uid);
    exists.then_some(key)
}

impl Reconcile for Ephemeral {
    async fn reconcile(&self, key: &Key, client: &Client) -> Result<Next, Error> {
        let Some(object) = self.pods.find(key).filter(|object| !object.header().deleting) else {
            return Ok(Next::Done);
        };
        let pod: PodVolumes = object.decode()?;
        for volume in pod.spec.volumes {
            let name = volume.claim_name(key.name()).unwrap_or_default();
            let Some(source) = volume.ephemeral else { continue };
            let ensured = self
                .ensure_claim(client, &object, &name, source.volume_claim_template)
                .await;
            if let Err(why) = ensured {
                let message = format!("ephemeral volume {}: {why}", volume.name);
                self.events.warning(&object, "FailedBinding", message);
                return Err(Error::failed(why));
            }
        }
        Ok(Next::Done)
    }
}

impl Ephemeral {
    /// Creates the claim of a volume if it does not exist. One of that name that the pod does not own is an error.
    async fn ensure_claim(
        &self,
        client: &Client,
        object: &Stored,
        name: &str,
        mut template: Value,
    ) -> Result<(), String> {
        let (namespace, pod) = (object.key().namespace(), object.key().name());
        if let Some(claim) = self.claims.find(&Key::new(namespace, name)) {
            return match claim.controller().is_some_and(|owner| owner.uid == object.uid()) {
                true => Ok(()),
                false => Err(format!(
                    "PVC {namespace}/{name} was not created for pod {namespace}/{pod} (pod is not owner)"
                )),
            };
        }
        let mut metadata = match template["metadata"].take() {
            Value::Null => json!({}),
            metadata => metadata,
        };
        metadata["name"] = json!(name);
        metadata["namespace"] = json!(namespace);
        metadata["ownerReferences"] = json!([{
            "apiVersion": "v1", "kind": "Pod", "name": pod, "uid": object.uid(),
            "controller": true, "blockOwnerDeletion": true,
        }]);
        let body = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": metadata, "spec": template["spec"].take(),
        });
        let handle = client.dynamic(PersistentVolumeClaim::resource(), namespace);
        let created = handle.create(body.to_string()).await;
        created
            .map(drop)
            .map_err(|status| format!("create PVC {name}: {status}"))
    }
}

#[cfg(test)]
mod tests {
    use setpoint_api::options::DeleteOptions;
    use setpoint_testkit::{Cluster, Component};

    use super::*;

    #[tokio::test]
    async fn an_ephemeral_volume_has_a_claim_of_its_own() {
        let (cluster, _components) = Cluster::with([Component::Controller("ephemeral-volume")]).await;
        let claim = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
        let template = json!({"metadata": {"labels": {"team": "a"}}, "spec": claim});
        let pod = json!({
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {
                "containers": [{"name": "main", "image": "a"}],
                "volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}],
            },
        });
        let pods = cluster.client("test").dynamic(Pod::resource(), "default");
        let pod = pods.create(pod.to_string()).await.unwrap();
        let owner = |cluster: &Cluster| -> Option<String> {
            let claim: PersistentVolumeClaim = cluster.find("web-scratch")?;
            assert_eq!(claim.metadata.labels?["team"], "a");
            Some(claim.metadata.owner_references?.pop()?.uid)
        };
        cluster.until("a claim", |cluster| owner(cluster).is_some()).await;
        assert_eq!(owner(&cluster).as_deref(), Some(pod.uid()));
        let claims = cluster
            .client("test")
            .namespaced::<PersistentVolumeClaim>("default");
        claims
            .delete("web-scratch", DeleteOptions::default())
            .await
            .unwrap();
        cluster
            .until("another claim", |cluster| owner(cluster).is_some())
            .await;
    }
}
