//! Durations of admission steps and of commits, under Kubernetes' names.
//!
//! A commit is what a request to etcd is upstream; reads come from the caches and the store in this process, so only
//! writes are counted.

use std::time::Duration;

use setpoint_api::ApiVerb;
use setpoint_registry_api::Operation;
use setpoint_values::metrics::{AtomicHistogram, TextEncoder};

use crate::registry::Registry;

/// Upper bounds of the durations of admission, in seconds.
const ADMISSION_BOUNDS: [f64; 6] = [0.005, 0.025, 0.1, 0.5, 1.0, 2.5];
/// Upper bounds of the durations of commits, in seconds.
const COMMIT_BOUNDS: [f64; 23] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0,
    20.0, 30.0, 45.0, 60.0,
];
/// Nanoseconds in a second: the precision of a sum of durations.
const NANOSECONDS: f64 = 1e9;

const OPERATIONS: [(Operation, &str); 4] = [
    (Operation::Create, "CREATE"),
    (Operation::Update, "UPDATE"),
    (Operation::Delete, "DELETE"),
    (Operation::Connect, "CONNECT"),
];

/// The verbs of [`CommitOperation`], in its order.
const COMMIT_VERBS: [ApiVerb; 3] = [ApiVerb::Create, ApiVerb::Update, ApiVerb::Delete];

/// A step of admission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AdmissionStep {
    Mutate,
    Validate,
}

/// The write of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommitOperation {
    Create,
    Update,
    Delete,
}

/// Durations of admission steps.
#[derive(Debug)]
pub(crate) struct AdmissionDurations {
    /// By step, operation and whether the write was rejected.
    series: [AtomicHistogram; 16],
}

/// Durations of the commits of one resource.
#[derive(Debug)]
pub(crate) struct CommitDurations {
    /// By operation.
    series: [AtomicHistogram; 3],
}

impl Default for AdmissionDurations {
    fn default() -> Self {
        Self {
            series: std::array::from_fn(|_| AtomicHistogram::new(&ADMISSION_BOUNDS, NANOSECONDS)),
        }
    }
}

impl AdmissionDurations {
    pub(crate) fn observe(&self, step: AdmissionStep, operation: Operation, rejected: bool, took: Duration) {
        self.series[index(step, operation, rejected)].observe(took.as_secs_f64());
    }

    fn write(&self, text: &mut TextEncoder) {
        const NAME: &str = "apiserver_admission_step_admission_duration_seconds";
        text.family(NAME, "histogram", "Time that a step of admission takes.");
        for (step, label) in [
            (AdmissionStep::Mutate, "admit"),
            (AdmissionStep::Validate, "validate"),
        ] {
            for (operation, name) in OPERATIONS {
                for (rejected, outcome) in [(false, "false"), (true, "true")] {
                    let series = &self.series[index(step, operation, rejected)];
                    if series.count() > 0 {
                        let labels = [("operation", name), ("rejected", outcome), ("type", label)];
                        text.histogram(NAME, &labels, &series.snapshot().buckets());
                    }
                }
            }
        }
    }
}

fn index(step: AdmissionStep, operation: Operation, rejected: bool) -> usize {
    (step as usize) << 3 | (operation as usize) << 1 | usize::from(rejected)
}

impl Default for CommitDurations {
    fn default() -> Self {
        Self {
            series: std::array::from_fn(|_| AtomicHistogram::new(&COMMIT_BOUNDS, NANOSECONDS)),
        }
    }
}

impl CommitDurations {
    pub(crate) fn observe(&self, operation: CommitOperation, took: Duration) {
        self.series[operation as usize].observe(took.as_secs_f64());
    }
}

/// Writes the durations, and the sizes that dashboards of Kubernetes show beside them.
pub(super) fn write(text: &mut TextEncoder, registry: &Registry) {
    registry.counters.admission.write(text);
    let served = registry.caches.served();
    let mut resources: Vec<_> = served.resources().collect();
    resources.sort_by(|one, other| one.name.cmp(&other.name));
    const REQUESTS: &str = "etcd_requests_total";
    text.family(
        REQUESTS,
        "counter",
        "Writes to the store, by operation and resource.",
    );
    const DURATIONS: &str = "etcd_request_duration_seconds";
    let mut durations = TextEncoder::default();
    for resource in &resources {
        for (operation, series) in COMMIT_VERBS.into_iter().zip(&resource.commits.series) {
            let labels = [
                ("operation", operation.as_str()),
                ("group", resource.name.group.as_str()),
                ("resource", resource.name.resource.as_str()),
            ];
            if series.count() > 0 {
                text.sample(REQUESTS, &labels, series.count());
                durations.histogram(DURATIONS, &labels, &series.snapshot().buckets());
            }
        }
    }
    text.family(
        DURATIONS,
        "histogram",
        "Time of a write to the store, in seconds.",
    );
    text.append(&durations.into_string());
    const OBJECTS: &str = "apiserver_storage_objects";
    text.family(OBJECTS, "gauge", "Stored objects, by resource.");
    for resource in resources.iter().filter(|resource| resource.is_stored()) {
        let name = resource.name.to_string();
        text.sample(OBJECTS, &[("resource", &name)], resource.cache.metrics().objects);
    }
    const SIZE: &str = "apiserver_storage_size_bytes";
    text.family(SIZE, "gauge", "Bytes of the store on disk.");
    for (index, store) in registry.stores().enumerate() {
        let id = super::storage_cluster_id(index);
        text.sample(SIZE, &[("storage_cluster_id", &id)], store.metrics().log_bytes);
    }
}
