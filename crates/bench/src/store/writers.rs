//! Many writers of 1 KB, each waiting for its entry to be durable before it writes the next.
//!
//! The load comes in two forms: threads that park (what the bare loop was first measured with) and tasks on a
//! runtime (what the server has). Both forms are run on the bare group commit and on the store.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use setpoint_store::{Metrics, Store};
use tokio::task::JoinSet;

use super::{
    Setting,
    append::{Append, GroupLog, with_group_log},
    disk, subject,
};
use crate::{
    paired_rounds::{self, PairedRounds},
    processes::{own_cpu_time, thread_cpu_time},
    report::{Goal, Measurement, Report},
    statistics::Latencies,
};

/// The goal's number of writers.
const WRITERS: u64 = 64;

/// The number of keys they write in rotation. Their values stay well below the size of a log segment, so that maintenance
/// writes a snapshot file, and removes old segments, once per segment.
const KEYS: u64 = 40_000;

/// Enough for several full segments.
const WARM_UP_ROUNDS: usize = 8;

/// Short slices that alternate often, so that both sides see the same disturbances.
const SLICES_PER_ROUND: usize = 3;

/// How writers run and wait.
#[derive(Debug, Clone, Copy)]
pub(crate) enum WriterKind {
    Threads,
    Tasks,
}

/// The outcome of one slice of load.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) operations: u64,
    pub(crate) elapsed: Duration,
    /// Of the whole process: writers and what they write to.
    pub(crate) cpu: Duration,
    /// Of everything but the writers; only known when writers are threads.
    pub(crate) engine_cpu: Option<Duration>,
    pub(crate) latencies: Latencies,
}

/// Load to apply: `operations` in all, taken by whichever writer is free.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) kind: WriterKind,
    pub(crate) writers: u64,
    pub(crate) operations: u64,
    /// The key of the first operation; the following ones count up.
    pub(crate) first_key: u64,
    /// Keys are counted modulo this.
    pub(crate) keys: u64,
}

pub(crate) fn measure(setting: &Setting, report: &mut Report) -> Result<()> {
    for (kind, name) in [(WriterKind::Threads, "threads"), (WriterKind::Tasks, "tasks")] {
        let rounds = compare(setting, kind, name)?;
        add(report, name, &rounds);
    }
    Ok(())
}

fn compare(setting: &Setting, kind: WriterKind, name: &str) -> Result<PairedRounds<Outcome>> {
    let operations = setting.full_or_quick(20_000, 10_000);
    let store = Arc::new(subject::open(&setting.path(&format!("writers-{name}")))?);
    run_in(&store)?;
    let before = store.metrics();
    let mut next_key = 0;
    with_group_log(&setting.path(&format!("bare-{name}")), |bare| {
        let load = |first_key| Load {
            kind,
            writers: WRITERS,
            operations,
            first_key,
            keys: KEYS,
        };
        let rounds = paired_rounds::run(
            setting.rounds * SLICES_PER_ROUND,
            || apply(&load(0), bare),
            || {
                let outcome = apply(&load(next_key), &store);
                next_key += operations;
                subject::block_on(store.maintain()).context("upkeep between rounds")?;
                outcome
            },
        )?;
        print_batch_sizes(&store, &before, bare, next_key);
        Ok(rounds)
    })
}

/// Writes all keys again and again, with upkeep, until the store recycles its segments: a log that goes on in
/// files that were once filled, as the bare one does, and as every store does that has run for a while.
fn run_in(store: &Store) -> Result<()> {
    for _ in 0..WARM_UP_ROUNDS {
        subject::load(store, KEYS)?;
        subject::block_on(store.maintain()).context("upkeep while running in")?;
    }
    Ok(())
}

/// Applies the load to something that makes entries durable.
pub(crate) fn apply<A: Append>(load: &Load, log: &Arc<A>) -> Result<Outcome> {
    let cpu = own_cpu_time();
    let start = Instant::now();
    let (samples, writers_cpu) = match load.kind {
        WriterKind::Threads => on_threads(load, log.as_ref()),
        WriterKind::Tasks => on_tasks(load, log).map(|samples| (samples, None)),
    }?;
    let elapsed = start.elapsed();
    let cpu = own_cpu_time() - cpu;
    let engine_cpu = writers_cpu.map(|writers| cpu.saturating_sub(writers));
    let mut latencies = Latencies::new();
    samples.into_iter().for_each(|sample| latencies.record(sample));
    Ok(Outcome {
        operations: load.operations,
        elapsed,
        cpu,
        engine_cpu,
        latencies,
    })
}

/// Latencies as they come: sorting them into a histogram is left until the clocks have stopped.
type Samples = Vec<Duration>;

fn on_threads<A: Append>(load: &Load, log: &A) -> Result<(Samples, Option<Duration>)> {
    let taken = AtomicU64::new(0);
    let writer = || -> Result<(Samples, Duration)> {
        let samples = subject::block_on(write(load, &taken, log))?;
        Ok((samples, thread_cpu_time()))
    };
    thread::scope(|scope| {
        let writers: Vec<_> = (0..load.writers).map(|_| scope.spawn(writer)).collect();
        let mut all = (Samples::new(), Duration::ZERO);
        for writer in writers {
            let (samples, cpu) = writer.join().expect("a writer does not panic")?;
            all.0.extend(samples);
            all.1 += cpu;
        }
        Ok((all.0, Some(all.1)))
    })
}

fn on_tasks<A: Append>(load: &Load, log: &Arc<A>) -> Result<Samples> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .build()
        .context("starting a runtime")?;
    let taken = Arc::new(AtomicU64::new(0));
    runtime.block_on(async {
        let mut writers = JoinSet::new();
        for _ in 0..load.writers {
            let (load, taken, log) = (*load, taken.clone(), log.clone());
            writers.spawn(async move { write(&load, &taken, log.as_ref()).await });
        }
        let mut all = Samples::new();
        while let Some(samples) = writers.join_next().await {
            all.extend(samples.context("a writer panicked")??);
        }
        Ok(all)
    })
}

/// One writer: takes the next number until all are taken.
async fn write<A: Append>(load: &Load, taken: &AtomicU64, log: &A) -> Result<Samples> {
    let value = subject::value(load.first_key);
    let mut samples = Samples::with_capacity((load.operations / load.writers * 2) as usize);
    loop {
        let number = taken.fetch_add(1, Ordering::Relaxed);
        if number >= load.operations {
            return Ok(samples);
        }
        let key = subject::key((load.first_key + number) % load.keys);
        let start = Instant::now();
        log.append(key, value.clone()).await?;
        samples.push(start.elapsed());
    }
}

fn add(report: &mut Report, kind: &str, rounds: &PairedRounds<Outcome>) {
    let rate = |outcome: &Outcome| outcome.rate();
    let cpu = |outcome: &Outcome| outcome.cpu_us();
    report.add(
        Measurement::spread(
            "store",
            format!("bare_group_commit_64_{kind}"),
            rounds.baseline(rate),
            "op/s",
        )
        .latency(&merged(&rounds.baseline))
        .cpu(rounds.baseline(cpu).median),
    );
    report.add(
        Measurement::spread(
            "store",
            format!("writers_64_{kind}"),
            rounds.subject(rate),
            "op/s",
        )
        .paired(rounds.baseline(rate), rounds.ratio(rate))
        .latency(&merged(&rounds.subject))
        .cpu(rounds.subject(cpu).median)
        .baseline_cpu(rounds.baseline(cpu).median)
        .goal(Goal::RatioAtLeast(0.9)),
    );
    if rounds.subject.iter().all(|outcome| outcome.engine_cpu.is_some()) {
        let engine = |outcome: &Outcome| outcome.engine_cpu_us();
        report.add(
            Measurement::spread(
                "store",
                format!("writers_64_{kind}_engine_cpu"),
                rounds.subject(engine),
                "us/op",
            )
            .paired(rounds.baseline(engine), rounds.ratio(engine))
            .operations(rounds.subject.iter().map(|outcome| outcome.operations).sum()),
        );
    }
}

pub(crate) fn merged(outcomes: &[Outcome]) -> Latencies {
    let mut all = Latencies::new();
    outcomes.iter().for_each(|outcome| all.merge(&outcome.latencies));
    all
}

/// Prints the entry and batch sizes of both logs: the comparison is valid only if they are similar.
fn print_batch_sizes(store: &Store, before: &Metrics, bare: &GroupLog, operations: u64) {
    let metrics = store.metrics();
    let operations = operations as f64;
    eprintln!(
        "  store: {:.0} bytes an entry with padding, {:.1} entries a batch; bare: {} without padding, {:.1} a batch",
        (metrics.bytes_appended - before.bytes_appended) as f64 / operations,
        operations / (metrics.syncs - before.syncs) as f64,
        disk::entry_bytes(subject::key(0).len(), subject::VALUE_BYTES),
        operations / bare.batches() as f64,
    );
}

impl Outcome {
    fn rate(&self) -> f64 {
        self.operations as f64 / self.elapsed.as_secs_f64()
    }

    fn cpu_us(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.operations as f64
    }

    fn engine_cpu_us(&self) -> f64 {
        self.engine_cpu.unwrap_or(self.cpu).as_secs_f64() * 1e6 / self.operations as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_kind(kind: WriterKind) {
        let store = Arc::new(subject::memory());
        let outcome = apply(
            &Load {
                kind,
                writers: 4,
                operations: 100,
                first_key: 10,
                keys: 1_000,
            },
            &store,
        )
        .unwrap();
        assert_eq!(outcome.latencies.count(), 100);
        assert_eq!(
            store.metrics().index_keys,
            100,
            "every number is taken exactly once"
        );
        assert!(store.snapshot().get(&subject::key(10)).is_some());
        assert!(store.snapshot().get(&subject::key(109)).is_some());
    }

    #[test]
    fn threads_share_the_operations() {
        check_kind(WriterKind::Threads);
    }

    #[test]
    fn tasks_share_the_operations() {
        check_kind(WriterKind::Tasks);
    }
}
