//! Signs the ConfigMap `cluster-info` with every bootstrap token whose usage allows it.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde::Deserialize;
use serde_json::{Value, json};
use setpoint_api::{Change, Clock, Key};
use setpoint_runtime::{
    Client, Context, Controller, Error, Lister, Next, Object, Patch, Reconcile, TypedObject,
};
use tokio_util::sync::CancellationToken;

use crate::bootstrap::token::{self, NAMESPACE, Token};
use crate::{Config, api_time};

/// The name as kube-controller-manager has it.
pub const NAME: &str = "bootstrap-signer-controller";

/// The signed ConfigMap: namespace, name and key.
const PUBLIC: &str = "kube-public";
const CLUSTER_INFO: &str = "cluster-info";
const KUBECONFIG: &str = "kubeconfig";

/// Runs the controller until stopped.
pub async fn run(context: Context, _config: Config, stop: CancellationToken) -> Result<(), Error> {
    let reconciler = Signer {
        maps: context.lister()?,
        secrets: context.lister()?,
        clock: context.clock.clone(),
    };
    let info = || Key::new(PUBLIC, CLUSTER_INFO);
    let is_info = move |change: &Change| Vec::from_iter((*change.key() == info()).then(info));
    let is_token = move |change: &Change| Vec::from_iter(token::is_token(change.object()).then(info));
    Controller::new(NAME, reconciler)
        .watches(ConfigMap::resource().group_resource(), is_info)
        .watches(Secret::resource().group_resource(), is_token)
        .workers(1)
        .run(&context, stop)
        .await
}

/// The reconciler. It has one key, that of the ConfigMap.
#[derive(Debug)]
struct Signer {
    maps: Lister<ConfigMap>,
    secrets: Lister<Secret>,
    clock: Arc<dyn Clock>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Map {
    data: BTreeMap<String, String>,
}

impl Reconcile for Signer {
    async fn reconcile(&self, key: &Key, client: &Client) -> Result<Next, Error> {
        let Some(object) = self.maps.find(key) else {
            return Ok(Next::Done);
        };
        let map: Map = object.decode()?;
        let Some(content) = map.data.get(KUBECONFIG) else {
            return Ok(Next::Done);
        };
        let tokens = self.tokens();
        let now = self.clock.now();
        let usable = tokens
            .iter()
            .filter_map(|(name, token)| token.for_signing(name, now))
            .map(|(id, secret)| (id.to_owned(), secret.to_owned()))
            .collect();
        let signed = token::signed(&map.data, content, &usable);
        if signed != map.data {
            write(client, &object, &map.data, &signed).await?;
        }
        let expirations = tokens.iter().filter_map(|(_, token)| token.expiration());
        let next = expirations
            .filter_map(|expiration| api_time::duration_until(now, expiration))
            .min();
        Ok(next.map_or(Next::Done, Next::After))
    }
}

impl Signer {
    /// All bootstrap tokens, by the names of their Secrets.
    fn tokens(&self) -> Vec<(String, Token)> {
        let secrets = self.secrets.in_namespace(NAMESPACE);
        let tokens = secrets.iter().filter(|secret| token::is_token(secret));
        let read =
            |secret: &TypedObject<Secret>| Some((secret.key().name().to_owned(), secret.decode().ok()?));
        tokens.filter_map(read).collect()
    }
}

async fn write(
    client: &Client,
    object: &TypedObject<ConfigMap>,
    before: &BTreeMap<String, String>,
    after: &BTreeMap<String, String>,
) -> Result<(), Error> {
    let mut data = json!(after);
    for removed in before.keys().filter(|name| !after.contains_key(*name)) {
        data[removed] = Value::Null;
    }
    let version = object.resource_version().to_string();
    let patch = Patch::merge(&json!({"metadata": {"resourceVersion": version}, "data": data}))?;
    let handle = client.dynamic(ConfigMap::resource(), PUBLIC);
    match handle.patch(CLUSTER_INFO, &patch).await {
        Err(status) if status.is_not_found() => Ok(()),
        written => Ok(written.map(drop)?),
    }
}

#[cfg(test)]
mod tests {
    use setpoint_testkit::{Cluster, Component, config_map};

    use super::*;

    fn signatures(cluster: &Cluster) -> Vec<String> {
        let found = cluster.cache::<ConfigMap>().find(&Key::new(PUBLIC, CLUSTER_INFO));
        let map: Map = found.map_or_else(Map::default, |found| found.decode().unwrap());
        let names = map.data.into_keys();
        names
            .filter(|name| name.starts_with(token::SIGNATURE_PREFIX))
            .collect()
    }

    #[tokio::test]
    async fn every_token_signs_until_it_expires() {
        let (cluster, _components) = Cluster::with([Component::Controller("bootstrap-signer")]).await;
        let mut map = config_map(CLUSTER_INFO, KUBECONFIG, "clusters: []");
        map.metadata.namespace = Some(PUBLIC.to_owned());
        cluster
            .client("test")
            .namespaced(PUBLIC)
            .create(&map)
            .await
            .unwrap();
        let expiration = cluster.clock.now() + jiff::SignedDuration::from_mins(5);
        let secret = json!({
            "metadata": {"name": "bootstrap-token-abcdef", "namespace": NAMESPACE},
            "type": "bootstrap.kubernetes.io/token",
            "stringData": {"token-id": "abcdef", "token-secret": "0123456789abcdef",
                "usage-bootstrap-signing": "true", "expiration": api_time::whole_seconds(expiration)},
        });
        let secrets = cluster.client("test").dynamic(Secret::resource(), NAMESPACE);
        secrets.create(secret.to_string()).await.unwrap();
        cluster
            .until("a signature", |cluster| {
                signatures(cluster) == ["jws-kubeconfig-abcdef"]
            })
            .await;
        cluster
            .until("no signature", |cluster| signatures(cluster).is_empty())
            .await;
        assert!(cluster.clock.now() >= api_time::whole_seconds(expiration));
    }
}
