//! Many events of the same kind become one: what to write for an event, given those before it.
//!
//! Three rules in this order, with client-go's numbers (`tools/record/events_cache.go`). From the tenth different message
//! about the same matter on, messages are combined. An event that was written before is counted up. An object that talks
//! too much is not listened to.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Event as Object, EventSource};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use super::name::Names;
use super::{Event, Severity};

/// What to do about an event.
#[derive(Debug)]
pub(crate) enum Write {
    /// It is new.
    Create(Object),
    /// It was written before; this is its next count.
    Update(Object),
    /// Its object has said too much.
    Nothing,
}

/// What was written lately.
#[derive(Debug)]
pub(crate) struct Correlator {
    similar: Recent<Matter, Similar>,
    written: Recent<Identity, Object>,
    talk: Recent<Speaker, Bucket>,
    names: Names,
}

/// Who speaks about whom.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Speaker {
    component: Arc<str>,
    kind: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    uid: Option<String>,
    severity: Severity,
}

/// What it is about, whatever the words.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Matter {
    speaker: Speaker,
    field_path: Option<String>,
    reason: String,
}

/// The matter in these words; combined messages have no words of their own.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Identity {
    matter: Matter,
    message: Option<String>,
}

#[derive(Debug)]
struct Similar {
    messages: HashSet<String>,
    last: Timestamp,
}

#[derive(Debug)]
struct Bucket {
    tokens: f64,
    counted_at: Timestamp,
}

/// The entries used last, so many of them.
#[derive(Debug)]
struct Recent<K, V> {
    entries: HashMap<K, (u64, V)>,
    /// When each entry was used last; agrees with `entries`.
    uses: BTreeMap<u64, K>,
    clock: u64,
}

const KEPT_ENTRIES: usize = 4096;
const SIMILAR_MESSAGES: usize = 10;
const SIMILAR_WITHIN: SignedDuration = SignedDuration::from_secs(600);
const TALK_BURST: f64 = 25.0;
const TALK_PER_SECOND: f64 = 1.0 / 300.0;

// === impl Correlator ===

impl Correlator {
    pub(crate) fn new() -> Self {
        Self {
            similar: Recent::new(),
            written: Recent::new(),
            talk: Recent::new(),
            names: Names::default(),
        }
    }

    /// What to write for an event that happened now.
    pub(crate) fn observe(&mut self, event: &Event, now: Timestamp) -> Write {
        let matter = matter(event);
        let combined = self.is_one_of_many(&matter, &event.message, now);
        let (identity, message) = worded(matter, &event.message, combined);
        let write = match self.written.find(&identity) {
            Some(object) => Write::Update(counted_up(object, message, now)),
            None => {
                let name = self.names.next(&event.about, now);
                Write::Create(first(event, name, message, now))
            }
        };
        if let Write::Create(object) | Write::Update(object) = &write {
            self.written.insert(identity.clone(), object.clone());
        }
        match self.may_speak(&identity.matter.speaker, now) {
            true => write,
            false => Write::Nothing,
        }
    }

    /// What it takes to create an event that was thought to be there already.
    pub(crate) fn renamed(&mut self, event: &Event, mut object: Object, now: Timestamp) -> Object {
        object.metadata.name = Some(self.names.next(&event.about, now));
        let matter = matter(event);
        let combined = object.message.as_deref() != Some(&event.message);
        let (identity, _) = worded(matter, &event.message, combined);
        self.written.insert(identity, object.clone());
        object
    }

    fn is_one_of_many(&mut self, matter: &Matter, message: &str, now: Timestamp) -> bool {
        let mut similar = match self.similar.remove(matter) {
            Some(similar) if now.duration_since(similar.last) <= SIMILAR_WITHIN => similar,
            _ => Similar {
                messages: HashSet::new(),
                last: now,
            },
        };
        similar.last = now;
        // Past the threshold there is nothing more to learn from the words.
        if similar.messages.len() < SIMILAR_MESSAGES {
            similar.messages.insert(message.to_owned());
        }
        let many = similar.messages.len() >= SIMILAR_MESSAGES;
        self.similar.insert(matter.clone(), similar);
        many
    }

    fn may_speak(&mut self, speaker: &Speaker, now: Timestamp) -> bool {
        let mut bucket = self.talk.remove(speaker).unwrap_or(Bucket {
            tokens: TALK_BURST,
            counted_at: now,
        });
        let passed = now.duration_since(bucket.counted_at).as_secs_f64();
        bucket.tokens = (bucket.tokens + passed * TALK_PER_SECOND).min(TALK_BURST);
        bucket.counted_at = now;
        let may = bucket.tokens >= 1.0;
        if may {
            bucket.tokens -= 1.0;
        }
        self.talk.insert(speaker.clone(), bucket);
        may
    }
}

// === impl Recent ===

impl<K: Clone + Eq + Hash, V> Recent<K, V> {
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
        if self.entries.len() >= KEPT_ENTRIES
            && let Some((_, oldest)) = self.uses.pop_first()
        {
            self.entries.remove(&oldest);
        }
        self.clock += 1;
        self.uses.insert(self.clock, key.clone());
        self.entries.insert(key, (self.clock, value));
    }
}

fn matter(event: &Event) -> Matter {
    let about = &event.about;
    let speaker = Speaker {
        component: event.component.clone(),
        kind: about.kind.clone(),
        namespace: about.namespace.clone(),
        name: about.name.clone(),
        uid: about.uid.clone(),
        severity: event.severity,
    };
    Matter {
        speaker,
        field_path: about.field_path.clone(),
        reason: event.reason.clone(),
    }
}

/// What the event counts as, and the words to write.
fn worded(matter: Matter, message: &str, combined: bool) -> (Identity, String) {
    let (own, text) = match combined {
        true => (None, format!("(combined from similar events): {message}")),
        false => (Some(message.to_owned()), message.to_owned()),
    };
    let message = own;
    (Identity { matter, message }, text)
}

fn first(event: &Event, name: String, message: String, now: Timestamp) -> Object {
    let namespace = event
        .about
        .namespace
        .clone()
        .unwrap_or_else(|| "default".to_owned());
    Object {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: Some(namespace),
            ..ObjectMeta::default()
        },
        involved_object: event.about.clone(),
        type_: Some(event.severity.as_str().to_owned()),
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

fn counted_up(before: &Object, message: String, now: Timestamp) -> Object {
    let mut object = before.clone();
    object.count = Some(before.count.unwrap_or(1).saturating_add(1));
    object.last_timestamp = Some(Time(now));
    object.message = Some(message);
    object
}
