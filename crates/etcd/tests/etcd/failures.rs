//! Lost members, lost connections, compaction, a used up quota.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use setpoint_store::conformance::ManualClock;
use setpoint_store::{Compare, Config, Error, PlainCodec, RemoteFailure, Store, Txn};

use crate::admin::Admin;
use crate::proxy::Proxy;
use crate::rig::{Etcd, contents, delete_txn, etcd_config, eventually, open, put, put_txn, wait};

fn config() -> Config {
    ManualClock::default().config()
}

/// CL7
#[test]
fn a_server_goes_on_after_etcd_was_killed_and_restarted() {
    let Some(mut etcd) = Etcd::start(&[]) else { return };
    let store = etcd.store(config(), etcd.new_prefix());
    for round in 0..3 {
        put(&store, "a", &format!("before {round}"));
        let mut watcher = store.watch(b"", store.revision()).unwrap();
        etcd.kill();
        eventually("the failure is reported", || store.check_writable().is_err());
        let failed = wait(store.commit(put_txn("a", "lost"))).unwrap_err();
        assert!(matches!(failed, Error::Remote { .. }), "{failed}");
        assert!(wait(store.confirm()).is_err());
        // What is known is still served.
        assert_eq!(contents(&store), format!("a=before {round}"));
        etcd.restart();
        eventually("a write succeeds", || {
            wait(store.commit(put_txn("a", "after"))).is_ok()
        });
        eventually("the recovery is reported", || store.check_writable().is_ok());
        let events = wait(watcher.next()).unwrap().events;
        assert_eq!(events.len(), 1);
        assert_eq!(contents(&store), "a=after");
    }
}

/// A server that was started before its etcd reports no failure once it serves.
#[test]
fn a_server_that_waited_for_etcd_is_healthy_when_it_serves() {
    let Some(mut etcd) = Etcd::start(&[]) else { return };
    let (url, prefix) = (etcd.url(), etcd.new_prefix());
    // An etcd that is killed before its first entry is durable may not start again.
    put(&etcd.store(config(), prefix.clone()), "a", "1");
    etcd.kill();
    // Nothing responds at first.
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, etcd.port)).unwrap();
    let opening = thread::spawn(move || open(&[url], config(), prefix).check_writable());
    drop(silent.accept().unwrap());
    drop(silent);
    etcd.restart();
    opening.join().unwrap().unwrap();
}

/// Increments a counter by compare and swap; counts what was acknowledged and of what the outcome is unknown.
fn increment(store: &Store, key: &str, acknowledged: &AtomicU64, unknown: &AtomicU64) {
    let Some(record) = store.snapshot().get(key.as_bytes()) else {
        return;
    };
    let value: u64 = std::str::from_utf8(&record.value).unwrap().parse().unwrap();
    let txn = Txn {
        compares: vec![Compare::Modified {
            key: record.key.clone(),
            revision: record.modified,
        }],
        ..put_txn(key, &(value + 1).to_string())
    };
    match wait(store.commit(txn)) {
        Ok(_) => acknowledged.fetch_add(1, SeqCst),
        Err(Error::Remote {
            failure: RemoteFailure::Unknown,
            ..
        }) => unknown.fetch_add(1, SeqCst),
        Err(Error::Precondition { .. } | Error::Remote { .. }) => 0,
        Err(error) => panic!("unexpected {error}"),
    };
}

/// CL7 OC1: what was acknowledged is there, and what failed is not, whenever the connection is lost.
#[test]
fn an_outcome_is_never_guessed_when_connections_are_cut() {
    let Some(etcd) = Etcd::start(&[]) else { return };
    let prefix = etcd.new_prefix();
    let direct = etcd.store(config(), prefix.clone());
    let proxy = Proxy::start(etcd.port);
    let store = open(&[proxy.url()], config(), prefix);
    for writer in 0..4 {
        put(&store, &format!("w{writer}"), "0");
    }
    let is_cutting = AtomicBool::new(true);
    let counts: Vec<_> = (0..4).map(|_| (AtomicU64::new(0), AtomicU64::new(0))).collect();
    std::thread::scope(|scope| {
        for (writer, (acknowledged, unknown)) in counts.iter().enumerate() {
            let (store, key) = (&store, format!("w{writer}"));
            let is_cutting = &is_cutting;
            scope.spawn(move || {
                while is_cutting.load(SeqCst) {
                    increment(store, &key, acknowledged, unknown);
                }
            });
        }
        // On a busy machine, few connections reach their limit in 60 rounds.
        for round in 0..600 {
            if round >= 60 && proxy.cuts() > 10 {
                break;
            }
            proxy.cut_after(50 + 237 * (round % 60));
            std::thread::sleep(Duration::from_millis(70));
        }
        is_cutting.store(false, SeqCst);
        proxy.cut_after(-1);
    });
    assert!(proxy.cuts() > 10);
    wait(direct.confirm()).unwrap();
    let (mut all_acknowledged, mut all_unknown) = (0, 0);
    for (writer, (acknowledged, unknown)) in counts.iter().enumerate() {
        let record = direct.snapshot().get(format!("w{writer}").as_bytes()).unwrap();
        let value: u64 = std::str::from_utf8(&record.value).unwrap().parse().unwrap();
        let (acknowledged, unknown) = (acknowledged.load(SeqCst), unknown.load(SeqCst));
        assert!(
            value >= acknowledged,
            "{value} increments, {acknowledged} acknowledged"
        );
        assert!(
            value <= acknowledged + unknown,
            "{value} increments, {acknowledged} acknowledged, {unknown} unknown"
        );
        all_acknowledged += acknowledged;
        all_unknown += unknown;
    }
    let cuts = proxy.cuts();
    println!("{all_acknowledged} acknowledged, {all_unknown} unknown, {cuts} cuts");
    assert!(all_acknowledged > 100);
    eventually("both servers agree", || contents(&store) == contents(&direct));
}

/// OC11
#[test]
fn a_watch_that_fell_behind_a_compaction_misses_no_difference() {
    let Some(etcd) = Etcd::start(&[]) else { return };
    let prefix = etcd.new_prefix();
    let proxy = Proxy::start(etcd.port);
    let store = open(&[proxy.url()], config(), prefix.clone());
    for key in ["changed", "deleted", "kept", "twice"] {
        put(&store, key, "1");
    }
    let mut watcher = store.watch(b"", store.revision()).unwrap();
    let known = store.revision();
    proxy.stop();
    let mut compacting = config();
    compacting.codec = std::sync::Arc::new(PlainCodec { prefix });
    let mut servers = etcd_config(&[etcd.url()]);
    servers.compaction_interval = Duration::from_millis(300);
    let other = wait(setpoint_etcd::open(servers, compacting)).unwrap();
    put(&other, "twice", "2");
    put(&other, "changed", "2");
    put(&other, "new", "1");
    wait(other.commit(delete_txn("deleted"))).unwrap();
    put(&other, "twice", "3");
    let newest = other.revision();
    // The turn after next compacts to what the next one sees.
    eventually("etcd is compacted beyond what the store knows", || {
        std::thread::sleep(Duration::from_millis(300));
        other.revision().get() >= newest.get() + 3
    });
    proxy.resume();
    eventually("the store has caught up", || contents(&store) == contents(&other));
    let mut events = Vec::new();
    while let Some(batch) = watcher.try_next().unwrap() {
        for event in batch.events {
            assert!(event.revision > known);
            let value = |record: &std::sync::Arc<setpoint_store::Record>| {
                String::from_utf8_lossy(&record.value).into_owned()
            };
            let key = String::from_utf8_lossy(event.key()).into_owned();
            let (old, new) = (event.old.as_ref().map(value), event.new.as_ref().map(value));
            events.push(format!(
                "{key}:{}>{}",
                old.unwrap_or_default(),
                new.unwrap_or_default()
            ));
        }
    }
    events.sort();
    assert_eq!(events, ["changed:1>2", "deleted:1>", "new:>1", "twice:1>3"]);
}

#[test]
fn a_used_up_quota_is_reported_in_etcds_words_until_space_is_freed() {
    let Some(etcd) = Etcd::start(&["--quota-backend-bytes=2000000"]) else {
        return;
    };
    let store = etcd.store(config(), etcd.new_prefix());
    let value = "x".repeat(200_000);
    let (accepted, failed) = (0..100)
        .find_map(|n| {
            let failed = wait(store.commit(put_txn(&format!("k{n}"), &value))).err()?;
            Some((n, failed))
        })
        .expect("the quota is used up");
    assert_eq!(failed.to_string(), "etcdserver: mvcc: database space exceeded");
    eventually("the alarm is reported", || {
        store
            .check_writable()
            .is_err_and(|error| error.to_string() == failed.to_string())
    });
    // Deletes are still served.
    for n in 0..accepted {
        wait(store.commit(delete_txn(&format!("k{n}")))).unwrap();
    }
    let revision = store.revision();
    Admin::new(&etcd).free_space(revision.get());
    eventually("the recovery is reported", || store.check_writable().is_ok());
    eventually("a write succeeds", || {
        wait(store.commit(put_txn("a", "1"))).is_ok()
    });
}

/// CL7: a replica does not serve beside an etcd that has another history, and its writes are not acknowledged.
#[test]
fn an_etcd_whose_revisions_went_back_is_reported_until_the_server_restarts() {
    let Some(mut etcd) = Etcd::start(&[]) else { return };
    let store = etcd.store(config(), etcd.new_prefix());
    for n in 0..20 {
        put(&store, "a", &n.to_string());
    }
    etcd.kill();
    etcd.remove_data();
    etcd.restart();
    let went_back = |error: &Error| error.to_string().starts_with("etcd is at revision ");
    eventually("the history is reported", || {
        store.check_writable().is_err_and(|error| went_back(&error))
    });
    let failed = wait(store.commit(put_txn("b", "1"))).unwrap_err();
    assert!(went_back(&failed), "{failed}");
    assert_eq!(contents(&store), "a=19");
}
