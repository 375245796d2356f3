//! Checks of commits: revisions, compares, rejections, stamps.

use super::fixtures::*;
use super::{ManualClock, NewStore};
use crate::{Error, Op, Put, Store, Txn};

pub(super) fn first_commit(make: NewStore<'_>) {
    let store = fresh(make);
    assert_eq!(store.revision(), store.at(0));
    assert_eq!(put(&store, "a", "1"), store.at(1));
    assert_eq!(store.revision(), store.at(1));
}

pub(super) fn shared_revision(make: NewStore<'_>) {
    let store = fresh(make);
    let ops = vec![op_put("a", "1"), op_put("b", "2")];
    let committed = wait(store.commit(Txn {
        compares: vec![],
        ops,
    }))
    .unwrap();
    assert_eq!(committed.records.len(), 2);
    for record in committed.records.iter().flatten() {
        assert_eq!(record.modified, store.at(1));
    }
    assert_eq!(put(&store, "c", "3"), store.at(2));
}

pub(super) fn versions(make: NewStore<'_>) {
    let store = fresh(make);
    put(&store, "a", "1");
    put(&store, "b", "1");
    put(&store, "a", "2");
    let record = store.snapshot().get(b"a").unwrap();
    let numbers = (
        store.number(record.created),
        store.number(record.modified),
        record.version,
    );
    assert_eq!(numbers, (1, 3, 2));
}

pub(super) fn recreated(make: NewStore<'_>) {
    let store = fresh(make);
    put(&store, "a", "1");
    delete(&store, "a");
    put(&store, "a", "2");
    let record = store.snapshot().get(b"a").unwrap();
    assert_eq!((store.number(record.created), record.version), (3, 1));
}

pub(super) fn one_writer_wins(make: NewStore<'_>) {
    let store = fresh(make);
    let revision = put(&store, "a", "0");
    let results: Vec<_> = (0..100)
        .map(|_| write_if(&store, modified("a", revision)))
        .collect();
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
    let rejected = |result: &&Result<_, Error>| matches!(result, Err(Error::Precondition { .. }));
    assert_eq!(results.iter().filter(rejected).count(), 99);
}

pub(super) fn unchanged_prefix(make: NewStore<'_>) {
    let store = fresh(make);
    let first = put(&store, "a/1", "1");
    // The checks write "a", which does not have the prefix.
    check_compare(&store, vec![unchanged("a/", first)], None);
    check_compare(&store, vec![unchanged("b/", first), present("a/1")], None);
    let second = put(&store, "a/2", "1");
    check_compare(&store, vec![present("a/1"), unchanged("a/", first)], Some(1));
    check_compare(&store, vec![unchanged("a/", second)], None);
    let error = write_if(&store, unchanged("a/", first)).unwrap_err();
    let current = match &error {
        Error::Precondition { current, .. } => current.as_ref().map(|record| record.key.clone()),
        other => panic!("expected a conflict, got {other}"),
    };
    assert_eq!(current.as_deref(), Some(&b"a/2"[..]));
    delete(&store, "a/2");
    check_compare(&store, vec![unchanged("a/", first)], None);
}

pub(super) fn compares(make: NewStore<'_>) {
    let store = fresh(make);
    let revision = put(&store, "a", "1");
    check_compare(&store, vec![modified("a", revision)], None);
    let revision = store.revision();
    check_compare(&store, vec![present("a"), absent("b")], None);
    check_compare(&store, vec![present("a"), modified("a", revision)], Some(1));
    check_compare(&store, vec![absent("a")], Some(0));
    check_compare(&store, vec![present("b")], Some(0));
    check_compare(&store, vec![modified("b", revision)], Some(0));
    let error = write_if(&store, absent("a")).unwrap_err();
    let Error::Precondition {
        current: Some(current),
        ..
    } = error
    else {
        panic!("expected the current record, got {error}");
    };
    assert_eq!(current.modified, store.revision());
}

pub(super) fn rejected_takes_none(make: NewStore<'_>) {
    let store = fresh(make);
    put(&store, "a", "1");
    write_if(&store, absent("a")).unwrap_err();
    assert_eq!(store.revision(), store.at(1));
    assert_eq!(put(&store, "a", "2"), store.at(2));
}

pub(super) fn idle_takes_none(make: NewStore<'_>) {
    let store = fresh(make);
    put(&store, "a", "1");
    assert_eq!(delete(&store, "b"), store.at(1));
    assert_eq!(wait(store.commit(Txn::default())).unwrap().revision, store.at(1));
    let ops = vec![op_delete("b"), op_put("c", "1")];
    let committed = wait(store.commit(Txn {
        compares: vec![],
        ops,
    }))
    .unwrap();
    assert_eq!(committed.revision, store.at(2));
    assert!(committed.records[0].is_none() && committed.records[1].is_some());
}

pub(super) fn duplicate_key(make: NewStore<'_>) {
    let store = fresh(make);
    for padding in [0, 20] {
        let mut ops: Vec<_> = (0..padding).map(|n| op_put(&format!("p{n}"), "")).collect();
        ops.extend([op_put("a", "1"), op_delete("a")]);
        let error = wait(store.commit(Txn {
            compares: vec![],
            ops,
        }))
        .unwrap_err();
        assert!(matches!(error, Error::Duplicate { key } if key == "a"));
    }
    assert_eq!(store.revision(), store.at(0));
}

pub(super) fn stamped(make: NewStore<'_>) {
    let store = fresh(make);
    for n in 1..=12 {
        let put = Put {
            stamp: Some(2),
            ..put_of("a", "v=;")
        };
        let committed = commit(&store, Op::Put(put));
        let record = committed.records[0].as_ref().unwrap();
        assert_eq!(record.value, format!("v={};", store.at(n)));
    }
    let expected = format!("v={};", store.at(12));
    assert_eq!(store.snapshot().get(b"a").unwrap().value, expected);
}

pub(super) fn stamp_outside(make: NewStore<'_>) {
    let store = fresh(make);
    let put = Put {
        stamp: Some(4),
        ..put_of("a", "abc")
    };
    let txn = Txn {
        compares: vec![],
        ops: vec![Op::Put(put)],
    };
    assert!(matches!(
        wait(store.commit(txn)),
        Err(Error::Stamp { offset: 4, bytes: 3 })
    ));
}

pub(super) fn too_large(make: NewStore<'_>) {
    let mut config = ManualClock::default().config();
    config.max_txn_bytes = 1000;
    let store = Fresh::new(make(config));
    let txn = Txn {
        compares: vec![],
        ops: vec![op_put("a", &"x".repeat(1000))],
    };
    assert!(matches!(
        wait(store.commit(txn)),
        Err(Error::TooLarge { limit: 1000, .. })
    ));
    put(&store, "a", &"x".repeat(900));
}

pub(super) fn concurrent(make: NewStore<'_>) {
    let store = fresh(make);
    let mut watcher = store.watch(b"", store.at(0)).unwrap();
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let store: &Store = &store;
            scope.spawn(move || {
                for _ in 0..100 {
                    put(store, &format!("w{writer}"), "");
                }
            });
        }
    });
    let mut revisions = Vec::new();
    while let Some(batch) = watcher.try_next().unwrap() {
        revisions.extend(batch.events.iter().map(|event| store.number(event.revision)));
    }
    assert_eq!(revisions, (1..=400).collect::<Vec<_>>());
}

pub(super) fn metrics(make: NewStore<'_>) {
    let store = fresh(make);
    put(&store, "a", "12");
    put(&store, "a", "34");
    write_if(&store, absent("a")).unwrap_err();
    let watcher = store.watch(b"", store.at(0)).unwrap();
    let metrics = store.metrics();
    assert_eq!((metrics.commits, metrics.conflicts), (2, 1));
    assert_eq!((metrics.index_keys, metrics.index_bytes), (1, 3));
    assert_eq!(
        (metrics.history_events, metrics.watchers, metrics.slow_watchers),
        (2, 1, 0)
    );
    assert_eq!((metrics.batch_txns.count(), metrics.batch_txns.sum), (3, 3));
    drop(watcher);
    assert_eq!(store.metrics().watchers, 0);
}
