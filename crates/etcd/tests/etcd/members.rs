//! A cluster of three members.

use std::time::{Duration, Instant};

use setpoint_store::conformance::ManualClock;

use crate::rig::{Etcd, contents, eventually, open, put_txn, wait};

/// CL7: whichever member is lost, the leader among them, writes go on, and no acknowledged one is lost.
#[test]
fn any_member_may_be_lost() {
    let timing = ["--heartbeat-interval=50", "--election-timeout=500"];
    let Some(mut members) = Etcd::start_members(3, "http", &timing) else {
        return;
    };
    let servers: Vec<_> = members.iter().map(Etcd::url).collect();
    let config = || ManualClock::default().config();
    let store = open(&servers, config(), "/test/".into());
    let mut watcher = store.watch(b"", store.revision()).unwrap();
    let mut acknowledged = Vec::new();
    for (round, lost) in [0, 1, 2, 0, 1, 2].into_iter().enumerate() {
        members[lost].kill();
        for number in 0..10 {
            let key = format!("r{round}-{number}");
            let start = Instant::now();
            while wait(store.commit(put_txn(&key, "1"))).is_err() {
                assert!(start.elapsed() < Duration::from_secs(20), "no quorum");
            }
            acknowledged.push(key);
        }
        members[lost].restart();
    }
    acknowledged.sort();
    let expected: Vec<_> = acknowledged.iter().map(|key| format!("{key}=1")).collect();
    assert_eq!(contents(&store), expected.join(" "));
    eventually("a new server reads the same", || {
        contents(&open(&servers, config(), "/test/".into())) == expected.join(" ")
    });
    let mut last = None;
    while let Some(batch) = watcher.try_next().unwrap() {
        for event in batch.events {
            assert!(Some(event.revision) > last, "revisions rise");
            last = Some(event.revision);
        }
    }
}
