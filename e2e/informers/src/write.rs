//! The writer: creates the pods, and changes them.

use std::time::Duration;

use anyhow::Result;
use futures::StreamExt;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::task::JoinSet;

use crate::measure::now_micros;

pub(crate) const NAMESPACE: &str = "informers";
/// The label with the time at which a change was sent.
pub(crate) const STAMP: &str = "stamp";
/// Concurrent requests.
const CONCURRENCY: usize = 64;

/// Creates this many pods of the form that a Deployment creates.
pub(crate) async fn seed(pods: usize) -> Result<()> {
    let client = Client::try_default().await?;
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": NAMESPACE}}))?;
    // An earlier run may have created it.
    let _ = Api::<Namespace>::all(client.clone())
        .create(&PostParams::default(), &namespace)
        .await;
    let api: Api<Pod> = Api::namespaced(client, NAMESPACE);
    let create = |number: usize| {
        let api = api.clone();
        async move {
            let created = api.create(&PostParams::default(), &pod(number)?).await;
            match created {
                Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
                outcome => outcome.map(drop).map_err(anyhow::Error::from),
            }
        }
    };
    let mut created = futures::stream::iter((0..pods).map(create)).buffer_unordered(CONCURRENCY);
    while let Some(outcome) = created.next().await {
        outcome?;
    }
    Ok(())
}

/// Sends this many changes, at a steady rate per second or as fast as the server responds, each with the time at which it
/// is sent.
pub(crate) async fn changes(events: usize, rate: Option<u64>) -> Result<()> {
    let api: Api<Pod> = Api::namespaced(Client::try_default().await?, NAMESPACE);
    let mut ticks = rate.map(|rate| tokio::time::interval(Duration::from_micros(1_000_000 / rate)));
    let mut requests = JoinSet::new();
    for number in 0..events {
        if let Some(ticks) = &mut ticks {
            ticks.tick().await;
        }
        let api = api.clone();
        requests.spawn(async move {
            let patch = json!({"metadata": {"labels": {STAMP: now_micros().to_string()}}});
            api.patch_metadata(
                &name(number % 1000),
                &PatchParams::default(),
                &Patch::Merge(patch),
            )
            .await
        });
        while requests.len() >= CONCURRENCY {
            requests.join_next().await.transpose()?.transpose()?;
        }
    }
    while let Some(outcome) = requests.join_next().await {
        outcome??;
    }
    Ok(())
}

fn name(number: usize) -> String {
    format!("web-7d4b9c6f5-{number:05}")
}

fn pod(number: usize) -> Result<Pod> {
    let env: Vec<_> = (0..8)
        .map(|i| json!({"name": format!("SETTING_{i}"), "value": format!("a value of the usual length, number {i}")}))
        .collect();
    Ok(serde_json::from_value(json!({
        "metadata": {
            "name": name(number),
            "labels": {"app": "web", "pod-template-hash": "7d4b9c6f5", "tier": "frontend"},
            "annotations": {"example.com/checksum": "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-7d4b9c6f5",
                "uid": "5f7c1b0e-2f58-4a57-9d3e-6a1d8f2f4b10", "controller": true, "blockOwnerDeletion": true}],
        },
        "spec": {
            "containers": [{
                "name": "web", "image": "registry.example.com/team/web:v1.2.3", "env": env,
                "ports": [{"containerPort": 8080, "name": "http"}],
                "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
                "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080}},
            }],
        },
    }))?)
}
