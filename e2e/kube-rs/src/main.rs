//! Tests of kube-rs against a server: create, read, update, patch, watch, reflector, pagination, conflict, apply, delete.
//!
//! The server is the one of `$KUBECONFIG`. Each test is a function and prints one line with its outcome.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{
    Api, DeleteParams, DynamicObject, ListParams, ObjectMeta, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube::runtime::{WatchStreamExt, reflector, watcher};
use kube::{Client, ResourceExt, discovery};
use serde_json::json;

const NAMESPACE: &str = "kube-rs";
const TIMEOUT: Duration = Duration::from_secs(30);

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            println!("cannot start: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Runs all tests and returns the number of failures.
async fn run() -> Result<usize> {
    let client = Client::try_default().await?;
    let namespace = Namespace {
        metadata: named(NAMESPACE),
        ..Namespace::default()
    };
    Api::<Namespace>::all(client.clone()).create(&PostParams::default(), &namespace).await?;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let mut failed = 0;
    let mut report = |name: &str, outcome: Result<()>| match outcome {
        Ok(()) => println!("ok      {name}"),
        Err(error) => {
            failed += 1;
            println!("FAILED  {name}: {error:#}");
        }
    };
    report("objects are created, read, updated and deleted", crud(&maps).await);
    report("the second of two writers gets a conflict", conflict(&maps).await);
    report("an object is patched with several patch types", patches(&maps).await);
    report("a server-side apply owns its fields and reports conflicts", apply(&maps).await);
    report("a list is paginated", pages(&maps).await);
    report("a watch delivers every change", changes(&maps).await);
    report("a reflector delivers the existing objects and then the changes", reflect(&maps).await);
    report("a kind from discovery is read", discover(&client, &maps).await);
    println!("kube-rs: {failed} failed");
    Ok(failed)
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    }
}

fn map(name: &str, value: &str) -> ConfigMap {
    ConfigMap {
        metadata: named(name),
        data: Some(BTreeMap::from([("a".to_owned(), value.to_owned())])),
        ..ConfigMap::default()
    }
}

fn labelled(name: &str, label: &str) -> ConfigMap {
    let mut map = map(name, "1");
    map.metadata.labels = Some(BTreeMap::from([("of".to_owned(), label.to_owned())]));
    map
}

/// Fails unless the call was rejected with this status code.
fn expect_status<T>(code: u16, outcome: kube::Result<T>) -> Result<()> {
    match outcome {
        Ok(_) => bail!("the call succeeded, expected {code}"),
        Err(kube::Error::Api(status)) if status.code == code => Ok(()),
        Err(error) => bail!("expected {code}, got {error}"),
    }
}

async fn crud(maps: &Api<ConfigMap>) -> Result<()> {
    let mut created = maps.create(&PostParams::default(), &map("crud", "1")).await?;
    created.data.get_or_insert_default().insert("b".to_owned(), "2".to_owned());
    let updated = maps.replace("crud", &PostParams::default(), &created).await?;
    ensure!(maps.get("crud").await? == updated);
    maps.delete("crud", &DeleteParams::default()).await?;
    expect_status(404, maps.get("crud").await)
}

async fn conflict(maps: &Api<ConfigMap>) -> Result<()> {
    let one = maps.create(&PostParams::default(), &map("contested", "1")).await?;
    let mut newer = one.clone();
    newer.data = map("", "2").data;
    maps.replace("contested", &PostParams::default(), &newer).await?;
    let mut older = one;
    older.data = map("", "3").data;
    expect_status(409, maps.replace("contested", &PostParams::default(), &older).await)?;
    expect_status(409, maps.create(&PostParams::default(), &map("contested", "1")).await)
}

async fn patches(maps: &Api<ConfigMap>) -> Result<()> {
    maps.create(&PostParams::default(), &map("patched", "1")).await?;
    let params = PatchParams::default();
    maps.patch("patched", &params, &Patch::Merge(json!({"data": {"m": "1"}}))).await?;
    maps.patch("patched", &params, &Patch::Strategic(json!({"data": {"s": "1", "a": null}}))).await?;
    let read = maps.get("patched").await?;
    let keys: Vec<String> = read.data.unwrap_or_default().into_keys().collect();
    ensure!(keys == ["m", "s"], "read {keys:?}");
    expect_status(404, maps.patch("absent", &params, &Patch::Merge(json!({}))).await)
}

async fn apply(maps: &Api<ConfigMap>) -> Result<()> {
    let object = |value: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": {"a": value}})
    };
    let applied = maps.patch("applied", &PatchParams::apply("one"), &Patch::Apply(object("1"))).await?;
    let managers = applied.managed_fields();
    ensure!(managers.iter().any(|entry| entry.manager.as_deref() == Some("one")), "{managers:?}");
    let second = PatchParams::apply("two");
    expect_status(409, maps.patch("applied", &second, &Patch::Apply(object("2"))).await)?;
    maps.patch("applied", &second.force(), &Patch::Apply(object("2"))).await?;
    Ok(())
}

async fn pages(maps: &Api<ConfigMap>) -> Result<()> {
    for number in 0..7 {
        let map = labelled(&format!("page-{number}"), "pages");
        maps.create(&PostParams::default(), &map).await?;
    }
    let mut params = ListParams::default().labels("of=pages").limit(3);
    let mut names = Vec::new();
    loop {
        let page = maps.list(&params).await?;
        names.extend(page.items.iter().map(ResourceExt::name_any));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => break,
        }
    }
    let expected: Vec<String> = (0..7).map(|number| format!("page-{number}")).collect();
    ensure!(names == expected, "read {names:?}");
    Ok(())
}

async fn changes(maps: &Api<ConfigMap>) -> Result<()> {
    let start = maps.list(&ListParams::default()).await?.metadata.resource_version.unwrap_or_default();
    let params = WatchParams::default().fields("metadata.name=watched");
    let mut events = maps.watch(&params, &start).await?.boxed();
    maps.create(&PostParams::default(), &map("watched", "1")).await?;
    maps.patch("watched", &PatchParams::default(), &Patch::Merge(json!({"data": {"a": "2"}}))).await?;
    maps.delete("watched", &DeleteParams::default()).await?;
    for expected in ["added", "modified", "deleted"] {
        let event = tokio::time::timeout(TIMEOUT, events.try_next()).await??;
        let seen = match event {
            Some(WatchEvent::Added(_)) => "added",
            Some(WatchEvent::Modified(_)) => "modified",
            Some(WatchEvent::Deleted(_)) => "deleted",
            _ => "something else",
        };
        ensure!(seen == expected, "expected {expected}, got {seen}");
    }
    Ok(())
}

async fn reflect(maps: &Api<ConfigMap>) -> Result<()> {
    maps.create(&PostParams::default(), &labelled("mirror-0", "mirror")).await?;
    for config in [watcher::Config::default(), watcher::Config::default().streaming_lists()] {
        let (store, writer) = reflector::store();
        let changes = watcher(maps.clone(), config.labels("of=mirror"));
        let mut applied = reflector(writer, changes).applied_objects().boxed();
        let first = tokio::time::timeout(TIMEOUT, applied.try_next()).await??;
        ensure!(first.is_some_and(|map| map.name_any() == "mirror-0"));
        let patch = Patch::Merge(json!({"data": {"a": store.len().to_string()}}));
        maps.patch("mirror-0", &PatchParams::default(), &patch).await?;
        maps.patch("mirror-0", &PatchParams::default(), &Patch::Merge(json!({"data": {"a": "1"}}))).await?;
    }
    Ok(())
}

async fn discover(client: &Client, maps: &Api<ConfigMap>) -> Result<()> {
    maps.create(&PostParams::default(), &map("found", "1")).await?;
    let core = discovery::group(client, "").await?;
    let Some((resource, _)) = core.recommended_kind("ConfigMap") else {
        bail!("discovery has no ConfigMap");
    };
    let objects: Api<DynamicObject> = Api::namespaced_with(client.clone(), NAMESPACE, &resource);
    let read = objects.get("found").await?;
    ensure!(read.data["data"]["a"] == "1", "read {:?}", read.data);
    Ok(())
}
