//! One writer alone: what a commit costs when there is nobody to share the disk's wait with.

use std::{sync::Arc, time::Instant};

use anyhow::Result;

use super::{
    Setting,
    disk::BareLog,
    subject,
    writers::{self, Form, Load},
};
use crate::{
    report::{Goal, Measurement, Report},
    statistics::Latencies,
    turns,
};

/// The bare side writes from its own thread, without any handing over: the shortest way to the disk there is.
pub(crate) fn measure(setting: &Setting, report: &mut Report) -> Result<()> {
    let operations = setting.pick(1_000, 300);
    let mut bare = BareLog::create(&setting.path("bare-one"))?;
    if !bare.is_direct() {
        eprintln!("  this file system refuses O_DIRECT: both sides use O_DSYNC alone");
    }
    let store = Arc::new(subject::open(&setting.path("one"))?);
    let mut first_key = 0;
    append_one_by_one(&mut bare, operations)?;
    let turns = turns::take(
        setting.rounds,
        || append_one_by_one(&mut bare, operations),
        || {
            let load = Load {
                form: Form::Threads,
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
            turns.baseline(Latencies::p50_us),
            "us",
        )
        .latency(&merged(&turns.baseline)),
    );
    report.add(
        Measurement::spread("store", "one_writer_p50", turns.subject(Latencies::p50_us), "us")
            .in_turns(turns.baseline(Latencies::p50_us), turns.ratio(Latencies::p50_us))
            .latency(&merged(&turns.subject))
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
