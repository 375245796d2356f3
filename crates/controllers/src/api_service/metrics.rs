//! Availability metrics of APIServices, under kube-aggregator's metric names.

use std::collections::BTreeMap;
use std::fmt::Write;

use parking_lot::Mutex;

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
        let mut text = format!("# HELP {GAUGE} Versions that cannot be reached.\n# TYPE {GAUGE} gauge\n");
        for (name, available) in &counts.available {
            let _ = writeln!(text, "{GAUGE}{{name={name:?}}} {}", u8::from(!available));
        }
        let _ = write!(
            text,
            "# HELP {COUNTER} Versions that could not be reached any more.\n# TYPE {COUNTER} counter\n"
        );
        for ((name, reason), count) in &counts.lost {
            let _ = writeln!(text, "{COUNTER}{{name={name:?},reason={reason:?}}} {count}");
        }
        text
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
