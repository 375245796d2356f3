//! [`History`]: the last two readings of a node, and the usage between them: pure. The rules are those of metrics-server
//! (its `pkg/storage`).

use std::collections::BTreeMap;
use std::time::Duration;

use setpoint_api::Key;

use super::page::{MetricsBatch, MetricsPoint};
use super::{RESOLUTION, Usage};

/// A container that was started at least this long ago has a usage since its start, after one reading. In a shorter time
/// the start itself would be most of it.
const MIN_FRESH_WINDOW: Duration = Duration::from_secs(10);

/// The last two readings of a node.
#[derive(Debug, Default)]
pub(super) struct History {
    last: MetricsBatch,
    previous: MetricsBatch,
}

impl History {
    /// Adds the newest readings. What they do not have is forgotten.
    pub(super) fn add(&mut self, readings: MetricsBatch) {
        let node = readings
            .node
            .and_then(|new| earlier(new, self.last.node, self.previous.node));
        let pods = readings.pods.iter().map(|(pod, containers)| {
            let find = |readings: &MetricsBatch, name: &str| readings.pods.get(pod)?.get(name).copied();
            let previous = containers.iter().filter_map(|(name, new)| {
                let (last, previous) = (find(&self.last, name), find(&self.previous, name));
                let reading = at_start(new).or_else(|| earlier(*new, last, previous))?;
                Some((name.clone(), reading))
            });
            (pod.clone(), previous.collect::<BTreeMap<_, _>>())
        });
        let pods = pods.collect();
        self.previous = MetricsBatch { node, pods };
        self.last = readings;
    }

    pub(super) fn node(&self) -> Option<Usage> {
        usage(&self.last.node?, &self.previous.node?)
    }

    pub(super) fn pod(&self, pod: &Key) -> Option<Vec<(String, Usage)>> {
        let (last, previous) = (self.last.pods.get(pod)?, self.previous.pods.get(pod)?);
        let containers = last.iter().map(|(name, reading)| {
            let usage = usage(reading, previous.get(name)?)?;
            Some((name.clone(), usage))
        });
        containers.collect()
    }
}

/// The start of a fresh container as a reading.
fn at_start(new: &MetricsPoint) -> Option<MetricsPoint> {
    let started_at = new.started_at?;
    let age = Duration::try_from(new.time.duration_since(started_at)).ok()?;
    (MIN_FRESH_WINDOW..RESOLUTION)
        .contains(&age)
        .then_some(MetricsPoint {
            time: started_at,
            cpu_nanoseconds: 0,
            ..*new
        })
}

/// The reading before the new one: the last, unless that is the same or the container has restarted since.
fn earlier(
    new: MetricsPoint,
    last: Option<MetricsPoint>,
    previous: Option<MetricsPoint>,
) -> Option<MetricsPoint> {
    let last = last?;
    if new.started_at.is_some_and(|started| started >= last.time) {
        return None;
    }
    match new.time > last.time {
        true => Some(last),
        false => previous.filter(|previous| previous.time < new.time),
    }
}

/// The usage between two readings; `None` if they are not of the same run.
fn usage(last: &MetricsPoint, previous: &MetricsPoint) -> Option<Usage> {
    let window = Duration::try_from(last.time.duration_since(previous.time)).ok()?;
    let used = last.cpu_nanoseconds.checked_sub(previous.cpu_nanoseconds)?;
    (!window.is_zero()).then(|| Usage {
        time: last.time,
        window,
        cpu_nanocores: (used as f64 / window.as_secs_f64()) as u64,
        memory_bytes: last.memory_bytes,
    })
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn reading(started: i64, time: i64, cpu_seconds: u64) -> MetricsPoint {
        MetricsPoint {
            started_at: Timestamp::from_second(started).ok(),
            time: Timestamp::from_second(time).unwrap(),
            cpu_nanoseconds: cpu_seconds * 1_000_000_000,
            memory_bytes: 4096,
        }
    }

    /// The usage of a container after these readings: millicores and the seconds of the window.
    #[track_caller]
    fn check(readings: &[MetricsPoint], expected: Option<(u64, u64)>) {
        let (mut history, pod) = (History::default(), Key::new("default", "web"));
        for reading in readings {
            let containers = BTreeMap::from([("c".to_owned(), *reading)]);
            history.add(MetricsBatch {
                node: Some(*reading),
                pods: [(pod.clone(), containers)].into(),
            });
        }
        let containers = history.pod(&pod);
        let usage = containers.map(|containers| containers[0].1);
        let rounded = usage.map(|usage| (usage.cpu_nanocores / 1_000_000, usage.window.as_secs()));
        assert_eq!(rounded, expected);
    }

    #[test]
    fn the_usage_is_the_difference_of_two_readings() {
        check(&[reading(0, 100, 50)], None);
        check(&[reading(0, 100, 50), reading(0, 115, 53)], Some((200, 15)));
    }

    #[test]
    fn a_fresh_container_has_a_usage_since_its_start() {
        check(&[reading(100, 112, 6)], Some((500, 12)));
        check(&[reading(100, 105, 5)], None);
    }

    #[test]
    fn a_reading_that_is_read_again_changes_nothing() {
        let (first, second) = (reading(0, 100, 50), reading(0, 115, 53));
        check(&[first, second, second], Some((200, 15)));
    }

    #[test]
    fn a_restarted_container_has_no_usage_until_it_is_read_again() {
        check(&[reading(0, 100, 50), reading(110, 115, 1)], None);
        let restarted = [reading(0, 100, 50), reading(110, 115, 1), reading(110, 130, 4)];
        check(&restarted, Some((200, 15)));
    }

    #[test]
    fn a_pod_that_is_read_no_more_is_forgotten() {
        let mut history = History::default();
        let node = |time| MetricsBatch {
            node: Some(reading(0, time, 1)),
            ..MetricsBatch::default()
        };
        history.add(node(100));
        history.add(MetricsBatch::default());
        assert_eq!(history.node(), None);
        history.add(node(130));
        assert_eq!(history.node(), None);
    }
}
