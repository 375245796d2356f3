//! Metrics of the HTTP server and of the process.
//!
//! Names, labels and buckets are Kubernetes', so that its dashboards work. A request is counted without allocating: its
//! labels are static strings and the kind's pointer.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use foldhash::fast::RandomState;
use parking_lot::RwLock;
use setpoint_api::Gvr;
use setpoint_strategy::Kind;
use setpoint_values::metrics::AtomicHistogram;

mod collect;
mod process;

pub use process::ProcessMetrics;
pub(crate) use process::resident_bytes;
pub use setpoint_values::metrics::{MetricsSource, TextEncoder};

/// Upper bounds of the request durations, in seconds.
const DURATIONS: [f64; 23] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0,
    20.0, 30.0, 45.0, 60.0,
];
/// Nanoseconds in a second: the precision of a sum of durations.
const NANOSECONDS: f64 = 1e9;
/// Upper bounds of the response sizes, in bytes.
const SIZES: [f64; 7] = [1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9];
/// Upper bounds of the watch event sizes, in bytes.
const EVENT_SIZES: [f64; 8] = [
    1024.0, 2048.0, 4096.0, 8192.0, 16384.0, 32768.0, 65536.0, 131_072.0,
];

/// Metrics of the HTTP server.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    requests: RwLock<HashMap<Labels, Arc<RequestSeries>, RandomState>>,
    watches: RwLock<HashMap<usize, Arc<WatchSeries>>>,
    reading: Arc<AtomicI64>,
    mutating: Arc<AtomicI64>,
    /// Authentication attempts.
    pub authenticated: OutcomeCounter,
    /// Authorization attempts.
    pub authorized: OutcomeCounter,
}

/// Counters of successes and failures.
#[derive(Debug, Default)]
pub(crate) struct OutcomeCounter {
    success: AtomicU64,
    failure: AtomicU64,
}

/// Labels of a series of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Labels {
    pub verb: &'static str,
    pub scope: &'static str,
    pub subresource: &'static str,
    pub code: u16,
    pub dry_run: bool,
    /// The kind's pointer; zero for non-resource paths.
    pub kind: usize,
}

#[derive(Debug)]
struct RequestSeries {
    resource: Gvr,
    /// In seconds.
    durations: AtomicHistogram,
    /// In bytes, of responses whose length is known when they begin.
    sizes: AtomicHistogram,
}

/// The watches of one kind.
#[derive(Debug)]
struct WatchSeries {
    resource: Gvr,
    open: AtomicI64,
    /// The events sent, by size in bytes.
    events: AtomicHistogram,
}

/// One open watch, counted until it is dropped.
#[derive(Debug)]
pub(crate) struct OpenWatch(Arc<WatchSeries>);

/// One executing request, counted until it is dropped.
#[derive(Debug)]
pub(crate) struct InFlight(Arc<AtomicI64>);

// === impl Labels ===

impl Labels {
    pub(crate) fn new(verb: &'static str, kind: Option<&Arc<dyn Kind>>) -> Self {
        let kind = kind.map_or(0, kind_pointer);
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

/// Hashes a number instead of the texts, of which few have the same length.
impl Hash for Labels {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let texts = [self.verb, self.scope, self.subresource].map(|text| text.len() as u64);
        let texts = texts
            .into_iter()
            .fold(u64::from(self.dry_run), |all, one| all << 8 | one);
        state.write_u64(self.kind as u64 ^ u64::from(self.code) << 48 ^ texts << 20);
    }
}

fn kind_pointer(kind: &Arc<dyn Kind>) -> usize {
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

    /// Counts a finished request and, if known, the approximate size of its response.
    pub(crate) fn observe_request(
        &self,
        labels: Labels,
        kind: Option<&Arc<dyn Kind>>,
        took: Duration,
        length: Option<usize>,
    ) {
        let series = self.series(labels, kind);
        series.durations.observe(took.as_secs_f64());
        if let Some(length) = length {
            #[allow(clippy::cast_precision_loss, reason = "a body is far shorter than 2^52 bytes")]
            series.sizes.observe(length as f64);
        }
    }

    fn series(&self, labels: Labels, kind: Option<&Arc<dyn Kind>>) -> Arc<RequestSeries> {
        if let Some(series) = self.requests.read().get(&labels) {
            return series.clone();
        }
        let resource = kind.map_or_else(|| Gvr::new("", "", ""), |kind| kind.info().gvr.clone());
        let fresh = || {
            Arc::new(RequestSeries {
                resource,
                durations: AtomicHistogram::new(&DURATIONS, NANOSECONDS),
                sizes: AtomicHistogram::new(&SIZES, 1.0),
            })
        };
        self.requests.write().entry(labels).or_insert_with(fresh).clone()
    }

    /// Counts a watch from now until the result is dropped.
    pub(crate) fn start_watch(&self, kind: &Arc<dyn Kind>) -> OpenWatch {
        let resource = kind.info().gvr.clone();
        let fresh = || {
            Arc::new(WatchSeries {
                resource,
                open: AtomicI64::new(0),
                events: AtomicHistogram::new(&EVENT_SIZES, 1.0),
            })
        };
        let watches = self
            .watches
            .write()
            .entry(kind_pointer(kind))
            .or_insert_with(fresh)
            .clone();
        watches.open.fetch_add(1, Ordering::Relaxed);
        OpenWatch(watches)
    }
}

// === impl OutcomeCounter ===

impl OutcomeCounter {
    pub(crate) fn count(&self, success: bool) {
        let counter = if success { &self.success } else { &self.failure };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

// === impl OpenWatch ===

impl OpenWatch {
    /// Counts a sent event.
    pub(crate) fn sent(&self, bytes: usize) {
        #[allow(
            clippy::cast_precision_loss,
            reason = "an event is far shorter than 2^52 bytes"
        )]
        self.0.events.observe(bytes as f64);
    }
}

impl Drop for OpenWatch {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
