//! Publishes the CA certificates of the API server to every namespace: the ConfigMap `kube-root-ca.crt`.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use setpoint_api::{Change, Key};
use setpoint_runtime::{Client, Context, Controller, Error, Lister, Next, Object, Reconcile};
use tokio_util::sync::CancellationToken;

use crate::Config;

/// The name as kube-controller-manager has it.
pub const NAME: &str = "root-ca-certificate-publisher-controller";

/// The ConfigMap that every namespace has.
const CONFIG_MAP: &str = "kube-root-ca.crt";
const CERTIFICATES: &str = "ca.crt";
const DESCRIPTION: &str = "kubernetes.io/description";
const DESCRIBED: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints \
                         such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across \
                         distributions of Kubernetes clusters.";

/// Runs the controller until stopped. Without certificates there is nothing to publish.
pub async fn run(context: Context, config: Config, stop: CancellationToken) -> Result<(), Error> {
    if config.root_ca.is_empty() {
        stop.cancelled().await;
        return Ok(());
    }
    let reconciler = Publisher {
        namespaces: context.lister()?,
        maps: context.lister()?,
        certificates: config.root_ca.clone(),
    };
    Controller::new(NAME, reconciler)
        .reconciles::<Namespace>()
        .watches(ConfigMap::resource().group_resource(), namespace_of)
        .workers(config.workers(NAME))
        .run(&context, stop)
        .await
}

/// The reconciler. Its keys are those of namespaces.
#[derive(Debug)]
struct Publisher {
    namespaces: Lister<Namespace>,
    maps: Lister<ConfigMap>,
    certificates: String,
}

/// The namespace whose ConfigMap has changed.
fn namespace_of(change: &Change) -> Vec<Key> {
    match change.key().name() == CONFIG_MAP {
        true => vec![Key::new("", change.key().namespace())],
        false => Vec::new(),
    }
}

impl Reconcile for Publisher {
    async fn reconcile(&self, key: &Key, client: &Client) -> Result<Next, Error> {
        let namespace = self.namespaces.find(key);
        if namespace.is_none_or(|namespace| namespace.header().deleting) {
            return Ok(Next::Done);
        }
        let current = self.maps.find(&Key::new(key.name(), CONFIG_MAP));
        let current = current.map(|map| map.to_owned()).transpose()?;
        let desired = self.desired(key.name(), current.as_ref());
        let handle = client.namespaced::<ConfigMap>(key.name());
        let written = match current {
            Some(current) if current == desired => return Ok(Next::Done),
            Some(_) => handle.update(&desired).await,
            None => handle.create(&desired).await,
        };
        match written {
            Err(status) if status.is_already_exists() || status.is_not_found() => Ok(Next::Done),
            written => Ok(written.map(|_| Next::Done)?),
        }
    }
}

impl Publisher {
    fn desired(&self, namespace: &str, current: Option<&ConfigMap>) -> ConfigMap {
        let mut map = current.cloned().unwrap_or_default();
        map.metadata.name = Some(CONFIG_MAP.to_owned());
        map.metadata.namespace = Some(namespace.to_owned());
        let annotations = map.metadata.annotations.get_or_insert_default();
        annotations.insert(DESCRIPTION.to_owned(), DESCRIBED.to_owned());
        map.data = Some([(CERTIFICATES.to_owned(), self.certificates.clone())].into());
        map.binary_data = None;
        map
    }
}

#[cfg(test)]
mod tests {
    use setpoint_testkit::{Cluster, Component};

    use super::*;

    fn published(cluster: &Cluster) -> Option<String> {
        let map: Option<ConfigMap> = cluster.find(CONFIG_MAP);
        map?.data?.remove(CERTIFICATES)
    }

    #[tokio::test]
    async fn every_namespace_has_the_certificates_and_gets_them_again() {
        let (cluster, _components) =
            Cluster::with([Component::Controller("root-ca-certificate-publisher")]).await;
        cluster
            .until("certificates", |cluster| published(cluster).is_some())
            .await;
        let expected = published(&cluster);
        let maps = cluster.client("test").namespaced::<ConfigMap>("default");
        let mut map = maps.get(CONFIG_MAP).await.unwrap().to_owned().unwrap();
        map.data = Some([("ca.crt".to_owned(), "forged".to_owned())].into());
        maps.update(&map).await.unwrap();
        cluster
            .until("them again", |cluster| published(cluster) == expected)
            .await;
        maps.delete(CONFIG_MAP, setpoint_api::options::DeleteOptions::default())
            .await
            .unwrap();
        cluster
            .until("them once more", |cluster| published(cluster) == expected)
            .await;
    }
}
