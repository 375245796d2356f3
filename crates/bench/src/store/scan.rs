//! The effect of full scans on the writers' p99 latency.
//!
//! Slices of the same load take turns: writers alone, writers beside a thread that scans all keys without a pause,
//! and, as a control, writers beside a thread that sums plain memory without a pause. On a machine with few cores
//! the control shows what any busy neighbour costs; only what the scan adds beyond it is the store's. Each round's
//! p99 is compared with its neighbours' p99, and the median of the rounds counts.

use std::{
    hint::black_box,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use anyhow::Result;
use setpoint_store::Store;

use super::{
    Setting, subject,
    writers::{self, Load, WriterKind},
};
use crate::{
    report::{Goal, Measurement, Report},
    statistics::{Latencies, Spread},
};

/// Few enough that two cores are not saturated by the writers alone.
const WRITERS: u64 = 8;

/// The thread that runs besides the writers during one slice.
#[derive(Debug, Clone, Copy)]
enum Neighbour {
    /// No neighbour: the writers have the machine to themselves.
    Absent,
    /// A thread that scans all keys of the store, again and again.
    Scanner,
    /// A thread that is as busy but does not touch the store.
    Control,
}

pub(crate) fn measure(setting: &Setting, report: &mut Report) -> Result<()> {
    let durable = Arc::new(subject::open(&setting.path("scan"))?);
    measure_on(setting, report, durable, "scan")?;
    measure_on(setting, report, Arc::new(subject::memory()), "memory_scan")
}

/// The three slices of one round.
#[derive(Debug)]
struct Round {
    quiet: Latencies,
    scanned: Latencies,
    control: Latencies,
}

/// Short rounds and many of them: a disturbance from outside then spoils few.
const ROUNDS_FACTOR: usize = 4;

fn measure_on(setting: &Setting, report: &mut Report, store: Arc<Store>, name: &str) -> Result<()> {
    subject::load(&store, subject::KEYS)?;
    let operations = setting.full_or_quick(2_000, 1_000);
    let mut rounds = Vec::new();
    let mut scans = 0;
    for _ in 0..setting.rounds * ROUNDS_FACTOR {
        let quiet = beside(&store, Neighbour::Absent, operations)?.0;
        let (scanned, done) = beside(&store, Neighbour::Scanner, operations)?;
        scans += done;
        let control = beside(&store, Neighbour::Control, operations)?.0;
        rounds.push(Round {
            quiet,
            scanned,
            control,
        });
        subject::block_on(store.maintain())?;
    }
    eprintln!(
        "  {name}: {scans} full scans of {} keys ran beside the writers",
        subject::KEYS
    );
    add(report, name, &rounds);
    Ok(())
}

fn add(report: &mut Report, name: &str, rounds: &[Round]) {
    let spread = |metric: &dyn Fn(&Round) -> f64| {
        Spread::of(rounds.iter().map(metric)).expect("at least one round is run")
    };
    let merged = |slice: &dyn Fn(&Round) -> &Latencies| {
        let mut all = Latencies::new();
        rounds.iter().for_each(|round| all.merge(slice(round)));
        all
    };
    let line = |what: &str, metric: &dyn Fn(&Round) -> f64, slice: &dyn Fn(&Round) -> &Latencies| {
        Measurement::spread("store", format!("{name}_{what}"), spread(metric), "us").latency(&merged(slice))
    };
    let (quiet, scanned, control) = (
        |round: &Round| round.quiet.p99_us(),
        |round: &Round| round.scanned.p99_us(),
        |round: &Round| round.control.p99_us(),
    );
    report.add(line("writers_p99_alone", &quiet, &|round| &round.quiet));
    report.add(line("writers_p99_control", &control, &|round| &round.control));
    report.add(
        line("added_to_p99", &|round| scanned(round) - quiet(round), &|round| {
            &round.scanned
        })
        .goal(Goal::AtMost(100.0)),
    );
    report.add(line(
        "added_beyond_control",
        &|round| scanned(round) - control(round),
        &|round| &round.scanned,
    ));
}

/// The writers' latencies, and the number of the neighbour's iterations.
fn beside(store: &Arc<Store>, neighbour: Neighbour, operations: u64) -> Result<(Latencies, u64)> {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let neighbour = scope.spawn(|| neighbour.work(store, &stop));
        let load = Load {
            kind: WriterKind::Threads,
            writers: WRITERS,
            operations,
            first_key: 0,
            keys: subject::KEYS,
        };
        let outcome = writers::apply(&load, store);
        stop.store(true, Ordering::Relaxed);
        let rounds = neighbour.join().expect("the neighbour does not panic");
        Ok((outcome?.latencies, rounds))
    })
}

impl Neighbour {
    fn work(self, store: &Store, stop: &AtomicBool) -> u64 {
        match self {
            Neighbour::Absent => 0,
            Neighbour::Scanner => scan(store, stop),
            Neighbour::Control => sum_memory(stop),
        }
    }
}

fn scan(store: &Store, stop: &AtomicBool) -> u64 {
    let mut scans = 0;
    while !stop.load(Ordering::Relaxed) {
        let snapshot = store.snapshot();
        let sum: usize = snapshot
            .prefix(b"/registry/")
            .map(|record| usize::from(record.value[0]))
            .sum();
        black_box(sum);
        scans += 1;
    }
    scans
}

fn sum_memory(stop: &AtomicBool) -> u64 {
    let memory = vec![1_u8; subject::KEYS as usize * 64];
    let mut rounds = 0;
    while !stop.load(Ordering::Relaxed) {
        black_box(memory.iter().map(|byte| u64::from(*byte)).sum::<u64>());
        rounds += 1;
    }
    rounds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_writers_finish_while_the_scanner_scans() {
        let store = Arc::new(subject::memory());
        subject::load(&store, 50).unwrap();
        let (latencies, scans) = beside(&store, Neighbour::Scanner, 500).unwrap();
        assert_eq!(latencies.count(), 500);
        assert!(scans > 0);
    }
}
