//! Metrics of conversion webhooks, under Kubernetes' names.

use std::collections::BTreeMap;
use std::time::Duration;

use compact_str::CompactString;
use parking_lot::Mutex;

use setpoint_values::metrics::{Histogram, TextEncoder};

/// Upper bounds of the durations by CRD, in seconds: powers of two from a millisecond on.
const CRD_BOUNDS: [f64; 15] = [
    0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384,
];
/// Upper bounds of the durations by result, in seconds.
const RESULT_BOUNDS: [f64; 15] = [
    0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0,
];

/// Durations of conversions, by CRD and by result.
#[derive(Debug, Default)]
pub(crate) struct ConversionMetrics {
    series: Mutex<Series>,
}

#[derive(Debug, Default)]
struct Series {
    by_crd: BTreeMap<CrdLabels, Histogram>,
    by_result: BTreeMap<Option<FailureType>, Histogram>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CrdLabels {
    pub(super) crd_name: String,
    pub(super) from_version: CompactString,
    pub(super) to_version: CompactString,
    pub(super) succeeded: bool,
}

/// Why a review failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FailureType {
    /// There is no response.
    Call,
    /// The response is not that of this review, or reports a failure.
    MalformedResponse,
    /// The response has more or fewer objects than the review.
    PartialResponse,
    /// An object of the response is not what it was converted from.
    InvalidConvertedObject,
}

impl ConversionMetrics {
    /// Counts a review.
    pub(super) fn observe(&self, labels: CrdLabels, failure: Option<FailureType>, took: Duration) {
        let mut series = self.series.lock();
        let by_crd = series.by_crd.entry(labels);
        by_crd
            .or_insert_with(|| Histogram::new(&CRD_BOUNDS))
            .observe(took.as_secs_f64());
        let by_result = series.by_result.entry(failure);
        by_result
            .or_insert_with(|| Histogram::new(&RESULT_BOUNDS))
            .observe(took.as_secs_f64());
    }

    pub(crate) fn write(&self, text: &mut TextEncoder) {
        const BY_CRD: &str = "apiserver_crd_conversion_webhook_duration_seconds";
        const REQUESTS: &str = "apiserver_conversion_webhook_request_total";
        const DURATIONS: &str = "apiserver_conversion_webhook_duration_seconds";
        let series = self.series.lock();
        text.family(BY_CRD, "histogram", "Time of a conversion by a webhook, by CRD.");
        for (labels, histogram) in &series.by_crd {
            let succeeded = labels.succeeded.to_string();
            let labels = [
                ("crd_name", labels.crd_name.as_str()),
                ("from_version", labels.from_version.as_str()),
                ("succeeded", succeeded.as_str()),
                ("to_version", labels.to_version.as_str()),
            ];
            text.histogram(BY_CRD, &labels, &histogram.buckets());
        }
        text.family(REQUESTS, "counter", "Reviews sent to conversion webhooks.");
        for (failure, histogram) in &series.by_result {
            text.sample(REQUESTS, &result_labels(*failure), histogram.count());
        }
        text.family(
            DURATIONS,
            "histogram",
            "Time of a review by a conversion webhook.",
        );
        for (failure, histogram) in &series.by_result {
            text.histogram(DURATIONS, &result_labels(*failure), &histogram.buckets());
        }
    }
}

fn result_labels(failure: Option<FailureType>) -> [(&'static str, &'static str); 2] {
    let (failure_type, result) = match failure {
        None => ("", "success"),
        Some(failure) => (failure.as_str(), "failure"),
    };
    [("failure_type", failure_type), ("result", result)]
}

impl FailureType {
    fn as_str(self) -> &'static str {
        match self {
            Self::Call => "conversion_webhook_call_failure",
            Self::MalformedResponse => "conversion_webhook_malformed_response_failure",
            Self::PartialResponse => "conversion_webhook_partial_response_failure",
            Self::InvalidConvertedObject => "conversion_webhook_invalid_converted_object_failure",
        }
    }
}
