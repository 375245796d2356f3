//! What can be done to objects, whichever way the server is reached.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use serde_json::json;
use setpoint_api::options::{DeleteOptions, ListOptions, Propagation};
use setpoint_client::{Client, Handle, Object, Patch};
use setpoint_testkit::{config_map, deployment};

use crate::Ways;

fn maps(client: &Client) -> Handle<ConfigMap> {
    client.namespaced("default")
}

/// OC3, CL4: how many there shall be is read and written without the rest of the object, by what can be scaled.
#[tokio::test]
async fn a_scale_is_read_updated_and_patched() {
    let ways = Ways::open().await;
    for (way, client) in ways.all() {
        let web = client.namespaced::<Deployment>("default");
        web.create(&deployment(way).replicas(2).build()).await.unwrap();
        let first = web.scale(way).await.unwrap();
        assert_eq!(first.spec.as_ref().unwrap().replicas, Some(2), "{way}");
        assert_eq!(
            first.status.as_ref().unwrap().selector.as_deref(),
            Some(&*format!("app={way}"))
        );
        let mut wanted = first.clone();
        wanted.spec.as_mut().unwrap().replicas = Some(3);
        let second = web.update_scale(way, &wanted).await.unwrap();
        assert_eq!(second.spec.unwrap().replicas, Some(3), "{way}");
        let stale = web.update_scale(way, &first).await.unwrap_err();
        assert!(stale.is_conflict(), "{way}: {stale}");
        web.scale_to(way, 5).await.unwrap();
        let now = web.get(way).await.unwrap().to_owned().unwrap();
        assert_eq!(now.spec.replicas, Some(5), "{way}");
        let missing = web.scale("missing").await.unwrap_err();
        assert!(missing.is_not_found(), "{way}: {missing}");
    }
}

#[tokio::test]
async fn a_dry_run_says_what_would_come_of_it_and_does_nothing() {
    let ways = Ways::open().await;
    for (way, client) in ways.all() {
        let (real, dry) = (maps(&client), maps(&client.dry_run()));
        let would_be = dry.create(&config_map(way, "v", "1")).await.unwrap();
        assert!(!would_be.uid().is_empty(), "{way}");
        assert!(real.get(way).await.unwrap_err().is_not_found(), "{way}");
        let created = real.create(&config_map(way, "v", "1")).await.unwrap();
        let updated = dry.update(&config_map(way, "v", "2")).await.unwrap();
        assert_eq!(updated.to_owned().unwrap().data.unwrap()["v"], "2", "{way}");
        let patch = Patch::merge(&json!({"data": {"v": "3"}})).unwrap();
        dry.patch(way, &patch).await.unwrap();
        dry.delete(way, DeleteOptions::default()).await.unwrap();
        dry.delete_all(DeleteOptions::default(), ListOptions::default())
            .await
            .unwrap();
        let kept = real.get(way).await.unwrap();
        assert_eq!(kept.resource_version(), created.resource_version(), "{way}");
    }
}

/// What the server says besides, in the order it says it.
fn hearing(client: &Client) -> (Client, Arc<Mutex<Vec<String>>>) {
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let own = heard.clone();
    (
        client.on_warning(move |warning| own.lock().push(warning.to_owned())),
        heard,
    )
}

#[tokio::test]
async fn a_field_that_nobody_knows_is_a_warning_or_a_refusal() {
    let ways = Ways::open().await;
    for (way, client) in ways.all() {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": way}, "dta": {}});
        let (client, heard) = hearing(&client);
        let (lax, strict) = (maps(&client), maps(&client.strict()));
        let refused = strict.dynamic().create(map.to_string()).await.unwrap_err();
        assert_eq!(refused.code, 400, "{way}: {refused}");
        assert!(
            refused
                .message
                .contains("strict decoding error: unknown field \"dta\""),
            "{way}: {refused}"
        );
        assert!(heard.lock().is_empty(), "{way}");
        lax.dynamic().create(map.to_string()).await.unwrap();
        assert_eq!(*heard.lock(), ["unknown field \"dta\""], "{way}");
    }
}

#[tokio::test]
async fn a_delete_may_be_of_this_very_object_only() {
    let ways = Ways::open().await;
    for (way, client) in ways.all() {
        let maps = maps(&client);
        let map = maps.create(&config_map(way, "v", "1")).await.unwrap();
        let refused = maps
            .delete(way, DeleteOptions::of_uid("other"))
            .await
            .unwrap_err();
        assert!(refused.is_conflict(), "{way}: {refused}");
        let at = |version: String| DeleteOptions {
            resource_version: Some(version),
            ..DeleteOptions::default()
        };
        let refused = maps.delete(way, at("1".to_owned())).await.unwrap_err();
        assert!(refused.is_conflict(), "{way}: {refused}");
        let both = DeleteOptions {
            uid: Some(map.uid().to_owned()),
            ..at(map.resource_version().to_string())
        };
        maps.delete(way, both).await.unwrap();
        assert!(maps.get(way).await.unwrap_err().is_not_found(), "{way}");
    }
}

/// What becomes of what the deleted object owns is left to a finalizer, if it is to be more than let go.
#[tokio::test]
async fn a_delete_says_what_becomes_of_what_is_owned() {
    let ways = Ways::open().await;
    for (way, client) in ways.all() {
        for (propagation, finalizer) in [
            (Propagation::Foreground, Some("foregroundDeletion")),
            (Propagation::Orphan, Some("orphan")),
            (Propagation::Background, None),
        ] {
            let sets = client.namespaced::<Deployment>("default");
            let name = format!("{way}-{propagation:?}").to_lowercase();
            sets.create(&deployment(&name).build()).await.unwrap();
            let options = DeleteOptions {
                propagation: Some(propagation),
                ..DeleteOptions::default()
            };
            sets.delete(&name, options).await.unwrap();
            let left = sets.get(&name).await.ok().map(|left| left.to_owned().unwrap());
            let finalizers = left.and_then(|left| left.meta().finalizers.clone());
            let expected = finalizer.map(|finalizer| vec![finalizer.to_owned()]);
            assert_eq!(finalizers, expected, "{name}");
        }
    }
}

#[tokio::test]
async fn a_collection_is_deleted_as_far_as_it_is_selected() {
    let ways = Ways::open().await;
    for (way, client) in ways.all() {
        let maps = maps(&client);
        for (name, tier) in [("a", "front"), ("b", "front"), ("c", "back")] {
            let mut map = config_map(&format!("{way}-{name}"), "v", "1");
            let labels = [("tier", tier), ("way", way)];
            map.metadata.labels = Some(
                labels
                    .map(|(key, value)| (key.to_owned(), value.to_owned()))
                    .into(),
            );
            maps.create(&map).await.unwrap();
        }
        let of = |labels: String| ListOptions {
            labels: labels.parse().unwrap(),
            ..ListOptions::default()
        };
        maps.delete_all(DeleteOptions::default(), of(format!("tier=front,way={way}")))
            .await
            .unwrap();
        let left = maps.list(&of(format!("way={way}"))).await.unwrap();
        let names: Vec<&str> = left.items.iter().map(|map| map.key().name()).collect();
        assert_eq!(names, [format!("{way}-c")], "{way}");
    }
}
