//! The guarantees of a cache to its readers.

use std::collections::HashMap;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use setpoint_api::Header;
use setpoint_api::object::OwnerReference;
use tokio::task::JoinSet;

use super::*;
use crate::index::CONTROLLER_INDEX;

fn pods() -> Arc<Cache> {
    Arc::new(Cache::new(GroupResource::new("", "pods")))
}

fn version(number: u64) -> ResourceVersion {
    ResourceVersion(number)
}

fn object(key: &str, at: u64) -> Arc<Stored> {
    owned(key, at, "")
}

fn owned(key: &str, at: u64, owner: &str) -> Arc<Stored> {
    let mut header = Header::new(key.parse().unwrap());
    header.resource_version = version(at);
    if !owner.is_empty() {
        header.owner_references = Box::new([OwnerReference {
            uid: owner.into(),
            kind: "ReplicaSet".into(),
            name: "web".into(),
            api_version: "apps/v1".into(),
            controller: true,
            block_owner_deletion: true,
        }]);
    }
    Arc::new(Stored::new(header, Bytes::from_static(b"{}"), 1))
}

/// Puts `key` in at this revision, whether or not it was there.
fn put(cache: &Cache, key: &str, at: u64) {
    let new = object(key, at);
    let change = match cache.find(new.key()) {
        None => Change::Added(new),
        Some(old) => Change::Modified { old, new },
    };
    cache.apply(vec![change], version(at));
}

fn delete(cache: &Cache, key: &str, at: u64) {
    let last = object(key, at);
    let old = cache.find(last.key()).unwrap();
    cache.apply(vec![Change::Deleted { old, last }], version(at));
}

fn shown(change: &Change) -> String {
    let sign = match change {
        Change::Added(_) => '+',
        Change::Modified { .. } => '~',
        Change::Deleted { .. } => '-',
    };
    format!("{sign}{:?}", change.object())
}

/// All changes pending for a subscriber.
fn ready(subscription: &mut Subscription) -> Vec<String> {
    let mut delivered = Vec::new();
    while let Some(batch) = subscription.try_next().unwrap() {
        delivered.extend(batch.changes().iter().map(shown));
    }
    delivered
}

fn keys<'a>(objects: impl IntoIterator<Item = &'a Arc<Stored>>) -> Vec<String> {
    let key = |object: &Arc<Stored>| object.key().to_string();
    objects.into_iter().map(key).collect()
}

/// IN8, IN17: readers share the object itself.
#[test]
fn in8_every_reader_gets_the_same_object() {
    let cache = pods();
    let mut subscription = cache.subscribe(None).unwrap();
    put(&cache, "a/x", 1);
    let found = cache.find(&Key::new("a", "x")).unwrap();
    let snapshot = cache.snapshot();
    let batch = subscription.try_next().unwrap().unwrap();
    assert!(Arc::ptr_eq(&found, snapshot.find(found.key()).unwrap()));
    assert!(Arc::ptr_eq(&found, batch.changes()[0].object()));
}

/// IN6: a change is in the cache before it is delivered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in6_a_delivered_change_is_in_the_cache() {
    let cache = pods();
    let mut followers = JoinSet::new();
    for _ in 0..4 {
        let (cache, mut subscription) = (cache.clone(), cache.subscribe(None).unwrap());
        followers.spawn(async move {
            let mut delivered = 0;
            while delivered < 2000 {
                for change in subscription.next().await.unwrap().changes() {
                    let found = cache.find(change.key()).unwrap();
                    assert!(found.resource_version() >= change.resource_version());
                    assert!(cache.snapshot().version >= change.resource_version());
                    delivered += 1;
                }
            }
        });
    }
    for at in 1..=2000 {
        put(&cache, &format!("a/{}", at % 7), at);
        if at % 64 == 0 {
            tokio::task::yield_now().await;
        }
    }
    while let Some(done) = followers.join_next().await {
        done.unwrap();
    }
}

/// IN19, TR8: 64 subscribers, joining at any time, see each change once and in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tr8_every_subscriber_sees_every_change_once_and_in_order() {
    const CHANGES: u64 = 3000;
    let cache = pods();
    let mut followers = JoinSet::new();
    for at in 1..=CHANGES {
        if at % (CHANGES / 64) == 1 && followers.len() < 64 {
            followers.spawn(follow(cache.subscribe(None).unwrap(), CHANGES));
        }
        put(&cache, &format!("a/{}", at % 11), at);
        tokio::task::yield_now().await;
    }
    assert_eq!(followers.len(), 64);
    while let Some(done) = followers.join_next().await {
        done.unwrap();
    }
}

/// IN19
#[test]
fn in19_a_change_between_a_read_and_the_wait_is_delivered() {
    let cache = pods();
    let mut subscription = cache.subscribe(None).unwrap();
    assert!(subscription.try_next().unwrap().is_none());
    put(&cache, "a/x", 1);
    let polled = subscription.poll_after_look(&mut Context::from_waker(Waker::noop()));
    assert!(
        polled.is_ready(),
        "the change was made before the waker was there"
    );
}

/// IN20, IN19: ten thousand subscribers to ten thousand objects hold the same objects and the same changes; the history
/// kept for them does not grow with their number.
#[test]
fn in20_ten_thousand_watchers_share_ten_thousand_objects() {
    const OBJECTS: u64 = 10_000;
    const CHANGES: u64 = 20;
    let cache = pods();
    let objects = (1..=OBJECTS).map(|at| object(&format!("a/{at}"), at)).collect();
    cache.replace(objects, version(OBJECTS));
    let mut watchers: Vec<_> = (0..10_000).map(|_| cache.subscribe(None).unwrap()).collect();
    for at in OBJECTS + 1..=OBJECTS + CHANGES {
        put(&cache, &format!("a/{at}"), at);
    }
    let alone = pods();
    (1..=CHANGES).for_each(|at| put(&alone, &format!("a/{at}"), at));
    let (kept, kept_alone) = (cache.metrics(), alone.metrics());
    assert_eq!(
        (kept.window_changes, kept.window_bytes),
        (kept_alone.window_changes, kept_alone.window_bytes)
    );
    assert_eq!(kept.subscribers, 10_000);
    let newest = cache
        .find(&Key::new("a", &(OBJECTS + CHANGES).to_string()))
        .unwrap();
    for watcher in &mut watchers {
        let initial = watcher.initial.take().unwrap();
        assert_eq!(initial.len() as u64, OBJECTS);
        let mut delivered = 0;
        while let Some(batch) = watcher.try_next().unwrap() {
            delivered += batch.changes().len() as u64;
            if delivered == CHANGES {
                assert!(Arc::ptr_eq(batch.changes().last().unwrap().object(), &newest));
            }
        }
        assert_eq!(delivered, CHANGES);
    }
}

/// Checks that the revisions after the initial snapshot come without a gap.
async fn follow(mut subscription: Subscription, last: u64) {
    let mut seen = subscription.initial.take().unwrap().version.0;
    while seen < last {
        for change in subscription.next().await.unwrap().changes() {
            assert_eq!(change.resource_version().0, seen + 1);
            seen += 1;
        }
    }
}

/// A snapshot taken amid writes and the subscription from it are one picture: nothing twice, nothing lost.
#[test]
fn a_snapshot_and_its_changes_make_up_the_whole() {
    mirror_amid_changes(&pods());
}

fn mirror_amid_changes(cache: &Arc<Cache>) {
    const CHANGES: u64 = 20_000;
    std::thread::scope(|scope| {
        scope.spawn(|| (1..=CHANGES).for_each(|at| put(cache, &format!("a/{}", at % 50), at)));
        for _ in 0..2 {
            scope.spawn(|| {
                while cache.version().0 < CHANGES {
                    mirror_for_a_while(cache);
                }
            });
        }
    });
}

fn mirror_for_a_while(cache: &Arc<Cache>) {
    let mut subscription = cache.subscribe(None).unwrap();
    let initial = subscription.initial.take().unwrap();
    let mut mirror: HashMap<Key, u64> = initial
        .iter()
        .map(|object| (object.key().clone(), object.resource_version().0))
        .collect();
    for _ in 0..20 {
        for change in subscription.try_next().unwrap().iter().flat_map(Batch::changes) {
            let before = mirror.insert(change.key().clone(), change.resource_version().0);
            let old = change.old().map(|old| old.resource_version().0);
            assert_eq!(before, old, "{}", change.key());
        }
    }
}

#[test]
fn a_stalled_subscriber_delays_no_one_and_falls_out() {
    let limits = Limits {
        changes: 10,
        ..Limits::default()
    };
    let cache = Arc::new(Cache::new(GroupResource::new("", "pods")).with_limits(limits));
    let mut stalled = cache.subscribe(None).unwrap();
    let mut lively = cache.subscribe(None).unwrap();
    for at in 1..=11 {
        put(&cache, "a/x", at);
        assert_eq!(ready(&mut lively).len(), 1);
    }
    assert_eq!(stalled.try_next().unwrap_err(), TooOld { oldest: version(1) });
    assert_eq!(cache.metrics().window_changes, 10);
}

/// Polls a subscriber that has no pending changes.
fn wait(subscription: &mut Subscription) {
    let polled = subscription.poll_changes(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending());
}

/// IN9: queued changes and stored objects are two metrics. Where no subscriber resumes, delivered changes are dropped.
#[test]
fn in9_a_cache_that_trims_delivered_changes_keeps_those_not_delivered_to_all() {
    let cache = Cache::new(GroupResource::new("", "pods")).trim_delivered();
    let cache = Arc::new(cache);
    let queued = || {
        let kept = cache.metrics();
        (kept.objects, kept.undelivered_changes, kept.window_changes)
    };
    put(&cache, "a/x", 1);
    put(&cache, "a/x", 2);
    assert_eq!(
        queued(),
        (1, 0, 1),
        "there is no subscriber; the last change is dropped with the next"
    );
    let (mut slow, mut quick) = (cache.subscribe(None).unwrap(), cache.subscribe(None).unwrap());
    wait(&mut slow);
    for at in 3..=6 {
        put(&cache, "a/x", at);
        assert_eq!(ready(&mut quick).len(), 1);
        wait(&mut quick);
    }
    assert_eq!(queued(), (1, 4, 4));
    assert_eq!(ready(&mut slow), ["~a/x@3", "~a/x@4", "~a/x@5", "~a/x@6"]);
    wait(&mut slow);
    assert_eq!(queued(), (1, 0, 4));
    put(&cache, "a/x", 7);
    assert_eq!(queued(), (1, 1, 1));
    assert_eq!(ready(&mut quick), ["~a/x@7"]);
    drop(slow);
    wait(&mut quick);
    put(&cache, "a/x", 8);
    assert_eq!(queued(), (1, 1, 1));
    assert!(
        cache.subscribe(Some(version(6))).is_err(),
        "no subscriber resumes from what was dropped"
    );
}

/// A subscriber that joins amid changes misses none of them, though others have received them at once.
#[test]
fn a_cache_that_trims_delivered_changes_keeps_those_that_a_new_subscriber_needs() {
    mirror_amid_changes(&Arc::new(
        Cache::new(GroupResource::new("", "pods")).trim_delivered(),
    ));
}

#[test]
fn the_window_is_bounded_by_its_weight_too() {
    let limits = Limits {
        bytes: 2048,
        ..Limits::default()
    };
    let cache = Arc::new(Cache::new(GroupResource::new("", "pods")).with_limits(limits));
    (1..=100).for_each(|at| put(&cache, "a/x", at));
    let metrics = cache.metrics();
    assert!(metrics.window_bytes <= 2048, "{metrics:?}");
    assert!(metrics.window_changes >= 2, "{metrics:?}");
}

#[track_caller]
fn check_after(after: u64, expected: &[&str]) {
    let cache = pods();
    cache.replace(vec![object("a/x", 1)], version(2));
    put(&cache, "a/y", 3);
    let old = cache.find(&Key::new("a", "x")).unwrap();
    let modified = Change::Modified {
        old,
        new: object("a/x", 5),
    };
    cache.apply(vec![Change::Added(object("a/z", 4)), modified], version(6));
    delete(&cache, "a/y", 7);
    let mut subscription = cache.subscribe(Some(version(after))).unwrap();
    put(&cache, "b/x", 9);
    assert_eq!(ready(&mut subscription), expected);
}

#[test]
fn a_subscriber_may_start_after_any_revision_that_is_kept() {
    check_after(2, &["+a/y@3", "+a/z@4", "~a/x@5", "-a/y@7", "+b/x@9"]);
    check_after(3, &["+a/z@4", "~a/x@5", "-a/y@7", "+b/x@9"]);
    check_after(4, &["~a/x@5", "-a/y@7", "+b/x@9"]);
    check_after(6, &["-a/y@7", "+b/x@9"]);
    check_after(8, &["+b/x@9"]);
}

#[test]
fn a_subscriber_from_a_future_revision_gets_what_follows_it() {
    check_after(9, &[]);
}

#[test]
fn changes_before_the_first_fill_or_a_trim_are_too_old() {
    let cache = pods();
    cache.replace(vec![object("a/x", 1)], version(2));
    let error = cache.subscribe(Some(version(1))).unwrap_err();
    assert_eq!(error, TooOld { oldest: version(2) });
    (3..=6).for_each(|at| put(&cache, "a/x", at));
    cache.trim(version(4));
    assert!(cache.subscribe(Some(version(3))).is_err());
    let mut subscription = cache.subscribe(Some(version(4))).unwrap();
    assert_eq!(ready(&mut subscription), ["~a/x@5", "~a/x@6"]);
}

#[test]
fn a_trim_does_not_affect_up_to_date_subscribers() {
    let cache = pods();
    let mut subscription = cache.subscribe(None).unwrap();
    put(&cache, "a/x", 1);
    ready(&mut subscription);
    cache.trim(version(9));
    put(&cache, "a/x", 10);
    assert_eq!(ready(&mut subscription), ["~a/x@10"]);
}

/// IN5: a relist makes no duplicates, and what the watch missed becomes changes with the last known state.
#[test]
fn in5_a_replace_delivers_only_what_differs() {
    let cache = pods();
    cache.replace(
        vec![object("a/x", 1), object("a/y", 2), object("a/z", 3)],
        version(3),
    );
    let kept = cache.find(&Key::new("a", "x")).unwrap();
    let mut subscription = cache.subscribe(None).unwrap();
    let list = vec![object("a/new", 8), object("a/x", 1), object("a/y", 7)];
    cache.replace(list, version(9));
    assert_eq!(ready(&mut subscription), ["-a/z@3", "+a/new@8", "~a/y@7"]);
    assert!(Arc::ptr_eq(&kept, &cache.find(kept.key()).unwrap()));
    assert_eq!(cache.version(), version(9));
}

#[test]
fn in5_a_replace_by_the_same_list_delivers_nothing() {
    let cache = pods();
    cache.replace(vec![object("a/x", 1)], version(3));
    let mut subscription = cache.subscribe(None).unwrap();
    cache.replace(vec![object("a/x", 1)], version(5));
    assert_eq!(ready(&mut subscription), Vec::<String>::new());
    assert_eq!(subscription.progress(), Some(version(5)));
}

#[test]
fn a_subscriber_before_the_first_fill_gets_its_objects() {
    let cache = pods();
    let mut subscription = cache.subscribe(None).unwrap();
    assert!(!cache.is_synced());
    cache.replace(vec![object("a/x", 1)], version(3));
    assert_eq!(ready(&mut subscription), ["+a/x@1"]);
    assert!(cache.is_synced());
}

/// IN7: a namespace is a range of the keys.
#[test]
fn in7_a_namespace_is_listed_without_its_neighbours() {
    let cache = pods();
    let list = ["a-b/x", "a/x", "a/y", "a/z", "a0/x", "ab/x", "node"];
    let objects = list.iter().map(|key| object(key, 1)).collect();
    cache.replace(objects, version(1));
    let snapshot = cache.snapshot();
    assert_eq!(keys(snapshot.in_namespace("a")), ["a/x", "a/y", "a/z"]);
    assert_eq!(keys(snapshot.in_namespace("")), list);
    assert_eq!(
        keys(snapshot.from(&Key::new("a", "z"))),
        ["a/z", "a0/x", "ab/x", "node"]
    );
    let from = Key::new("a", "xx");
    assert_eq!(keys(snapshot.in_namespace_from("a", &from)), ["a/y", "a/z"]);
    assert_eq!(
        keys(snapshot.in_namespace_from("a", &Key::new("b", "x"))),
        Vec::<String>::new()
    );
}

#[test]
fn objects_are_found_by_their_controller_and_leave_no_trace() {
    let cache = pods();
    cache.apply(vec![Change::Added(owned("a/x", 1, "u1"))], version(1));
    cache.apply(vec![Change::Added(owned("a/y", 2, "u1"))], version(2));
    assert_eq!(keys(&cache.indexed(CONTROLLER_INDEX, "u1")), ["a/x", "a/y"]);
    let old = cache.find(&Key::new("a", "x")).unwrap();
    let new = owned("a/x", 3, "u2");
    cache.apply(vec![Change::Modified { old, new }], version(3));
    assert_eq!(keys(&cache.indexed(CONTROLLER_INDEX, "u1")), ["a/y"]);
    assert_eq!(keys(&cache.indexed(CONTROLLER_INDEX, "u2")), ["a/x"]);
    delete(&cache, "a/x", 4);
    delete(&cache, "a/y", 5);
    assert_eq!(cache.state.read().index(CONTROLLER_INDEX).len(), 0);
}

#[test]
fn an_index_may_be_added_when_objects_are_there() {
    let cache = pods();
    put(&cache, "a/x", 1);
    for _ in 0..2 {
        cache.add_index("name", |object| vec![object.key().name().into()]);
    }
    put(&cache, "b/x", 2);
    put(&cache, "b/y", 3);
    assert_eq!(keys(&cache.indexed("name", "x")), ["a/x", "b/x"]);
}

#[tokio::test]
async fn caches_with_a_shared_progress_advance_together() {
    let progress = Arc::new(Progress::new());
    let cache = |resource| Cache::with_progress(GroupResource::new("", resource), progress.clone());
    let (pods, nodes) = (Arc::new(cache("pods")), Arc::new(cache("nodes")));
    let subscription = nodes.subscribe(None).unwrap();
    put(&pods, "a/x", 4);
    assert_eq!(pods.version(), version(4));
    assert_eq!(nodes.version(), version(0));
    let mut waiting = pin!(nodes.reached(version(4)));
    let mut context = Context::from_waker(Waker::noop());
    assert_eq!(waiting.as_mut().poll(&mut context), Poll::Pending);
    progress.advance(version(4));
    waiting.await;
    assert_eq!(nodes.snapshot().version, version(4));
    assert_eq!(subscription.progress(), Some(version(4)));
}

/// IN9: the objects and the history are measured separately.
#[test]
fn in9_a_cache_reports_its_sizes() {
    let cache = pods();
    let subscription = cache.subscribe(None).unwrap();
    put(&cache, "a/x", 1);
    put(&cache, "a/x", 2);
    assert_eq!(subscription.progress(), None);
    let metrics = cache.metrics();
    assert_eq!((metrics.objects, metrics.window_changes), (1, 2));
    assert_eq!((metrics.version, metrics.subscribers), (version(2), 1));
    drop(subscription);
    assert_eq!(cache.metrics().subscribers, 0);
}

#[tokio::test]
async fn the_first_fill_makes_a_cache_synced() {
    let cache = pods();
    let mut waiting = pin!(cache.synced());
    let mut context = Context::from_waker(Waker::noop());
    assert_eq!(waiting.as_mut().poll(&mut context), Poll::Pending);
    cache.replace(Vec::new(), version(1));
    waiting.await;
}

#[test]
fn a_fork_has_objects_and_history_and_then_diverges() {
    let cache = pods();
    put(&cache, "default/a", 1);
    put(&cache, "default/b", 2);
    let progress = Arc::new(Progress::new());
    progress.advance(cache.version());
    let fork = Arc::new(cache.fork(progress));
    put(&cache, "default/c", 3);
    put(&fork, "default/d", 3);
    assert_eq!(
        keys(cache.snapshot().iter()),
        ["default/a", "default/b", "default/c"]
    );
    assert_eq!(
        keys(fork.snapshot().iter()),
        ["default/a", "default/b", "default/d"]
    );
    let mut changes = fork.subscribe(Some(version(1))).unwrap();
    assert_eq!(ready(&mut changes).len(), 2);
    assert!(Arc::ptr_eq(
        &cache.find(&"default/a".parse().unwrap()).unwrap(),
        &fork.find(&"default/a".parse().unwrap()).unwrap()
    ));
}
