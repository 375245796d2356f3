//! What remote readers and watchers share.

use std::sync::Arc;

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use setpoint_api::options::{ResourceVersionMatch, WatchOptions};
use setpoint_api::{Event, Key, ResourceVersion, Watch};
use setpoint_client::Object;
use setpoint_runtime::{Client, Lister};
use setpoint_testkit::{Cluster, config_map};
use tokio::task::JoinSet;

use crate::remote::RemoteCluster;
use crate::{RunningFactory, clock, in_time};

/// IN17: an object received over HTTPS is cached once for all readers; a copy can be changed without an effect.
#[tokio::test]
async fn in17_a_copy_of_an_object_from_https_is_changed_and_the_cached_one_is_not() {
    let remote = RemoteCluster::open().await;
    remote.create("x").await;
    let running = RunningFactory::over(remote.client.clone());
    let maps: Lister<ConfigMap> = running.factory.lister();
    in_time(running.factory.synced()).await;
    let key = Key::new("default", "x");
    let (found, listed) = (maps.find(&key).unwrap(), maps.in_namespace("default").remove(0));
    let mut copy = found.to_owned().unwrap();
    copy.data.get_or_insert_default().insert("v".into(), "1".into());
    let again = maps.find(&key).unwrap();
    for other in [&listed, &again] {
        assert!(Arc::ptr_eq(found.stored(), other.stored()));
        let (one, other) = (found.shared().unwrap(), other.shared().unwrap());
        assert!(
            std::ptr::eq(&raw const *one, &raw const *other),
            "it is decoded once"
        );
    }
    assert_eq!(again.shared().unwrap().data.as_ref().unwrap()["v"], "0");
    assert!(!String::from_utf8_lossy(again.stored().json()).contains(r#""v":"1""#));
    let server: ConfigMap = remote.cluster.find("x").unwrap();
    assert_eq!(server.data.unwrap()["v"], "0");
}

const CONNECTIONS: usize = 3;
const WATCHERS: usize = 300;
const OBJECTS: usize = 200;
const CHANGES: usize = 20;

/// Creates the objects.
async fn fill(cluster: &Cluster) {
    let maps = cluster.client("test").namespaced::<ConfigMap>("default");
    for number in 0..OBJECTS {
        let map = config_map(&format!("map-{number}"), "v", "0");
        maps.create(&map).await.unwrap();
    }
}

/// Changes some of them, one after the other; returns the expected versions.
async fn change(cluster: &Cluster) -> Vec<ResourceVersion> {
    let maps = cluster.client("test").namespaced::<ConfigMap>("default");
    let mut versions = Vec::new();
    for number in 1..=CHANGES {
        let map = config_map(&format!("map-{}", number % 7), "v", &number.to_string());
        versions.push(maps.update(&map).await.unwrap().resource_version());
    }
    in_time(cluster.cache::<ConfigMap>().reached(cluster.revision())).await;
    versions
}

/// A watch that has sent all initial events.
async fn watch(client: Client) -> Watch {
    let options = WatchOptions {
        send_initial_events: Some(true),
        resource_version_match: Some(ResourceVersionMatch::NotOlderThan),
        allow_watch_bookmarks: true,
        ..WatchOptions::default()
    };
    let maps = client.dynamic(ConfigMap::resource(), "default");
    let mut watch = maps.watch(&options).await.unwrap();
    let mut objects = 0;
    loop {
        match watch.next().await.unwrap() {
            Event::Added(_) => objects += 1,
            Event::Bookmark(mark) if mark.initial_events_end => break,
            other => panic!("{other:?} is no initial event"),
        }
    }
    assert_eq!(objects, OBJECTS);
    watch
}

/// The versions of a watch's events up to the last one.
async fn received(mut watch: Watch, last: ResourceVersion) -> Vec<ResourceVersion> {
    let mut versions = Vec::new();
    while versions.last() != Some(&last) {
        match watch.next().await.unwrap() {
            Event::Modified(map) => versions.push(map.resource_version()),
            Event::Bookmark(_) => {}
            other => panic!("{other:?} did not happen"),
        }
    }
    versions
}

/// IN20, IN19, TR8: hundreds of watchers of hundreds of objects over few connections get everything in order, and the
/// server keeps no more history for them than without watchers.
#[tokio::test]
async fn in20_hundreds_of_watchers_over_https_get_everything_and_share_one_history() {
    let (cluster, alone) = (Cluster::start().await, Cluster::start().await);
    fill(&cluster).await;
    fill(&alone).await;
    let served = cluster.serve_https().await;
    let clients: Vec<_> = (0..CONNECTIONS).map(|_| served.client(clock())).collect();
    let mut opening = JoinSet::new();
    for number in 0..WATCHERS {
        opening.spawn(watch(clients[number % CONNECTIONS].clone()));
    }
    let watches = in_time(opening.join_all()).await;
    let expected = change(&cluster).await;
    change(&alone).await;
    let (kept, kept_alone) = (
        cluster.cache::<ConfigMap>().metrics(),
        alone.cache::<ConfigMap>().metrics(),
    );
    assert_eq!(kept.subscribers, kept_alone.subscribers + WATCHERS);
    assert_eq!(
        (kept.objects, kept.window_changes, kept.window_bytes),
        (
            kept_alone.objects,
            kept_alone.window_changes,
            kept_alone.window_bytes
        )
    );
    let mut listening = JoinSet::new();
    for watch in watches {
        listening.spawn(received(watch, expected[CHANGES - 1]));
    }
    for versions in in_time(listening.join_all()).await {
        assert_eq!(versions, expected);
    }
}
