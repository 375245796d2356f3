//! Availability metrics of APIServices, under kube-aggregator's metric names.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use setpoint_values::metrics::{MetricsSource, TextEncoder};

/// The metrics, rendered as text for the `/metrics` handler.
#[derive(Debug, Default)]
pub struct AvailabilityMetrics(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    /// Whether each APIService is available.
    available: BTreeMap<String, bool>,
    /// How often an APIService became unavailable, by reason.
    lost: BTreeMap<(String, &'static str), u64>,
}

impl AvailabilityMetrics {
    /// Records the availability of an APIService.
    pub(super) fn set_available(&self, name: &str, available: bool) {
        self.0.lock().available.insert(name.to_owned(), available);
    }

    /// Counts an available APIService that became unavailable.
    pub(super) fn count_lost(&self, name: &str, reason: &'static str) {
        *self.0.lock().lost.entry((name.to_owned(), reason)).or_default() += 1;
    }

    pub(super) fn forget(&self, name: &str) {
        self.0.lock().available.remove(name);
    }

    /// All metrics in Prometheus' text format.
    pub fn to_text(&self) -> String {
        const GAUGE: &str = "aggregator_unavailable_apiservice";
        const COUNTER: &str = "aggregator_unavailable_apiservice_total";
        let counts = self.0.lock();
        let mut text = TextEncoder::default();
        text.family(GAUGE, "gauge", "Versions that cannot be reached.");
        for (name, available) in &counts.available {
            text.sample(GAUGE, &[("name", name)], u8::from(!available));
        }
        text.family(COUNTER, "counter", "Versions that could not be reached any more.");
        for ((name, reason), count) in &counts.lost {
            text.sample(COUNTER, &[("name", name), ("reason", reason)], count);
        }
        text.into_string()
    }
}

impl MetricsSource for AvailabilityMetrics {
    fn write(&self, text: &mut TextEncoder) {
        text.append(&self.to_text());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unavailable_services_are_counted() {
        let metrics = AvailabilityMetrics::default();
        metrics.set_available("v1.a", true);
        metrics.set_available("v1.b", false);
        metrics.count_lost("v1.b", "ServiceNotFound");
        metrics.set_available("v1.c", false);
        metrics.forget("v1.c");
        let text = metrics.to_text();
        let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            samples,
            [
                r#"aggregator_unavailable_apiservice{name="v1.a"} 0"#,
                r#"aggregator_unavailable_apiservice{name="v1.b"} 1"#,
                r#"aggregator_unavailable_apiservice_total{name="v1.b",reason="ServiceNotFound"} 1"#,
            ]
        );
    }
}
