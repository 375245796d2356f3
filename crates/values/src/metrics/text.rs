//! Prometheus' text format, version 0.0.4.

use std::fmt::{Display, Write};

/// Encoder of a metrics page. A family comes first, then its samples.
#[derive(Debug, Default)]
pub struct TextEncoder {
    page: String,
}

/// A component with metrics.
pub trait MetricsSource: Send + Sync {
    /// Writes all families of the component.
    fn write(&self, text: &mut TextEncoder);
}

/// The buckets of a histogram.
#[derive(Debug, Clone, Copy)]
pub struct Buckets<'a> {
    /// The upper bounds, ascending.
    pub bounds: &'a [f64],
    /// One count per bound, and one for values above all of them.
    pub counts: &'a [u64],
    /// The sum of all values.
    pub sum: f64,
}

impl TextEncoder {
    /// Starts a family: its name, its type (`counter`, `gauge`, `histogram`) and its help text.
    pub fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.page, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// Writes a sample.
    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.page.push_str(name);
        self.labels(labels, None);
        let _ = writeln!(self.page, " {value}");
    }

    /// Writes a histogram.
    pub fn histogram(&mut self, name: &str, labels: &[(&str, &str)], buckets: &Buckets<'_>) {
        let mut total = 0;
        let bounds = buckets
            .bounds
            .iter()
            .map(|bound| format_bound(*bound))
            .chain(["+Inf".to_owned()]);
        for (bound, count) in bounds.zip(buckets.counts) {
            total += count;
            let _ = write!(self.page, "{name}_bucket");
            self.labels(labels, Some(&bound));
            let _ = writeln!(self.page, " {total}");
        }
        self.sample(&format!("{name}_sum"), labels, buckets.sum);
        self.sample(&format!("{name}_count"), labels, total);
    }

    /// Appends families already in this format.
    pub fn append(&mut self, page: &str) {
        self.page.push_str(page);
    }

    fn labels(&mut self, labels: &[(&str, &str)], bound: Option<&str>) {
        let all = labels.iter().copied().chain(bound.map(|bound| ("le", bound)));
        for (at, (name, value)) in all.enumerate() {
            let value = value
                .replace('\\', "\\\\")
                .replace('"', "\\\"")
                .replace('\n', "\\n");
            let _ = write!(self.page, "{}{name}=\"{value}\"", if at == 0 { "{" } else { "," });
        }
        if !labels.is_empty() || bound.is_some() {
            self.page.push('}');
        }
    }

    /// The page.
    pub fn into_string(self) -> String {
        self.page
    }
}

/// A bound as Prometheus' own libraries write it: `1e-08`, `0.0001`, `10`.
fn format_bound(bound: f64) -> String {
    if bound != 0.0 && bound.abs() < 1e-4 {
        let text = format!("{bound:e}");
        return match text.split_once("e-") {
            Some((digits, exponent)) => format!("{digits}e-{exponent:0>2}"),
            None => text,
        };
    }
    bound.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(write: impl FnOnce(&mut TextEncoder), expected: &str) {
        let mut text = TextEncoder::default();
        write(&mut text);
        assert_eq!(text.into_string(), expected);
    }

    #[test]
    fn a_family_is_announced_before_its_samples() {
        check(
            |text| {
                text.family("up", "gauge", "Whether it runs.");
                text.sample("up", &[], 1);
            },
            "# HELP up Whether it runs.\n# TYPE up gauge\nup 1\n",
        );
    }

    #[test]
    fn bounds_are_written_as_prometheus_does() {
        let bounds = [1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0];
        let expected = [
            "1e-08", "1e-07", "1e-06", "1e-05", "0.0001", "0.001", "0.01", "0.1", "1", "10",
        ];
        assert_eq!(bounds.map(format_bound), expected);
    }

    #[test]
    fn label_values_are_escaped() {
        check(
            |text| text.sample("a", &[("x", "1"), ("y", "a\"\\\n")], 0.5),
            "a{x=\"1\",y=\"a\\\"\\\\\\n\"} 0.5\n",
        );
    }

    #[test]
    fn buckets_count_everything_below_their_bound() {
        check(
            |text| {
                text.histogram(
                    "t",
                    &[("q", "a")],
                    &Buckets {
                        bounds: &[0.1, 1.0],
                        counts: &[2, 1, 4],
                        sum: 9.5,
                    },
                )
            },
            "t_bucket{q=\"a\",le=\"0.1\"} 2\nt_bucket{q=\"a\",le=\"1\"} 3\nt_bucket{q=\"a\",le=\"+Inf\"} 7\n\
             t_sum{q=\"a\"} 9.5\nt_count{q=\"a\"} 7\n",
        );
    }
}
