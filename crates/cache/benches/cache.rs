//! The hot paths of a cache: apply with and without subscribers, find, snapshot, list by owner.
//!
//! `cargo bench -p setpoint-cache` prints nanoseconds of processor time for each operation, so a busy machine does not
//! spoil the measurements much.
#![allow(clippy::print_stdout, reason = "a benchmark prints its measurements")]

use std::hint::black_box;
use std::sync::Arc;

use bytes::Bytes;
use setpoint_api::object::OwnerReference;
use setpoint_api::{Change, GroupResource, Header, Key, ResourceVersion, Stored};
use setpoint_cache::{CONTROLLER_INDEX, Cache, Subscription};

const OBJECTS: u64 = 10_000;

fn main() {
    let cache = Arc::new(Cache::new(GroupResource::new("", "pods")));
    let objects = (0..OBJECTS).map(|i| object(i, i + 1)).collect();
    cache.replace(objects, ResourceVersion(OBJECTS));
    let mut version = OBJECTS;
    measure("apply of one change, no subscribers", 100_000, || {
        touch(&cache, &mut version)
    });
    let mut subscribers: Vec<_> = (0..500)
        .map(|_| cache.subscribe(None).expect("there is a snapshot"))
        .collect();
    measure("apply of one change delivered to 500 subscribers", 2_000, || {
        touch(&cache, &mut version);
        subscribers.iter_mut().for_each(read);
    });
    let key = object(77, 0).key().clone();
    measure("find", 1_000_000, || drop(black_box(cache.find(&key))));
    measure("snapshot", 1_000_000, || drop(black_box(cache.snapshot())));
    measure("the ten objects of an owner", 100_000, || {
        drop(black_box(cache.indexed(CONTROLLER_INDEX, "owner-77")))
    });
    measure("a walk over 10,000 objects", 1_000, || {
        black_box(
            cache
                .snapshot()
                .iter()
                .filter(|object| object.uid().is_empty())
                .count(),
        );
    });
}

fn measure(what: &str, times: u32, mut work: impl FnMut()) {
    let start = processor_time();
    (0..times).for_each(|_| work());
    let each = (processor_time() - start) / u64::from(times);
    println!("{each:>10} ns  {what}");
}

/// The processor time of this thread so far, in nanoseconds.
fn processor_time() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")
        .expect("Linux reports the processor time of a thread");
    let used = text.split(' ').next().and_then(|text| text.parse().ok());
    used.expect("the first number is the time used")
}

fn object(i: u64, version: u64) -> Arc<Stored> {
    let mut header = Header::new(Key::new("default", &format!("web-{i:05}")));
    header.resource_version = ResourceVersion(version);
    header.uid = "00000000-0000-0000-0000-000000000000".into();
    header.owner_references = Box::new([OwnerReference {
        uid: format!("owner-{}", i / 10).into(),
        kind: "ReplicaSet".into(),
        name: "web".into(),
        api_version: "apps/v1".into(),
        controller: true,
        block_owner_deletion: true,
    }]);
    Arc::new(Stored::new(header, Bytes::from_static(b"{}"), 1))
}

/// Gives the next object in a scattered order a new version.
fn touch(cache: &Cache, version: &mut u64) {
    *version += 1;
    let new = object(*version * 7919 % OBJECTS, *version);
    let old = cache.find(new.key()).expect("all objects are there");
    cache.apply(vec![Change::Modified { old, new }], ResourceVersion(*version));
}

fn read(subscription: &mut Subscription) {
    black_box(subscription.try_next().expect("nobody falls behind"));
}
