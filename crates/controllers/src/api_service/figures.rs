//! How many versions cannot be reached, under the names that kube-aggregator gives these figures.

use std::collections::BTreeMap;
use std::fmt::Write;

use parking_lot::Mutex;

/// The figures, as text for whoever gathers them.
#[derive(Debug, Default)]
pub struct Figures(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    /// Whether each version can be reached.
    available: BTreeMap<String, bool>,
    /// How often a version was lost, by the reason.
    lost: BTreeMap<(String, &'static str), u64>,
}

impl Figures {
    /// What was found of a version now.
    pub(super) fn found(&self, name: &str, available: bool) {
        self.0.lock().available.insert(name.to_owned(), available);
    }

    /// A version that could be reached cannot be any more.
    pub(super) fn lost(&self, name: &str, reason: &'static str) {
        *self.0.lock().lost.entry((name.to_owned(), reason)).or_default() += 1;
    }

    pub(super) fn forget(&self, name: &str) {
        self.0.lock().available.remove(name);
    }

    /// All figures in Prometheus' text format.
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
    fn what_cannot_be_reached_counts() {
        let figures = Figures::default();
        figures.found("v1.a", true);
        figures.found("v1.b", false);
        figures.lost("v1.b", "ServiceNotFound");
        figures.found("v1.c", false);
        figures.forget("v1.c");
        let text = figures.to_text();
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
