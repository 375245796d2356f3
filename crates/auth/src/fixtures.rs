//! Test fixtures: caches filled by hand, a clock that is advanced by hand, and a webhook with responses in memory.

use std::collections::HashMap;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::Value;
use setpoint_api::{Change, Clock, GroupResource, Header, Key, ResourceVersion, Stored};
use setpoint_cache::{Cache, Caches};

use crate::maybe_future::BoxFuture;
use crate::remote::{ReviewClient, WebhookError};

/// Caches of the objects that a test puts into them.
#[derive(Debug, Default)]
pub(crate) struct TestCaches {
    caches: Mutex<HashMap<GroupResource, Arc<Cache>>>,
    version: Mutex<u64>,
}

impl TestCaches {
    pub(crate) fn with(objects: &[Value]) -> Arc<Self> {
        let caches = Arc::new(Self::default());
        for object in objects {
            caches.put(object);
        }
        caches
    }

    /// Adds or replaces an object.
    pub(crate) fn put(&self, object: &Value) {
        let (cache, version) = (self.cache_of(object), self.next());
        let new = Arc::new(stored(object, version));
        let change = match cache.find(new.key()) {
            Some(old) => Change::Modified { old, new },
            None => Change::Added(new),
        };
        cache.apply(vec![change], version);
    }

    pub(crate) fn contains(&self, object: &Value) -> bool {
        self.cache_of(object).find(&key_of(object)).is_some()
    }

    pub(crate) fn remove(&self, object: &Value) {
        let (cache, version) = (self.cache_of(object), self.next());
        let old = cache
            .find(&key_of(object))
            .expect("the object to remove is cached");
        let last = old.clone();
        cache.apply(vec![Change::Deleted { old, last }], version);
    }

    fn cache_of(&self, object: &Value) -> Arc<Cache> {
        let api_version = object["apiVersion"].as_str().unwrap_or("v1");
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        let kind = object["kind"].as_str().unwrap().to_lowercase();
        let plural = match kind.strip_suffix("ss") {
            Some(_) => format!("{kind}es"),
            None => format!("{kind}s"),
        };
        let resource = GroupResource::new(group, &plural);
        let mut caches = self.caches.lock();
        let cache = caches
            .entry(resource.clone())
            .or_insert_with(|| Arc::new(Cache::new(resource)));
        cache.clone()
    }

    fn next(&self) -> ResourceVersion {
        let mut version = self.version.lock();
        *version += 1;
        ResourceVersion(*version)
    }
}

impl Caches for TestCaches {
    fn cache(&self, resource: &GroupResource) -> Option<Arc<Cache>> {
        self.caches.lock().get(resource).cloned()
    }
}

fn key_of(object: &Value) -> Key {
    let meta = &object["metadata"];
    Key::new(
        meta["namespace"].as_str().unwrap_or_default(),
        meta["name"].as_str().unwrap(),
    )
}

fn stored(object: &Value, version: ResourceVersion) -> Stored {
    let mut header = Header::new(key_of(object));
    header.uid = object["metadata"]["uid"].as_str().unwrap_or_default().into();
    header.resource_version = version;
    header.deleting = !object["metadata"]["deletionTimestamp"].is_null();
    let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
    let labels = labels.filter_map(|(name, value)| Some((name.as_str().into(), value.as_str()?.into())));
    header.labels = labels.collect();
    if let Some(node) = object["spec"]["nodeName"].as_str() {
        header.fields = Box::new([("spec.nodeName".into(), node.into())]);
    }
    Stored::new(header, serde_json::to_vec(object).unwrap().into(), 0)
}

/// The output of a future that waits for no remote server.
#[track_caller]
pub(crate) fn now<T>(future: impl Future<Output = T>) -> T {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(future).poll(&mut context) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("the future waits"),
    }
}

/// A clock that only moves when it is advanced.
#[derive(Debug)]
pub(crate) struct ManualClock(Mutex<Timestamp>);

impl ManualClock {
    pub(crate) fn at(text: &str) -> Arc<Self> {
        Arc::new(Self(Mutex::new(text.parse().unwrap())))
    }

    pub(crate) fn advance(&self, seconds: u64) {
        let mut now = self.0.lock();
        *now = now.saturating_add(Duration::from_secs(seconds)).unwrap();
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        *self.0.lock()
    }

    fn sleep(&self, _: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + Sync>> {
        Box::pin(std::future::pending())
    }
}

/// A webhook that responds with these, one after the other, and records the reviews.
#[derive(Default)]
pub(crate) struct TestWebhook {
    pub(crate) responses: Mutex<Vec<Result<Value, &'static str>>>,
    pub(crate) reviews: Mutex<Vec<Value>>,
}

impl ReviewClient for Arc<TestWebhook> {
    fn send(&self, review: Vec<u8>) -> BoxFuture<'_, Result<Vec<u8>, WebhookError>> {
        self.reviews.lock().push(serde_json::from_slice(&review).unwrap());
        let response = self.responses.lock().remove(0);
        let failed = |message: &str| WebhookError {
            message: message.to_owned(),
            transient: false,
        };
        Box::pin(async move {
            let json = response.map_err(failed)?;
            Ok(json.to_string().into_bytes())
        })
    }
}
