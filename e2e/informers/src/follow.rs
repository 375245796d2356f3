//! The candidates: each caches all pods and calls its handlers for every change.

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
use setpoint_client::{Client, Http, Object, TypedObject};
use setpoint_runtime::factory::{HandlerOptions, SharedInformerFactory};
use setpoint_runtime::informer::Event;
use setpoint_runtime::reflector::ReflectorOptions;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::measure::{cpu_micros, memory_kib, now_micros, percentile};
use crate::write::{NAMESPACE, STAMP};

/// Deliveries to the handlers of all consumers.
#[derive(Clone, Default)]
struct Deliveries {
    /// The number of initial objects delivered, summed over all consumers.
    initial: Arc<AtomicUsize>,
    /// The time from sending each change to its delivery, in microseconds.
    delays: Arc<Mutex<Vec<u64>>>,
}

/// The objects that the handlers of this library decode.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Decoding {
    /// None: handlers read labels, which are in the header of an object.
    None,
    /// Every changed pod, once for all consumers.
    Changes,
    /// Every initial and every changed pod; all stay decoded. The most expensive case.
    All,
}

/// The tasks of a candidate; dropping the set aborts them.
type Tasks = JoinSet<()>;

/// The pause between the sync and the measurement of memory.
const SETTLE_TIME: Duration = Duration::from_secs(2);
/// The interval at which deliveries are counted. Polling costs less than a notification from each handler.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Gives up when no change is delivered for this long.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);
/// The limit for the initial sync.
const SYNC_TIMEOUT: Duration = Duration::from_secs(300);

/// Runs one candidate until each consumer has received the changes of both phases. Prints one line of JSON for the initial
/// sync, one for changes at a steady rate and one for as many changes as fast as possible.
pub(crate) async fn follow(library: &str, consumers: usize, pods: usize, events: usize) -> Result<()> {
    let (before, _) = memory_kib();
    let (deliveries, started, cpu) = (Deliveries::default(), Instant::now(), cpu_micros());
    let start = async {
        let tasks = match library {
            "setpoint" => setpoint(consumers, Decoding::None, &deliveries).await?,
            "setpoint-decoding" => setpoint(consumers, Decoding::Changes, &deliveries).await?,
            "setpoint-decoded" => setpoint(consumers, Decoding::All, &deliveries).await?,
            "floor" => floor(&deliveries).await?,
            "kube" => kube_each(consumers, watcher::Config::default(), &deliveries).await?,
            "kube-stream" => {
                kube_each(
                    consumers,
                    watcher::Config::default().streaming_lists(),
                    &deliveries,
                )
                .await?
            }
            "kube-shared" => kube_shared(consumers, &deliveries).await?,
            _ => bail!("unknown candidate {library:?}"),
        };
        deliveries.wait_for_initial(pods * consumers).await;
        Ok(tasks)
    };
    let _tasks = tokio::time::timeout(SYNC_TIMEOUT, start)
        .await
        .with_context(|| {
            let initial = deliveries.initial.load(Ordering::Relaxed) / consumers;
            format!("{library} delivered {initial} of {pods} pods")
        })??;
    let (synced, cpu) = (started.elapsed(), cpu_micros() - cpu);
    tokio::time::sleep(SETTLE_TIME).await;
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
        println!("{}", measure_phase(phase, events, consumers, &deliveries).await);
    }
    Ok(())
}

/// Measures the delivery of the changes of one phase. The writer of the phase starts when the previous line is printed.
async fn measure_phase(phase: &str, events: usize, consumers: usize, deliveries: &Deliveries) -> Value {
    // Deliveries of earlier phases do not count.
    deliveries
        .delays
        .lock()
        .expect("no holder of the lock panics")
        .clear();
    let before = cpu_micros();
    deliveries.wait_for_changes(events * consumers).await;
    let cpu = (cpu_micros() - before) / events as f64;
    let mut delays = std::mem::take(&mut *deliveries.delays.lock().expect("no holder of the lock panics"));
    delays.sort_unstable();
    json!({
        format!("{phase}_delivered"): delays.len() / consumers,
        format!("{phase}_cpu_us"): (cpu * 10.0).round() / 10.0,
        format!("{phase}_p50_us"): percentile(&delays, 500),
        format!("{phase}_p99_us"): percentile(&delays, 990),
    })
}

/// One informer with a handler for each consumer.
async fn setpoint(consumers: usize, decoding: Decoding, deliveries: &Deliveries) -> Result<Tasks> {
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
        let deliveries = deliveries.clone();
        registrations.push(informer.add_handler(options.clone(), move |event| match event {
            Event::Present(object) => {
                if decoding == Decoding::All {
                    decode(object);
                }
                deliveries.record_initial();
            }
            Event::Changed(Change::Modified { new, .. }) => {
                if decoding != Decoding::None {
                    decode(new);
                }
                deliveries.record_change(new.label(STAMP));
            }
            _ => eprintln!("setpoint: unexpected event {event:?}"),
        })?);
    }
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let _ = factory.run(CancellationToken::new()).await;
    });
    for registration in &registrations {
        registration.synced().await;
    }
    tasks.spawn(async move {
        let _registrations = registrations;
        std::future::pending().await
    });
    Ok(tasks)
}

fn decode(object: &Arc<Stored>) {
    let pod: Arc<Pod> = TypedObject::new(object.clone())
        .shared()
        .expect("the server sends valid pods");
    assert!(pod.spec.is_some());
}

/// The floor: reads the bytes of the same watch and only searches them for the stamp. It caches nothing.
async fn floor(deliveries: &Deliveries) -> Result<Tasks> {
    let client = kube::Client::try_default().await?;
    let path = format!(
        "/api/v1/namespaces/{NAMESPACE}/pods?watch=true&allowWatchBookmarks=true&sendInitialEvents=true\
         &resourceVersionMatch=NotOlderThan&timeoutSeconds=600"
    );
    let request = http::Request::get(path).body(kube::client::Body::empty())?;
    let mut body = client.send(request).await?.into_body();
    let (deliveries, mut tasks) = (deliveries.clone(), JoinSet::new());
    tasks.spawn(async move {
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
                    deliveries.record_initial();
                }
                if line.starts_with(br#"{"type":"MODIFIED""#) {
                    deliveries.record_change(stamp_in(line));
                }
            }
            rest.drain(..whole);
        }
    });
    Ok(tasks)
}

/// The stamp in the labels, which are near the start of an object.
fn stamp_in(line: &[u8]) -> Option<&str> {
    let name = format!("\"{STAMP}\":\"");
    let at = line
        .windows(name.len())
        .position(|window| window == name.as_bytes())?
        + name.len();
    let end = line[at..].iter().position(|byte| *byte == b'"')?;
    std::str::from_utf8(&line[at..at + end]).ok()
}

/// One reflector with its own store per consumer.
async fn kube_each(consumers: usize, config: watcher::Config, deliveries: &Deliveries) -> Result<Tasks> {
    let client = kube::Client::try_default().await?;
    let (mut tasks, mut stores) = (JoinSet::new(), Vec::new());
    for _ in 0..consumers {
        let api: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
        let (store, writer) = reflector::store();
        stores.push(store);
        let changes = watcher(api, config.clone()).default_backoff();
        let (deliveries, stream) = (deliveries.clone(), reflector(writer, changes));
        tasks.spawn(async move {
            let mut stream = std::pin::pin!(stream);
            while let Some(event) = stream.next().await {
                match event {
                    Ok(watcher::Event::InitApply(_)) => deliveries.record_initial(),
                    Ok(watcher::Event::Apply(pod)) => deliveries.record_change(stamp(&pod)),
                    Ok(watcher::Event::Init | watcher::Event::InitDone) => {}
                    Ok(watcher::Event::Delete(_)) => eprintln!("kube: unexpected deletion"),
                    Err(error) => print_error(&error),
                }
            }
        });
    }
    for store in &stores {
        store.wait_until_ready().await?;
    }
    tasks.spawn(async move {
        let _stores = stores;
        std::future::pending().await
    });
    Ok(tasks)
}

/// One reflector to which every consumer subscribes.
async fn kube_shared(consumers: usize, deliveries: &Deliveries) -> Result<Tasks> {
    let client = kube::Client::try_default().await?;
    let api: Api<Pod> = Api::namespaced(client, NAMESPACE);
    let (store, writer) = reflector::store_shared::<Pod>(1024);
    let mut tasks = JoinSet::new();
    for _ in 0..consumers {
        let (deliveries, mut changes) = (
            deliveries.clone(),
            writer.subscribe().context("the store is shared")?,
        );
        tasks.spawn(async move {
            while let Some(pod) = changes.next().await {
                // Initial objects are delivered like changes; those without a stamp have no delay.
                deliveries.record_initial();
                deliveries.record_change(stamp(&pod));
            }
        });
    }
    let stream = watcher(api, watcher::Config::default())
        .default_backoff()
        .reflect_shared(writer);
    tasks.spawn(async move {
        let mut stream = std::pin::pin!(stream);
        while let Some(event) = stream.next().await {
            if let Err(error) = event {
                print_error(&error);
            }
        }
    });
    store.wait_until_ready().await?;
    tasks.spawn(async move {
        let _store = store;
        std::future::pending().await
    });
    Ok(tasks)
}

fn stamp(pod: &Pod) -> Option<&str> {
    pod.labels().get(STAMP).map(String::as_str)
}

/// Prints an error with all of its sources.
fn print_error(error: &watcher::Error) {
    let mut reasons = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        reasons.push_str(&format!(": {error}"));
        source = error.source();
    }
    eprintln!("kube: {reasons}");
}

impl Deliveries {
    /// Records the delivery of a change; its stamp is the time at which it was sent.
    fn record_change(&self, stamp: Option<&str>) {
        let Some(sent) = stamp.and_then(|stamp| stamp.parse::<u64>().ok()) else {
            return;
        };
        let delay = now_micros().saturating_sub(sent);
        self.delays
            .lock()
            .expect("no holder of the lock panics")
            .push(delay);
    }

    fn record_initial(&self) {
        self.initial.fetch_add(1, Ordering::Relaxed);
    }

    async fn wait_for_initial(&self, number: usize) {
        while self.initial.load(Ordering::Relaxed) < number {
            tokio::time::sleep(POLL_INTERVAL / 20).await;
        }
    }

    async fn wait_for_changes(&self, number: usize) {
        let (mut before, mut since) = (0, Instant::now());
        loop {
            let delivered = self.delays.lock().expect("no holder of the lock panics").len();
            if delivered >= number || (delivered == before && since.elapsed() > IDLE_TIMEOUT) {
                return;
            }
            if delivered != before {
                (before, since) = (delivered, Instant::now());
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}
