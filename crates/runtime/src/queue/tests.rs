//! client-go's rules for the work queue, on paused time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use setpoint_api::{Key, SystemClock};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::state::State;
use super::*;

fn queue() -> Queue<&'static str> {
    Queue::new(Arc::new(SystemClock::new()))
}

/// The items that the queue hands out now, each marked as done at once.
async fn drained(queue: &Queue<&'static str>) -> Vec<&'static str> {
    let mut items = Vec::new();
    while !queue.is_empty() {
        items.push(*queue.get().await.unwrap().item());
        queue.shared.state.lock().check();
    }
    items
}

/// WQ1: the six operations.
#[tokio::test]
async fn wq1_items_come_in_the_order_they_were_added() {
    let queue = queue();
    ["b", "a", "c"].into_iter().for_each(|item| queue.add(item));
    assert_eq!(queue.len(), 3);
    assert_eq!(drained(&queue).await, ["b", "a", "c"]);
    assert!(!queue.is_shutting_down());
    queue.shut_down();
    assert!(queue.is_shutting_down());
    assert!(queue.get().await.is_none());
}

/// WQ4
#[tokio::test]
async fn wq4_an_item_added_often_is_handed_out_once() {
    let queue = queue();
    (0..5).for_each(|_| queue.add("a"));
    assert_eq!(drained(&queue).await, ["a"]);
}

/// WQ4
#[tokio::test]
async fn wq4_an_item_added_while_processing_runs_once_more_when_it_is_done() {
    let queue = queue();
    queue.add("a");
    let taken = queue.get().await.unwrap();
    (0..5).for_each(|_| queue.add("a"));
    assert_eq!(queue.len(), 0, "nobody else gets it");
    queue.shared.state.lock().check();
    drop(taken);
    assert_eq!(drained(&queue).await, ["a"]);
}

/// WQ4: 64 workers and a million adds, never two on one key, and the last add of a key is always followed by a run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wq4_sixty_four_workers_never_share_a_key_and_miss_nothing() {
    const KEYS: usize = 16;
    const ADDS: usize = 1_000_000;
    let queue: Queue<usize> = Queue::new(Arc::new(SystemClock::new()));
    let busy: Arc<[AtomicBool; KEYS]> = Arc::default();
    let wanted: Arc<[AtomicUsize; KEYS]> = Arc::default();
    let seen: Arc<[AtomicUsize; KEYS]> = Arc::default();
    let mut workers = JoinSet::new();
    for _ in 0..64 {
        let (queue, busy) = (queue.clone(), busy.clone());
        let (wanted, seen) = (wanted.clone(), seen.clone());
        workers.spawn(async move {
            while let Some(taken) = queue.get().await {
                let key = *taken.item();
                assert!(!busy[key].swap(true, Ordering::SeqCst), "two workers on {key}");
                let now = wanted[key].load(Ordering::SeqCst);
                tokio::task::yield_now().await;
                seen[key].store(now, Ordering::SeqCst);
                busy[key].store(false, Ordering::SeqCst);
            }
        });
    }
    for i in 0..ADDS {
        wanted[i * 7 % KEYS].fetch_add(1, Ordering::SeqCst);
        queue.add(i * 7 % KEYS);
        if i % 1000 == 0 {
            queue.shared.state.lock().check();
            tokio::task::yield_now().await;
        }
    }
    queue.shut_down();
    while let Some(worker) = workers.join_next().await {
        worker.unwrap();
    }
    for key in 0..KEYS {
        assert_eq!(
            seen[key].load(Ordering::SeqCst),
            wanted[key].load(Ordering::SeqCst)
        );
    }
}

/// A reconcile that is dropped midway releases its key.
#[tokio::test]
async fn a_cancelled_worker_holds_no_key() {
    let queue = queue();
    queue.add("a");
    let taken = queue.get().await.unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let _taken = taken;
        std::future::pending::<()>().await;
    });
    tokio::task::yield_now().await;
    tasks.shutdown().await;
    queue.add("a");
    assert_eq!(drained(&queue).await, ["a"]);
}

/// TR2, WQ7
#[tokio::test(start_paused = true)]
async fn tr2_a_delayed_item_is_ready_when_it_is_due() {
    let queue = queue();
    let start = Instant::now();
    queue.add_after("late", Duration::from_secs(30));
    queue.add_after("soon", Duration::from_secs(10));
    queue.add_after("now", Duration::ZERO);
    let mut came = Vec::new();
    for _ in 0..3 {
        let item = *queue.get().await.unwrap().item();
        came.push((item, start.elapsed().as_secs()));
    }
    assert_eq!(came, [("now", 0), ("soon", 10), ("late", 30)]);
    assert_eq!(queue.num_requeues(&"late"), 0);
}

#[tokio::test(start_paused = true)]
async fn an_item_due_earlier_wakes_the_waiting_workers() {
    let queue = queue();
    let start = Instant::now();
    queue.add_after("late", Duration::from_secs(30));
    let mut workers = JoinSet::new();
    for _ in 0..3 {
        let queue = queue.clone();
        workers.spawn(async move {
            let taken = queue.get().await.unwrap();
            (*taken.item(), Instant::now())
        });
    }
    tokio::task::yield_now().await;
    queue.add_after("soon", Duration::from_secs(5));
    queue.add_after("late", Duration::from_secs(20));
    queue.add("now");
    let mut came = Vec::new();
    while let Some(worker) = workers.join_next().await {
        let (item, at) = worker.unwrap();
        came.push((item, at.duration_since(start).as_secs()));
    }
    assert_eq!(came, [("now", 0), ("soon", 5), ("late", 20)]);
}

/// The worker with the timer may be dropped; another takes over.
#[tokio::test(start_paused = true)]
async fn another_worker_takes_the_timer_when_its_holder_is_dropped() {
    let queue = queue();
    let (first, second) = (queue.clone(), queue.clone());
    let mut keeper = JoinSet::new();
    keeper.spawn(async move { drop(first.get().await) });
    tokio::task::yield_now().await;
    let mut other = JoinSet::new();
    other.spawn(async move { *second.get().await.unwrap().item() });
    tokio::task::yield_now().await;
    queue.add_after("a", Duration::from_secs(3600));
    keeper.shutdown().await;
    assert_eq!(other.join_next().await.unwrap().unwrap(), "a");
}

/// WQ6
#[tokio::test(start_paused = true)]
async fn wq6_a_failed_item_waits_longer_each_time_until_it_is_forgotten() {
    let queue = queue();
    let mut waits = Vec::new();
    for _ in 0..4 {
        let before = Instant::now();
        queue.add_rate_limited("a");
        drop(queue.get().await.unwrap());
        waits.push(before.elapsed().as_millis());
    }
    assert_eq!(waits, [5, 10, 20, 40]);
    assert_eq!(queue.num_requeues(&"a"), 4);
    queue.forget(&"a");
    assert_eq!(queue.num_requeues(&"a"), 0);
    assert_eq!(queue.metrics().retries, 4);
}

/// WQ8
#[tokio::test]
async fn wq8_a_queue_that_shuts_down_hands_out_the_rest_and_accepts_nothing() {
    let queue = queue();
    queue.add("a");
    queue.add("b");
    let taken = queue.get().await.unwrap();
    queue.add("a");
    queue.shut_down();
    queue.add("c");
    queue.add_after("d", Duration::from_nanos(1));
    drop(taken);
    assert_eq!(drained(&queue).await, ["b", "a"]);
    assert!(queue.get().await.is_none());
}

#[tokio::test]
async fn wq8_a_shut_down_ends_all_waiting_workers() {
    let queue = queue();
    let mut workers = JoinSet::new();
    for _ in 0..8 {
        let queue = queue.clone();
        workers.spawn(async move { queue.get().await.is_none() });
    }
    tokio::task::yield_now().await;
    queue.shut_down();
    while let Some(worker) = workers.join_next().await {
        assert!(worker.unwrap());
    }
}

#[tokio::test]
async fn wq8_a_drain_waits_for_items_in_process() {
    let queue = queue();
    queue.add("a");
    let taken = queue.get().await.unwrap();
    let other = queue.clone();
    let mut drains = JoinSet::new();
    drains.spawn(async move { other.shut_down_with_drain().await });
    tokio::task::yield_now().await;
    assert!(queue.is_shutting_down());
    assert!(drains.try_join_next().is_none());
    drop(taken);
    drains.join_next().await.unwrap().unwrap();
}

#[tokio::test]
async fn wq8_a_shut_down_aborts_a_drain() {
    let queue = queue();
    queue.add("a");
    let _taken = queue.get().await.unwrap();
    let other = queue.clone();
    let mut drains = JoinSet::new();
    drains.spawn(async move { other.shut_down_with_drain().await });
    tokio::task::yield_now().await;
    queue.shut_down();
    drains.join_next().await.unwrap().unwrap();
}

/// The initial list must not delay later changes: it has a lower priority.
#[tokio::test(start_paused = true)]
async fn a_change_passes_the_initial_list_which_does_not_starve() {
    let queue = queue();
    queue.add_with("start", Priority::LOW);
    queue.add("change");
    assert_eq!(drained(&queue).await, ["change", "start"]);
    queue.add_with("start", Priority::LOW);
    tokio::time::advance(Duration::from_secs(11)).await;
    queue.add("change");
    assert_eq!(drained(&queue).await, ["start", "change"]);
}

#[tokio::test]
async fn the_highest_requested_priority_counts() {
    let queue = queue();
    queue.add_with("a", Priority::LOW);
    queue.add_with("b", Priority::LOW);
    queue.add("b");
    queue.add_with("b", Priority::LOW);
    assert_eq!(drained(&queue).await, ["b", "a"]);
}

/// A failed item is retried with the same priority.
#[tokio::test(start_paused = true)]
async fn a_retry_keeps_its_priority() {
    let queue = queue();
    queue.add_with("start", Priority::LOW);
    let taken = queue.get().await.unwrap();
    queue.add_rate_limited("start");
    drop(taken);
    tokio::time::advance(Duration::from_millis(6)).await;
    assert_eq!(queue.len(), 1);
    queue.add("change");
    assert_eq!(drained(&queue).await, ["change", "start"]);
}

#[tokio::test]
async fn lanes_by_namespace_take_turns() {
    let options = Options {
        lane_of: Some(Arc::new(|key: &Key| Arc::from(key.namespace()))),
        ..Options::default()
    };
    let queue = Queue::with(Arc::new(SystemClock::new()), options);
    for key in ["a/1", "a/2", "a/3", "b/1"] {
        queue.add(key.parse().unwrap());
    }
    let mut order = Vec::new();
    while !queue.is_empty() {
        order.push(queue.get().await.unwrap().item().to_string());
    }
    assert_eq!(order, ["a/1", "b/1", "a/2", "a/3"]);
}

/// The metrics follow the items.
#[tokio::test(start_paused = true)]
async fn a_queue_measures_its_durations() {
    let queue = queue();
    queue.add("a");
    queue.add("b");
    queue.add_after("c", Duration::from_secs(60));
    tokio::time::advance(Duration::from_secs(2)).await;
    let taken = queue.get().await.unwrap();
    tokio::time::advance(Duration::from_secs(3)).await;
    let metrics = queue.metrics();
    assert_eq!((metrics.depth, metrics.delayed, metrics.adds), (1, 1, 2));
    assert_eq!(
        (
            metrics.processing,
            metrics.longest_running,
            metrics.unfinished_work
        ),
        (1, 3.0, 3.0)
    );
    assert_eq!(
        (metrics.queue_duration.count(), metrics.queue_duration.sum()),
        (1, 2.0)
    );
    drop(taken);
    let metrics = queue.metrics();
    assert_eq!(
        (metrics.work_duration.count(), metrics.work_duration.sum()),
        (1, 3.0)
    );
}

/// Random operations, with the invariants checked after each.
#[test]
fn the_three_sets_always_agree() {
    for seed in 0..200u64 {
        let mut random = seed;
        let mut state: State<u64> = State::new(Options::default());
        let mut working = Vec::new();
        for step in 0..200 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let now = Timestamp::from_second(step).unwrap();
            let item = (random >> 40) % 5;
            match (random >> 33) % 4 {
                0 => drop(state.add(item, Priority(i32::try_from(random >> 50 & 3).unwrap()), now)),
                1 => drop(state.delay(item, now + Duration::from_secs(item))),
                2 => working.extend(state.take(now)),
                _ => drop(working.pop().map(|item| state.done(&item, now))),
            }
            state.check();
        }
    }
}
