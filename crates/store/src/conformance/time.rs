//! Checks of expiry and of compaction by age.

use super::fixtures::*;
use super::{ManualClock, NewStore};

pub(super) fn expiry(make: NewStore<'_>) {
    let time = ManualClock::default();
    let store = Fresh::new(make(time.config()));
    put_until(&store, "a", 100);
    put_until(&store, "b", 200);
    put(&store, "c", "1");
    time.set(99);
    let report = wait(store.maintain()).unwrap();
    assert_eq!((report.expired, report.next_expiry), (0, Some(100)));
    time.set(100);
    let report = wait(store.maintain()).unwrap();
    assert_eq!((report.expired, report.next_expiry), (1, Some(200)));
    let mut watcher = store.watch(b"", store.at(3)).unwrap();
    assert_eq!(drain(&mut watcher, &store), "4:a-");
    time.set(1000);
    assert_eq!(wait(store.maintain()).unwrap().next_expiry, None);
    assert_eq!(keys(store.snapshot().prefix(b"")), "c");
    assert_eq!(store.metrics().expired, 2);
}

pub(super) fn expiry_renewed(make: NewStore<'_>) {
    let time = ManualClock::default();
    let store = Fresh::new(make(time.config()));
    put_until(&store, "a", 100);
    put_until(&store, "a", 300);
    put_until(&store, "b", 100);
    put(&store, "b", "kept");
    time.set(200);
    let report = wait(store.maintain()).unwrap();
    assert_eq!((report.expired, report.next_expiry), (0, Some(300)));
}

pub(super) fn age(make: NewStore<'_>) {
    let time = ManualClock::default();
    let store = Fresh::new(make(time.config()));
    time.set(1_000_000);
    put(&store, "a", "1");
    time.set(1_200_000);
    put(&store, "a", "2");
    time.set(1_299_999);
    assert_eq!(wait(store.maintain()).unwrap().compacted, None);
    time.set(1_300_000);
    assert_eq!(wait(store.maintain()).unwrap().compacted, Some(store.at(1)));
    assert_eq!(store.compacted(), store.at(1));
    assert_eq!(wait(store.maintain()).unwrap().compacted, None);
    assert_eq!(contents(&store.snapshot_at(store.at(1)).unwrap()), "a=1");
}
