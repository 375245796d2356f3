//! Prometheus metrics of the event recorder.

use setpoint_values::metrics::{MetricsSource, TextEncoder};

use super::Recorder;

impl MetricsSource for Recorder {
    fn write(&self, text: &mut TextEncoder) {
        text.family(
            "setpoint_events_dropped_total",
            "counter",
            "Events that were dropped since the queue was full.",
        );
        text.sample("setpoint_events_dropped_total", &[], self.dropped());
        text.family("setpoint_events_pending", "gauge", "Events in the queue.");
        text.sample("setpoint_events_pending", &[], self.pending());
    }
}
