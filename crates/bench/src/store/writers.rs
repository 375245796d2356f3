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
    processes::{own_cpu_time, thread_cpu_time},
    report::{Goal, Measurement, Report},
    statistics::Latencies,
    turns::{self, Turns},
};

/// The goal's number of writers.
const WRITERS: u64 = 64;

/// How many keys they write in turn. Their values stay well below the size of a log segment, so that upkeep writes an
/// image, and lets go of log, once per segment.
const KEYS: u64 = 40_000;

/// Enough for several full segments.
const RUN_IN_TIMES: usize = 8;

/// Short slices that change sides often, so that both meet the same disturbances.
const SLICES_PER_ROUND: usize = 3;

/// How writers wait.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Form {
    Threads,
    Tasks,
}

/// What one slice of load came to.
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
    pub(crate) form: Form,
    pub(crate) writers: u64,
    pub(crate) operations: u64,
    /// The key of the first operation; the following ones count up.
    pub(crate) first_key: u64,
    /// Keys are counted modulo this.
    pub(crate) keys: u64,
}

pub(crate) fn measure(setting: &Setting, report: &mut Report) -> Result<()> {
    for (form, name) in [(Form::Threads, "threads"), (Form::Tasks, "tasks")] {
        let turns = compare(setting, form, name)?;
        add(report, name, &turns);
    }
    Ok(())
}

fn compare(setting: &Setting, form: Form, name: &str) -> Result<Turns<Outcome>> {
    let operations = setting.pick(20_000, 10_000);
    let store = Arc::new(subject::open(&setting.path(&format!("writers-{name}")))?);
    run_in(&store)?;
    let before = store.metrics();
    let mut next_key = 0;
    with_group_log(&setting.path(&format!("bare-{name}")), |bare| {
        let load = |first_key| Load {
            form,
            writers: WRITERS,
            operations,
            first_key,
            keys: KEYS,
        };
        let turns = turns::take(
            setting.rounds * SLICES_PER_ROUND,
            || apply(&load(0), bare),
            || {
                let outcome = apply(&load(next_key), &store);
                next_key += operations;
                subject::block_on(store.maintain()).context("upkeep between rounds")?;
                outcome
            },
        )?;
        note_batches(&store, &before, bare, next_key);
        Ok(turns)
    })
}

/// Writes all keys again and again, with upkeep, until the store recycles its segments: a log that goes on in
/// files that were once filled, as the bare one does, and as every store does that has run for a while.
fn run_in(store: &Store) -> Result<()> {
    for _ in 0..RUN_IN_TIMES {
        subject::load(store, KEYS)?;
        subject::block_on(store.maintain()).context("upkeep while running in")?;
    }
    Ok(())
}

/// Applies the load to something that makes entries durable.
pub(crate) fn apply<A: Append>(load: &Load, log: &Arc<A>) -> Result<Outcome> {
    let cpu = own_cpu_time();
    let start = Instant::now();
    let (samples, writers_cpu) = match load.form {
        Form::Threads => on_threads(load, log.as_ref()),
        Form::Tasks => on_tasks(load, log).map(|samples| (samples, None)),
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

fn add(report: &mut Report, form: &str, turns: &Turns<Outcome>) {
    let rate = |outcome: &Outcome| outcome.rate();
    let cpu = |outcome: &Outcome| outcome.cpu_us();
    report.add(
        Measurement::spread(
            "store",
            format!("bare_group_commit_64_{form}"),
            turns.baseline(rate),
            "op/s",
        )
        .latency(&merged(&turns.baseline))
        .cpu(turns.baseline(cpu).median),
    );
    report.add(
        Measurement::spread("store", format!("writers_64_{form}"), turns.subject(rate), "op/s")
            .in_turns(turns.baseline(rate), turns.ratio(rate))
            .latency(&merged(&turns.subject))
            .cpu(turns.subject(cpu).median)
            .baseline_cpu(turns.baseline(cpu).median)
            .goal(Goal::RatioAtLeast(0.9)),
    );
    if turns.subject.iter().all(|outcome| outcome.engine_cpu.is_some()) {
        let engine = |outcome: &Outcome| outcome.engine_cpu_us();
        report.add(
            Measurement::spread(
                "store",
                format!("writers_64_{form}_engine_cpu"),
                turns.subject(engine),
                "us/op",
            )
            .in_turns(turns.baseline(engine), turns.ratio(engine))
            .operations(turns.subject.iter().map(|outcome| outcome.operations).sum()),
        );
    }
}

pub(crate) fn merged(outcomes: &[Outcome]) -> Latencies {
    let mut all = Latencies::new();
    outcomes.iter().for_each(|outcome| all.merge(&outcome.latencies));
    all
}

/// Tells whether both logs write about the same number of bytes for an entry, which the comparison rests on.
fn note_batches(store: &Store, before: &Metrics, bare: &GroupLog, operations: u64) {
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
    fn check_form(form: Form) {
        let store = Arc::new(subject::memory());
        let outcome = apply(
            &Load {
                form,
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
        check_form(Form::Threads);
    }

    #[test]
    fn tasks_share_the_operations() {
        check_form(Form::Tasks);
    }
}
