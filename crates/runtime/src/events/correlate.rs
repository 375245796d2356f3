//! Event correlation: what to write for an event, given earlier ones.
//!
//! Three steps in this order, with client-go's parameters (`tools/record/events_cache.go`). Aggregation: from the tenth
//! different message of similar events on, messages are combined. Deduplication: an event that was written before gets a
//! higher count. Spam filter: events of one source about one object are rate-limited.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Event as Object, EventSource};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use super::name::NameGenerator;
use super::{Event, EventType};

/// The write for an event.
#[derive(Debug)]
pub(crate) enum Write {
    /// It is new.
    Create(Object),
    /// It was written before; this is its next count.
    Update(Object),
    /// The spam filter drops it.
    Nothing,
}

/// Recently written events, and the state of the three steps.
#[derive(Debug)]
pub(crate) struct Correlator {
    similar: LruCache<AggregateKey, AggregateRecord>,
    written: LruCache<EventKey, Object>,
    spam: LruCache<SpamKey, TokenBucket>,
    names: NameGenerator,
}

/// The source and the object of an event: the unit of the spam filter.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct SpamKey {
    component: Arc<str>,
    kind: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    uid: Option<String>,
    event_type: EventType,
}

/// Identifies similar events: everything but the message.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct AggregateKey {
    spam_key: SpamKey,
    field_path: Option<String>,
    reason: String,
}

/// Identifies repeated events; aggregated events have no message of their own.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct EventKey {
    aggregate_key: AggregateKey,
    message: Option<String>,
}

#[derive(Debug)]
struct AggregateRecord {
    messages: HashSet<String>,
    last: Timestamp,
}

#[derive(Debug)]
struct TokenBucket {
    tokens: f64,
    counted_at: Timestamp,
}

/// A map that keeps the most recently inserted entries, up to a limit.
#[derive(Debug)]
struct LruCache<K, V> {
    entries: HashMap<K, (u64, V)>,
    /// When each entry was used last; agrees with `entries`.
    uses: BTreeMap<u64, K>,
    clock: u64,
}

const MAX_CACHE_ENTRIES: usize = 4096;
const MAX_SIMILAR_MESSAGES: usize = 10;
const SIMILAR_INTERVAL: SignedDuration = SignedDuration::from_secs(600);
const SPAM_BURST: f64 = 25.0;
const SPAM_PER_SECOND: f64 = 1.0 / 300.0;

// === impl Correlator ===

impl Correlator {
    pub(crate) fn new() -> Self {
        Self {
            similar: LruCache::new(),
            written: LruCache::new(),
            spam: LruCache::new(),
            names: NameGenerator::default(),
        }
    }

    /// The write for an event at this time.
    pub(crate) fn observe(&mut self, event: &Event, now: Timestamp) -> Write {
        let aggregate_key = aggregate_key(event);
        let combined = self.should_aggregate(&aggregate_key, &event.message, now);
        let (key, message) = event_key(aggregate_key, &event.message, combined);
        let write = match self.written.find(&key) {
            Some(object) => Write::Update(with_next_count(object, message, now)),
            None => {
                let name = self.names.next(&event.involved_object, now);
                Write::Create(new_event(event, name, message, now))
            }
        };
        if let Write::Create(object) | Write::Update(object) = &write {
            self.written.insert(key.clone(), object.clone());
        }
        match self.passes_spam_filter(&key.aggregate_key.spam_key, now) {
            true => write,
            false => Write::Nothing,
        }
    }

    /// The event to create if the one to be updated no longer exists.
    pub(crate) fn renamed(&mut self, event: &Event, mut object: Object, now: Timestamp) -> Object {
        object.metadata.name = Some(self.names.next(&event.involved_object, now));
        let aggregate_key = aggregate_key(event);
        let combined = object.message.as_deref() != Some(&event.message);
        let (key, _) = event_key(aggregate_key, &event.message, combined);
        self.written.insert(key, object.clone());
        object
    }

    fn should_aggregate(&mut self, aggregate_key: &AggregateKey, message: &str, now: Timestamp) -> bool {
        let mut similar = match self.similar.remove(aggregate_key) {
            Some(similar) if now.duration_since(similar.last) <= SIMILAR_INTERVAL => similar,
            _ => AggregateRecord {
                messages: HashSet::new(),
                last: now,
            },
        };
        similar.last = now;
        // Beyond the threshold no more messages need to be stored.
        if similar.messages.len() < MAX_SIMILAR_MESSAGES {
            similar.messages.insert(message.to_owned());
        }
        let many = similar.messages.len() >= MAX_SIMILAR_MESSAGES;
        self.similar.insert(aggregate_key.clone(), similar);
        many
    }

    fn passes_spam_filter(&mut self, spam_key: &SpamKey, now: Timestamp) -> bool {
        let mut bucket = self.spam.remove(spam_key).unwrap_or(TokenBucket {
            tokens: SPAM_BURST,
            counted_at: now,
        });
        let passed = now.duration_since(bucket.counted_at).as_secs_f64();
        bucket.tokens = (bucket.tokens + passed * SPAM_PER_SECOND).min(SPAM_BURST);
        bucket.counted_at = now;
        let may = bucket.tokens >= 1.0;
        if may {
            bucket.tokens -= 1.0;
        }
        self.spam.insert(spam_key.clone(), bucket);
        may
    }
}

// === impl LruCache ===

impl<K: Clone + Eq + Hash, V> LruCache<K, V> {
    fn new() -> Self {
        Self {
            entries: HashMap::new(),
            uses: BTreeMap::new(),
            clock: 0,
        }
    }

    fn find(&self, key: &K) -> Option<&V> {
        self.entries.get(key).map(|(_, value)| value)
    }

    fn remove(&mut self, key: &K) -> Option<V> {
        let (used, value) = self.entries.remove(key)?;
        self.uses.remove(&used);
        Some(value)
    }

    fn insert(&mut self, key: K, value: V) {
        self.remove(&key);
        if self.entries.len() >= MAX_CACHE_ENTRIES
            && let Some((_, oldest)) = self.uses.pop_first()
        {
            self.entries.remove(&oldest);
        }
        self.clock += 1;
        self.uses.insert(self.clock, key.clone());
        self.entries.insert(key, (self.clock, value));
    }
}

fn aggregate_key(event: &Event) -> AggregateKey {
    let object = &event.involved_object;
    let spam_key = SpamKey {
        component: event.component.clone(),
        kind: object.kind.clone(),
        namespace: object.namespace.clone(),
        name: object.name.clone(),
        uid: object.uid.clone(),
        event_type: event.event_type,
    };
    AggregateKey {
        spam_key,
        field_path: object.field_path.clone(),
        reason: event.reason.clone(),
    }
}

/// The deduplication key of an event, and the message to write.
fn event_key(aggregate_key: AggregateKey, message: &str, combined: bool) -> (EventKey, String) {
    let (own, text) = match combined {
        true => (None, format!("(combined from similar events): {message}")),
        false => (Some(message.to_owned()), message.to_owned()),
    };
    let message = own;
    (
        EventKey {
            aggregate_key,
            message,
        },
        text,
    )
}

fn new_event(event: &Event, name: String, message: String, now: Timestamp) -> Object {
    let namespace = event
        .involved_object
        .namespace
        .clone()
        .unwrap_or_else(|| "default".to_owned());
    Object {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: Some(namespace),
            ..ObjectMeta::default()
        },
        involved_object: event.involved_object.clone(),
        type_: Some(event.event_type.as_str().to_owned()),
        action: event.action.as_deref().map(str::to_owned),
        reason: Some(event.reason.clone()),
        message: Some(message),
        source: Some(EventSource {
            component: Some(event.component.to_string()),
            host: None,
        }),
        reporting_component: Some(event.component.to_string()),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        count: Some(1),
        ..Object::default()
    }
}

fn with_next_count(before: &Object, message: String, now: Timestamp) -> Object {
    let mut object = before.clone();
    object.count = Some(before.count.unwrap_or(1).saturating_add(1));
    object.last_timestamp = Some(Time(now));
    object.message = Some(message);
    object
}
