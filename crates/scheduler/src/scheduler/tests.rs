//! Rows for changes that arrive while a pod is planned or bound, and for tasks that end.

use std::future::{pending, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use setpoint_api::{GroupResource, Header, Request, Serve, ServeFuture, Status, Stored, SystemClock};
use setpoint_runtime::Caches;

use super::planner::Planner;
use super::*;
use crate::bind::BindResult;
use crate::cycle::SignatureCache;
use crate::fixtures::{cluster, pod_requesting, with_spec};
use crate::framework::{
    CycleState, Permit, PermitResult, Plugin, Profile, Profiles, Registration, Rejection,
};
use crate::queue::BackoffConfig;

struct NoCaches;

impl Caches for NoCaches {
    fn cache(&self, _: &GroupResource) -> Option<Arc<Cache>> {
        None
    }
}

/// Lets every pod wait.
#[derive(Debug)]
struct Wait;

impl Plugin for Wait {
    fn name(&self) -> &'static str {
        "Wait"
    }
}

impl Permit for Wait {
    fn permit(&self, _: &CycleState, _: &PodInfo, _: &str) -> Result<PermitResult, Rejection> {
        Ok(PermitResult::Wait(Duration::from_secs(60)))
    }
}

/// A scheduler without a server, with these nodes.
fn scheduler(nodes: &str, change: impl FnOnce(&mut Profile)) -> Scheduler {
    let unavailable =
        |_: Request| -> ServeFuture<'static> { Box::pin(ready(Err(Status::unavailable("no server")))) };
    scheduler_of(Arc::new(unavailable), nodes, change)
}

/// A scheduler of this server, with these nodes.
fn scheduler_of(server: Arc<dyn Serve>, nodes: &str, change: impl FnOnce(&mut Profile)) -> Scheduler {
    let client = Client::new(server, Arc::default());
    let (context, _) = Context::new(Arc::new(NoCaches), client.clone(), Arc::new(SystemClock::new()));
    let mut profile = crate::default_profile(&Handle::default());
    change(&mut profile);
    let profiles = Arc::new(Profiles::new([profile]));
    let planner = Planner::new(profiles.clone(), 1);
    *planner.cluster.write() = cluster(nodes);
    let cache = |name| Arc::new(Cache::new(GroupResource::new("", name)));
    Scheduler {
        context,
        planner: Arc::new(planner),
        pods: cache("pods"),
        nodes: cache("nodes"),
        interner: SpecInterner::default(),
        queue: Queue::new(profiles, BackoffConfig::default()),
        idle_workers: vec![0],
        in_flight: JoinSet::new(),
        binding_client: client,
        conflicted: Vec::new(),
        decisions: Arc::default(),
        status_writes: StatusWrites::default(),
    }
}

/// Queues a pod, and pops it for a worker.
fn pop(scheduler: &mut Scheduler, pod: PodInfo) -> QueuedPod {
    let now = scheduler.now();
    scheduler.queue.update(Arc::new(pod), now);
    scheduler.queue.pop(now).unwrap()
}

/// The attempt of a worker.
fn attempt(scheduler: &Scheduler, queued: &QueuedPod) -> Attempt {
    scheduler
        .planner
        .attempt(&queued.pod, &mut SignatureCache::default())
}

fn important(name: &str) -> PodInfo {
    with_spec(pod_requesting(name, "", 500), |spec| spec.priority = 10)
}

/// A version of the pod `p` with this uid, merged with `more`.
fn stored(uid: &str, more: &Value) -> Arc<Stored> {
    let mut object = json!({
        "metadata": {"name": "p"},
        "spec": {"schedulerName": "default-scheduler", "containers": [
            {"resources": {"requests": {"cpu": "500m"}}},
        ]},
    });
    for (field, value) in more.as_object().into_iter().flatten() {
        for (inner, value) in value.as_object().into_iter().flatten() {
            object[field][inner] = value.clone();
        }
    }
    let mut header = Header::new(Key::new("default", "p"));
    header.uid = uid.into();
    header.deleting = !object["metadata"]["deletionTimestamp"].is_null();
    Arc::new(Stored::new(header, object.to_string().into(), 1))
}

fn outcome(pod: &PodInfo, result: BindResult) -> BindOutcome {
    BindOutcome {
        key: pod.key.clone(),
        uid: pod.uid.clone(),
        node: pod.node.clone(),
        scheduler: pod.spec.scheduler.clone(),
        resource_version: pod.resource_version,
        result,
        attempts: 1,
        first_attempt: Timestamp::UNIX_EPOCH,
    }
}

#[tokio::test]
async fn a_pod_that_was_deleted_while_it_was_planned_is_not_nominated() {
    let mut scheduler = scheduler("a=1000-1000", |_| {});
    let queued = pop(&mut scheduler, important("p"));
    scheduler.pod_deleted(&queued.pod.key);
    let attempt = attempt(&scheduler, &queued);
    assert!(!scheduler.planner.cluster.read().nominated().is_empty());
    scheduler.attempt_ended(&queued, attempt, Timestamp::UNIX_EPOCH);
    assert!(scheduler.planner.cluster.read().nominated().is_empty());
    assert!(scheduler.in_flight.is_empty(), "no pod is preempted for it");
}

#[tokio::test]
async fn a_pod_that_was_deleted_while_it_was_planned_does_not_wait_for_a_permission() {
    let mut scheduler = scheduler("a=1000", |profile| {
        let registration = Registration {
            permit: Some(Arc::new(Wait)),
            ..Registration::new("Wait")
        };
        profile.add(registration, 0);
    });
    let queued = pop(&mut scheduler, pod_requesting("p", "", 500));
    scheduler.pod_deleted(&queued.pod.key);
    let attempt = attempt(&scheduler, &queued);
    assert_eq!(scheduler.planner.waiting_pods(), 1);
    scheduler.attempt_ended(&queued, attempt, Timestamp::UNIX_EPOCH);
    let ended = scheduler.in_flight.join_next().await.unwrap();
    scheduler.task_finished(ended.unwrap());
    assert_eq!(scheduler.planner.waiting_pods(), 0);
    assert!(
        scheduler
            .planner
            .cluster
            .read()
            .find_pod(&queued.pod.key)
            .is_none()
    );
}

#[tokio::test]
async fn a_new_pod_stays_queued_when_the_binding_of_the_old_one_of_its_name_ends() {
    let mut scheduler = scheduler("a=1000", |_| {});
    let old = PodInfo {
        uid: "old".into(),
        ..pod_requesting("p", "a", 500)
    };
    let now = scheduler.now();
    scheduler
        .queue
        .update(Arc::new(pod_requesting("p", "", 500)), now);
    scheduler.binding_ended(&outcome(&old, BindResult::Bound));
    scheduler.binding_ended(&outcome(&old, BindResult::NodeChanged));
    scheduler.binding_ended(&outcome(&old, BindResult::Failed("lost".to_owned())));
    assert_eq!(scheduler.queue.counts().active, 1);
}

#[tokio::test]
async fn a_pod_is_not_assumed_if_a_newer_one_has_its_name() {
    let scheduler = scheduler("a=1000", |_| {});
    let newer = PodInfo {
        uid: "newer".into(),
        ..pod_requesting("p", "a", 500)
    };
    scheduler.planner.cluster.write().set_pod(Arc::new(newer));
    let older = Arc::new(pod_requesting("p", "", 500));
    let attempt = scheduler.planner.attempt(&older, &mut SignatureCache::default());
    assert!(matches!(attempt, Attempt::Superseded), "{attempt:?}");
    let cluster = scheduler.planner.cluster.read();
    assert!(cluster.contains(&older.key, "newer"));
}

#[tokio::test]
async fn a_pod_that_replaces_one_of_its_name_without_a_deletion_takes_it_from_its_node() {
    let mut scheduler = scheduler("a=1000", |_| {});
    let (old, new) = (
        stored("old", &json!({"spec": {"nodeName": "a"}})),
        stored("new", &json!({})),
    );
    scheduler.update_pod(None, &old);
    let key = Key::new("default", "p");
    assert!(scheduler.planner.cluster.read().contains(&key, "old"));
    scheduler.update_pod(Some(&old), &new);
    assert!(scheduler.planner.cluster.read().find_pod(&key).is_none());
    assert!(scheduler.queue.contains(&key, "new"));
}

#[tokio::test]
async fn a_nomination_that_is_removed_from_the_status_is_given_up() {
    let mut scheduler = scheduler("a=1000", |_| {});
    let (without, with) = (
        stored("p", &json!({})),
        stored("p", &json!({"status": {"nominatedNodeName": "a"}})),
    );
    let key = Key::new("default", "p");
    let node = |scheduler: &Scheduler| {
        scheduler
            .planner
            .cluster
            .read()
            .nominated()
            .node_of(&key)
            .cloned()
    };
    scheduler.update_pod(None, &without);
    let pod = scheduler.queue.find(&key).cloned().unwrap();
    scheduler.planner.cluster.write().nominate(pod, "a");
    // The nomination is not written yet.
    scheduler.update_pod(Some(&without), &without);
    assert_eq!(node(&scheduler).as_deref(), Some("a"));
    scheduler.update_pod(Some(&without), &with);
    assert_eq!(node(&scheduler).as_deref(), Some("a"));
    scheduler.update_pod(Some(&with), &without);
    assert_eq!(node(&scheduler), None);
}

#[tokio::test]
async fn an_assumed_pod_that_is_being_deleted_wakes_the_pods_that_need_its_node() {
    let mut scheduler = scheduler("a=700", |_| {});
    let before = stored("p", &json!({}));
    scheduler.update_pod(None, &before);
    let now = scheduler.now();
    let first = scheduler.queue.pop(now).unwrap();
    assert!(matches!(attempt(&scheduler, &first), Attempt::Assumed { .. }));
    let second = pop(&mut scheduler, pod_requesting("q", "", 500));
    let failed = attempt(&scheduler, &second);
    scheduler.attempt_ended(&second, failed, now);
    assert_eq!(scheduler.queue.counts().unschedulable, 1);
    let deleting = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    scheduler.update_pod(Some(&before), &stored("p", &deleting));
    assert_eq!(scheduler.queue.counts().unschedulable, 0);
}

/// Two writes at once would leave the older message if the newer one was faster.
#[tokio::test]
async fn the_status_of_a_pod_is_written_in_the_order_of_its_reports() {
    let gets = Arc::new(AtomicUsize::new(0));
    let (server_gets, object) = (gets.clone(), stored("p", &json!({})));
    let server = move |_: Request| -> ServeFuture<'static> {
        server_gets.fetch_add(1, Ordering::Relaxed);
        Box::pin(pending())
    };
    let mut scheduler = scheduler_of(Arc::new(server), "a=100", |_| {});
    scheduler
        .pods
        .apply(vec![Change::Added(object.clone())], ResourceVersion(1));
    let queued = pop(
        &mut scheduler,
        PodInfo::read(&object, &mut SpecInterner::default()).unwrap(),
    );
    for _ in 0..2 {
        scheduler.attempt_ended(&queued, failed("Too many pods"), Timestamp::UNIX_EPOCH);
    }
    tokio::task::yield_now().await;
    assert_eq!((gets.load(Ordering::Relaxed), scheduler.in_flight.len()), (1, 1));
    scheduler.task_finished(TaskOutcome::StatusWritten(queued.pod.uid.clone()));
    tokio::task::yield_now().await;
    assert_eq!((gets.load(Ordering::Relaxed), scheduler.in_flight.len()), (2, 2));
}

/// An attempt that a plugin failed.
fn failed(message: &str) -> Attempt {
    Attempt::Failed {
        message: message.to_owned(),
        is_rejected: true,
    }
}

#[tokio::test]
#[should_panic(expected = "the plugin failed")]
async fn a_panic_of_a_worker_ends_the_scheduler() {
    let mut tasks: JoinSet<TaskOutcome> = JoinSet::new();
    tasks.spawn(async { panic!("the plugin failed") });
    let ended = tasks.join_next().await.unwrap();
    outcome_of(ended);
}
