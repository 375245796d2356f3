//! Publishes the CA certificates of the API server as a ClusterTrustBundle, for pods that mount it.

use k8s_openapi::api::certificates::v1::ClusterTrustBundle;
use k8s_openapi::api::core::v1::Namespace;
use ring::digest;
use serde::Deserialize;
use serde_json::{Value, json};
use setpoint_api::options::DeleteOptions;
use setpoint_api::{Change, Key};
use setpoint_runtime::{Client, Context, Controller, Error, Lister, Next, Object, Reconcile};
use tokio_util::sync::CancellationToken;

use crate::Config;

/// The name as kube-controller-manager has it.
pub const NAME: &str = "kube-apiserver-serving-clustertrustbundle-publisher-controller";

/// The signer that the bundle belongs to.
const SIGNER: &str = "kubernetes.io/kube-apiserver-serving";
const SYSTEM: &str = "kube-system";
/// How many bytes of the certificates' hash are in the bundle's name.
const HASH_BYTES: usize = 12;

/// Runs the controller until stopped. Without certificates there is nothing to publish.
pub async fn run(context: Context, config: Config, stop: CancellationToken) -> Result<(), Error> {
    if config.root_ca.is_empty() {
        stop.cancelled().await;
        return Ok(());
    }
    let key = Key::new("", &name(&config.root_ca));
    let reconciler = Publisher {
        bundles: context.lister()?,
        certificates: config.root_ca.clone(),
    };
    let start = key.clone();
    Controller::new(NAME, reconciler)
        .watches(ClusterTrustBundle::resource().group_resource(), move |change| {
            let is_ours = change.object().field("spec.signerName") == Some(SIGNER);
            Vec::from_iter(is_ours.then(|| key.clone()))
        })
        // Until the bundle exists, only events of another resource that every cluster has can enqueue its key.
        .watches(Namespace::resource().group_resource(), move |change| {
            let is_first = change.key().name() == SYSTEM && matches!(change, Change::Added(_));
            Vec::from_iter(is_first.then(|| start.clone()))
        })
        .workers(1)
        .run(&context, stop)
        .await
}

/// The reconciler. It has one key, that of the bundle.
#[derive(Debug)]
struct Publisher {
    bundles: Lister<ClusterTrustBundle>,
    certificates: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Bundle {
    spec: BundleSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct BundleSpec {
    trust_bundle: String,
}

/// The name of the bundle with these certificates.
fn name(certificates: &str) -> String {
    let hash = digest::digest(&digest::SHA256, certificates.as_bytes());
    let hash = &hash.as_ref()[..HASH_BYTES];
    let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}:{hash}", SIGNER.replace('/', ":"))
}

impl Reconcile for Publisher {
    async fn reconcile(&self, key: &Key, client: &Client) -> Result<Next, Error> {
        let handle = client.dynamic(ClusterTrustBundle::resource(), "");
        let spec = json!({"signerName": SIGNER, "trustBundle": self.certificates});
        match self.bundles.find(key) {
            None => {
                let bundle = json!({
                    "apiVersion": "certificates.k8s.io/v1", "kind": "ClusterTrustBundle",
                    "metadata": {"name": key.name()}, "spec": spec,
                });
                handle.create(bundle.to_string()).await?;
            }
            Some(bundle) if bundle.decode::<Bundle>()?.spec.trust_bundle != self.certificates => {
                let mut bundle: Value = bundle.decode()?;
                bundle["spec"] = spec;
                handle.update(key.name(), bundle.to_string()).await?;
            }
            Some(_) => {}
        }
        let all = self.bundles.list();
        let others = all
            .iter()
            .filter(|own| own.field("spec.signerName") == Some(SIGNER) && own.key() != key);
        for other in others {
            match handle.delete(other.key().name(), DeleteOptions::default()).await {
                Err(status) if status.is_not_found() => {}
                deleted => drop(deleted?),
            }
        }
        Ok(Next::Done)
    }
}

#[cfg(test)]
mod tests {
    use setpoint_testkit::Cluster;
    use tokio::task::JoinSet;

    use super::*;
    use crate::certificates::tests::authority;

    #[tokio::test]
    async fn there_is_one_bundle_and_it_has_the_certificates() {
        let cluster = Cluster::start().await;
        let pem = || authority().certificate;
        let bundles = cluster.client("test").dynamic(ClusterTrustBundle::resource(), "");
        let old = json!({
            "metadata": {"name": "kubernetes.io:kube-apiserver-serving:old"},
            "spec": {"signerName": SIGNER, "trustBundle": pem()},
        });
        bundles.create(old.to_string()).await.unwrap();
        let config = Config {
            root_ca: pem(),
            ..Config::default()
        };
        let expected = vec![(name(&config.root_ca), config.root_ca.clone())];
        let mut running = JoinSet::new();
        running.spawn(run(cluster.context(NAME), config, CancellationToken::new()));
        let published = |cluster: &Cluster| -> Vec<(String, String)> {
            let bundles = cluster.list::<ClusterTrustBundle>().into_iter();
            bundles
                .map(|own| (own.metadata.name.unwrap_or_default(), own.spec.trust_bundle))
                .collect()
        };
        cluster
            .until("one bundle", |cluster| published(cluster) == expected)
            .await;
        bundles
            .delete(&expected[0].0, DeleteOptions::default())
            .await
            .unwrap();
        cluster
            .until("it again", |cluster| published(cluster) == expected)
            .await;
    }
}
