//! Publishes the CAs that aggregated API servers trust: those of client certificates and of front proxies, in the
//! ConfigMap `kube-system/extension-apiserver-authentication`, which the bootstrap creates.

use k8s_openapi::api::core::v1::ConfigMap;
use setpoint_api::{Change, Key};
use setpoint_runtime::{Client, Context, Controller, Error, Lister, Next, Object, Reconcile};
use tokio_util::sync::CancellationToken;

use crate::Config;

/// The name as kube-apiserver has it.
pub const NAME: &str = "cluster_authentication_trust_controller";

const NAMESPACE: &str = "kube-system";
const CONFIG_MAP: &str = "extension-apiserver-authentication";
const CLIENT_CA: &str = "client-ca-file";
const PROXY_CA: &str = "requestheader-client-ca-file";

/// Runs the controller until stopped. Without certificates there is nothing to publish.
pub async fn run(context: Context, config: Config, stop: CancellationToken) -> Result<(), Error> {
    if config.client_ca.is_empty() {
        stop.cancelled().await;
        return Ok(());
    }
    let reconciler = Publisher {
        maps: context.lister()?,
        client_ca: config.client_ca.clone(),
        proxy_ca: config.proxy_ca.clone(),
    };
    Controller::new(NAME, reconciler)
        .watches(ConfigMap::resource().group_resource(), published_key)
        .workers(1)
        .run(&context, stop)
        .await
}

/// The reconciler. It has one key, that of the ConfigMap.
#[derive(Debug)]
struct Publisher {
    maps: Lister<ConfigMap>,
    client_ca: String,
    proxy_ca: String,
}

fn published_key(change: &Change) -> Vec<Key> {
    let key = change.key();
    let is_published = key.namespace() == NAMESPACE && key.name() == CONFIG_MAP;
    Vec::from_iter(is_published.then(|| key.clone()))
}

impl Reconcile for Publisher {
    async fn reconcile(&self, key: &Key, client: &Client) -> Result<Next, Error> {
        let Some(current) = self.maps.find(key) else {
            return Ok(Next::Done);
        };
        let current = current.to_owned()?;
        let mut desired = current.clone();
        let data = desired.data.get_or_insert_default();
        for (field, value) in [(CLIENT_CA, &self.client_ca), (PROXY_CA, &self.proxy_ca)] {
            if !value.is_empty() {
                data.insert(field.to_owned(), value.clone());
            }
        }
        if desired != current {
            let handle = client.namespaced::<ConfigMap>(key.namespace());
            handle.update(&desired).await?;
        }
        Ok(Next::Done)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use setpoint_testkit::Cluster;
    use tokio::task::JoinSet;

    use super::*;

    #[tokio::test]
    async fn the_published_cas_are_replaced_and_other_keys_stay() {
        let cluster = Cluster::start().await;
        let maps = cluster.client("test").namespaced::<ConfigMap>(NAMESPACE);
        let map = json!({
            "metadata": {"name": CONFIG_MAP},
            "data": {CLIENT_CA: "old", "requestheader-group-headers": "[\"X-Remote-Group\"]"},
        });
        let map: ConfigMap = serde_json::from_value(map).unwrap();
        maps.create(&map).await.unwrap();
        let config = Config {
            client_ca: "new".to_owned(),
            proxy_ca: "front".to_owned(),
            ..Config::default()
        };
        let mut running = JoinSet::new();
        running.spawn(run(cluster.context(NAME), config, CancellationToken::new()));
        let expected = json!({
            CLIENT_CA: "new", PROXY_CA: "front", "requestheader-group-headers": "[\"X-Remote-Group\"]",
        });
        cluster
            .until("the new CAs", |cluster| {
                let maps: Vec<ConfigMap> = cluster.list();
                let is_published = |map: &&ConfigMap| map.metadata.name.as_deref() == Some(CONFIG_MAP);
                let map = maps.iter().find(is_published);
                map.is_some_and(|map| serde_json::to_value(&map.data).unwrap() == expected)
            })
            .await;
    }
}
