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
}

/// What a controller counts besides its queue.
#[derive(Debug, Default)]
pub struct Counters {
    pub active_workers: AtomicU64,
    pub succeeded: AtomicU64,
    pub failed: AtomicU64,
    /// Writes that lost a race and are tried again.
    pub conflicts: AtomicU64,
    pub terminal: AtomicU64,
    pub panics: AtomicU64,
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
            write_histogram(text, metric, name, histogram(queue))?;
        }
    }
    Ok(())
}

fn write_histogram(text: &mut String, metric: &str, name: &str, histogram: &Histogram) -> fmt::Result {
    for (bound, count) in histogram.cumulative() {
        writeln!(
            text,
            "{metric}_bucket{{name=\"{name}\",le=\"{bound:e}\"}} {count}"
        )?;
    }
    let count = histogram.count();
    writeln!(text, "{metric}_bucket{{name=\"{name}\",le=\"+Inf\"}} {count}")?;
    writeln!(text, "{metric}_sum{{name=\"{name}\"}} {}", histogram.sum())?;
    writeln!(text, "{metric}_count{{name=\"{name}\"}} {count}")
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

// === impl Counters ===

impl Counters {
    fn results(&self) -> [(&'static str, &AtomicU64); 5] {
        [
            ("success", &self.succeeded),
            ("error", &self.failed),
            ("conflict", &self.conflicts),
            ("terminal", &self.terminal),
            ("panic", &self.panics),
        ]
    }
}
