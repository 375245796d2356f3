//! [`Soak`]: what the threads of a run share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;
use parking_lot::Mutex;
use setpoint_conformance::wire::Endpoint;

use crate::args::Args;
use crate::control::Control;
use crate::load::watcher::WatcherState;
use crate::process::Process;
use crate::session::Session;

pub(crate) const WRITERS: usize = 4;
pub(crate) const WATCHERS: usize = 3;

/// The tokens of the users. The writers are administrators; `alice` has no permissions, `bob` may read.
pub(crate) const ADMIN: &str = "admin-token";
pub(crate) const ALICE: &str = "alice-token";
pub(crate) const BOB: &str = "bob-token";
pub(crate) const TOKENS: &str = "admin-token,soak-admin,1,\"system:masters\"\nalice-token,alice,2,\"devs\"\n\
                                 bob-token,bob,3,\"readers\"\n";

/// A run: the server, the load and what was found.
pub(crate) struct Soak<'a> {
    pub(crate) args: &'a Args,
    pub(crate) process: Mutex<Process>,
    pub(crate) endpoint: Endpoint,
    pub(crate) control: Control,
    pub(crate) watchers: Vec<Mutex<WatcherState>>,
    /// The highest revision of an acknowledged write.
    acknowledged: AtomicU64,
    pub(crate) metrics: Metrics,
    /// Why the data directory has no file system of its own, if it has none.
    pub(crate) without_disk: Option<String>,
    /// Whether the server is expected to respond. Latencies count only then.
    is_up: Mutex<bool>,
    violations: Mutex<Vec<String>>,
}

/// Measurements of a run.
pub(crate) struct Metrics {
    pub(crate) requests: AtomicU64,
    pub(crate) writes: AtomicU64,
    pub(crate) uncertain: AtomicU64,
    pub(crate) events: AtomicU64,
    pub(crate) relists: AtomicU64,
    /// Latencies of the user who only reads, in microseconds.
    pub(crate) latency: Mutex<Histogram<u64>>,
    pub(crate) max_memory: AtomicU64,
}

impl<'a> Soak<'a> {
    pub(crate) fn new(args: &'a Args, process: Process, endpoint: Endpoint) -> Self {
        Self {
            args,
            process: Mutex::new(process),
            endpoint,
            control: Control::new(),
            watchers: (0..WATCHERS).map(|_| Mutex::default()).collect(),
            acknowledged: AtomicU64::new(0),
            metrics: Metrics::new(),
            without_disk: None,
            is_up: Mutex::new(true),
            violations: Mutex::default(),
        }
    }

    pub(crate) fn session(&self, token: &str) -> Session {
        Session::new(&self.endpoint, token)
    }

    /// Records that an invariant does not hold. It is printed at once, since a run may be long.
    pub(crate) fn violation(&self, text: String) {
        println!("VIOLATION {text}");
        self.violations.lock().push(text);
    }

    pub(crate) fn violations(&self) -> Vec<String> {
        self.violations.lock().clone()
    }

    /// The highest acknowledged revision. A request that begins now must return a higher one, or for a read the same.
    pub(crate) fn floor(&self) -> u64 {
        self.acknowledged.load(Ordering::SeqCst)
    }

    /// Records the revision of an acknowledged write that began at this floor.
    pub(crate) fn acknowledge(&self, revision: u64, floor: u64) {
        if revision <= floor {
            self.violation(format!(
                "a write returned revision {revision}, after one of {floor}"
            ));
        }
        self.acknowledged.fetch_max(revision, Ordering::SeqCst);
        count(&self.metrics.writes);
    }

    pub(crate) fn set_up(&self, is_up: bool) {
        *self.is_up.lock() = is_up;
    }

    pub(crate) fn is_up(&self) -> bool {
        *self.is_up.lock()
    }
}

impl Metrics {
    fn new() -> Self {
        let latency = Histogram::new(3).expect("three digits are supported");
        Self {
            requests: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            uncertain: AtomicU64::new(0),
            events: AtomicU64::new(0),
            relists: AtomicU64::new(0),
            latency: Mutex::new(latency),
            max_memory: AtomicU64::new(0),
        }
    }

    pub(crate) fn record_latency(&self, latency: Duration) {
        let micros = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        let recorded = self.latency.lock().record(micros);
        recorded.expect("a histogram without bounds grows");
    }
}

pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
