//! The verbs, with every kind of client.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use serde_json::json;
use setpoint_api::options::{DeleteOptions, DeletionPropagation, ListOptions};
use setpoint_client::{Api, Client, Object, Patch};
use setpoint_testkit::{config_map, deployment};

use crate::Clients;

fn maps(client: &Client) -> Api<ConfigMap> {
    client.namespaced("default")
}

/// OC3, CL4: the scale subresource is read and written without the rest of the object.
#[tokio::test]
async fn a_scale_is_read_updated_and_patched() {
    let clients = Clients::start().await;
    for (kind, client) in clients.all() {
        let web = client.namespaced::<Deployment>("default");
        web.create(&deployment(kind).replicas(2).build()).await.unwrap();
        let first = web.get_scale(kind).await.unwrap();
        assert_eq!(first.spec.as_ref().unwrap().replicas, Some(2), "{kind}");
        assert_eq!(
            first.status.as_ref().unwrap().selector.as_deref(),
            Some(&*format!("app={kind}"))
        );
        let mut changed = first.clone();
        changed.spec.as_mut().unwrap().replicas = Some(3);
        let second = web.update_scale(kind, &changed).await.unwrap();
        assert_eq!(second.spec.unwrap().replicas, Some(3), "{kind}");
        let stale = web.update_scale(kind, &first).await.unwrap_err();
        assert!(stale.is_conflict(), "{kind}: {stale}");
        web.scale_to(kind, 5).await.unwrap();
        let now = web.get(kind).await.unwrap().to_owned().unwrap();
        assert_eq!(now.spec.replicas, Some(5), "{kind}");
        let missing = web.get_scale("missing").await.unwrap_err();
        assert!(missing.is_not_found(), "{kind}: {missing}");
    }
}

#[tokio::test]
async fn a_dry_run_returns_the_result_and_stores_nothing() {
    let clients = Clients::start().await;
    for (kind, client) in clients.all() {
        let (real, dry) = (maps(&client), maps(&client.dry_run()));
        let would_be = dry.create(&config_map(kind, "v", "1")).await.unwrap();
        assert!(!would_be.uid().is_empty(), "{kind}");
        assert!(real.get(kind).await.unwrap_err().is_not_found(), "{kind}");
        let created = real.create(&config_map(kind, "v", "1")).await.unwrap();
        let updated = dry.update(&config_map(kind, "v", "2")).await.unwrap();
        assert_eq!(updated.to_owned().unwrap().data.unwrap()["v"], "2", "{kind}");
        let patch = Patch::merge(&json!({"data": {"v": "3"}})).unwrap();
        dry.patch(kind, &patch).await.unwrap();
        dry.delete(kind, DeleteOptions::default()).await.unwrap();
        dry.delete_collection(DeleteOptions::default(), ListOptions::default())
            .await
            .unwrap();
        let stored = real.get(kind).await.unwrap();
        assert_eq!(stored.resource_version(), created.resource_version(), "{kind}");
    }
}

/// The client, with its warnings recorded in order.
fn with_recorded_warnings(client: &Client) -> (Client, Arc<Mutex<Vec<String>>>) {
    let warnings: Arc<Mutex<Vec<String>>> = Arc::default();
    let own = warnings.clone();
    (
        client.on_warning(move |warning| own.lock().push(warning.to_owned())),
        warnings,
    )
}

#[tokio::test]
async fn an_unknown_field_is_a_warning_or_an_error() {
    let clients = Clients::start().await;
    for (kind, client) in clients.all() {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": kind}, "dta": {}});
        let (client, warnings) = with_recorded_warnings(&client);
        let (lax, strict) = (maps(&client), maps(&client.strict()));
        let error = strict.dynamic().create(map.to_string()).await.unwrap_err();
        assert_eq!(error.code, 400, "{kind}: {error}");
        assert!(
            error
                .message
                .contains("strict decoding error: unknown field \"dta\""),
            "{kind}: {error}"
        );
        assert!(warnings.lock().is_empty(), "{kind}");
        lax.dynamic().create(map.to_string()).await.unwrap();
        assert_eq!(*warnings.lock(), ["unknown field \"dta\""], "{kind}");
    }
}

#[tokio::test]
async fn a_delete_may_have_preconditions() {
    let clients = Clients::start().await;
    for (kind, client) in clients.all() {
        let maps = maps(&client);
        let map = maps.create(&config_map(kind, "v", "1")).await.unwrap();
        let error = maps
            .delete(kind, DeleteOptions::with_uid("other"))
            .await
            .unwrap_err();
        assert!(error.is_conflict(), "{kind}: {error}");
        let at = |version: String| DeleteOptions {
            resource_version: Some(version),
            ..DeleteOptions::default()
        };
        let error = maps.delete(kind, at("1".to_owned())).await.unwrap_err();
        assert!(error.is_conflict(), "{kind}: {error}");
        let both = DeleteOptions {
            uid: Some(map.uid().to_owned()),
            ..at(map.resource_version().to_string())
        };
        maps.delete(kind, both).await.unwrap();
        assert!(maps.get(kind).await.unwrap_err().is_not_found(), "{kind}");
    }
}

/// Foreground and orphan propagation are left to a finalizer.
#[tokio::test]
async fn a_delete_has_its_propagation_policy() {
    let clients = Clients::start().await;
    for (kind, client) in clients.all() {
        for (propagation, finalizer) in [
            (DeletionPropagation::Foreground, Some("foregroundDeletion")),
            (DeletionPropagation::Orphan, Some("orphan")),
            (DeletionPropagation::Background, None),
        ] {
            let sets = client.namespaced::<Deployment>("default");
            let name = format!("{kind}-{propagation:?}").to_lowercase();
            sets.create(&deployment(&name).build()).await.unwrap();
            let options = DeleteOptions {
                propagation_policy: Some(propagation),
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
async fn a_collection_is_deleted_by_selector() {
    let clients = Clients::start().await;
    for (kind, client) in clients.all() {
        let maps = maps(&client);
        for (name, tier) in [("a", "front"), ("b", "front"), ("c", "back")] {
            let mut map = config_map(&format!("{kind}-{name}"), "v", "1");
            let labels = [("tier", tier), ("kind", kind)];
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
        maps.delete_collection(DeleteOptions::default(), of(format!("tier=front,kind={kind}")))
            .await
            .unwrap();
        let left = maps.list(&of(format!("kind={kind}"))).await.unwrap();
        let names: Vec<&str> = left.items.iter().map(|map| map.key().name()).collect();
        assert_eq!(names, [format!("{kind}-c")], "{kind}");
    }
}
