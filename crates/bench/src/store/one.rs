//! A single writer: the cost of a commit without other writers to share the sync with.

use std::{sync::Arc, time::Instant};

use anyhow::Result;

use super::{
    Setting,
    disk::BareLog,
    subject,
    writers::{self, Load, WriterKind},
};
use crate::{
    paired_rounds,
    report::{Goal, Measurement, Report},
    statistics::Latencies,
};

/// The baseline writes from its own thread, without a handover to another: the shortest path to the disk.
pub(crate) fn measure(setting: &Setting, report: &mut Report) -> Result<()> {
    let operations = setting.full_or_quick(1_000, 300);
    let mut bare = BareLog::create(&setting.path("bare-one"))?;
    if !bare.is_direct() {
        eprintln!("  this file system does not support O_DIRECT: both sides use O_DSYNC only");
    }
    let store = Arc::new(subject::open(&setting.path("one"))?);
    let mut first_key = 0;
    append_one_by_one(&mut bare, operations)?;
    let rounds = paired_rounds::run(
        setting.rounds,
        || append_one_by_one(&mut bare, operations),
        || {
            let load = Load {
                kind: WriterKind::Threads,
                writers: 1,
                operations,
                first_key,
                keys: u64::MAX,
            };
            first_key += operations;
            Ok(writers::apply(&load, &store)?.latencies)
        },
    )?;
    report.add(
        Measurement::spread(
            "store",
            "bare_append_p50",
            rounds.baseline(Latencies::p50_us),
            "us",
        )
        .latency(&merged(&rounds.baseline)),
    );
    report.add(
        Measurement::spread("store", "one_writer_p50", rounds.subject(Latencies::p50_us), "us")
            .paired(
                rounds.baseline(Latencies::p50_us),
                rounds.ratio(Latencies::p50_us),
            )
            .latency(&merged(&rounds.subject))
            .goal(Goal::RatioAtMost(1.5)),
    );
    Ok(())
}

fn append_one_by_one(bare: &mut BareLog, operations: u64) -> Result<Latencies> {
    let value = subject::value(0);
    let mut latencies = Latencies::new();
    for number in 0..operations {
        let key = subject::key(number);
        let start = Instant::now();
        bare.push(&key, &value);
        bare.commit()?;
        latencies.record(start.elapsed());
    }
    Ok(latencies)
}

fn merged(rounds: &[Latencies]) -> Latencies {
    let mut all = Latencies::new();
    rounds.iter().for_each(|latencies| all.merge(latencies));
    all
}
