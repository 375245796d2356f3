//! The table of the floods, as Markdown.

use std::collections::BTreeMap;

use super::probe::{Latency, Measurements};

/// The measurements of one flood.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    pub(super) is_running: bool,
    pub(super) statuses: BTreeMap<String, u64>,
    pub(super) measurements: Measurements,
}

impl Row {
    /// Whether the server lives and other users were served in time.
    pub(super) fn is_served(&self, max_p99_ms: u64) -> bool {
        let all = [
            &self.measurements.reads,
            &self.measurements.writes,
            &self.measurements.livez,
        ];
        let is_fast = |latency: &&Latency| latency.failed == 0 && latency.millis(0.99) <= max_p99_ms as f64;
        self.is_running && all.iter().all(is_fast)
    }

    /// One line, printed as soon as the flood has ended.
    pub(super) fn summary(&self) -> String {
        let measurements = &self.measurements;
        let failures: Vec<String> = [
            ("reads", &measurements.reads),
            ("writes", &measurements.writes),
            ("livez", &measurements.livez),
        ]
        .into_iter()
        .filter_map(|(name, latency)| {
            let failure = latency.failure.as_ref()?;
            Some(format!("{} {name} failed: {failure}", latency.failed))
        })
        .collect();
        format!(
            "{:<20} p99 of reads {:.1} ms, of writes {:.1} ms, of livez {:.1} ms; {} MB; {} {}",
            self.name,
            measurements.reads.millis(0.99),
            measurements.writes.millis(0.99),
            measurements.livez.millis(0.99),
            measurements.memory[1],
            self.responses(),
            failures.join("; "),
        )
    }

    fn responses(&self) -> String {
        let counts: Vec<String> = self
            .statuses
            .iter()
            .map(|(status, count)| format!("{status}: {count}"))
            .collect();
        counts.join(", ")
    }
}

pub(super) fn print(rows: &[Row]) {
    println!(
        "\n| a user sends | responses | reads p50 / p99 / max, ms | writes p50 / p99 / max, ms | `/livez` p99 / max, ms | failed | memory before / peak / after, MB |"
    );
    println!("|---|---|---|---|---|---|---|");
    for row in rows {
        let measurements = &row.measurements;
        let three = |latency: &Latency| {
            let millis = |quantile| latency.millis(quantile);
            format!("{:.1} / {:.1} / {:.0}", millis(0.5), millis(0.99), millis(1.0))
        };
        let livez = &measurements.livez;
        let failed = [&measurements.reads, &measurements.writes, livez].map(|latency| latency.failed);
        let [before, peak, after] = measurements.memory;
        println!(
            "| {} | {} | {} | {} | {:.1} / {:.0} | {} | {before} / {peak} / {after}{} |",
            row.description,
            row.responses(),
            three(&measurements.reads),
            three(&measurements.writes),
            livez.millis(0.99),
            livez.millis(1.0),
            failed.iter().sum::<u64>(),
            if row.is_running {
                ""
            } else {
                ", the server has ended"
            },
        );
    }
}
