//! The contenders: each keeps all pods and calls its handlers for every change.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::Api;
use kube::runtime::{WatchStreamExt, reflector, watcher};
use serde_json::json;
use setpoint_api::{Change, SystemClock, User};
use setpoint_client::kubeconfig::Connection;
use setpoint_client::{Client, Http, Object, Typed};
use setpoint_runtime::factory::{Factory, Wishes};
use setpoint_runtime::informer::Notice;
use setpoint_runtime::reflector::Scope;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::measure::{cpu_micros, memory_kib, now_micros, percentile};
use crate::write::{NAMESPACE, STAMP};

/// What the handlers of all consumers write down.
#[derive(Clone, Default)]
struct Told {
    delays: Arc<Mutex<Vec<u64>>>,
    more: Arc<Notify>,
}

/// What runs until it is dropped.
type Running = JoinSet<()>;

/// How long it is left alone before its memory is looked at.
const REST: Duration = Duration::from_secs(2);
/// When nothing comes for so long, nothing will.
const PATIENCE: Duration = Duration::from_secs(10);

/// Follows until each consumer has heard of so many changes. Prints what the start took, then what the changes did.
pub(crate) async fn follow(library: &str, consumers: usize, pods: usize, events: usize) -> Result<()> {
    let (before, _) = memory_kib();
    let (told, started, cpu) = (Told::default(), Instant::now(), cpu_micros());
    let _running = match library {
        "setpoint" | "setpoint-decoding" => setpoint(consumers, pods, library != "setpoint", &told).await?,
        "kube" => kube_each(consumers, pods, &told).await?,
        "kube-shared" => kube_shared(consumers, pods, &told).await?,
        _ => bail!("nobody is called {library:?}"),
    };
    let (synced, cpu) = (started.elapsed(), cpu_micros() - cpu);
    tokio::time::sleep(REST).await;
    let (after, most) = memory_kib();
    // What was told at the start counts no more; what comes from here on was written after the line below.
    told.delays.lock().expect("nobody panics").clear();
    println!(
        "{}",
        json!({
            "library": library, "consumers": consumers, "pods": pods,
            "sync_ms": synced.as_millis() as u64, "sync_cpu_ms": (cpu / 1e3) as u64,
            "memory_mib": (after - before) / 1024, "peak_mib": most / 1024,
        })
    );
    let cpu = cpu_micros();
    told.until(events * consumers).await;
    let cpu = cpu_micros() - cpu;
    let mut delays = told.delays.lock().expect("nobody panics").clone();
    delays.sort_unstable();
    println!(
        "{}",
        json!({
            "events": events, "heard": delays.len() / consumers, "cpu_us_per_event": (cpu / events as f64 * 10.0).round() / 10.0,
            "delay_us_p50": percentile(&delays, 500), "delay_us_p99": percentile(&delays, 990),
        })
    );
    Ok(())
}

/// One informer with a handler for each consumer.
async fn setpoint(consumers: usize, pods: usize, decodes: bool, told: &Told) -> Result<Running> {
    let http = Http::new(&Connection::infer()?)?;
    let client = Client::new(Arc::new(http), Arc::new(User::default()));
    let factory = Factory::new(client, Arc::new(SystemClock::new()));
    let scope = Scope {
        namespace: NAMESPACE.to_owned(),
        ..Scope::default()
    };
    let informer = factory.informer(<Pod as Object>::resource(), scope);
    let mut places = Vec::new();
    for _ in 0..consumers {
        let told = told.clone();
        places.push(informer.add_handler(Wishes::default(), move |notice| {
            if let Notice::Changed(Change::Modified { new, .. }) = notice {
                if decodes {
                    let pod: Arc<Pod> = Typed::new(new.clone()).shared().expect("a pod is a pod");
                    assert!(pod.spec.is_some());
                }
                told.hear(new.label(STAMP));
            }
        })?);
    }
    let mut running = JoinSet::new();
    running.spawn(async move {
        let _ = factory.run(CancellationToken::new()).await;
    });
    for place in &places {
        place.synced().await;
    }
    assert_eq!(informer.cache().snapshot().len(), pods);
    running.spawn(async move {
        let _places = places;
        std::future::pending().await
    });
    Ok(running)
}

/// A reflector with a store of its own for each consumer.
async fn kube_each(consumers: usize, pods: usize, told: &Told) -> Result<Running> {
    let client = kube::Client::try_default().await?;
    let (mut running, mut stores) = (JoinSet::new(), Vec::new());
    for _ in 0..consumers {
        let api: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
        let (store, writer) = reflector::store();
        stores.push(store);
        let (told, stream) = (told.clone(), reflector(writer, watcher(api, watcher::Config::default())));
        running.spawn(async move {
            let mut stream = std::pin::pin!(stream);
            while let Some(event) = stream.next().await {
                if let Ok(watcher::Event::Apply(pod)) = event {
                    told.hear(pod.labels().get(STAMP).map(String::as_str));
                }
            }
        });
    }
    for store in &stores {
        store.wait_until_ready().await?;
        assert_eq!(store.len(), pods);
    }
    running.spawn(async move {
        let _stores = stores;
        std::future::pending().await
    });
    Ok(running)
}

/// One reflector to which every consumer subscribes.
async fn kube_shared(consumers: usize, pods: usize, told: &Told) -> Result<Running> {
    let client = kube::Client::try_default().await?;
    let api: Api<Pod> = Api::namespaced(client, NAMESPACE);
    let (store, writer) = reflector::store_shared::<Pod>(1024);
    let mut running = JoinSet::new();
    for _ in 0..consumers {
        let (told, mut changes) = (told.clone(), writer.subscribe().expect("the store is shared"));
        running.spawn(async move {
            while let Some(pod) = changes.next().await {
                told.hear(pod.labels().get(STAMP).map(String::as_str));
            }
        });
    }
    let stream = watcher(api, watcher::Config::default()).reflect_shared(writer);
    running.spawn(async move {
        let mut stream = std::pin::pin!(stream);
        while stream.next().await.is_some() {}
    });
    store.wait_until_ready().await?;
    assert_eq!(store.len(), pods);
    running.spawn(async move {
        let _store = store;
        std::future::pending().await
    });
    Ok(running)
}

impl Told {
    /// A change, with the time at which it was asked for.
    fn hear(&self, stamp: Option<&str>) {
        let Some(asked) = stamp.and_then(|stamp| stamp.parse::<u64>().ok()) else {
            return;
        };
        let delay = now_micros().saturating_sub(asked);
        self.delays.lock().expect("nobody panics").push(delay);
        self.more.notify_one();
    }

    async fn until(&self, number: usize) {
        while self.delays.lock().expect("nobody panics").len() < number {
            let more = tokio::time::timeout(PATIENCE, self.more.notified());
            if more.await.is_err() {
                return;
            }
        }
    }
}
