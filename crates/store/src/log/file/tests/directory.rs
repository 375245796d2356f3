//! Files of a directory: snapshot files, recycled segments, locks, backups.

use std::{
    fs::Permissions,
    os::unix::fs::{MetadataExt, PermissionsExt},
};

use super::*;

fn eager() -> Config {
    Config {
        snapshot_file_after_bytes: 32 << 10,
        ..config()
    }
}

fn newest_snapshot_file(dir: &Path) -> PathBuf {
    let listing = layout::list(dir).unwrap();
    let (_, path) = listing.snapshot_files.last().cloned().unwrap();
    path
}

#[test]
fn opening_twice_names_the_directory_in_use() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    assert!(matches!(open(dir.path()), Err(Error::Locked { dir: named }) if named == dir.path()));
    assert!(matches!(Store::verify(dir.path()), Err(Error::Locked { .. })));
    wait(store.close()).unwrap();
    open(dir.path()).unwrap();
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().mode() & 0o7777
}

/// Checks that only the owner may use the directory and everything in it.
#[track_caller]
fn check_private(dir: &Path) {
    assert_eq!(mode(dir), 0o700);
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
}

#[test]
fn every_file_is_private_and_one_that_is_not_is_restricted() {
    let dir = tempfile::tempdir().unwrap();
    let (inner, file) = (dir.path().join("store"), dir.path().join("backup"));
    let store = Store::open(&inner, eager()).unwrap();
    for n in 0..100 {
        put(&store, &format!("k{n:04}"), b"value").unwrap();
        wait(store.maintain()).unwrap();
    }
    wait(store.backup(&file)).unwrap();
    drop(store);
    let listing = layout::list(&inner).unwrap();
    assert!(!listing.spares.is_empty() && !listing.snapshot_files.is_empty());
    check_private(&inner);
    for entry in std::fs::read_dir(&inner).unwrap() {
        let path = entry.unwrap().path();
        std::fs::set_permissions(path, Permissions::from_mode(0o644)).unwrap();
    }
    std::fs::set_permissions(&inner, Permissions::from_mode(0o755)).unwrap();
    drop(open(&inner).unwrap());
    check_private(&inner);
    assert_eq!(mode(&file), 0o600);
    Store::restore(&file, &dir.path().join("restored")).unwrap();
    check_private(&dir.path().join("restored"));
}

#[test]
fn a_backup_never_writes_through_a_file_that_exists() {
    let dir = tempfile::tempdir().unwrap();
    let (file, theirs) = (dir.path().join("backup"), dir.path().join("theirs"));
    std::os::unix::fs::symlink(&theirs, layout::unfinished(&file)).unwrap();
    let store = Store::memory(config());
    wait(store.backup(&file)).unwrap();
    assert!(!theirs.exists());
    assert_eq!(mode(&file), 0o600);
}

#[test]
fn a_store_reopens_as_it_was_closed() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    for n in 0..30 {
        put(&store, &format!("a{}", n % 7), n.to_string().as_bytes()).unwrap();
    }
    wait(store.compact(Revision::new(10))).unwrap();
    let before: Vec<_> = store.snapshot().prefix(b"").collect();
    let older: Vec<_> = store
        .snapshot_at(Revision::new(20))
        .unwrap()
        .prefix(b"")
        .collect();
    wait(store.close()).unwrap();
    let store = open(dir.path()).unwrap();
    assert!(store.snapshot().prefix(b"").eq(before));
    assert!(
        store
            .snapshot_at(Revision::new(20))
            .unwrap()
            .prefix(b"")
            .eq(older)
    );
    assert_eq!(store.compacted(), Revision::new(10));
    let mut watcher = store.watch(b"", Revision::new(10)).unwrap();
    assert_eq!(watcher.try_next().unwrap().unwrap().events.len(), 20);
}

#[test]
fn stamps_and_expiries_survive_reopening_from_log_and_snapshot_file() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), eager()).unwrap();
    let put = Put {
        key: "a".into(),
        value: "r=.".into(),
        stamp: Some(2),
        expires: Some(77),
        ..Put::default()
    };
    let ops = vec![Op::Put(put)];
    wait(store.commit(Txn {
        compares: vec![],
        ops,
    }))
    .unwrap();
    drop(store);
    let store = Store::open(dir.path(), eager()).unwrap();
    let record = store.snapshot().get(b"a").unwrap();
    assert_eq!((&record.value[..], record.expires), (&b"r=1."[..], Some(77)));
    for _ in 0..10 {
        super::put(&store, "b", b"").unwrap();
    }
    assert!(wait(store.maintain()).unwrap().snapshot_file.is_some());
    drop(store);
    let store = Store::open(dir.path(), eager()).unwrap();
    assert_eq!(store.snapshot().get(b"a").unwrap().value, "r=1.");
    assert_eq!(wait(store.maintain()).unwrap().next_expiry, Some(77));
}

#[test]
fn snapshot_files_keep_the_log_short_and_segments_are_recycled() {
    let dir = tempfile::tempdir().unwrap();
    let mut expected = 0;
    let mut written = 0;
    for _ in 0..4 {
        let store = Store::open(dir.path(), eager()).unwrap();
        check_holds(&store.snapshot(), expected);
        for _ in 0..100 {
            expected += 1;
            put(&store, &format!("k{expected:04}"), b"value").unwrap();
            written += wait(store.maintain()).unwrap().snapshot_file.is_some() as u32;
        }
        assert!(store.metrics().log_bytes < 200 << 10);
    }
    assert!(written > 10, "{written}");
    let listing = layout::list(dir.path()).unwrap();
    assert_eq!(listing.snapshot_files.len(), 1);
    assert!(
        listing.segments.len() <= 4 && listing.spares.len() <= 2,
        "{listing:?}"
    );
    assert!(listing.segments.last().unwrap().0 > 20, "numbers go on");
    let report = Store::verify(dir.path()).unwrap();
    assert_eq!((report.keys, report.revision.get()), (400, 400));
    assert_eq!(report.torn, None);
}

#[test]
fn a_damaged_snapshot_file_fails_the_open_unless_the_log_reaches_back() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), eager()).unwrap();
    for n in 1..=200 {
        put(&store, &format!("k{n:04}"), b"value").unwrap();
    }
    wait(store.maintain()).unwrap().snapshot_file.unwrap();
    drop(store);
    let damaged = newest_snapshot_file(dir.path());
    let whole = std::fs::read(&damaged).unwrap();
    for offset in [
        0,
        10,
        17,
        25,
        40,
        whole.len() / 2,
        whole.len() - 20,
        whole.len() - 1,
    ] {
        edit(&damaged, |bytes| bytes[offset] ^= 4);
        let error = open(dir.path()).unwrap_err();
        assert!(
            matches!(error, Error::Corrupt { file, .. } if file == damaged),
            "{offset}"
        );
        std::fs::write(&damaged, &whole).unwrap();
    }
    edit(&damaged, |bytes| bytes.truncate(whole.len() - 5));
    open(dir.path()).unwrap_err();
    std::fs::write(&damaged, &whole).unwrap();
    check_holds(&open(dir.path()).unwrap().snapshot(), 200);
}

#[test]
fn an_unfinished_snapshot_file_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path(), 3);
    let unfinished = layout::unfinished(&layout::snapshot_file(dir.path(), Revision::new(3)));
    std::fs::write(&unfinished, b"half").unwrap();
    check_holds(&open(dir.path()).unwrap().snapshot(), 3);
    assert!(!unfinished.exists());
}

#[test]
fn a_backup_of_a_running_store_restores_to_its_revision() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    let file = dir.path().join("backup");
    let store = open(&from).unwrap();
    for n in 1..=5 {
        put(&store, &format!("k{n:04}"), b"value").unwrap();
    }
    let report = wait(store.backup(&file)).unwrap();
    assert_eq!((report.revision, report.keys), (Revision::new(5), 5));
    put(&store, "later", b"").unwrap();
    assert_eq!(Store::restore(&file, &to).unwrap(), report);
    let restored = open(&to).unwrap();
    check_holds(&restored.snapshot(), 5);
    let original = store.snapshot_at(Revision::new(5)).unwrap();
    assert!(restored.snapshot().prefix(b"").eq(original.prefix(b"")));
    assert_eq!(put(&restored, "next", b"").unwrap(), Revision::new(6));
    drop(restored);
    assert!(matches!(Store::restore(&file, &to), Err(Error::NotEmpty { .. })));
    assert_eq!(Store::verify(&to).unwrap().revision, Revision::new(6));
}

#[test]
fn a_memory_store_can_be_backed_up_too() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::memory(config());
    put(&store, "k0001", b"value").unwrap();
    let file = dir.path().join("backup");
    wait(store.backup(&file)).unwrap();
    edit(&file, |bytes| bytes[30] ^= 1);
    let to = dir.path().join("to");
    assert!(matches!(Store::restore(&file, &to), Err(Error::Corrupt { .. })));
}

#[test]
fn a_frame_larger_than_the_prepared_segment_gets_a_larger_one() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    put(&store, "k0001", b"value").unwrap();
    put(&store, "k0002", &vec![1; 1 << 20]).unwrap();
    put(&store, "k0003", b"value").unwrap();
    drop(store);
    let store = open(dir.path()).unwrap();
    check_holds(&store.snapshot(), 3);
    assert_eq!(store.snapshot().get(b"k0002").unwrap().value.len(), 1 << 20);
}
