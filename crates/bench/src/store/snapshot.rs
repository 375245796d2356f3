//! The cost of a snapshot for a reader, on an idle store and with a concurrent writer.

use std::{
    hint::black_box,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Instant,
};

use anyhow::Result;
use setpoint_store::Store;

use super::{Setting, subject};
use crate::{
    report::{Goal, Measurement, Report},
    statistics::Spread,
};

/// Snapshots timed together, since one alone is about as long as reading the clock.
const SNAPSHOTS_TIMED_TOGETHER: u32 = 1_000;

pub(crate) fn measure(setting: &Setting, report: &mut Report) -> Result<()> {
    let store = subject::memory();
    subject::load(&store, subject::KEYS)?;
    let batches = setting.full_or_quick(500, 100);
    add(report, "snapshot", take(&store, batches), batches);
    add(
        report,
        "snapshot_beside_a_writer",
        beside_a_writer(&store, || take(&store, batches)),
        batches,
    );
    add_reads(report, &store);
    Ok(())
}

/// Nanoseconds to take and drop a snapshot, batch by batch.
fn take(store: &Store, batches: u64) -> Spread {
    let nanos = (0..batches).map(|_| {
        let start = Instant::now();
        for _ in 0..SNAPSHOTS_TIMED_TOGETHER {
            black_box(store.snapshot());
        }
        start.elapsed().as_nanos() as f64 / f64::from(SNAPSHOTS_TIMED_TOGETHER)
    });
    Spread::of(nanos).expect("at least one batch is taken")
}

/// Does `work` while another thread keeps replacing the root that snapshots are taken of.
fn beside_a_writer<T>(store: &Store, work: impl FnOnce() -> T) -> T {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let value = subject::value(1);
            let mut number = 0;
            while !stop.load(Ordering::Relaxed) {
                let txn = subject::put(subject::key(number % subject::KEYS), value.clone());
                subject::block_on(store.commit(txn)).expect("a store in memory takes every put");
                number += 1;
            }
        });
        let outcome = work();
        stop.store(true, Ordering::Relaxed);
        outcome
    })
}

fn add(report: &mut Report, name: &str, nanos: Spread, batches: u64) {
    let snapshots = batches * u64::from(SNAPSHOTS_TIMED_TOGETHER);
    report.add(
        Measurement::spread("store", name, nanos, "ns")
            .operations(snapshots)
            .goal(Goal::AtMost(1_000.0)),
    );
}

/// Has no goal, but every get and list depends on it.
fn add_reads(report: &mut Report, store: &Store) {
    let snapshot = store.snapshot();
    let gets = 100_000;
    let start = Instant::now();
    for number in 0..gets {
        // A large odd step visits the keys out of order, as requests do.
        black_box(snapshot.get(&subject::key(number * 48_271 % subject::KEYS)));
    }
    let get = start.elapsed().as_nanos() as f64 / gets as f64;
    report.add(Measurement::new("store", "get_with_key_building", get, "ns").operations(gets));
    let start = Instant::now();
    let keys = snapshot
        .prefix(b"/registry/")
        .map(|record| record.value.len())
        .filter(|length| *length > 0)
        .count();
    let scan = start.elapsed().as_nanos() as f64 / keys as f64;
    report.add(Measurement::new("store", "scan_per_key", scan, "ns").operations(keys as u64));
}
