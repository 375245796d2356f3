//! The table at the end of a run.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::faults::Injection;
use crate::soak::Soak;

/// The faults of a run and what became of them.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// How often each was injected, and the longest recovery.
    injected: BTreeMap<&'static str, (u64, Duration)>,
    skipped: BTreeMap<&'static str, String>,
}

impl Faults {
    pub(crate) fn add(&mut self, name: &'static str, injection: Injection) {
        match injection {
            Injection::Recovered(recovery) => {
                let (number, longest) = self.injected.entry(name).or_default();
                *number += 1;
                *longest = recovery.max(*longest);
            }
            Injection::Skipped(reason) => drop(self.skipped.insert(name, reason)),
        }
    }
}

/// Prints the table. Returns whether every invariant holds.
pub(crate) fn print(soak: &Soak<'_>, faults: &Faults, elapsed: Duration, checkpoints: usize) -> bool {
    check_latency(soak);
    let violations = soak.violations();
    let metrics = &soak.metrics;
    let number = |counter: &AtomicU64| counter.load(Ordering::Relaxed).to_string();
    let latency = metrics.latency.lock();
    let millis = |quantile: f64| format!("{:.1} ms", latency.value_at_quantile(quantile) as f64 / 1000.0);
    let rows = [
        (
            "duration",
            format!("{:.0} s, seed {}", elapsed.as_secs_f64(), soak.args.seed),
        ),
        ("requests", number(&metrics.requests)),
        ("writes acknowledged", number(&metrics.writes)),
        ("writes without a response", number(&metrics.uncertain)),
        ("watch events", number(&metrics.events)),
        ("lists of watchers", number(&metrics.relists)),
        ("checkpoints", checkpoints.to_string()),
        ("latency of other users, p50", millis(0.5)),
        ("latency of other users, p99", millis(0.99)),
        ("latency of other users, max", millis(1.0)),
        ("memory, max", format!("{} MB", number(&metrics.max_memory))),
        ("violations", violations.len().to_string()),
    ];
    println!();
    for (name, value) in rows {
        println!("{name:<28} {value:>20}");
    }
    println!("\n{:<28} {:>6} {:>13}", "fault", "times", "recovery, max");
    for (name, (times, longest)) in &faults.injected {
        println!("{name:<28} {times:>6} {:>11.2} s", longest.as_secs_f64());
    }
    for (name, reason) in &faults.skipped {
        println!("{name:<28} skipped: {reason}");
    }
    violations.is_empty()
}

fn check_latency(soak: &Soak<'_>) {
    let p99 = soak.metrics.latency.lock().value_at_quantile(0.99) / 1000;
    let limit = soak.args.max_p99;
    if p99 > limit {
        soak.violation(format!("the p99 of other users is {p99} ms, more than {limit}"));
    }
}
