//! A store whose values are sealed in its files: with a cipher that only a test may have.

#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytes::Bytes;
use parking_lot::Mutex;

use setpoint_store::{Compare, Config, Error, Op, Put, Store, Txn, ValueTransformer};

const MARK: &[u8] = b"sealed:";

/// Inverts every bit, and puts the number of its key in front.
#[derive(Debug)]
struct Inverter {
    /// The keys that can be opened; the first one seals.
    numbers: Vec<u8>,
    stored: Mutex<HashMap<Vec<u8>, Option<u8>>>,
    is_broken: bool,
}

impl Inverter {
    fn new(numbers: &[u8]) -> Arc<Inverter> {
        Arc::new(Inverter {
            numbers: numbers.to_vec(),
            stored: Mutex::default(),
            is_broken: false,
        })
    }
}

impl ValueTransformer for Inverter {
    fn is_active(&self) -> bool {
        !self.numbers.is_empty()
    }

    fn seal(&self, key: &[u8], authenticated: &[u8], value: &[u8]) -> Result<Option<Bytes>, Error> {
        assert_eq!(key, authenticated);
        let undecodable = || Error::Undecodable {
            key: Bytes::copy_from_slice(key),
            reason: "out of order".to_owned(),
        };
        if self.is_broken {
            return Err(undecodable());
        }
        let Some(number) = self.numbers.first().filter(|_| key.starts_with(b"secret/")) else {
            return Ok(None);
        };
        let inverted: Vec<u8> = value.iter().map(|byte| !byte).collect();
        Ok(Some([MARK, &[*number], &inverted].concat().into()))
    }

    fn open(&self, key: &[u8], _authenticated: &[u8], value: Bytes) -> Result<Bytes, Error> {
        let Some(sealed) = value.strip_prefix(MARK) else {
            return Ok(value);
        };
        self.record(key, Some(&value));
        match self.numbers.contains(&sealed[0]) {
            true => Ok(sealed[1..].iter().map(|byte| !byte).collect()),
            false => Err(Error::Undecodable {
                key: Bytes::copy_from_slice(key),
                reason: format!("no key {}", sealed[0]),
            }),
        }
    }

    fn record(&self, key: &[u8], sealed: Option<&[u8]>) {
        let number = sealed.map(|sealed| sealed[MARK.len()]);
        self.stored.lock().insert(key.to_vec(), number);
    }

    fn is_stale(&self, key: &[u8]) -> bool {
        let stored = self.stored.lock().get(key).copied().flatten();
        stored != self.numbers.first().copied()
    }
}

fn config(transformer: &Arc<Inverter>) -> Config {
    static NOW: AtomicU64 = AtomicU64::new(1);
    let mut config = Config::new(Arc::new(|| NOW.fetch_add(1, Relaxed)));
    config.transformer = Some(transformer.clone());
    config
}

async fn put(store: &Store, key: &'static str, value: &'static str) -> Result<(), Error> {
    let put = Put {
        key: Bytes::from_static(key.as_bytes()),
        value: Bytes::from_static(value.as_bytes()),
        stamp: Some(1),
        ..Put::default()
    };
    let txn = Txn {
        compares: Vec::<Compare>::new(),
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
    let store = Store::open(dir.path(), config(&Inverter::new(&[1]))).unwrap();
    put(&store, "secret/a", "<> hidden treasure").await.unwrap();
    put(&store, "plain/a", "<> visible").await.unwrap();
    assert_eq!(value(&store, "secret/a"), "<1> hidden treasure");
    store.close().await.unwrap();
    assert!(!has(dir.path(), b"hidden treasure"));
    assert!(has(dir.path(), b"visible"));
    let store = Store::open(dir.path(), config(&Inverter::new(&[1]))).unwrap();
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
    let store = Store::open(&data, config(&Inverter::new(&[1]))).unwrap();
    put(&store, "secret/a", "<> hidden treasure").await.unwrap();
    store.backup(&file).await.unwrap();
    assert!(!has_file(&file, b"hidden treasure"));
    Store::restore(&file, &restored).unwrap();
    let store = Store::open(&restored, config(&Inverter::new(&[1]))).unwrap();
    assert_eq!(value(&store, "secret/a"), "<1> hidden treasure");
}

fn has_file(file: &Path, bytes: &[u8]) -> bool {
    let content = fs::read(file).unwrap();
    content.windows(bytes.len()).any(|window| window == bytes)
}

#[tokio::test]
async fn a_live_value_that_cannot_be_opened_is_an_error_and_a_superseded_one_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), config(&Inverter::new(&[1]))).unwrap();
    put(&store, "secret/a", "<> one").await.unwrap();
    store.close().await.unwrap();
    let opened = Store::open(dir.path(), config(&Inverter::new(&[2])));
    assert_eq!(
        opened.unwrap_err().to_string(),
        r#"cannot decode the value of b"secret/a": no key 1"#
    );
    let rotated = Inverter::new(&[2, 1]);
    let store = Store::open(dir.path(), config(&rotated)).unwrap();
    assert!(store.is_stale(b"secret/a"));
    put(&store, "secret/a", "<> one").await.unwrap();
    assert!(!store.is_stale(b"secret/a"));
    store.close().await.unwrap();
    let store = Store::open(dir.path(), config(&Inverter::new(&[2]))).unwrap();
    assert_eq!(value(&store, "secret/a"), "<2> one");
}

#[tokio::test]
async fn a_value_that_cannot_be_sealed_is_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let broken = Arc::new(Inverter {
        numbers: vec![1],
        stored: Mutex::default(),
        is_broken: true,
    });
    let store = Store::open(dir.path(), config(&broken)).unwrap();
    let failed = put(&store, "secret/a", "<> one").await;
    assert!(matches!(failed, Err(Error::Undecodable { .. })));
    assert!(store.snapshot().get(b"secret/a").is_none());
}
