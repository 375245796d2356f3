//! Checks of reads: ranges, snapshots, old revisions, compaction, forks.

use std::ops::Bound;

use super::fixtures::*;
use super::{ManualClock, NewStore};
use crate::Error;

pub(super) fn ranges(make: NewStore<'_>) {
    let store = fresh(make);
    for key in ["b/2", "a", "b/1", "b", "b0", "b/", "c"] {
        put(&store, key, key);
    }
    let snapshot = store.snapshot();
    assert_eq!(keys(snapshot.prefix(b"b/")), "b/ b/1 b/2");
    assert_eq!(keys(snapshot.prefix(b"")), "a b b/ b/1 b/2 b0 c");
    assert_eq!(keys(snapshot.prefix(b"x")), "");
    let bounds = (Bound::Excluded(&b"b/1"[..]), Bound::Unbounded);
    assert_eq!(keys(snapshot.range(bounds)), "b/2 b0 c");
    let bounds = (Bound::Included(&b"b"[..]), Bound::Excluded(&b"b0"[..]));
    assert_eq!(keys(snapshot.range(bounds)), "b b/ b/1 b/2");
    assert_eq!(keys(snapshot.range(bounds).rev()), "b/2 b/1 b/ b");
    assert_eq!(
        (snapshot.count(b"b/"), snapshot.count(b""), snapshot.len()),
        (3, 7, 7)
    );
    put_raw(&store, &[0xff, 0xff, 1]);
    assert_eq!(store.snapshot().prefix(&[0xff, 0xff]).count(), 1);
}

pub(super) fn snapshot_is_still(make: NewStore<'_>) {
    let store = fresh(make);
    put(&store, "a", "1");
    let snapshot = store.snapshot();
    put(&store, "a", "2");
    put(&store, "b", "2");
    wait(store.compact(store.revision())).unwrap();
    assert_eq!(contents(&snapshot), "a=1");
    assert_eq!(snapshot.revision(), store.at(1));
}

pub(super) fn old_revisions(make: NewStore<'_>) {
    let store = fresh(make);
    put(&store, "a", "1");
    put(&store, "b", "2");
    delete(&store, "a");
    put(&store, "a", "4");
    for (revision, expected) in [(0, ""), (1, "a=1"), (2, "a=1 b=2"), (3, "b=2"), (4, "a=4 b=2")] {
        let snapshot = store.snapshot_at(store.at(revision)).unwrap();
        assert_eq!(contents(&snapshot), expected, "at {revision}");
        assert_eq!(snapshot.revision(), store.at(revision));
    }
}

pub(super) fn many_old_revisions(make: NewStore<'_>) {
    let mut config = ManualClock::default().config();
    config.durability = crate::Durability::None;
    let store = Fresh::new(make(config));
    for n in 0..9000 {
        put(&store, &format!("k{}", n % 10), &n.to_string());
    }
    for revision in [1, 9, 10, 4095, 4096, 4097, 5000, 8192, 8193, 8999] {
        let snapshot = store.snapshot_at(store.at(revision)).unwrap();
        let newest = snapshot
            .records()
            .map(|record| store.number(record.modified))
            .max();
        assert_eq!(newest, Some(revision));
        assert_eq!(snapshot.len() as u64, revision.min(10));
    }
}

pub(super) fn future(make: NewStore<'_>) {
    let store = fresh(make);
    put(&store, "a", "1");
    let future = store.at(2);
    assert!(matches!(store.snapshot_at(future), Err(Error::Future { .. })));
    assert!(matches!(store.watch(b"", future), Err(Error::Future { .. })));
    assert!(matches!(wait(store.compact(future)), Err(Error::Future { .. })));
}

pub(super) fn compaction(make: NewStore<'_>) {
    let store = fresh(make);
    for n in 1..=5 {
        put(&store, "a", &n.to_string());
    }
    wait(store.compact(store.at(3))).unwrap();
    assert_eq!(store.compacted(), store.at(3));
    let old = store.at(2);
    assert!(matches!(store.snapshot_at(old), Err(Error::Compacted { .. })));
    assert!(matches!(store.watch(b"", old), Err(Error::Compacted { .. })));
    assert_eq!(contents(&store.snapshot_at(store.at(3)).unwrap()), "a=3");
    let mut watcher = store.watch(b"", store.at(3)).unwrap();
    assert_eq!(drain(&mut watcher, &store), "4:a=4(3) 5:a=5(4)");
    wait(store.compact(store.at(1))).unwrap();
    assert_eq!(store.compacted(), store.at(3));
}

pub(super) fn byte_cap(make: NewStore<'_>) {
    let mut config = ManualClock::default().config();
    config.history.superseded_bytes = 20_000;
    let store = Fresh::new(make(config));
    for _ in 0..100 {
        put(&store, "a", &"x".repeat(1000));
    }
    let metrics = store.metrics();
    assert!(metrics.history_bytes <= 20_000 && metrics.history_bytes > 15_000);
    assert_eq!(metrics.history_events, 100 - store.number(store.compacted()));
    store.snapshot_at(store.compacted()).unwrap();
}

pub(super) fn fork(make: NewStore<'_>) {
    let store = fresh(make);
    put(&store, "a", "1");
    put(&store, "a", "2");
    let fork = store.fork();
    put(&fork, "a", "3 of the fork");
    put(&store, "b", "3");
    assert_eq!(contents(&store.snapshot()), "a=2 b=3");
    assert_eq!(contents(&fork.snapshot()), "a=3 of the fork");
    assert_eq!(contents(&fork.snapshot_at(store.at(1)).unwrap()), "a=1");
    let mut watcher = fork.watch(b"", store.at(1)).unwrap();
    assert_eq!(drain(&mut watcher, &store), "2:a=2(1) 3:a=3 of the fork(2)");
    let fourth = store.at(4);
    drop(store);
    assert_eq!(put(&fork, "a", "4"), fourth);
}
