//! The `apiserver_flowcontrol_*` metrics, by level and by FlowSchema.

use std::collections::HashMap;

use jiff::Timestamp;
use setpoint_api::ApiVerb;
use setpoint_values::metrics::Histogram;

use super::PriorityAndFairness;
use super::configuration::LevelConfiguration;
use super::flow_metrics::FlowMetrics;
use super::level::LevelState;
use super::queue_set::RequestState;
use super::utilization::PHASES;
use crate::metrics::{MetricsSource, TextEncoder};

/// A gauge of each level.
struct LevelGauge {
    name: &'static str,
    help: &'static str,
    read: fn(&LevelConfiguration, &LevelState) -> f64,
}

/// A metric of each FlowSchema of each level.
struct FlowMetric {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    read: fn(&FlowMetrics, &Usage) -> u64,
}

/// Histograms with the label that divides them, if one does.
type DividedHistograms<'a> = Vec<(Option<(&'static str, &'static str)>, &'a Histogram)>;

/// A histogram of each FlowSchema of each level, with the label that divides it.
struct FlowHistogram {
    name: &'static str,
    help: &'static str,
    read: fn(&FlowMetrics) -> DividedHistograms<'_>,
}

/// The requests and seats of one FlowSchema now.
#[derive(Debug, Clone, Copy, Default)]
struct Usage {
    waiting: u64,
    seats_waiting: u64,
    executing: u64,
    seats_in_use: u64,
}

#[rustfmt::skip]
const LEVEL_GAUGES: [LevelGauge; 10] = [
    LevelGauge { name: "nominal_limit_seats", help: "Seats of each priority level by its shares.", read: |one, _| float(one.limits.nominal) },
    LevelGauge { name: "lower_limit_seats", help: "Seats that a priority level keeps when it lends all it may.", read: |one, _| float(one.limits.lower) },
    LevelGauge { name: "upper_limit_seats", help: "Seats of a priority level that borrows all it may.", read: |one, _| float(one.limits.upper) },
    LevelGauge { name: "current_limit_seats", help: "Seats of each priority level since the last adjustment.", read: |_, state| float(state.queue_set.limit()) },
    LevelGauge { name: "demand_seats_high_watermark", help: "Most seats that could be used at once in the last adjustment period.", read: |_, state| state.demand.high_watermark },
    LevelGauge { name: "demand_seats_average", help: "Average number of seats that could be used, over the last adjustment period.", read: |_, state| state.demand.average },
    LevelGauge { name: "demand_seats_stdev", help: "Standard deviation of the number of seats that could be used, over the last adjustment period.", read: |_, state| state.demand.standard_deviation },
    LevelGauge { name: "demand_seats_smoothed", help: "Number of seats that could be used, smoothed over adjustment periods.", read: |_, state| state.demand.smoothed },
    LevelGauge { name: "target_seats", help: "Seats that the last adjustment aimed at.", read: |_, state| state.target },
    LevelGauge { name: "current_r", help: "Virtual time of the last change.", read: |_, state| state.queue_set.current_r().as_f64() },
];

#[rustfmt::skip]
const FLOW_METRICS: [FlowMetric; 6] = [
    FlowMetric { name: "dispatched_requests_total", kind: "counter", help: "Requests that were executed.", read: |flow, _| flow.dispatched },
    FlowMetric { name: "request_dispatch_no_accommodation_total", kind: "counter", help: "Times that the next request was wider than the free seats.", read: |flow, _| flow.unaccommodated },
    FlowMetric { name: "current_inqueue_requests", kind: "gauge", help: "Requests in queues.", read: |_, usage| usage.waiting },
    FlowMetric { name: "current_inqueue_seats", kind: "gauge", help: "Seats that the requests in queues wait for.", read: |_, usage| usage.seats_waiting },
    FlowMetric { name: "current_executing_requests", kind: "gauge", help: "Executing requests; watches until their first events are sent.", read: |_, usage| usage.executing },
    FlowMetric { name: "current_executing_seats", kind: "gauge", help: "Seats in use; those of watches until their first events are sent.", read: |_, usage| usage.seats_in_use },
];

#[rustfmt::skip]
const FLOW_HISTOGRAMS: [FlowHistogram; 5] = [
    FlowHistogram { name: "request_wait_duration_seconds", help: "Time that requests waited in a queue.", read: |flow| divided("execute", ["true", "false"], &flow.waited) },
    FlowHistogram { name: "request_execution_seconds", help: "Time that requests executed; watches until their first events were sent.", read: |flow| divided("type", ["regular", ApiVerb::Watch.as_str()], &flow.execution) },
    FlowHistogram { name: "request_queue_length_after_enqueue", help: "Length of the queue that a request joined, with itself.", read: |flow| vec![(None, &flow.queue_length)] },
    FlowHistogram { name: "watch_count_samples", help: "Watches that a mutating request notifies.", read: |flow| vec![(None, &flow.watch_count)] },
    FlowHistogram { name: "work_estimated_seats", help: "Estimated seats of requests, the greater number of their two phases.", read: |flow| vec![(None, &flow.estimated_seats)] },
];

impl MetricsSource for PriorityAndFairness {
    fn write(&self, text: &mut TextEncoder) {
        let configuration = self.configuration.load();
        let levels = &configuration.levels;
        for gauge in &LEVEL_GAUGES {
            let name = start_family(text, gauge.name, "gauge", gauge.help);
            for one in levels {
                let value = one.level.read(|state| (gauge.read)(one, state));
                text.sample(&name, &[("priority_level", one.level.name())], value);
            }
        }
        let name = start_family(
            text,
            "seat_fair_frac",
            "gauge",
            "Fair fraction of the last adjustment.",
        );
        text.sample(&name, &[], *self.fair_fraction.lock());
        write_dispatch_bounds(text, levels);
        write_flow_metrics(text, levels);
        write_rejected(text, levels);
        write_histograms(text, levels);
        write_utilization(text, levels, self.factory.clock.now());
        let name = start_family(
            text,
            "read_vs_write_current_requests",
            "histogram",
            "Requests that wait or execute, as a fraction of the limit; a sample is a nanosecond.",
        );
        self.utilization
            .visit(|labels, buckets| text.histogram(&name, &labels, buckets));
    }
}

fn start_family(text: &mut TextEncoder, name: &str, kind: &str, help: &str) -> String {
    let name = format!("apiserver_flowcontrol_{name}");
    text.family(&name, kind, help);
    name
}

fn write_dispatch_bounds(text: &mut TextEncoder, levels: &[LevelConfiguration]) {
    let read = |one: &LevelConfiguration| one.level.read(|state| *state.queue_set.dispatch_metrics());
    for (suffix, help) in [
        ("dispatch_r", "Virtual time of the last dispatch."),
        ("latest_s", "Virtual start of the request dispatched last."),
    ] {
        let name = start_family(text, suffix, "gauge", help);
        for one in levels {
            let metrics = read(one);
            let value = match suffix {
                "dispatch_r" => metrics.dispatch_r,
                _ => metrics.latest_s,
            };
            text.sample(&name, &[("priority_level", one.level.name())], value.as_f64());
        }
    }
    for (suffix, help) in [
        (
            "next_s_bounds",
            "Least and greatest virtual start of the next requests of queues.",
        ),
        (
            "next_discounted_s_bounds",
            "Least and greatest virtual start of the next requests of queues, less the work in progress.",
        ),
    ] {
        let name = start_family(text, suffix, "gauge", help);
        for one in levels {
            let metrics = read(one);
            let (min, max) = match suffix {
                "next_s_bounds" => metrics.next_s,
                _ => metrics.next_discounted_s,
            };
            for (bound, value) in [("min", min), ("max", max)] {
                let labels = [("priority_level", one.level.name()), ("bound", bound)];
                text.sample(&name, &labels, value.as_f64());
            }
        }
    }
}

fn write_flow_metrics(text: &mut TextEncoder, levels: &[LevelConfiguration]) {
    for metric in &FLOW_METRICS {
        let name = start_family(text, metric.name, metric.kind, metric.help);
        for one in levels {
            one.level.read(|state| {
                let usage = usage(state);
                for (slot, flow) in state.flows.iter().enumerate() {
                    let now = usage.get(&slot).copied().unwrap_or_default();
                    let labels = [("priority_level", one.level.name()), ("flow_schema", flow.name())];
                    text.sample(&name, &labels, (metric.read)(flow, &now));
                }
            });
        }
    }
}

fn usage(state: &LevelState) -> HashMap<usize, Usage> {
    let mut by_slot: HashMap<usize, Usage> = HashMap::new();
    for request in state.queue_set.requests() {
        let usage = by_slot.entry(request.attached.slot).or_default();
        let seats = request.work.max_seats() as u64;
        match request.state {
            RequestState::Waiting => {
                usage.waiting += 1;
                usage.seats_waiting += seats;
            }
            RequestState::Executing { .. } => {
                usage.executing += 1;
                usage.seats_in_use += seats;
            }
            RequestState::Lingering => usage.seats_in_use += seats,
        }
    }
    by_slot
}

fn write_rejected(text: &mut TextEncoder, levels: &[LevelConfiguration]) {
    let name = start_family(text, "rejected_requests_total", "counter", "Rejected requests.");
    for one in levels {
        one.level.read(|state| {
            for flow in &state.flows {
                let rejected = flow.rejected;
                for (reason, count) in [
                    ("concurrency-limit", rejected.concurrency_limit),
                    ("queue-full", rejected.queue_full),
                    ("time-out", rejected.timed_out),
                ] {
                    let labels = [
                        ("priority_level", one.level.name()),
                        ("flow_schema", flow.name()),
                        ("reason", reason),
                    ];
                    text.sample(&name, &labels, count);
                }
            }
        });
    }
}

fn write_histograms(text: &mut TextEncoder, levels: &[LevelConfiguration]) {
    for histogram in &FLOW_HISTOGRAMS {
        let name = start_family(text, histogram.name, "histogram", histogram.help);
        for one in levels {
            one.level.read(|state| {
                for flow in &state.flows {
                    for (label, values) in (histogram.read)(flow) {
                        if values.count() == 0 {
                            continue;
                        }
                        let mut labels =
                            vec![("priority_level", one.level.name()), ("flow_schema", flow.name())];
                        labels.extend(label);
                        text.histogram(&name, &labels, &values.buckets());
                    }
                }
            });
        }
    }
}

/// Histograms of utilization over time, which have a sample for each nanosecond.
fn write_utilization(text: &mut TextEncoder, levels: &[LevelConfiguration], now: Timestamp) {
    let help = "Requests that wait, of those that may, or execute, of the nominal seats.";
    let name = start_family(text, "priority_level_request_utilization", "histogram", help);
    for one in levels {
        one.level.read(|state| {
            for (phase, histogram) in PHASES.into_iter().zip(&mut state.utilization.requests) {
                let labels = [("phase", phase), ("priority_level", one.level.name())];
                text.histogram(&name, &labels, &histogram.buckets(now));
            }
        });
    }
    let name = start_family(
        text,
        "priority_level_seat_utilization",
        "histogram",
        "Seats in use, of the nominal ones.",
    );
    for one in levels {
        let labels = [("phase", PHASES[1]), ("priority_level", one.level.name())];
        one.level
            .read(|state| text.histogram(&name, &labels, &state.utilization.seats.buckets(now)));
    }
    let help = "Seats that the level could use, of the nominal ones.";
    let name = start_family(text, "demand_seats", "histogram", help);
    for one in levels {
        let labels = [("priority_level", one.level.name())];
        one.level
            .read(|state| text.histogram(&name, &labels, &state.utilization.demand.buckets(now)));
    }
}

fn divided<'a>(
    label: &'static str,
    values: [&'static str; 2],
    histograms: &'a [Histogram; 2],
) -> DividedHistograms<'a> {
    let labels = values.map(|value| Some((label, value)));
    labels.into_iter().zip(histograms).collect()
}

#[allow(clippy::cast_precision_loss, reason = "a number of seats is small")]
fn float(seats: usize) -> f64 {
    seats as f64
}
