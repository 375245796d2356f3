//! A store whose values are sealed in its files.

use std::fs;
use std::path::Path;

use crate::conformance::Inverter;
use crate::{Error, Op, Put, Store, Txn};

use super::*;

async fn put(store: &Store, key: &'static str, value: &'static str) -> Result<(), Error> {
    let put = Put {
        key: Bytes::from_static(key.as_bytes()),
        value: Bytes::from_static(value.as_bytes()),
        stamp: Some(1),
        ..Put::default()
    };
    let txn = Txn {
        compares: vec![],
        ops: vec![Op::Put(put)],
    };
    store.commit(txn).await.map(drop)
}

fn value(store: &Store, key: &str) -> Bytes {
    store.snapshot().get(key.as_bytes()).unwrap().value.clone()
}

/// Whether any file of the directory has these bytes.
fn has(dir: &Path, bytes: &[u8]) -> bool {
    fs::read_dir(dir).unwrap().any(|entry| {
        let content = fs::read(entry.unwrap().path()).unwrap();
        content.windows(bytes.len()).any(|window| window == bytes)
    })
}

#[tokio::test]
async fn sealed_values_are_not_in_the_files_and_are_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Inverter::new(&[1]).config()).unwrap();
    put(&store, "secret/a", "<> hidden treasure").await.unwrap();
    put(&store, "plain/a", "<> visible").await.unwrap();
    assert_eq!(value(&store, "secret/a"), "<1> hidden treasure");
    store.close().await.unwrap();
    assert!(!has(dir.path(), b"hidden treasure"));
    assert!(has(dir.path(), b"visible"));
    let store = Store::open(dir.path(), Inverter::new(&[1]).config()).unwrap();
    assert_eq!(value(&store, "secret/a"), "<1> hidden treasure");
    assert_eq!(value(&store, "plain/a"), "<2> visible");
}

#[tokio::test]
async fn a_backup_is_sealed_and_restored() {
    let dir = tempfile::tempdir().unwrap();
    let (data, file, restored) = (
        dir.path().join("data"),
        dir.path().join("backup"),
        dir.path().join("restored"),
    );
    let store = Store::open(&data, Inverter::new(&[1]).config()).unwrap();
    put(&store, "secret/a", "<> hidden treasure").await.unwrap();
    store.backup(&file).await.unwrap();
    assert!(!has_file(&file, b"hidden treasure"));
    Store::restore(&file, &restored).unwrap();
    let store = Store::open(&restored, Inverter::new(&[1]).config()).unwrap();
    assert_eq!(value(&store, "secret/a"), "<1> hidden treasure");
}

fn has_file(file: &Path, bytes: &[u8]) -> bool {
    let content = fs::read(file).unwrap();
    content.windows(bytes.len()).any(|window| window == bytes)
}

#[tokio::test]
async fn a_live_value_that_cannot_be_opened_is_an_error_and_a_superseded_one_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Inverter::new(&[1]).config()).unwrap();
    put(&store, "secret/a", "<> one").await.unwrap();
    store.close().await.unwrap();
    let opened = Store::open(dir.path(), Inverter::new(&[2]).config());
    assert_eq!(
        opened.unwrap_err().to_string(),
        r#"cannot decode the value of b"secret/a": no key 1"#
    );
    let rotated = Inverter::new(&[2, 1]);
    let store = Store::open(dir.path(), rotated.config()).unwrap();
    assert!(store.is_stale(b"secret/a"));
    put(&store, "secret/a", "<> one").await.unwrap();
    assert!(!store.is_stale(b"secret/a"));
    store.close().await.unwrap();
    let store = Store::open(dir.path(), Inverter::new(&[2]).config()).unwrap();
    assert_eq!(value(&store, "secret/a"), "<2> one");
}

/// A snapshot file seals values with the key of that moment, which is not that of their records.
#[tokio::test]
async fn a_value_is_stale_if_a_snapshot_file_has_it_sealed_with_another_key() {
    let dir = tempfile::tempdir().unwrap();
    let inverter = Inverter::new(&[2, 1]);
    let mut config = inverter.config();
    config.snapshot_file_after_bytes = 0;
    let store = Store::open(dir.path(), config).unwrap();
    put(&store, "secret/a", "<> one").await.unwrap();
    inverter.set_keys(&[1, 2]);
    let written = store.maintain().await.unwrap().snapshot_file;
    assert_eq!(written, Some(store.revision()));
    inverter.set_keys(&[2, 1]);
    assert!(store.is_stale(b"secret/a"));
    put(&store, "secret/a", "<> one").await.unwrap();
    assert!(!store.is_stale(b"secret/a"));
    store.close().await.unwrap();
    let store = Store::open(dir.path(), Inverter::new(&[2]).config()).unwrap();
    assert_eq!(value(&store, "secret/a"), "<2> one");
}
