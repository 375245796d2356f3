//! Several servers on one etcd.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use setpoint_store::conformance::{Inverter, ManualClock};
use setpoint_store::{
    Compare, Config, DecodedValue, Error, Op, PlainCodec, Put, Revision, Store, StoredValue, Txn, ValueCodec,
};

use crate::rig::{Etcd, contents, etcd_config, eventually, open, put, put_txn, wait};

fn config() -> Config {
    ManualClock::default().config()
}

/// CL7
#[test]
fn a_write_on_one_server_is_seen_by_a_watch_on_the_other() {
    let Some(etcd) = Etcd::start(&[]) else { return };
    let prefix = etcd.new_prefix();
    let (one, other) = (etcd.store(config(), prefix.clone()), etcd.store(config(), prefix));
    let mut watcher = other.watch(b"", other.revision()).unwrap();
    let mut written = Vec::new();
    for n in 0..50 {
        let store = if n % 2 == 0 { &one } else { &other };
        written.push(put(store, &format!("k{}", n % 7), &n.to_string()));
    }
    let mut seen = Vec::new();
    while seen.len() < written.len() {
        let batch = wait(watcher.next()).unwrap();
        seen.extend(batch.events.iter().map(|event| event.revision));
    }
    assert_eq!(seen, written);
    wait(one.confirm()).unwrap();
    assert_eq!(contents(&one), contents(&other));
}

/// OC3: a read that starts after a write was acknowledged sees it, wherever either is served.
#[test]
fn a_confirmed_read_sees_what_another_server_has_acknowledged() {
    let Some(etcd) = Etcd::start(&[]) else { return };
    let prefix = etcd.new_prefix();
    let (one, other) = (etcd.store(config(), prefix.clone()), etcd.store(config(), prefix));
    for n in 0..200 {
        let revision = put(&one, "a", &n.to_string());
        assert!(wait(other.confirm()).unwrap() >= revision);
        assert_eq!(contents(&other), format!("a={n}"));
    }
}

/// OC1: of the writers of one revision, one succeeds; the others get the record that it wrote.
#[test]
fn of_two_servers_that_write_from_one_revision_one_wins() {
    let Some(etcd) = Etcd::start(&[]) else { return };
    let prefix = etcd.new_prefix();
    let (one, other) = (etcd.store(config(), prefix.clone()), etcd.store(config(), prefix));
    let mut revision = put(&one, "a", "0");
    for n in 0..50 {
        let guarded = |value: String| Txn {
            compares: vec![Compare::Modified {
                key: Bytes::from_static(b"a"),
                revision,
            }],
            ..put_txn("a", &value)
        };
        let (left, right) = wait(async {
            tokio::join!(
                one.commit(guarded(format!("one {n}"))),
                other.commit(guarded(format!("other {n}")))
            )
        });
        let (won, lost) = match (left, right) {
            (Ok(won), Err(lost)) | (Err(lost), Ok(won)) => (won, lost),
            outcomes => panic!("not one winner: {outcomes:?}"),
        };
        let Error::Precondition {
            index: 0,
            current: Some(current),
        } = lost
        else {
            panic!("no conflict: {lost}");
        };
        assert_eq!(current.modified, won.revision);
        revision = won.revision;
    }
}

#[test]
fn a_server_that_starts_later_finds_what_others_wrote() {
    let Some(etcd) = Etcd::start(&[]) else { return };
    let prefix = etcd.new_prefix();
    let store = etcd.store(config(), prefix.clone());
    for n in 0..5000 {
        // More than one page, and values that the codec has to stamp.
        let value = Put {
            stamp: Some(2),
            ..Put::default()
        };
        let put = Put {
            key: format!("k{n:04}").into(),
            value: Bytes::from_static(b"v=;"),
            ..value
        };
        let txn = Txn {
            compares: vec![],
            ops: vec![Op::Put(put)],
        };
        wait(store.commit(txn)).unwrap();
    }
    let later = etcd.store(config(), prefix);
    assert_eq!(contents(&later), contents(&store));
    let record = |store: &setpoint_store::Store| store.snapshot().get(b"k4321").unwrap();
    assert_eq!(record(&later), record(&store));
    assert_eq!(record(&later).value, format!("v={};", record(&store).modified));
}

/// EV2
#[test]
fn an_expiring_key_is_deleted_by_etcd() {
    let Some(etcd) = Etcd::start(&[]) else { return };
    let now = || {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        u64::try_from(since.as_millis()).unwrap()
    };
    let store = etcd.store(Config::new(Arc::new(now)), etcd.new_prefix());
    put(&store, "kept", "1");
    let mut watcher = store.watch(b"short", store.revision()).unwrap();
    let expiring = Put {
        key: Bytes::from_static(b"short"),
        expires: Some(now() + 1000),
        ..Put::default()
    };
    let txn = Txn {
        compares: vec![],
        ops: vec![Op::Put(expiring)],
    };
    wait(store.commit(txn)).unwrap();
    assert_eq!(contents(&store), "kept=1 short=");
    eventually("the key has expired", || contents(&store) == "kept=1");
    let mut deletes = 0;
    while let Some(batch) = watcher.try_next().unwrap() {
        deletes += batch.events.iter().filter(|event| event.new.is_none()).count();
    }
    assert_eq!(deletes, 1);
    assert_eq!(wait(store.maintain()).unwrap().next_expiry, None);
}

/// A codec that stores values without a trailer.
#[derive(Debug)]
struct RawCodec(PlainCodec);

impl ValueCodec for RawCodec {
    fn stored_prefix(&self) -> Bytes {
        self.0.stored_prefix()
    }

    fn stored_key(&self, key: &[u8]) -> Result<Bytes, Error> {
        self.0.stored_key(key)
    }

    fn map_key(&self, stored_key: &[u8]) -> Option<Bytes> {
        self.0.map_key(stored_key)
    }

    fn encode(&self, put: &Put) -> Result<StoredValue, Error> {
        Ok(StoredValue {
            key: self.stored_key(&put.key)?,
            value: put.value.clone(),
        })
    }

    fn decode(&self, _: &[u8], _: Bytes, _: Revision) -> Result<DecodedValue, Error> {
        unreachable!("it only writes")
    }
}

#[test]
fn a_value_that_cannot_be_decoded_is_reported_and_stops_nothing_else() {
    let Some(etcd) = Etcd::start(&[]) else { return };
    let prefix = etcd.new_prefix();
    // Opened while nothing has to be decoded.
    let mut raw = config();
    raw.codec = Arc::new(RawCodec(PlainCodec {
        prefix: prefix.clone(),
    }));
    let raw = wait(setpoint_etcd::open(etcd_config(&[etcd.url()]), raw)).unwrap();
    let reader = etcd.store(config(), prefix.clone());
    put(&raw, "bad", "x");
    put(&reader, "good", "1");
    assert_eq!(contents(&reader), "good=1");
    let reported = reader.undecodable_keys();
    assert_eq!(reported.len(), 1);
    assert_eq!(reported[0].0, [&prefix[..], b"bad"].concat());
    assert_eq!(reader.metrics().undecodable_keys, 1);
    put(&reader, "bad", "repaired");
    assert_eq!(contents(&reader), "bad=repaired good=1");
    assert!(reader.undecodable_keys().is_empty());
}

#[test]
fn an_engine_whose_task_panics_is_reported_and_closed() {
    let Some(etcd) = Etcd::start(&[]) else { return };
    let prefix = etcd.new_prefix();
    let mut raw = config();
    raw.codec = Arc::new(RawCodec(PlainCodec {
        prefix: prefix.clone(),
    }));
    let raw = wait(setpoint_etcd::open(etcd_config(&[etcd.url()]), raw)).unwrap();
    // The codec panics when the value arrives.
    put(&etcd.store(config(), prefix), "a", "1");
    eventually("the failure is reported", || {
        raw.check_writable()
            .is_err_and(|error| error.to_string().contains("panicked"))
    });
    eventually("commits are rejected", || {
        matches!(wait(raw.commit(crate::rig::delete_txn("a"))), Err(Error::Closed))
    });
}

#[test]
fn the_next_server_is_used_if_one_does_not_respond() {
    let Some(etcd) = Etcd::start(&[]) else { return };
    let dead = format!("http://127.0.0.1:{}", crate::rig::free_port());
    let store = open(&[dead, etcd.url()], config(), etcd.new_prefix());
    put(&store, "a", "1");
    assert_eq!(contents(&store), "a=1");
}

#[test]
fn pages_of_large_values_are_read_in_smaller_ones() {
    let Some(etcd) = Etcd::start(&[]) else { return };
    let prefix = etcd.new_prefix();
    let store = etcd.store(config(), prefix.clone());
    let value = "x".repeat(1_000_000);
    // Together they are larger than the largest message that the client accepts.
    for n in 0..70 {
        put(&store, &format!("k{n:02}"), &value);
    }
    let later = etcd.store(config(), prefix);
    assert_eq!(later.snapshot().len(), 70);
}

/// OC11
#[test]
fn a_watch_continues_at_a_server_that_has_started_since() {
    let Some(etcd) = Etcd::start(&[]) else { return };
    let prefix = etcd.new_prefix();
    let store = etcd.store(config(), prefix.clone());
    put(&store, "a", "1");
    let known = put(&store, "a", "2");
    put(&store, "b", "1");
    let newest = put(&store, "a", "3");
    drop(store);
    let restarted = etcd.store(config(), prefix);
    assert_eq!(
        (restarted.revision(), contents(&restarted).as_str()),
        (newest, "a=3 b=1")
    );
    let mut watcher = restarted.watch(b"", known).unwrap();
    let batch = watcher.try_next().unwrap().unwrap();
    assert_eq!(batch.events.len(), 2);
    let old = restarted.snapshot_at(known).unwrap();
    assert_eq!(old.get(b"a").unwrap().value, "2");
}

/// A store on etcd whose values are sealed.
fn sealed_store(etcd: &Etcd, inverter: &Arc<Inverter>, prefix: &Bytes) -> Store {
    etcd.store(inverter.config(), prefix.clone())
}

#[test]
fn a_value_that_another_server_sealed_with_another_key_is_stale() {
    let Some(etcd) = Etcd::start(&[]) else { return };
    let prefix = etcd.new_prefix();
    let old = sealed_store(&etcd, &Inverter::new(&[1]), &prefix);
    let new = sealed_store(&etcd, &Inverter::new(&[2, 1]), &prefix);
    put(&new, "secret/a", "1");
    assert!(!new.is_stale(b"secret/a"));
    let stranger = sealed_store(&etcd, &Inverter::new(&[1, 2]), &prefix);
    put(&stranger, "secret/a", "2");
    wait(new.confirm()).unwrap();
    assert_eq!(contents(&new), "secret/a=2");
    assert!(new.is_stale(b"secret/a"));
    wait(old.confirm()).unwrap();
    assert!(!old.is_stale(b"secret/a"));
}

/// The key, or the plugin that has it, is missing while the values arrive.
#[test]
fn values_that_could_not_be_decrypted_are_served_once_they_can_be() {
    let Some(etcd) = Etcd::start(&[]) else { return };
    let prefix = etcd.new_prefix();
    let writer = sealed_store(&etcd, &Inverter::new(&[1]), &prefix);
    put(&writer, "secret/before", "1");
    let inverter = Inverter::new(&[2]);
    let reader = sealed_store(&etcd, &inverter, &prefix);
    put(&writer, "secret/after", "1");
    put(&writer, "plain", "1");
    wait(reader.confirm()).unwrap();
    assert_eq!(contents(&reader), "plain=1");
    assert_eq!(reader.undecodable_keys().len(), 2);
    // They are not absent.
    for key in ["secret/before", "secret/after"] {
        let error = reader.check_decodable(key.as_bytes()).unwrap_err();
        assert!(error.to_string().ends_with("no key 1"), "{error}");
    }
    reader.check_decodable(b"secret/other").unwrap();
    // A list of their range would lack them.
    let check = |start: &str, end: &str| reader.check_range_decodable(start.as_bytes()..end.as_bytes());
    let error = check("secret/", "secret0").unwrap_err().to_string();
    assert!(error.contains("secret/after"), "{error}");
    assert!(
        check("secret/b", "secret0")
            .unwrap_err()
            .to_string()
            .contains("secret/before")
    );
    check("plain", "secret/").unwrap();
    check("secret/c", "secret0").unwrap();
    assert_eq!(wait(reader.maintain()).unwrap().decoded, 0);

    let mut watcher = reader.watch(b"", reader.revision()).unwrap();
    inverter.set_keys(&[2, 1]);
    assert_eq!(wait(reader.maintain()).unwrap().decoded, 2);
    wait(reader.confirm()).unwrap();
    assert_eq!(contents(&reader), "plain=1 secret/after=1 secret/before=1");
    assert!(reader.undecodable_keys().is_empty());
    let mut seen = Vec::new();
    while let Some(batch) = watcher.try_next().unwrap() {
        seen.extend(
            batch
                .events
                .into_iter()
                .map(|event| event.new.unwrap().key.clone()),
        );
    }
    assert_eq!(seen, ["secret/after", "secret/before"]);
    // The server that wrote them sees the same.
    wait(writer.confirm()).unwrap();
    assert_eq!(contents(&writer), contents(&reader));
    let modified = |store: &Store| store.snapshot().get(b"secret/after").unwrap().modified;
    assert_eq!(modified(&writer), modified(&reader));
    assert_eq!(wait(reader.maintain()).unwrap().decoded, 0);
}

#[test]
fn a_value_that_cannot_be_decrypted_is_not_taken_for_a_current_one() {
    let Some(etcd) = Etcd::start(&[]) else { return };
    let prefix = etcd.new_prefix();
    let reader = sealed_store(&etcd, &Inverter::new(&[2]), &prefix);
    put(&reader, "secret/a", "1");
    let writer = sealed_store(&etcd, &Inverter::new(&[1, 2]), &prefix);
    put(&writer, "secret/a", "2");
    wait(reader.confirm()).unwrap();
    assert_eq!(contents(&reader), "secret/a=1");
    assert!(reader.is_stale(b"secret/a"));
}

/// A value that is served again keeps its expiry.
#[test]
fn an_expiring_value_that_could_not_be_decrypted_still_expires() {
    let Some(etcd) = Etcd::start(&[]) else { return };
    let prefix = etcd.new_prefix();
    let writer = sealed_store(&etcd, &Inverter::new(&[1]), &prefix);
    let expiring = Put {
        key: Bytes::from_static(b"secret/short"),
        expires: Some(3000),
        ..Put::default()
    };
    let txn = Txn {
        compares: vec![],
        ops: vec![Op::Put(expiring)],
    };
    wait(writer.commit(txn)).unwrap();
    let inverter = Inverter::new(&[2]);
    let reader = sealed_store(&etcd, &inverter, &prefix);
    inverter.set_keys(&[1]);
    assert_eq!(wait(reader.maintain()).unwrap().decoded, 1);
    wait(reader.confirm()).unwrap();
    assert_eq!(contents(&reader), "secret/short=");
    eventually("the key has expired", || contents(&reader).is_empty());
}
