//! Checks of watches: order, progress, waking, compaction.

use super::NewStore;
use super::fixtures::*;
use crate::{Error, Txn};

pub(super) fn watch_order(make: NewStore<'_>) {
    let store = fresh(make);
    let mut watcher = store.watch(b"a", store.at(0)).unwrap();
    put(&store, "a1", "x");
    put(&store, "b1", "x");
    put(&store, "a2", "y");
    delete(&store, "a1");
    assert_eq!(drain(&mut watcher, &store), "1:a1=x 3:a2=y 4:a1-x");
    assert_eq!(drain(&mut watcher, &store), "");
    put(&store, "a2", "z");
    assert_eq!(drain(&mut watcher, &store), "5:a2=z(y)");
}

pub(super) fn watch_replay(make: NewStore<'_>) {
    let store = fresh(make);
    for n in 1..=3 {
        put(&store, "a", &n.to_string());
    }
    let mut watcher = store.watch(b"", store.at(1)).unwrap();
    assert_eq!(drain(&mut watcher, &store), "2:a=2(1) 3:a=3(2)");
    let mut watcher = store.watch(b"", store.revision()).unwrap();
    assert!(watcher.try_next().unwrap().is_none());
}

pub(super) fn watch_progress(make: NewStore<'_>) {
    let store = fresh(make);
    let mut watcher = store.watch(b"a", store.at(0)).unwrap();
    put(&store, "b", "1");
    let batch = wait(watcher.next()).unwrap();
    assert!(batch.events.is_empty());
    assert_eq!((batch.revision, watcher.revision()), (store.at(1), store.at(1)));
}

pub(super) fn watch_whole_revisions(make: NewStore<'_>) {
    let store = fresh(make);
    for round in 0..4 {
        let ops = (0..700)
            .map(|n| op_put(&format!("k{n}"), &round.to_string()))
            .collect();
        wait(store.commit(Txn {
            compares: vec![],
            ops,
        }))
        .unwrap();
    }
    let mut watcher = store.watch(b"k", store.at(0)).unwrap();
    let mut seen = 0;
    while let Some(batch) = watcher.try_next().unwrap() {
        assert_eq!(batch.events.len() % 700, 0);
        assert_eq!(batch.events.last().unwrap().revision, batch.revision);
        seen += batch.events.len();
    }
    assert_eq!(seen, 2800);
}

pub(super) fn watch_wakes(make: NewStore<'_>) {
    let store = fresh(make);
    let mut watcher = store.watch(b"", store.at(0)).unwrap();
    let (batch, _) = wait(async {
        tokio::join!(
            watcher.next(),
            store.commit(Txn {
                compares: vec![],
                ops: vec![op_put("a", "1")]
            })
        )
    });
    assert_eq!(batch.unwrap().events.len(), 1);
}

pub(super) fn watch_stalled(make: NewStore<'_>) {
    let store = fresh(make);
    let mut watcher = store.watch(b"", store.at(0)).unwrap();
    for n in 0..50 {
        put(&store, "a", &n.to_string());
    }
    let mut kept = store.watch(b"", store.at(40)).unwrap();
    wait(store.compact(store.at(40))).unwrap();
    assert!(matches!(watcher.try_next(), Err(Error::Compacted { .. })));
    assert_eq!(kept.try_next().unwrap().unwrap().events.len(), 10);
}

pub(super) fn closing(make: NewStore<'_>) {
    let store = fresh(make);
    put(&store, "a", "1");
    let other = store.clone();
    let mut watcher = store.watch(b"", store.at(0)).unwrap();
    wait(store.into_store().close()).unwrap();
    assert_eq!(wait(watcher.next()).unwrap().events.len(), 1);
    assert!(matches!(wait(watcher.next()), Err(Error::Closed)));
    let txn = Txn {
        compares: vec![],
        ops: vec![op_put("a", "2")],
    };
    assert!(matches!(wait(other.commit(txn)), Err(Error::Closed)));
    assert_eq!(contents(&other.snapshot()), "a=1");
}
