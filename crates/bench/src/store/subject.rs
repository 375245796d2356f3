//! The store under test, and its keys and values.

use std::{
    future::Future,
    path::Path,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use setpoint_store::{Config, Op, Put, Store, Txn};

/// Bytes of each value.
pub(crate) const VALUE_BYTES: usize = 1024;

/// How many keys the large measurements hold.
pub(crate) const KEYS: u64 = 100_000;

/// How many keys one transaction of a bulk load puts.
const LOAD_TXN_KEYS: u64 = 500;

/// A durable store with the system clock.
pub(crate) fn open(dir: &Path) -> Result<Store> {
    std::fs::create_dir_all(dir).with_context(|| format!("making {}", dir.display()))?;
    Store::open(dir, config()).with_context(|| format!("opening a store in {}", dir.display()))
}

/// A store in memory, to measure without the disk's noise.
pub(crate) fn memory() -> Store {
    Store::memory(config())
}

fn config() -> Config {
    let mut config = Config::new(Arc::new(|| {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_millis() as u64)
    }));
    let start = Instant::now();
    config.ticks = Arc::new(move || start.elapsed().as_nanos() as u64);
    config
}

/// A key of the length that keys of namespaced objects have.
pub(crate) fn key(number: u64) -> Bytes {
    Bytes::from(format!("/registry/configmaps/default/object-{number:010}"))
}

/// Values that differ from each other and are no run of one byte.
pub(crate) fn value(number: u64) -> Bytes {
    let mut state = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut value = Vec::with_capacity(VALUE_BYTES);
    while value.len() < VALUE_BYTES {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        value.extend_from_slice(&state.to_le_bytes());
    }
    value.truncate(VALUE_BYTES);
    Bytes::from(value)
}

/// A transaction that puts one key.
pub(crate) fn put(key: Bytes, value: Bytes) -> Txn {
    Txn {
        compares: Vec::new(),
        ops: vec![Op::Put(Put {
            key,
            value,
            ..Put::default()
        })],
    }
}

/// Puts keys `0..keys`, each with its value.
pub(crate) fn load(store: &Store, keys: u64) -> Result<()> {
    for first in (0..keys).step_by(LOAD_TXN_KEYS as usize) {
        let ops = (first..(first + LOAD_TXN_KEYS).min(keys))
            .map(|n| {
                Op::Put(Put {
                    key: key(n),
                    value: value(n),
                    ..Put::default()
                })
            })
            .collect();
        block_on(store.commit(Txn {
            compares: Vec::new(),
            ops,
        }))
        .context("loading the store")?;
    }
    Ok(())
}

/// Waits for a future by parking the calling thread: the cheapest way for a thread to wait for the store.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_their_length_and_differ() {
        assert_eq!(value(1).len(), VALUE_BYTES);
        assert_ne!(value(1), value(2));
    }

    #[test]
    fn a_load_puts_every_key_once() {
        let store = memory();
        load(&store, LOAD_TXN_KEYS + 7).unwrap();
        assert_eq!(store.metrics().index_keys, LOAD_TXN_KEYS + 7);
    }

    #[test]
    fn a_parked_thread_is_woken_by_another() {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let response = thread::scope(|scope| {
            scope.spawn(move || sender.send(7));
            block_on(receiver)
        });
        assert_eq!(response, Ok(7));
    }
}
