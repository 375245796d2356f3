//! Watch events: fifty watchers of one server, of what is created through the other one.
//!
//! The cost of an event to one watcher is the CPU time of the watched server less what the same creates cost it without
//! watchers, which is reported, too: the cost to follow a change of another server. As in the benchmark `api`, creates
//! arrive without pause, or one at a time.

use anyhow::Result;

use super::{
    EIGHTH,
    paired::{self, Pair},
};
use crate::{
    api::{
        Setting,
        load::Load,
        workloads::watch::{Fanout, Pace},
    },
    paired_rounds::PairedRounds,
    report::{Measurement, Report},
};

const WATCHERS: usize = 50;

/// Concurrent clients of the creates without pause.
const CREATORS: usize = 16;

/// CPU time of the watched server in one round, in microseconds.
#[derive(Debug)]
struct Round {
    event: f64,
    followed_change: f64,
}

pub(super) async fn measure(setting: &Setting, pair: &Pair<'_>, report: &mut Report) -> Result<()> {
    let mut first = 0;
    for (pace, name, creates) in [
        (Pace::Saturated, "", setting.full_or_quick(3_000, 1_000)),
        (Pace::Slow, "_slow", setting.full_or_quick(500, 100)),
    ] {
        let rounds = paired::run(setting.rounds, async |subject, _| {
            let (watched, writer) = (pair.server(subject), pair.other(subject));
            let mut fanout = Fanout {
                watchers: 0,
                pace,
                load: Load {
                    clients: CREATORS,
                    operations: creates,
                    first,
                },
            };
            let alone = fanout.run(watched, writer).await?;
            fanout.watchers = WATCHERS;
            fanout.load.first += creates;
            let fanned_out = fanout.run(watched, writer).await?;
            first += 2 * creates;
            let alone_us = pair.busy_us(subject, alone.server_cpu, alone.elapsed);
            let us = pair.busy_us(subject, fanned_out.server_cpu, fanned_out.elapsed);
            Ok(Round {
                event: (us - alone_us).max(0.0) / fanned_out.events as f64,
                followed_change: alone_us / creates as f64,
            })
        })
        .await?;
        add(report, name, &rounds, creates);
    }
    Ok(())
}

fn add(report: &mut Report, pace: &str, rounds: &PairedRounds<Round>, creates: u64) {
    let creates = creates * rounds.subject.len() as u64;
    let line = |name: &str, cpu: fn(&Round) -> f64, operations| {
        Measurement::spread("etcd", format!("{name}{pace}_cpu"), rounds.subject(cpu), "us/op")
            .paired(rounds.baseline(cpu), rounds.ratio(cpu))
            .operations(operations)
    };
    let events = creates * WATCHERS as u64;
    report.add(line("watch_event", |round| round.event, events).goal(EIGHTH));
    report.add(line("followed_change", |round| round.followed_change, creates));
}
