//! The controller against a real registry.

use setpoint_api::options::DeleteOptions;
use setpoint_testkit::{Cluster, Component, namespace};

use super::*;

fn has_account(cluster: &Cluster, namespace: &str) -> bool {
    let accounts = cluster.cache::<ServiceAccount>();
    accounts.find(&Key::new(namespace, "default")).is_some()
}

#[tokio::test]
async fn every_namespace_has_an_account_old_or_new() {
    let (cluster, _components) = Cluster::with([Component::Controller("serviceaccount")]).await;
    cluster
        .until("the account of default", |cluster| {
            has_account(cluster, "default")
        })
        .await;
    cluster
        .client("test")
        .all()
        .create(&namespace("team"))
        .await
        .unwrap();
    cluster
        .until("the account of team", |cluster| has_account(cluster, "team"))
        .await;
}

#[tokio::test]
async fn a_deleted_account_is_recreated() {
    let (cluster, _components) = Cluster::with([Component::Controller("serviceaccount")]).await;
    cluster
        .until("the account", |cluster| has_account(cluster, "default"))
        .await;
    let accounts = cluster.client("test").namespaced::<ServiceAccount>("default");
    let old = accounts.get("default").await.unwrap().uid().to_owned();
    accounts
        .delete("default", DeleteOptions::default())
        .await
        .unwrap();
    cluster
        .until("another account", |cluster| {
            let found = cluster
                .cache::<ServiceAccount>()
                .find(&Key::new("default", "default"));
            found.is_some_and(|account| account.uid() != old)
        })
        .await;
}
