//! Tests of monitors: events of informers, and what a hook is run for.

use bytes::Bytes;
use setpoint_api::{Change, Clock, GroupResource, Header, Key, ResourceVersion, SystemClock};
use setpoint_runtime::Cache;

use super::caches::Namespaces;
use super::*;
use crate::jq;

/// A monitor without informers, and the events that it has reported: `Deleted namespace/name result`.
struct Subject {
    shared: Shared,
    events: Arc<Mutex<Vec<String>>>,
}

fn object(namespace: &str, name: &str, json: &str) -> Arc<Stored> {
    let mut header = Header::new(Key::new(namespace, name));
    header.resource_version = ResourceVersion(1);
    Arc::new(Stored::new(header, Bytes::from(json.to_owned()), 1))
}

fn cache(objects: &[&Arc<Stored>]) -> Arc<Cache> {
    let cache = Arc::new(Cache::new(GroupResource::new("", "pods")));
    let objects = objects.iter().map(|object| Arc::clone(object)).collect();
    cache.replace(objects, ResourceVersion(1));
    cache
}

impl Subject {
    fn new(filter: Option<&str>) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let filter = filter.map(|text| Arc::new(jq::Filter::compile(text, clock).unwrap()));
        let events: Arc<Mutex<Vec<String>>> = Arc::default();
        let log = events.clone();
        let sink: EventSink = Arc::new(move |KubeEvent { event, object }| {
            let ObjectId { namespace, name, .. } = &object.id;
            let result = object.filter_result.as_deref().unwrap_or_default();
            log.lock()
                .push(format!("{} {namespace}/{name} {result}", event.as_str()));
        });
        let config = BindingConfig {
            name: "pods".to_owned(),
            filter,
            events: WatchEvent::ALL.to_vec(),
            keep_full_objects: true,
        };
        let shared = Shared {
            hook: "hook.sh".to_owned(),
            binding: 0,
            config: Arc::new(config),
            kind: "Pod".to_owned(),
            caches: MonitorCaches::default(),
            state: Mutex::new(State::new()),
            sink,
            metrics: Arc::new(MetricStorage::new("")),
            labels: LabelSet::default(),
        };
        Self { shared, events }
    }

    /// Delivers the objects that exist at the start, and unlocks the events.
    fn load(&self, objects: &[&Arc<Stored>]) {
        for object in objects {
            self.shared.handle(Event::Present(object));
        }
        let mut state = self.shared.state.lock();
        state.end_initial();
        state.unlock();
    }

    fn names(&self) -> Vec<String> {
        let objects = self.shared.state.lock().snapshot();
        objects.into_iter().map(|object| object.id.name).collect()
    }
}

fn deleted(object: &Arc<Stored>) -> Change {
    Change::Deleted {
        old: object.clone(),
        last: object.clone(),
    }
}

/// TO8
#[tokio::test]
async fn a_gap_of_one_namespace_deletes_no_object_of_another() {
    let subject = Subject::new(None);
    let [one, gone, two] =
        [("a", "one"), ("a", "gone"), ("b", "two")].map(|(ns, name)| object(ns, name, "{}"));
    let caches = &subject.shared.caches;
    caches.add(Namespaces::of_scope("a"), cache(&[&one]));
    caches.add(Namespaces::of_scope("b"), cache(&[&two]));
    subject.load(&[&one, &gone, &two]);
    subject.shared.handle(Event::Gap);
    assert_eq!(*subject.events.lock(), ["Deleted a/gone "]);
    assert_eq!(subject.names(), ["one", "two"]);
}

/// The cache of all namespaces may be behind that of a namespace with one of its own.
#[tokio::test]
async fn a_missed_deletion_is_looked_for_in_the_cache_of_its_namespace() {
    let subject = Subject::new(None);
    let gone = object("a", "gone", "{}");
    let caches = &subject.shared.caches;
    caches.add(Namespaces::of_scope("a"), cache(&[]));
    let others = Arc::new(["a".to_owned()].into());
    caches.add(Namespaces::AllBut(others), cache(&[&gone]));
    subject.load(&[&gone]);
    subject.shared.handle(Event::Gap);
    assert_eq!(*subject.events.lock(), ["Deleted a/gone "]);
}

#[tokio::test]
async fn a_deletion_that_is_delivered_after_a_gap_is_reported_once() {
    let subject = Subject::new(None);
    let gone = object("a", "gone", "{}");
    subject.shared.caches.add(Namespaces::All, cache(&[]));
    subject.load(&[&gone]);
    subject.shared.handle(Event::Gap);
    subject.shared.handle(Event::Changed(&deleted(&gone)));
    assert_eq!(*subject.events.lock(), ["Deleted a/gone "]);
}

#[tokio::test]
async fn a_deleted_object_on_which_the_filter_fails_leaves_the_snapshot() {
    let subject = Subject::new(Some(".spec.name"));
    let old = object("a", "x", r#"{"spec":{"name":"n"}}"#);
    subject.load(&[&old]);
    let last = object("a", "x", r#"{"spec":"no map"}"#);
    subject.shared.handle(Event::Changed(&deleted(&last)));
    assert_eq!(*subject.events.lock(), [r#"Deleted a/x "n""#]);
    assert!(subject.names().is_empty());
}

#[tokio::test]
async fn a_snapshot_for_another_binding_drops_no_event() {
    let subject = Subject::new(None);
    let added = Change::Added(object("a", "x", "{}"));
    subject.shared.state.lock().end_initial();
    subject.shared.handle(Event::Changed(&added));
    let kept_back = |subject: &Subject| subject.shared.state.lock().unlock().len();
    assert_eq!(subject.names(), ["x"]);
    assert_eq!(kept_back(&subject), 1);
}

#[tokio::test]
async fn the_run_with_the_existing_objects_replaces_their_events() {
    let subject = Subject::new(None);
    let added = Change::Added(object("a", "x", "{}"));
    subject.shared.state.lock().end_initial();
    subject.shared.handle(Event::Changed(&added));
    let mut state = subject.shared.state.lock();
    assert_eq!(state.synchronize().len(), 1);
    assert!(state.unlock().is_empty());
}
