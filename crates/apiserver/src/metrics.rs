//! What is counted about requests, and the text in which everything countable is shown.
//!
//! Names, labels and buckets are Kubernetes', so that its dashboards work. A request is counted without allocating: its
//! labels are the kind's address and words that live as long as the program.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use setpoint_api::Gvr;
use setpoint_kinds::Kind;

pub mod text;

pub use text::{Buckets, Text};

/// Upper bounds of the request durations, in seconds.
const DURATIONS: [f64; 23] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0,
    20.0, 30.0, 45.0, 60.0,
];

/// Something that has figures to show.
pub trait Source: Send + Sync {
    fn write(&self, text: &mut Text);
}

/// The figures of the HTTP side.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    requests: RwLock<HashMap<Labels, Arc<Series>>>,
    watches: RwLock<HashMap<usize, Arc<Watches>>>,
    reading: Arc<AtomicI64>,
    mutating: Arc<AtomicI64>,
}

/// What tells one series of requests from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Labels {
    pub verb: &'static str,
    pub scope: &'static str,
    pub subresource: &'static str,
    pub code: u16,
    pub dry_run: bool,
    /// The address of the kind; zero for paths that are no resource.
    pub kind: usize,
}

#[derive(Debug)]
struct Series {
    resource: Gvr,
    /// One count per bucket, the last for what is above all bounds.
    buckets: [AtomicU64; DURATIONS.len() + 1],
    nanoseconds: AtomicU64,
}

/// The watches of one kind.
#[derive(Debug)]
struct Watches {
    resource: Gvr,
    open: AtomicI64,
    events: AtomicU64,
}

/// One open watch, counted until it is dropped.
#[derive(Debug)]
pub(crate) struct Watching(Arc<Watches>);

/// One request under way, counted until it is dropped.
#[derive(Debug)]
pub(crate) struct InFlight(Arc<AtomicI64>);

// === impl Labels ===

impl Labels {
    pub(crate) fn new(verb: &'static str, kind: Option<&Arc<dyn Kind>>) -> Self {
        let kind = kind.map_or(0, address);
        Self {
            verb,
            scope: "",
            subresource: "",
            code: 0,
            dry_run: false,
            kind,
        }
    }
}

fn address(kind: &Arc<dyn Kind>) -> usize {
    Arc::as_ptr(kind).cast::<()>() as usize
}

// === impl Metrics ===

impl Metrics {
    /// Counts a request from now until the result is dropped.
    pub(crate) fn enter(&self, mutating: bool) -> InFlight {
        let gauge = if mutating { &self.mutating } else { &self.reading };
        gauge.fetch_add(1, Ordering::Relaxed);
        InFlight(gauge.clone())
    }

    /// Counts a request that has been answered.
    pub(crate) fn answered(&self, labels: Labels, kind: Option<&Arc<dyn Kind>>, took: Duration) {
        let series = self.series(labels, kind);
        let seconds = took.as_secs_f64();
        let bucket = DURATIONS
            .iter()
            .position(|bound| seconds <= *bound)
            .unwrap_or(DURATIONS.len());
        series.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        series.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    fn series(&self, labels: Labels, kind: Option<&Arc<dyn Kind>>) -> Arc<Series> {
        if let Some(series) = self.requests.read().get(&labels) {
            return series.clone();
        }
        let resource = kind.map_or_else(|| Gvr::new("", "", ""), |kind| kind.about().gvr.clone());
        let fresh = || {
            Arc::new(Series {
                resource,
                buckets: Default::default(),
                nanoseconds: AtomicU64::new(0),
            })
        };
        self.requests.write().entry(labels).or_insert_with(fresh).clone()
    }

    /// Counts a watch from now until the result is dropped.
    pub(crate) fn watching(&self, kind: &Arc<dyn Kind>) -> Watching {
        let resource = kind.about().gvr.clone();
        let fresh = || {
            Arc::new(Watches {
                resource,
                open: AtomicI64::new(0),
                events: AtomicU64::new(0),
            })
        };
        let watches = self
            .watches
            .write()
            .entry(address(kind))
            .or_insert_with(fresh)
            .clone();
        watches.open.fetch_add(1, Ordering::Relaxed);
        Watching(watches)
    }
}

impl Source for Metrics {
    fn write(&self, text: &mut Text) {
        self.write_requests(text);
        self.write_durations(text);
        text.family(
            "apiserver_current_inflight_requests",
            "gauge",
            "Requests under way, by kind of request.",
        );
        for (kind, gauge) in [("mutating", &self.mutating), ("readOnly", &self.reading)] {
            text.sample(
                "apiserver_current_inflight_requests",
                &[("request_kind", kind)],
                gauge.load(Ordering::Relaxed),
            );
        }
        self.write_watches(text);
    }
}

impl Metrics {
    fn write_requests(&self, text: &mut Text) {
        text.family("apiserver_request_total", "counter", "Requests answered.");
        for (labels, series) in self.requests.read().iter() {
            let code = labels.code.to_string();
            let mut pairs = labels.pairs(&series.resource);
            pairs.push(("code", &code));
            text.sample("apiserver_request_total", &pairs, series.count());
        }
    }

    fn write_durations(&self, text: &mut Text) {
        const NAME: &str = "apiserver_request_duration_seconds";
        text.family(
            NAME,
            "histogram",
            "How long requests took until their answer began.",
        );
        for (labels, counts, nanoseconds, resource) in self.durations() {
            #[allow(clippy::cast_precision_loss, reason = "a sum of seconds need not be exact")]
            let seconds = nanoseconds as f64 / 1e9;
            let buckets = Buckets {
                bounds: &DURATIONS,
                counts: &counts,
                sum: seconds,
            };
            text.histogram(NAME, &labels.pairs(&resource), &buckets);
        }
    }

    /// The durations, summed over the codes that requests were answered with.
    fn durations(&self) -> Vec<(Labels, Vec<u64>, u64, Gvr)> {
        let mut sums: HashMap<Labels, (Vec<u64>, u64, Gvr)> = HashMap::new();
        for (labels, series) in self.requests.read().iter() {
            let fresh = || (vec![0; DURATIONS.len() + 1], 0, series.resource.clone());
            let (counts, nanoseconds, _) = sums.entry(Labels { code: 0, ..*labels }).or_insert_with(fresh);
            for (sum, bucket) in counts.iter_mut().zip(&series.buckets) {
                *sum += bucket.load(Ordering::Relaxed);
            }
            *nanoseconds += series.nanoseconds.load(Ordering::Relaxed);
        }
        sums.into_iter()
            .map(|(labels, (counts, nanoseconds, gvr))| (labels, counts, nanoseconds, gvr))
            .collect()
    }

    fn write_watches(&self, text: &mut Text) {
        let watches = self.watches.read();
        text.family(
            "apiserver_longrunning_requests",
            "gauge",
            "Watches that are open.",
        );
        for one in watches.values() {
            let labels = Labels {
                scope: "cluster",
                ..Labels::new("WATCH", None)
            };
            text.sample(
                "apiserver_longrunning_requests",
                &labels.long_running(&one.resource),
                one.open.load(Ordering::Relaxed),
            );
        }
        text.family(
            "apiserver_watch_events_total",
            "counter",
            "Events sent to watchers.",
        );
        for one in watches.values() {
            let Gvr {
                group,
                version,
                resource,
            } = &one.resource;
            let pairs = [
                ("group", group.as_str()),
                ("version", version.as_str()),
                ("resource", resource.as_str()),
            ];
            text.sample(
                "apiserver_watch_events_total",
                &pairs,
                one.events.load(Ordering::Relaxed),
            );
        }
    }
}

impl Labels {
    fn pairs<'a>(&'a self, resource: &'a Gvr) -> Vec<(&'static str, &'a str)> {
        let mut pairs = self.long_running(resource);
        pairs.push(("dry_run", if self.dry_run { "All" } else { "" }));
        pairs
    }

    fn long_running<'a>(&'a self, resource: &'a Gvr) -> Vec<(&'static str, &'a str)> {
        vec![
            ("verb", self.verb),
            ("group", &resource.group),
            ("version", &resource.version),
            ("resource", &resource.resource),
            ("subresource", self.subresource),
            ("scope", self.scope),
            ("component", "apiserver"),
        ]
    }
}

impl Series {
    fn count(&self) -> u64 {
        self.buckets
            .iter()
            .map(|bucket| bucket.load(Ordering::Relaxed))
            .sum()
    }
}

// === impl Watching ===

impl Watching {
    /// Counts one event that was sent.
    pub(crate) fn sent(&self) {
        self.0.events.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
