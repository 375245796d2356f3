//! The figures of all controllers in a process, in Prometheus' text form under client-go's names.

use std::fmt::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::queue::{Histogram, Metrics as QueueMetrics};

/// Where every controller registers itself.
#[derive(Default)]
pub struct Metrics {
    sources: Mutex<Vec<Source>>,
    /// The figures of others in the process.
    others: Mutex<Vec<Arc<Text>>>,
}

/// Figures in Prometheus' text form.
type Text = dyn Fn() -> String + Send + Sync;

/// What a controller counts besides its queue.
#[derive(Debug, Default)]
pub struct Counters {
    /// So many keys can be worked on at a time.
    pub workers: u64,
    /// Reconciles that run now.
    pub active_workers: AtomicU64,
    /// Reconciles that ended well, and those among them that want to look again later.
    pub succeeded: AtomicU64,
    /// Those among them that want to look again later.
    pub requeued_after: AtomicU64,
    /// Reconciles that failed and are tried again.
    pub failed: AtomicU64,
    /// Writes that lost a race and are tried again.
    pub conflicts: AtomicU64,
    /// Reconciles that failed for good.
    pub terminal: AtomicU64,
    /// Reconciles that panicked and are tried again.
    pub panics: AtomicU64,
    /// Reconciles that were dropped because they took too long.
    pub timeouts: AtomicU64,
    /// How long reconciles took.
    pub took: Mutex<Histogram>,
    /// Reconciles whose key had to wait until the caches had seen their writes.
    pub held: AtomicU64,
}

struct Source {
    name: &'static str,
    queue: Box<dyn Fn() -> QueueMetrics + Send + Sync>,
    counters: Arc<Counters>,
}

// === impl Metrics ===

impl Metrics {
    /// A controller of the same name takes the place of its predecessor.
    pub(crate) fn register(
        &self,
        name: &'static str,
        queue: impl Fn() -> QueueMetrics + Send + Sync + 'static,
        counters: Arc<Counters>,
    ) {
        let mut sources = self.sources.lock();
        sources.retain(|source| source.name != name);
        let queue = Box::new(queue);
        sources.push(Source {
            name,
            queue,
            counters,
        });
        sources.sort_by_key(|source| source.name);
    }

    /// Includes figures of one's own, in Prometheus' text form. No two may have the same name.
    pub fn include(&self, text: impl Fn() -> String + Send + Sync + 'static) {
        self.others.lock().push(Arc::new(text));
    }

    /// All figures as text.
    pub fn to_text(&self) -> String {
        let sources = self.sources.lock();
        let queues: Vec<_> = sources
            .iter()
            .map(|source| (source.name, (source.queue)()))
            .collect();
        let mut text = String::new();
        write_queues(&mut text, &queues).expect("a string takes what is written");
        write_counters(&mut text, &sources).expect("a string takes what is written");
        write_reconciles(&mut text, &sources).expect("a string takes what is written");
        drop(sources);
        let others = self.others.lock().clone();
        others.iter().for_each(|other| text.push_str(&other()));
        text
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sources = self.sources.lock();
        f.debug_list()
            .entries(sources.iter().map(|source| source.name))
            .finish()
    }
}

fn write_queues(text: &mut String, queues: &[(&str, QueueMetrics)]) -> fmt::Result {
    type Figure = fn(&QueueMetrics) -> f64;
    type Durations = fn(&QueueMetrics) -> &Histogram;
    let figures: [(&str, &str, Figure); 5] = [
        ("workqueue_depth", "gauge", |queue| queue.depth as f64),
        ("workqueue_adds_total", "counter", |queue| queue.adds as f64),
        ("workqueue_retries_total", "counter", |queue| queue.retries as f64),
        ("workqueue_unfinished_work_seconds", "gauge", |queue| {
            queue.unfinished_work
        }),
        ("workqueue_longest_running_processor_seconds", "gauge", |queue| {
            queue.longest_running
        }),
    ];
    for (metric, kind, figure) in figures {
        writeln!(text, "# TYPE {metric} {kind}")?;
        for (name, queue) in queues {
            writeln!(text, "{metric}{{name=\"{name}\"}} {}", figure(queue))?;
        }
    }
    let histograms: [(&str, Durations); 2] = [
        ("workqueue_queue_duration_seconds", |queue| &queue.queue_duration),
        ("workqueue_work_duration_seconds", |queue| &queue.work_duration),
    ];
    for (metric, histogram) in histograms {
        writeln!(text, "# TYPE {metric} histogram")?;
        for (name, queue) in queues {
            write_histogram(text, metric, ("name", name), histogram(queue))?;
        }
    }
    Ok(())
}

fn write_histogram(
    text: &mut String,
    metric: &str,
    (label, name): (&str, &str),
    histogram: &Histogram,
) -> fmt::Result {
    for (bound, count) in histogram.cumulative() {
        let bound = shown(bound);
        writeln!(
            text,
            "{metric}_bucket{{{label}=\"{name}\",le=\"{bound}\"}} {count}"
        )?;
    }
    let count = histogram.count();
    writeln!(text, "{metric}_bucket{{{label}=\"{name}\",le=\"+Inf\"}} {count}")?;
    writeln!(text, "{metric}_sum{{{label}=\"{name}\"}} {}", histogram.sum())?;
    writeln!(text, "{metric}_count{{{label}=\"{name}\"}} {count}")
}

/// A number as Prometheus' own libraries write it: `1e-08`, `0.0001`, `10`.
fn shown(number: f64) -> String {
    if number != 0.0 && number.abs() < 1e-4 {
        let text = format!("{number:e}");
        return match text.split_once("e-") {
            Some((digits, exponent)) => format!("{digits}e-{exponent:0>2}"),
            None => text,
        };
    }
    number.to_string()
}

fn write_counters(text: &mut String, sources: &[Source]) -> fmt::Result {
    let metric = "setpoint_controller_active_workers";
    writeln!(text, "# TYPE {metric} gauge")?;
    for source in sources {
        let active = source.counters.active_workers.load(Ordering::Relaxed);
        writeln!(text, "{metric}{{controller=\"{}\"}} {active}", source.name)?;
    }
    let metric = "setpoint_controller_reconciles_total";
    writeln!(text, "# TYPE {metric} counter")?;
    for source in sources {
        for (result, counter) in source.counters.results() {
            let count = counter.load(Ordering::Relaxed);
            writeln!(
                text,
                "{metric}{{controller=\"{}\",result=\"{result}\"}} {count}",
                source.name
            )?;
        }
    }
    let metric = "setpoint_controller_held_total";
    writeln!(text, "# TYPE {metric} counter")?;
    for source in sources {
        let held = source.counters.held.load(Ordering::Relaxed);
        writeln!(text, "{metric}{{controller=\"{}\"}} {held}", source.name)?;
    }
    Ok(())
}

/// The same under the names that dashboards made for controller-runtime ask for.
fn write_reconciles(text: &mut String, sources: &[Source]) -> fmt::Result {
    type Figure = fn(&Counters) -> u64;
    let metric = "controller_runtime_reconcile_total";
    writeln!(text, "# TYPE {metric} counter")?;
    for source in sources {
        for (result, count) in source.counters.totals() {
            writeln!(
                text,
                "{metric}{{controller=\"{}\",result=\"{result}\"}} {count}",
                source.name
            )?;
        }
    }
    let figures: [(&str, &str, Figure); 6] = [
        (
            "controller_runtime_max_concurrent_reconciles",
            "gauge",
            |counters| counters.workers,
        ),
        (
            "controller_runtime_reconcile_errors_total",
            "counter",
            |counters| read(&counters.failed) + read(&counters.conflicts),
        ),
        (
            "controller_runtime_terminal_reconcile_errors_total",
            "counter",
            |counters| read(&counters.terminal),
        ),
        (
            "controller_runtime_reconcile_panics_total",
            "counter",
            |counters| read(&counters.panics),
        ),
        (
            "controller_runtime_reconcile_timeouts_total",
            "counter",
            |counters| read(&counters.timeouts),
        ),
        ("controller_runtime_active_workers", "gauge", |counters| {
            read(&counters.active_workers)
        }),
    ];
    for (metric, kind, figure) in figures {
        writeln!(text, "# TYPE {metric} {kind}")?;
        for source in sources {
            let figure = figure(&source.counters);
            writeln!(text, "{metric}{{controller=\"{}\"}} {figure}", source.name)?;
        }
    }
    let metric = "controller_runtime_reconcile_time_seconds";
    writeln!(text, "# TYPE {metric} histogram")?;
    for source in sources {
        let took = source.counters.took.lock().clone();
        write_histogram(text, metric, ("controller", source.name), &took)?;
    }
    Ok(())
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

// === impl Counters ===

impl Counters {
    /// The counters of a controller with so many workers.
    pub(crate) fn of(workers: usize) -> Self {
        Self {
            workers: workers as u64,
            ..Self::default()
        }
    }

    /// By controller-runtime's words for how a reconcile ended.
    fn totals(&self) -> [(&'static str, u64); 4] {
        let failures = [
            &self.failed,
            &self.conflicts,
            &self.terminal,
            &self.panics,
            &self.timeouts,
        ];
        let later = read(&self.requeued_after);
        [
            ("error", failures.into_iter().map(read).sum()),
            ("requeue", 0),
            ("requeue_after", later),
            ("success", read(&self.succeeded).saturating_sub(later)),
        ]
    }

    fn results(&self) -> [(&'static str, &AtomicU64); 6] {
        [
            ("success", &self.succeeded),
            ("error", &self.failed),
            ("conflict", &self.conflicts),
            ("terminal", &self.terminal),
            ("panic", &self.panics),
            ("timeout", &self.timeouts),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_prometheus_does() {
        let written: Vec<_> = Histogram::BOUNDS.into_iter().map(shown).collect();
        let expected = [
            "1e-08", "1e-07", "1e-06", "1e-05", "0.0001", "0.001", "0.01", "0.1", "1", "10",
        ];
        assert_eq!(written, expected);
    }

    /// WQ3, and the names that dashboards made for controller-runtime ask for.
    #[test]
    fn wq3_reconciles_speak_by_the_names_of_controller_runtime() {
        let (metrics, counters) = (Metrics::default(), Arc::new(Counters::of(7)));
        for (counter, count) in [
            (&counters.succeeded, 5),
            (&counters.requeued_after, 2),
            (&counters.failed, 3),
            (&counters.terminal, 1),
            (&counters.active_workers, 4),
        ] {
            counter.store(count, Ordering::Relaxed);
        }
        metrics.register("web", QueueMetrics::default, counters);
        let text = metrics.to_text();
        let expected = [
            "controller_runtime_reconcile_total{controller=\"web\",result=\"success\"} 3",
            "controller_runtime_reconcile_total{controller=\"web\",result=\"requeue_after\"} 2",
            "controller_runtime_reconcile_total{controller=\"web\",result=\"error\"} 4",
            "controller_runtime_max_concurrent_reconciles{controller=\"web\"} 7",
            "controller_runtime_active_workers{controller=\"web\"} 4",
            "controller_runtime_terminal_reconcile_errors_total{controller=\"web\"} 1",
            "# TYPE controller_runtime_reconcile_time_seconds histogram",
        ];
        for line in expected {
            assert!(text.lines().any(|own| own == line), "{line} is missing in {text}");
        }
    }

    /// The names, kinds and labels that dashboards made for client-go ask for.
    #[test]
    fn queues_speak_by_the_names_of_client_go() {
        let metrics = Metrics::default();
        metrics.register("web", QueueMetrics::default, Arc::default());
        let text = metrics.to_text();
        let expected = [
            "# TYPE workqueue_depth gauge",
            "workqueue_depth{name=\"web\"} 0",
            "# TYPE workqueue_adds_total counter",
            "# TYPE workqueue_retries_total counter",
            "# TYPE workqueue_unfinished_work_seconds gauge",
            "# TYPE workqueue_longest_running_processor_seconds gauge",
            "# TYPE workqueue_queue_duration_seconds histogram",
            "workqueue_queue_duration_seconds_bucket{name=\"web\",le=\"1e-08\"} 0",
            "workqueue_work_duration_seconds_bucket{name=\"web\",le=\"+Inf\"} 0",
            "workqueue_work_duration_seconds_count{name=\"web\"} 0",
        ];
        for line in expected {
            assert!(text.lines().any(|own| own == line), "{line} is missing in {text}");
        }
    }
}
