//! The contenders: each keeps all pods and calls its handlers for every change.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::StreamExt;
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::Api;
use kube::runtime::{WatchStreamExt, reflector, watcher};
use serde_json::{Value, json};
use setpoint_api::{Change, Stored, SystemClock, User};
use setpoint_client::kubeconfig::Connection;
use setpoint_client::{Client, Http, Object, Typed};
use setpoint_runtime::factory::{HandlerOptions, SharedInformerFactory};
use setpoint_runtime::informer::Event;
use setpoint_runtime::reflector::ReflectorOptions;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::measure::{cpu_micros, memory_kib, now_micros, percentile};
use crate::write::{NAMESPACE, STAMP};

/// What the handlers of all consumers write down.
#[derive(Clone, Default)]
struct Told {
    /// How many objects that were there at the start have been told, to all consumers together.
    present: Arc<AtomicUsize>,
    delays: Arc<Mutex<Vec<u64>>>,
}

/// What a consumer of this library does with what it is told.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reads {
    /// It looks at labels, which are read with the object anyway.
    Header,
    /// It also decodes every pod that changes, once for all consumers.
    Changed,
    /// It also decodes every pod that is there at the start, and all stay decoded: what costs most.
    Everything,
}

/// What runs until it is dropped.
type Running = JoinSet<()>;

/// How long it is left alone before its memory is looked at.
const REST: Duration = Duration::from_secs(2);
/// How often it is looked whether all has been heard. A handler that woke somebody would pay for that.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// When nothing comes for so long, nothing will.
const PATIENCE: Duration = Duration::from_secs(10);
/// Who has not got everything by now will not get it.
const SYNC_LIMIT: Duration = Duration::from_secs(300);

/// Follows until each consumer has heard twice of so many changes. Prints a line on what the start took, one on changes at
/// a steady rate and one on as many as fast as they can be made.
pub(crate) async fn follow(library: &str, consumers: usize, pods: usize, events: usize) -> Result<()> {
    let (before, _) = memory_kib();
    let (told, started, cpu) = (Told::default(), Instant::now(), cpu_micros());
    let starting = async {
        let running = match library {
            "setpoint" => setpoint(consumers, Reads::Header, &told).await?,
            "setpoint-decoding" => setpoint(consumers, Reads::Changed, &told).await?,
            "setpoint-decoded" => setpoint(consumers, Reads::Everything, &told).await?,
            "line" => line(&told).await?,
            "kube" => kube_each(consumers, watcher::Config::default(), &told).await?,
            "kube-stream" => {
                kube_each(consumers, watcher::Config::default().streaming_lists(), &told).await?
            }
            "kube-shared" => kube_shared(consumers, &told).await?,
            _ => bail!("nobody is called {library:?}"),
        };
        told.until_present(pods * consumers).await;
        Ok(running)
    };
    let _running = tokio::time::timeout(SYNC_LIMIT, starting)
        .await
        .with_context(|| {
            let present = told.present.load(Ordering::Relaxed) / consumers;
            format!("{library} has told of {present} of {pods} pods")
        })??;
    let (synced, cpu) = (started.elapsed(), cpu_micros() - cpu);
    tokio::time::sleep(REST).await;
    let (after, most) = memory_kib();
    println!(
        "{}",
        json!({
            "library": library, "consumers": consumers, "pods": pods, "events": events,
            "sync_ms": synced.as_millis() as u64, "sync_cpu_ms": (cpu / 1e3) as u64,
            "memory_mib": (after - before) / 1024, "peak_mib": most / 1024,
        })
    );
    for phase in ["steady", "burst"] {
        println!("{}", heard(phase, events, consumers, &told).await);
    }
    Ok(())
}

/// What the next changes take. The writer of the phase begins when the line before this one is out.
async fn heard(phase: &str, events: usize, consumers: usize, told: &Told) -> Value {
    // What was told before counts no more.
    told.delays.lock().expect("nobody panics").clear();
    let before = cpu_micros();
    told.until(events * consumers).await;
    let cpu = (cpu_micros() - before) / events as f64;
    let mut delays = std::mem::take(&mut *told.delays.lock().expect("nobody panics"));
    delays.sort_unstable();
    json!({
        format!("{phase}_heard"): delays.len() / consumers,
        format!("{phase}_cpu_us"): (cpu * 10.0).round() / 10.0,
        format!("{phase}_p50_us"): percentile(&delays, 500),
        format!("{phase}_p99_us"): percentile(&delays, 990),
    })
}

/// One informer with a handler for each consumer.
async fn setpoint(consumers: usize, reads: Reads, told: &Told) -> Result<Running> {
    let http = Http::new(&Connection::infer()?)?;
    let client = Client::new(Arc::new(http), Arc::new(User::default()));
    let factory = SharedInformerFactory::new(client, Arc::new(SystemClock::new()));
    let options = ReflectorOptions {
        namespace: NAMESPACE.to_owned(),
        ..ReflectorOptions::default()
    };
    let informer = factory.informer(<Pod as Object>::resource(), options);
    let options = HandlerOptions {
        shared_task: true,
        ..HandlerOptions::default()
    };
    let mut registrations = Vec::new();
    for _ in 0..consumers {
        let told = told.clone();
        registrations.push(
            informer.add_handler(options.clone(), move |event| match event {
                Event::Present(object) => {
                    if reads == Reads::Everything {
                        decode(object);
                    }
                    told.hear_present();
                }
                Event::Changed(Change::Modified { new, .. }) => {
                    if reads != Reads::Header {
                        decode(new);
                    }
                    told.hear(new.label(STAMP));
                }
                _ => eprintln!("setpoint: unexpected event {event:?}"),
            })?,
        );
    }
    let mut running = JoinSet::new();
    running.spawn(async move {
        let _ = factory.run(CancellationToken::new()).await;
    });
    for registration in &registrations {
        registration.synced().await;
    }
    running.spawn(async move {
        let _registrations = registrations;
        std::future::pending().await
    });
    Ok(running)
}

fn decode(object: &Arc<Stored>) {
    let pod: Arc<Pod> = Typed::new(object.clone()).shared().expect("a pod is a pod");
    assert!(pod.spec.is_some());
}

/// The floor: reads what the others read, and does nothing with it but look for the stamp. It keeps nothing.
async fn line(told: &Told) -> Result<Running> {
    let client = kube::Client::try_default().await?;
    let path = format!(
        "/api/v1/namespaces/{NAMESPACE}/pods?watch=true&allowWatchBookmarks=true&sendInitialEvents=true\
         &resourceVersionMatch=NotOlderThan&timeoutSeconds=600"
    );
    let request = http::Request::get(path).body(kube::client::Body::empty())?;
    let mut body = client.send(request).await?.into_body();
    let (told, mut running) = (told.clone(), JoinSet::new());
    running.spawn(async move {
        let mut rest = Vec::new();
        while let Some(Ok(frame)) = body.frame().await {
            let Ok(data) = frame.into_data() else { continue };
            rest.extend_from_slice(&data);
            let whole = rest
                .iter()
                .rposition(|byte| *byte == b'\n')
                .map_or(0, |at| at + 1);
            for line in rest[..whole].split(|byte| *byte == b'\n') {
                if line.starts_with(br#"{"type":"ADDED""#) {
                    told.hear_present();
                }
                if line.starts_with(br#"{"type":"MODIFIED""#) {
                    told.hear(stamp_in(line));
                }
            }
            rest.drain(..whole);
        }
    });
    Ok(running)
}

/// The stamp in the labels, which come early in an object.
fn stamp_in(line: &[u8]) -> Option<&str> {
    let name = format!("\"{STAMP}\":\"");
    let at = line
        .windows(name.len())
        .position(|window| window == name.as_bytes())?
        + name.len();
    let end = line[at..].iter().position(|byte| *byte == b'"')?;
    std::str::from_utf8(&line[at..at + end]).ok()
}

/// A reflector with a store of its own for each consumer.
async fn kube_each(consumers: usize, config: watcher::Config, told: &Told) -> Result<Running> {
    let client = kube::Client::try_default().await?;
    let (mut running, mut stores) = (JoinSet::new(), Vec::new());
    for _ in 0..consumers {
        let api: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
        let (store, writer) = reflector::store();
        stores.push(store);
        let changes = watcher(api, config.clone()).default_backoff();
        let (told, stream) = (told.clone(), reflector(writer, changes));
        running.spawn(async move {
            let mut stream = std::pin::pin!(stream);
            while let Some(event) = stream.next().await {
                match event {
                    Ok(watcher::Event::InitApply(_)) => told.hear_present(),
                    Ok(watcher::Event::Apply(pod)) => told.hear(stamp(&pod)),
                    Ok(watcher::Event::Init | watcher::Event::InitDone) => {}
                    Ok(watcher::Event::Delete(_)) => eprintln!("kube: nobody deletes pods"),
                    Err(error) => complain(&error),
                }
            }
        });
    }
    for store in &stores {
        store.wait_until_ready().await?;
    }
    running.spawn(async move {
        let _stores = stores;
        std::future::pending().await
    });
    Ok(running)
}

/// One reflector to which every consumer subscribes.
async fn kube_shared(consumers: usize, told: &Told) -> Result<Running> {
    let client = kube::Client::try_default().await?;
    let api: Api<Pod> = Api::namespaced(client, NAMESPACE);
    let (store, writer) = reflector::store_shared::<Pod>(1024);
    let mut running = JoinSet::new();
    for _ in 0..consumers {
        let (told, mut changes) = (told.clone(), writer.subscribe().context("the store is shared")?);
        running.spawn(async move {
            while let Some(pod) = changes.next().await {
                // What is there at the start is told like a change. Nobody has stamped it since this process began.
                told.hear_present();
                told.hear(stamp(&pod));
            }
        });
    }
    let stream = watcher(api, watcher::Config::default())
        .default_backoff()
        .reflect_shared(writer);
    running.spawn(async move {
        let mut stream = std::pin::pin!(stream);
        while let Some(event) = stream.next().await {
            if let Err(error) = event {
                complain(&error);
            }
        }
    });
    store.wait_until_ready().await?;
    running.spawn(async move {
        let _store = store;
        std::future::pending().await
    });
    Ok(running)
}

fn stamp(pod: &Pod) -> Option<&str> {
    pod.labels().get(STAMP).map(String::as_str)
}

/// An error with all of its reasons.
fn complain(error: &watcher::Error) {
    let mut reasons = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        reasons.push_str(&format!(": {error}"));
        source = error.source();
    }
    eprintln!("kube: {reasons}");
}

impl Told {
    /// A change, with the time at which it was asked for.
    fn hear(&self, stamp: Option<&str>) {
        let Some(asked) = stamp.and_then(|stamp| stamp.parse::<u64>().ok()) else {
            return;
        };
        let delay = now_micros().saturating_sub(asked);
        self.delays.lock().expect("nobody panics").push(delay);
    }

    fn hear_present(&self) {
        self.present.fetch_add(1, Ordering::Relaxed);
    }

    async fn until_present(&self, number: usize) {
        while self.present.load(Ordering::Relaxed) < number {
            tokio::time::sleep(LOOK_EVERY / 20).await;
        }
    }

    async fn until(&self, number: usize) {
        let (mut before, mut since) = (0, Instant::now());
        loop {
            let heard = self.delays.lock().expect("nobody panics").len();
            if heard >= number || (heard == before && since.elapsed() > PATIENCE) {
                return;
            }
            if heard != before {
                (before, since) = (heard, Instant::now());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}
