//! Checks of sealed values: what is reported as stale is what is stored, whatever became of the writes.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::fixtures::*;
use super::{ManualClock, NewStore};
use crate::{Compare, Error, OpenedValue, Revision, SealId, SealedValue, Store, ValueTransformer};

/// A transformer with a cipher that only a test may have: it inverts every bit, and puts the number of its key in front.
/// It seals the keys under `secret/`.
#[derive(Debug, Default)]
pub struct Inverter {
    keys: Mutex<InverterKeys>,
}

#[derive(Debug, Default)]
struct InverterKeys {
    /// The numbers of the keys that open; the first one seals.
    numbers: Vec<u8>,
    /// Replace the numbers once the next value is sealed.
    next: Option<Vec<u8>>,
}

/// What is in front of a sealed value, and the number of its key.
const MARK: &[u8] = b"sealed:";

impl Inverter {
    /// An inverter with these keys. Without a key it cannot seal.
    pub fn new(numbers: &[u8]) -> Arc<Inverter> {
        let inverter = Arc::new(Inverter::default());
        inverter.set_keys(numbers);
        inverter
    }

    /// Replaces the keys.
    pub fn set_keys(&self, numbers: &[u8]) {
        self.keys.lock().numbers = numbers.to_vec();
    }

    /// Replaces the keys at once after the next value is sealed.
    pub fn set_keys_after_next(&self, numbers: &[u8]) {
        self.keys.lock().next = Some(numbers.to_vec());
    }

    /// A configuration of a store whose values it seals.
    pub fn config(self: &Arc<Self>) -> crate::Config {
        let mut config = ManualClock::default().config();
        config.transformer = Some(self.clone());
        config
    }
}

impl ValueTransformer for Inverter {
    fn is_active(&self) -> bool {
        true
    }

    fn seal(&self, key: &[u8], _: &[u8], value: &[u8]) -> Result<Option<SealedValue>, Error> {
        if !key.starts_with(b"secret/") {
            return Ok(None);
        }
        let mut keys = self.keys.lock();
        let Some(number) = keys.numbers.first().copied() else {
            return Err(unsealed(key, "no key".to_owned()));
        };
        if let Some(next) = keys.next.take() {
            keys.numbers = next;
        }
        let inverted: Vec<u8> = value.iter().map(|byte| !byte).collect();
        Ok(Some(SealedValue {
            bytes: [MARK, &[number], &inverted].concat().into(),
            seal: SealId::new(number.into()),
        }))
    }

    fn open(&self, key: &[u8], _: &[u8], value: Bytes) -> Result<OpenedValue, Error> {
        let Some((number, inverted)) = value.strip_prefix(MARK).and_then(<[u8]>::split_first) else {
            return Ok(OpenedValue {
                bytes: value,
                seal: SealId::NONE,
            });
        };
        match self.keys.lock().numbers.contains(number) {
            true => Ok(OpenedValue {
                bytes: inverted.iter().map(|byte| !byte).collect(),
                seal: SealId::new((*number).into()),
            }),
            false => Err(unsealed(key, format!("no key {number}"))),
        }
    }

    fn current_seal(&self, key: &[u8]) -> SealId {
        let first = self.keys.lock().numbers.first().copied();
        match first.filter(|_| key.starts_with(b"secret/")) {
            Some(number) => SealId::new(number.into()),
            None => SealId::NONE,
        }
    }
}

fn unsealed(key: &[u8], reason: String) -> Error {
    Error::Undecodable {
        key: Bytes::copy_from_slice(key),
        reason,
    }
}

fn sealing(make: NewStore<'_>) -> (Arc<Inverter>, Store) {
    let inverter = Inverter::new(&[1]);
    let store = make(inverter.config());
    (inverter, store)
}

pub(super) fn another_key(make: NewStore<'_>) {
    let (inverter, store) = sealing(make);
    put(&store, "secret/a", "1");
    put(&store, "plain/a", "1");
    assert!(!store.is_stale(b"secret/a"));
    inverter.set_keys(&[2, 1]);
    assert!(store.is_stale(b"secret/a") && !store.is_stale(b"plain/a"));
    put(&store, "secret/a", "1");
    assert!(!store.is_stale(b"secret/a"));
    assert_eq!(store.snapshot().get(b"secret/a").unwrap().value, "1");
}

pub(super) fn rejected_write(make: NewStore<'_>) {
    let (inverter, store) = sealing(make);
    put(&store, "secret/a", "1");
    inverter.set_keys(&[2, 1]);
    let outdated = Compare::Modified {
        key: Bytes::from_static(b"secret/a"),
        revision: Revision::ZERO,
    };
    let txn = crate::Txn {
        compares: vec![outdated],
        ops: vec![op_put("secret/a", "2")],
    };
    assert!(matches!(wait(store.commit(txn)), Err(Error::Precondition { .. })));
    assert!(store.is_stale(b"secret/a"));
}

pub(super) fn key_changed_meanwhile(make: NewStore<'_>) {
    let (inverter, store) = sealing(make);
    inverter.set_keys_after_next(&[2, 1]);
    put(&store, "secret/a", "1");
    assert!(store.is_stale(b"secret/a"));
}

pub(super) fn deleted(make: NewStore<'_>) {
    let (inverter, store) = sealing(make);
    put(&store, "secret/a", "1");
    delete(&store, "secret/a");
    inverter.set_keys(&[2, 1]);
    assert!(!store.is_stale(b"secret/a"));
    put(&store, "secret/a", "1");
    assert!(!store.is_stale(b"secret/a"));
}

pub(super) fn unsealable(make: NewStore<'_>) {
    let (inverter, store) = sealing(make);
    inverter.set_keys(&[]);
    let txn = crate::Txn {
        compares: vec![],
        ops: vec![op_put("secret/a", "1")],
    };
    assert!(matches!(wait(store.commit(txn)), Err(Error::Undecodable { .. })));
    assert!(store.snapshot().get(b"secret/a").is_none());
}
