//! Many clients at once, each with a connection of its own.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster;

use std::collections::BTreeMap;

use cluster::Cluster;
use k8s_openapi::api::core::v1::ConfigMap;
use setpoint_api::ResourceVersion;
use setpoint_api::options::{DeleteOptions, ListOptions};
use setpoint_client::Api;
use tokio::task::JoinSet;

fn map(name: &str, value: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    map.data = Some(BTreeMap::from([("k".to_owned(), value.to_owned())]));
    map
}

/// OC1
#[tokio::test(flavor = "multi_thread")]
async fn oc1_of_a_hundred_updates_from_one_version_one_wins() {
    let cluster = Cluster::new(&["--nodes", "0", "--controllers", "none"]);
    let created = cluster
        .client()
        .namespaced::<ConfigMap>("default")
        .create(&map("one", "start"))
        .await
        .unwrap();
    let mut updates = JoinSet::new();
    for number in 0..100 {
        let maps = cluster.client().namespaced::<ConfigMap>("default");
        let mut changed = created.to_owned().unwrap();
        changed.data = Some(BTreeMap::from([("k".to_owned(), number.to_string())]));
        updates.spawn(async move { maps.update(&changed).await });
    }
    let outcomes = updates.join_all().await;
    let (won, lost): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
    assert_eq!((won.len(), lost.len()), (1, 99));
    for status in lost.into_iter().filter_map(Result::err) {
        assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));
        assert_eq!(
            status.message,
            "Operation cannot be fulfilled on configmaps \"one\": the object has been modified; please apply your changes to the latest version and try again"
        );
    }
}

/// The names on all pages of a list, read while others write.
async fn names_by_page(
    maps: &Api<ConfigMap>,
    meanwhile: impl AsyncFn(usize),
) -> (Vec<String>, Vec<ResourceVersion>) {
    let (mut names, mut versions) = (Vec::new(), Vec::new());
    let mut options = ListOptions {
        limit: Some(7),
        ..ListOptions::default()
    };
    loop {
        let page = maps.list(&options).await.unwrap();
        names.extend(page.items.iter().map(|item| item.key().name().to_owned()));
        versions.push(page.resource_version);
        options.continue_token = page.continue_token.clone();
        if options.continue_token.is_none() {
            return (names, versions);
        }
        meanwhile(versions.len()).await;
    }
}

/// OC11
#[tokio::test(flavor = "multi_thread")]
async fn oc11_the_pages_of_a_list_are_one_snapshot() {
    let cluster = Cluster::new(&["--nodes", "0", "--controllers", "none"]);
    let maps = cluster.client().namespaced::<ConfigMap>("default");
    for number in 0..30 {
        maps.create(&map(&format!("m{number:02}"), "x")).await.unwrap();
    }
    let writer = cluster.client().namespaced::<ConfigMap>("default");
    let (names, versions) = names_by_page(&maps, async |page| {
        writer.create(&map(&format!("new{page}"), "x")).await.unwrap();
        writer
            .delete(&format!("m{:02}", 29 - page), DeleteOptions::default())
            .await
            .unwrap();
    })
    .await;
    let expected: Vec<String> = (0..30).map(|number| format!("m{number:02}")).collect();
    assert_eq!(names, expected);
    assert!(versions.windows(2).all(|pair| pair[0] == pair[1]), "{versions:?}");
}
