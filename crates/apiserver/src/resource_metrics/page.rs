//! The page `/metrics/resource` of a kubelet, in the Prometheus text format: pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use setpoint_api::Key;

/// What a kubelet measured of a node or a container.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MetricsPoint {
    /// When the container was started, if the kubelet reports it.
    pub started_at: Option<Timestamp>,
    /// When it was measured.
    pub time: Timestamp,
    /// The CPU time since the start.
    pub cpu_nanoseconds: u64,
    /// The working set.
    pub memory_bytes: u64,
}

/// The readings of a page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MetricsBatch {
    /// Of the node.
    pub node: Option<MetricsPoint>,
    /// Of the containers of each pod, by their names.
    pub pods: BTreeMap<Key, BTreeMap<String, MetricsPoint>>,
}

/// Parses a page that was read now. A node or a pod without CPU time or memory is left out: its reading is incomplete.
pub fn parse(text: &str, now: Timestamp) -> MetricsBatch {
    let mut node = MetricsPoint::default();
    let mut pods: BTreeMap<Key, BTreeMap<String, MetricsPoint>> = BTreeMap::new();
    for sample in text.lines().filter_map(|line| Sample::parse(line, now)) {
        if sample.name.starts_with("node_") {
            sample.add_to(&mut node);
        } else if sample.name.starts_with("container_")
            && let (Some(namespace), Some(pod), Some(container)) = (
                sample.label("namespace"),
                sample.label("pod"),
                sample.label("container"),
            )
        {
            let containers = pods.entry(Key::new(namespace, pod)).or_default();
            sample.add_to(containers.entry(container.to_owned()).or_default());
        }
    }
    pods.retain(|_, containers| containers.values().all(is_complete));
    MetricsBatch {
        node: Some(node).filter(is_complete),
        pods,
    }
}

fn is_complete(reading: &MetricsPoint) -> bool {
    reading.cpu_nanoseconds > 0 && reading.memory_bytes > 0
}

/// A line of a page: `name{label="value",...} value milliseconds`.
struct Sample<'a> {
    name: &'a str,
    labels: &'a str,
    value: f64,
    time: Timestamp,
}

impl<'a> Sample<'a> {
    /// The sample of a line; `None` for comments and for what is none.
    fn parse(line: &'a str, now: Timestamp) -> Option<Self> {
        if line.starts_with('#') {
            return None;
        }
        let (name, labels, rest) = match line.split_once('{') {
            Some((name, rest)) => {
                let (labels, rest) = rest.rsplit_once('}')?;
                (name, labels, rest)
            }
            None => {
                let (name, rest) = line.split_once(' ')?;
                (name, "", rest)
            }
        };
        let mut words = rest.split_whitespace();
        let value = words.next()?.parse().ok()?;
        let time = words.next().and_then(|word| word.parse().ok());
        let time = time.and_then(|time| Timestamp::from_millisecond(time).ok());
        Some(Self {
            name,
            labels,
            value,
            time: time.unwrap_or(now),
        })
    }

    /// The value of a label. The names of Kubernetes' objects have no character that would be escaped.
    fn label(&self, name: &str) -> Option<&'a str> {
        let mut labels = self.labels.split(',');
        labels.find_map(|label| {
            let value = label.trim().strip_prefix(name)?.strip_prefix("=\"")?;
            value.strip_suffix('"')
        })
    }

    fn add_to(&self, reading: &mut MetricsPoint) {
        // A value that is negative or too large saturates.
        match self.name {
            "node_cpu_usage_seconds_total" | "container_cpu_usage_seconds_total" => {
                (reading.cpu_nanoseconds, reading.time) = ((self.value * 1e9) as u64, self.time);
            }
            "node_memory_working_set_bytes" | "container_memory_working_set_bytes" => {
                reading.memory_bytes = self.value as u64;
            }
            "container_start_time_seconds" => {
                reading.started_at = Timestamp::from_millisecond((self.value * 1e3) as i64).ok();
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
# HELP container_cpu_usage_seconds_total Cumulative cpu time consumed by the container in core-seconds
# TYPE container_cpu_usage_seconds_total counter
container_cpu_usage_seconds_total{container=\"c\",namespace=\"default\",pod=\"web\"} 1.5 20000
container_memory_working_set_bytes{container=\"c\",namespace=\"default\",pod=\"web\"} 4096 20000
container_start_time_seconds{container=\"c\",namespace=\"default\",pod=\"web\"} 10.25
container_swap_usage_bytes{container=\"c\",namespace=\"default\",pod=\"web\"} 7 20000
container_cpu_usage_seconds_total{container=\"c\",namespace=\"default\",pod=\"new\"} 0 20000
node_cpu_usage_seconds_total 3e+01 21000
node_memory_working_set_bytes 8.192e+03 21000
scrape_error 0
";

    fn seconds(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn a_page_has_the_readings_of_the_node_and_of_containers() {
        let readings = parse(PAGE, seconds(30));
        let node = MetricsPoint {
            started_at: None,
            time: seconds(21),
            cpu_nanoseconds: 30_000_000_000,
            memory_bytes: 8192,
        };
        assert_eq!(readings.node, Some(node));
        let container = MetricsPoint {
            started_at: Timestamp::from_millisecond(10_250).ok(),
            time: seconds(20),
            cpu_nanoseconds: 1_500_000_000,
            memory_bytes: 4096,
        };
        let containers = BTreeMap::from([("c".to_owned(), container)]);
        // The reading of the other pod is incomplete.
        assert_eq!(readings.pods, [(Key::new("default", "web"), containers)].into());
    }

    #[test]
    fn lines_that_are_no_samples_are_skipped() {
        for text in [
            "",
            "}{",
            "a{",
            "node_cpu_usage_seconds_total",
            "node_cpu_usage_seconds_total NaN x",
        ] {
            assert_eq!(parse(text, seconds(1)), MetricsBatch::default(), "{text}");
        }
    }
}
