//! [`Probes`]: what another user notices. `bob` reads and writes, `/livez` is read on new connections, and the server's
//! memory is sampled.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::Scope;
use std::time::Duration;

use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use parking_lot::Mutex;
use serde_json::json;
use setpoint_conformance::fuzz::Memory;
use setpoint_conformance::time::{now, sleep};
use setpoint_conformance::wire::{Caller, Endpoint, Request};

use super::{BOBS, create};
use crate::objects;
use crate::session::Session;
use crate::soak::BOB;

const PAUSE: Duration = Duration::from_millis(5);
/// Every probe of `/livez` is a TLS handshake.
const LIVEZ_PAUSE: Duration = Duration::from_millis(100);
const NAME: &str = "probe";

/// The latency of one kind of request, in microseconds, and how many failed.
#[derive(Debug)]
pub(super) struct Latency {
    pub(super) histogram: Histogram<u64>,
    pub(super) failed: u64,
    /// The first failure.
    pub(super) failure: Option<String>,
}

/// The result of the probes.
#[derive(Debug)]
pub(super) struct Measurements {
    pub(super) reads: Latency,
    pub(super) writes: Latency,
    pub(super) livez: Latency,
    /// In MB: before the flood, at most during it, and after it.
    pub(super) memory: [u64; 3],
}

/// Running probes.
#[derive(Debug)]
pub(super) struct Probes {
    endpoint: Endpoint,
    pid: u32,
    is_stopped: AtomicBool,
    reads: Mutex<Latency>,
    writes: Mutex<Latency>,
    livez: Mutex<Latency>,
    before: u64,
    peak: AtomicU64,
}

impl Latency {
    fn new() -> Self {
        Self {
            histogram: Histogram::new(3).expect("three digits are supported"),
            failed: 0,
            failure: None,
        }
    }

    pub(super) fn millis(&self, quantile: f64) -> f64 {
        self.histogram.value_at_quantile(quantile) as f64 / 1000.0
    }
}

impl Probes {
    pub(super) fn new(endpoint: &Endpoint, pid: u32) -> Result<Self> {
        let map = objects::config_map(NAME, "0", false);
        create(&mut Session::new(endpoint, BOB), &objects::collection(BOBS), &map)?;
        let before = Memory::of(pid).context("the system reports the memory of processes")?;
        let latency = || Mutex::new(Latency::new());
        Ok(Self {
            endpoint: endpoint.clone(),
            pid,
            is_stopped: AtomicBool::new(false),
            reads: latency(),
            writes: latency(),
            livez: latency(),
            before: before.megabytes(),
            peak: AtomicU64::new(before.megabytes()),
        })
    }

    /// Starts the probes.
    pub(super) fn run<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) {
        let path = objects::path(BOBS, NAME);
        let get = Request::new("GET", &path);
        scope.spawn(move || {
            let mut session = Session::new(&self.endpoint, BOB);
            self.repeat(&self.reads, PAUSE, |_| {
                session.send(&get).map(|response| response.status)
            });
        });
        scope.spawn(move || {
            let mut session = Session::new(&self.endpoint, BOB);
            self.repeat(&self.writes, PAUSE, |number| {
                let patch = json!({"data": {"value": number.to_string()}}).to_string();
                let request = Request::new("PATCH", &path).body("application/merge-patch+json", patch);
                session.send(&request).map(|response| response.status)
            });
        });
        scope.spawn(|| {
            self.repeat(&self.livez, LIVEZ_PAUSE, |_| {
                let mut connection = self.endpoint.connect(&Caller::Anonymous)?;
                let response = connection.round_trip(&Request::new("GET", "/livez"))?;
                Ok(response.status)
            });
        });
        scope.spawn(|| {
            while !self.is_stopped.load(Ordering::SeqCst) {
                self.sample_memory();
                sleep(PAUSE);
            }
        });
    }

    pub(super) fn stop(&self) {
        self.is_stopped.store(true, Ordering::SeqCst);
    }

    pub(super) fn into_measurements(self) -> Measurements {
        let after = Memory::of(self.pid).map_or(0, Memory::megabytes);
        Measurements {
            memory: [self.before, self.peak.load(Ordering::SeqCst), after],
            reads: self.reads.into_inner(),
            writes: self.writes.into_inner(),
            livez: self.livez.into_inner(),
        }
    }

    fn repeat(
        &self,
        latency: &Mutex<Latency>,
        pause: Duration,
        mut send: impl FnMut(u64) -> std::io::Result<u16>,
    ) {
        for number in 1.. {
            if self.is_stopped.load(Ordering::SeqCst) {
                return;
            }
            let started = now();
            let result = send(number);
            let micros = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
            let mut latency = latency.lock();
            let recorded = latency.histogram.record(micros);
            recorded.expect("a histogram without bounds grows");
            let failure = match result {
                Ok(200) => None,
                Ok(status) => Some(status.to_string()),
                Err(error) => Some(error.to_string()),
            };
            latency.failed += u64::from(failure.is_some());
            latency.failure = latency.failure.take().or(failure);
            drop(latency);
            sleep(pause);
        }
    }

    fn sample_memory(&self) {
        if let Some(memory) = Memory::of(self.pid) {
            self.peak.fetch_max(memory.megabytes(), Ordering::SeqCst);
        }
    }
}
