//! A full disk: puts fail, reads and deletes go on, and puts are accepted again once there is space. No acknowledged
//! commit is lost.

use std::{
    path::Path,
    sync::{Arc, atomic::Ordering::SeqCst},
};

use super::{
    failing_disk::{FailingDisk, Fault},
    *,
};
use crate::log::file::disk::Mode;

/// A store whose disk has space for one segment of 64 KiB.
struct Fixture {
    dir: tempfile::TempDir,
    disk: Arc<FailingDisk>,
    store: Store,
}

/// A segment of 64 KiB holds fifteen frames; the last two are left to deletes.
const PUTS: u64 = 13;
const DELETES: u64 = 2;

impl Fixture {
    /// Fills the disk with puts.
    fn new() -> Fixture {
        let dir = tempfile::tempdir().unwrap();
        // The first segment takes one filling write.
        let disk = FailingDisk::new(Fault::Full, Mode::Fill, 1);
        let store = Store::open_on(disk.clone(), dir.path(), durable()).unwrap();
        let acknowledged = (1..100).take_while(|n| put(&store, &format!("k{n:04}"), b"value").is_ok());
        assert_eq!(acknowledged.count() as u64, PUTS);
        Fixture { dir, disk, store }
    }

    fn free(&self) {
        self.disk.left.store(i64::MAX, SeqCst);
    }
}

fn delete(store: &Store, key: &str) -> Result<Revision, Error> {
    let key = Bytes::copy_from_slice(key.as_bytes());
    let txn = Txn {
        compares: vec![],
        ops: vec![Op::Delete { key }],
    };
    Ok(wait(store.commit(txn))?.revision)
}

#[track_caller]
fn check_no_space<T: std::fmt::Debug>(result: Result<T, Error>) {
    assert!(matches!(result, Err(Error::NoSpace { .. })), "{result:?}");
}

#[test]
fn puts_fail_on_a_full_disk_and_deletes_and_reads_go_on() {
    let Fixture { dir, store, .. } = Fixture::new();
    check_holds(&store.snapshot(), PUTS);
    for n in 1..=DELETES {
        check_no_space(put(&store, "more", b"value"));
        assert_eq!(delete(&store, &format!("k{n:04}")).unwrap().get(), PUTS + n);
        assert!(store.snapshot().get(format!("k{n:04}").as_bytes()).is_none());
    }
    check_no_space(delete(&store, "k0003"));
    assert!(store.check_writable().is_ok(), "a restart would not help");
    check_no_space(store.check_space());
    wait(store.became_full());
    assert!(store.metrics().full);
    assert!(wait(store.maintain()).unwrap().full);
    drop(store);
    let reopened = open(dir.path()).unwrap();
    assert_eq!(reopened.revision().get(), PUTS + DELETES);
    assert_eq!(reopened.snapshot().len() as u64, PUTS - DELETES);
}

#[test]
fn puts_are_accepted_again_once_there_is_space() {
    let fixture = Fixture::new();
    let store = &fixture.store;
    check_no_space(put(store, "more", b"value"));
    assert!(wait(store.maintain()).unwrap().full);
    fixture.free();
    assert!(!wait(store.maintain()).unwrap().full);
    store.check_space().unwrap();
    for n in PUTS + 1..=40 {
        put(store, &format!("k{n:04}"), b"value").unwrap();
    }
    let Fixture { dir, store, .. } = fixture;
    drop(store);
    check_holds(&open(dir.path()).unwrap().snapshot(), 40);
}

/// Too many open files when the log continues in its next segment, for the allocator and for the writer.
#[test]
fn puts_are_accepted_again_once_a_file_can_be_opened() {
    for mode in [Mode::Fill, Mode::Durable] {
        let dir = tempfile::tempdir().unwrap();
        let disk = FailingDisk::new(Fault::NoFiles, mode, 1);
        let store = Store::open_on(disk.clone(), dir.path(), durable()).unwrap();
        let acknowledged = (1..100).take_while(|n| put(&store, &format!("k{n:04}"), b"value").is_ok());
        let acknowledged = acknowledged.count() as u64;
        let failed = put(&store, "more", b"value");
        assert!(matches!(failed, Err(Error::OutOfFiles { .. })), "{failed:?}");
        assert!(store.check_writable().is_ok(), "a restart would not help");
        disk.left.store(i64::MAX, SeqCst);
        assert!(!wait(store.maintain()).unwrap().full);
        for n in acknowledged + 1..=40 {
            put(&store, &format!("k{n:04}"), b"value").unwrap();
        }
        drop(store);
        check_holds(&open(dir.path()).unwrap().snapshot(), 40);
    }
}

#[test]
fn a_segment_that_could_not_be_made_earlier_is_tried_again_before_a_put_fails() {
    let dir = tempfile::tempdir().unwrap();
    let disk = FailingDisk::new(Fault::Full, Mode::Fill, 1);
    let store = Store::open_on(disk.clone(), dir.path(), config()).unwrap();
    for n in 1..PUTS {
        put(&store, &format!("k{n:04}"), b"value").unwrap();
    }
    disk.left.store(i64::MAX, SeqCst);
    for n in PUTS..=40 {
        put(&store, &format!("k{n:04}"), b"value").unwrap();
    }
    check_holds(&store.snapshot(), 40);
}

#[test]
fn a_snapshot_file_frees_the_log_when_the_disk_is_full() {
    let dir = tempfile::tempdir().unwrap();
    // The first three segments take one filling write each, and then the disk is full.
    let disk = FailingDisk::new(Fault::Full, Mode::Fill, 3);
    let store = Store::open_on(disk, dir.path(), config()).unwrap();
    let mut accepted = 0;
    for round in 0..10 {
        let puts = (0..100).take_while(|n| put(&store, &format!("k{n:04}"), b"value").is_ok());
        accepted = puts.count();
        assert!(accepted > 10, "round {round}: {accepted}");
        let done = wait(store.maintain()).unwrap();
        assert!(
            done.snapshot_file.is_some() && !done.full,
            "round {round}: {done:?}"
        );
    }
    let (revision, expected) = (store.revision(), store.snapshot());
    drop(store);
    let reopened = open(dir.path()).unwrap();
    assert_eq!(reopened.revision(), revision);
    assert!(reopened.snapshot().prefix(b"").eq(expected.prefix(b"")));
    assert!(accepted < 100);
}

/// A file system that copies on write needs space even to overwrite.
#[test]
fn a_write_without_space_leaves_nothing_behind_that_recovery_would_trip_over() {
    for fault in [Fault::Full, Fault::FullAfter] {
        for larger in [false, true] {
            println!("{fault:?}, then a frame that goes into the next segment: {larger}");
            let dir = tempfile::tempdir().unwrap();
            let disk = FailingDisk::new(fault, Mode::Durable, 5);
            let store = Store::open_on(disk.clone(), dir.path(), durable()).unwrap();
            for n in 1..=5 {
                put(&store, &format!("k{n:04}"), b"value").unwrap();
            }
            check_no_space(put(&store, "lost", b"value"));
            check_no_space(put(&store, "lost", b"value"));
            disk.left.store(i64::MAX, SeqCst);
            assert!(!wait(store.maintain()).unwrap().full);
            let value = vec![7; if larger { 60 << 10 } else { 1 }];
            put(&store, "k0006", &value).unwrap();
            put(&store, "k0007", b"value").unwrap();
            drop(store);
            check_holds(&Store::open(dir.path(), durable()).unwrap().snapshot(), 7);
        }
    }
}

#[test]
fn a_frame_larger_than_a_segment_is_accepted_once_there_is_space() {
    let dir = tempfile::tempdir().unwrap();
    let disk = FailingDisk::new(Fault::Full, Mode::Fill, 2);
    let store = Store::open_on(disk.clone(), dir.path(), config()).unwrap();
    put(&store, "k0001", b"value").unwrap();
    // It fits into no prepared segment, and the one after that cannot be made.
    check_no_space(put(&store, "large", &vec![1; 1 << 20]));
    disk.left.store(i64::MAX, SeqCst);
    assert!(!wait(store.maintain()).unwrap().full);
    put(&store, "k0002", &vec![1; 1 << 20]).unwrap();
    drop(store);
    check_holds(&open(dir.path()).unwrap().snapshot(), 2);
}

#[test]
fn expired_keys_are_deleted_on_a_full_disk() {
    let dir = tempfile::tempdir().unwrap();
    let clock = crate::conformance::ManualClock::default();
    let config = Config {
        segment_bytes: 64 << 10,
        ..clock.config()
    };
    let disk = FailingDisk::new(Fault::Full, Mode::Fill, 1);
    let store = Store::open_on(disk, dir.path(), config).unwrap();
    let event = || Put {
        key: "event".into(),
        expires: Some(5),
        ..Put::default()
    };
    let txn = |put| Txn {
        compares: vec![],
        ops: vec![Op::Put(put)],
    };
    while wait(store.commit(txn(event()))).is_ok() {}
    clock.set(10);
    assert_eq!(wait(store.maintain()).unwrap().expired, 1);
    assert!(store.snapshot().is_empty());
}

#[test]
fn every_error_that_more_space_would_cure_is_lack_of_space() {
    for kind in [
        std::io::ErrorKind::StorageFull,
        std::io::ErrorKind::QuotaExceeded,
        std::io::ErrorKind::FileTooLarge,
    ] {
        assert!(Error::io("write", Path::new("x"))(kind.into()).is_no_space());
    }
    assert!(!Error::io("write", Path::new("x"))(std::io::ErrorKind::Other.into()).is_no_space());
}
