//! Large requests run off the worker threads: with one worker, a small request is served while a large one computes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster;

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::task::Poll;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

use cluster::{Cluster, config_map, parse};
use setpoint_api::options::ListOptions;
use setpoint_api::{ResourceVersion, Status};
use setpoint_registry_api::{Admit, AdmitFuture, Review};

/// Admission that keeps its thread busy while it reviews the object `large`, until the test lets it go on.
struct BusyAdmission {
    entered: SyncSender<()>,
    go_on: Mutex<Receiver<()>>,
}

impl Admit for BusyAdmission {
    fn mutate<'a>(&'a self, review: &'a mut Review<'_>) -> AdmitFuture<'a> {
        Box::pin(async move {
            if review
                .object
                .as_ref()
                .and_then(|object| object.str_at(&["data", "busy"]))
                == Some("yes")
            {
                self.entered.send(()).unwrap();
                self.go_on.lock().recv().unwrap();
            }
            Ok(())
        })
    }

    fn validate<'a>(&'a self, _review: &'a mut Review<'_>) -> AdmitFuture<'a> {
        Box::pin(async { Ok(()) })
    }
}

fn large(data: Value) -> String {
    let mut body = parse(&config_map("large"));
    body["data"] = data;
    body.to_string()
}

/// Runs a request that keeps its thread busy, and a small one meanwhile.
async fn check(cluster: Cluster, request: String, (entered, go_on): (Receiver<()>, SyncSender<()>)) {
    let cluster = Arc::new(cluster);
    let mut requests: JoinSet<Result<(), Status>> = JoinSet::new();
    let busy = cluster.clone();
    requests.spawn(async move { busy.update(&parse(&request), "").await.map(drop) });
    entered.recv().unwrap();
    let mut small = JoinSet::new();
    small.spawn(async move { cluster.create(&config_map("small")).await.map(drop) });
    small.join_next().await.unwrap().unwrap().unwrap();
    go_on.send(()).unwrap();
    requests.join_next().await.unwrap().unwrap().unwrap();
}

async fn busy_cluster() -> (Cluster, (Receiver<()>, SyncSender<()>)) {
    let (entered, has_entered) = sync_channel(1);
    let (go_on, may_go_on) = sync_channel(1);
    let admission = BusyAdmission {
        entered,
        go_on: Mutex::new(may_go_on),
    };
    let cluster = Cluster::with_admission(Arc::new(admission)).await;
    (cluster, (has_entered, go_on))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_small_request_is_served_while_a_large_body_is_processed() {
    let (cluster, signals) = busy_cluster().await;
    cluster.create(&large(json!({}))).await.unwrap();
    let body = large(json!({"busy": "yes", "text": "x".repeat(200_000)}));
    check(cluster, body, signals).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_small_request_is_served_while_a_large_stored_object_is_updated() {
    let (cluster, signals) = busy_cluster().await;
    cluster
        .create(&large(json!({"text": "x".repeat(200_000)})))
        .await
        .unwrap();
    check(cluster, large(json!({"busy": "yes"})), signals).await;
}

/// Admission that waits, as for a slow webhook, while it reviews the object `waiting`.
struct WaitingAdmission {
    entered: mpsc::Sender<()>,
    go_on: Semaphore,
}

impl Admit for WaitingAdmission {
    fn mutate<'a>(&'a self, review: &'a mut Review<'_>) -> AdmitFuture<'a> {
        Box::pin(async move {
            if review.name == "waiting" {
                self.entered.send(()).await.unwrap();
                self.go_on.acquire().await.unwrap().forget();
            }
            Ok(())
        })
    }

    fn validate<'a>(&'a self, _review: &'a mut Review<'_>) -> AdmitFuture<'a> {
        Box::pin(async { Ok(()) })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn large_requests_that_wait_for_a_webhook_hold_no_slot() {
    let waiting = std::thread::available_parallelism().unwrap().get();
    let (entered, mut has_entered) = mpsc::channel(waiting);
    let admission = Arc::new(WaitingAdmission {
        entered,
        go_on: Semaphore::new(0),
    });
    let cluster = Arc::new(Cluster::with_admission(admission.clone()).await);
    let large = |name: &str| {
        let mut body = parse(&config_map(name));
        body["data"] = json!({"text": "x".repeat(200_000)});
        body.to_string()
    };
    let mut requests = JoinSet::new();
    for _ in 0..waiting {
        let (cluster, body) = (cluster.clone(), large("waiting"));
        requests.spawn(async move { cluster.create(&body).await.map(drop) });
    }
    for _ in 0..waiting {
        has_entered.recv().await.unwrap();
    }
    cluster.create(&large("other")).await.unwrap();
    admission.go_on.add_permits(waiting);
    let outcomes = requests.join_all().await;
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1);
}

/// Polls a future once.
async fn is_pending<T>(future: &mut (impl Future<Output = T> + Unpin)) -> bool {
    poll_fn(|context| Poll::Ready(Pin::new(&mut *future).poll(context).is_pending())).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_large_selection_takes_a_slot() {
    let (cluster, (entered, go_on)) = busy_cluster().await;
    let cluster = Arc::new(cluster);
    let slots = std::thread::available_parallelism().unwrap().get().div_ceil(2);
    let mut requests = JoinSet::new();
    for number in 0..slots {
        let name = format!("busy-{number}");
        cluster.create(&config_map(&name)).await.unwrap();
        let mut body = parse(&config_map(&name));
        body["data"] = json!({"busy": "yes", "text": "x".repeat(200_000)});
        let busy = cluster.clone();
        requests.spawn(async move { busy.update(&body, "").await.map(drop) });
        entered.recv().unwrap();
    }
    let list = |labels: &str| {
        let options = ListOptions {
            labels: labels.parse().unwrap(),
            resource_version: Some(ResourceVersion::ZERO),
            ..ListOptions::default()
        };
        Box::pin(cluster.list("configmaps", options))
    };
    assert!(!is_pending(&mut list("!a")).await);
    let requirements: Vec<String> = (0..=10_000).map(|number| format!("!a{number}")).collect();
    let mut large = list(&requirements.join(","));
    assert!(is_pending(&mut large).await);
    for _ in 0..slots {
        go_on.send(()).unwrap();
    }
    assert!(large.await.unwrap().items.len() >= slots);
    requests
        .join_all()
        .await
        .into_iter()
        .for_each(|outcome| outcome.unwrap());
}
