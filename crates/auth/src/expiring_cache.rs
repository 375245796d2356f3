//! [`ExpiringCache`]: responses of webhooks, each until its time to live is over.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;

/// A bounded cache. When it is full, expired entries are removed, and if there are none, all.
#[derive(Debug)]
pub(crate) struct ExpiringCache<K, V> {
    entries: Mutex<HashMap<K, Entry<V>>>,
    max_entries: usize,
}

#[derive(Debug)]
struct Entry<V> {
    value: V,
    expires: Timestamp,
}

impl<K: Hash + Eq, V: Clone> ExpiringCache<K, V> {
    pub(crate) fn new(max_entries: usize) -> Self {
        Self {
            entries: Mutex::default(),
            max_entries,
        }
    }

    pub(crate) fn find(&self, key: &K, now: Timestamp) -> Option<V> {
        let entries = self.entries.lock();
        let entry = entries.get(key).filter(|entry| now < entry.expires)?;
        Some(entry.value.clone())
    }

    /// Inserts a value that is valid for this time; none if it is zero.
    pub(crate) fn insert(&self, key: K, value: V, now: Timestamp, ttl: Duration) {
        let Some(expires) = now.checked_add(ttl).ok().filter(|expires| *expires > now) else {
            return;
        };
        let mut entries = self.entries.lock();
        if entries.len() >= self.max_entries && !entries.contains_key(&key) {
            entries.retain(|_, entry| now < entry.expires);
            if entries.len() >= self.max_entries {
                entries.clear();
            }
        }
        entries.insert(key, Entry { value, expires });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn an_entry_is_found_until_it_expires() {
        let cache = ExpiringCache::new(2);
        cache.insert("a", 1, at(0), Duration::from_secs(10));
        cache.insert("b", 2, at(0), Duration::ZERO);
        assert_eq!(cache.find(&"a", at(9)), Some(1));
        assert_eq!(cache.find(&"a", at(10)), None);
        assert_eq!(cache.find(&"b", at(0)), None);
    }

    #[test]
    fn a_full_cache_drops_expired_entries_first() {
        let cache = ExpiringCache::new(2);
        cache.insert("a", 1, at(0), Duration::from_secs(1));
        cache.insert("b", 2, at(0), Duration::from_secs(10));
        cache.insert("c", 3, at(5), Duration::from_secs(10));
        assert_eq!(
            (cache.find(&"b", at(5)), cache.find(&"c", at(5))),
            (Some(2), Some(3))
        );
        cache.insert("d", 4, at(5), Duration::from_secs(10));
        assert_eq!(
            (cache.find(&"b", at(5)), cache.find(&"d", at(5))),
            (None, Some(4))
        );
    }
}
