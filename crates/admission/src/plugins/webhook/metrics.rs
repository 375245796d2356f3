//! [`WebhookMetrics`]: calls of webhooks, with upstream's names.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use setpoint_registry_api::Operation;
use setpoint_values::metrics::{Histogram, MetricsSource, TextEncoder};

use crate::matching::operation_name;

const BOUNDS: &[f64] = &[0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 25.0];

/// The largest code in the metrics, so that a webhook cannot create any number of series.
const MAX_CODE: u16 = 600;

/// The metrics of admission webhooks.
#[derive(Debug, Default)]
pub struct WebhookMetrics {
    series: Mutex<Series>,
}

/// By the values of the labels.
#[derive(Debug, Default)]
struct Series {
    durations: BTreeMap<[String; 4], Histogram>,
    rejections: BTreeMap<[String; 5], u64>,
    failed_open: BTreeMap<[String; 2], u64>,
    requests: BTreeMap<[String; 5], u64>,
}

/// The plugin that called the webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Admit,
    Validating,
}

/// Why the request was rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ErrorType {
    /// The webhook has rejected it.
    NoError,
    CallingWebhook,
    ApiServerInternal,
}

/// A call, as the metrics count it.
#[derive(Debug)]
pub(super) struct CallOutcome<'a> {
    pub(super) name: &'a str,
    pub(super) step: Step,
    pub(super) operation: Operation,
    pub(super) code: u16,
    /// Absent if the request was not rejected.
    pub(super) error_type: Option<ErrorType>,
    pub(super) failed_open: bool,
    pub(super) took: Duration,
}

impl WebhookMetrics {
    pub(super) fn observe(&self, call: &CallOutcome<'_>) {
        let text = |text: &str| text.to_owned();
        let (name, step) = (text(call.name), text(call.step.label()));
        let operation = text(operation_name(call.operation));
        let code = call.code.min(MAX_CODE).to_string();
        let rejected = call.error_type.is_some().to_string();
        let mut series = self.series.lock();
        let labels = [name.clone(), step.clone(), operation.clone(), rejected.clone()];
        let duration = series.durations.entry(labels);
        duration
            .or_insert_with(|| Histogram::new(BOUNDS))
            .observe(call.took.as_secs_f64());
        if let Some(error) = call.error_type {
            let labels = [
                name.clone(),
                step.clone(),
                operation.clone(),
                text(error.label()),
                code.clone(),
            ];
            *series.rejections.entry(labels).or_default() += 1;
        }
        if call.failed_open {
            *series
                .failed_open
                .entry([name.clone(), step.clone()])
                .or_default() += 1;
        }
        *series
            .requests
            .entry([name, step, operation, code, rejected])
            .or_default() += 1;
    }
}

impl MetricsSource for WebhookMetrics {
    fn write(&self, text: &mut TextEncoder) {
        let series = self.series.lock();
        const DURATION: &str = "apiserver_admission_webhook_admission_duration_seconds";
        text.family(
            DURATION,
            "histogram",
            "Time that a call of an admission webhook takes.",
        );
        for (labels, histogram) in &series.durations {
            let labels = label_pairs(["name", "type", "operation", "rejected"], labels);
            text.histogram(DURATION, &labels, &histogram.buckets());
        }
        counters(
            text,
            (
                "apiserver_admission_webhook_rejection_count",
                "Requests that were rejected because of an admission webhook.",
            ),
            ["name", "type", "operation", "error_type", "rejection_code"],
            &series.rejections,
        );
        counters(
            text,
            (
                "apiserver_admission_webhook_fail_open_count",
                "Failed calls of admission webhooks that were ignored.",
            ),
            ["name", "type"],
            &series.failed_open,
        );
        counters(
            text,
            (
                "apiserver_admission_webhook_request_total",
                "Calls of admission webhooks.",
            ),
            ["name", "type", "operation", "code", "rejected"],
            &series.requests,
        );
    }
}

fn counters<const N: usize>(
    text: &mut TextEncoder,
    (name, help): (&str, &str),
    labels: [&'static str; N],
    series: &BTreeMap<[String; N], u64>,
) {
    text.family(name, "counter", help);
    for (values, count) in series {
        text.sample(name, &label_pairs(labels, values), count);
    }
}

/// The labels of a sample: each name with its value.
fn label_pairs<'a, const N: usize>(names: [&'a str; N], values: &'a [String; N]) -> [(&'a str, &'a str); N] {
    std::array::from_fn(|at| (names[at], values[at].as_str()))
}

impl Step {
    fn label(self) -> &'static str {
        match self {
            Self::Admit => "admit",
            Self::Validating => "validating",
        }
    }
}

impl ErrorType {
    fn label(self) -> &'static str {
        match self {
            Self::NoError => "no_error",
            Self::CallingWebhook => "calling_webhook_error",
            Self::ApiServerInternal => "apiserver_internal_error",
        }
    }
}
