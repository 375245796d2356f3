//! Rows for pods that wait for a permission: a test plugin lets the pods of a gang wait until all of them have a node.

use std::future::{Future, pending, ready};
use std::pin::Pin;
use std::time::Duration;

use parking_lot::Mutex;
use setpoint_api::{Clock, Request, ServeFuture, Status};
use setpoint_runtime::Client;

use super::*;
use crate::cycle::SignatureCache;
use crate::fixtures::{cluster, pod};
use crate::framework::{
    Bind, BoxFuture, Handle, Permit, PermitResult, Plugin, Profiles, Registration, Rejection, Reserve,
    WaitingPods,
};
use crate::metrics::Metrics;
use crate::pod_info::PodInfo;
use crate::scheduler::planner::{Attempt, Planner};

const TIMEOUT: Duration = Duration::from_secs(90);

/// Lets pods wait until `size` of them have a node, then allows all. Records what it reserves and binds.
#[derive(Debug)]
struct Gang {
    size: usize,
    waiting_pods: Arc<WaitingPods>,
    log: Mutex<Vec<String>>,
}

impl Plugin for Gang {
    fn name(&self) -> &'static str {
        "Gang"
    }
}

impl Permit for Gang {
    fn permit(
        &self,
        _: &crate::framework::CycleState,
        _: &PodInfo,
        _: &str,
    ) -> Result<PermitResult, Rejection> {
        let others = self.waiting_pods.all();
        if others.len() + 1 < self.size {
            return Ok(PermitResult::Wait(TIMEOUT));
        }
        others.iter().for_each(|other| other.allow(self.name()));
        Ok(PermitResult::Allow)
    }
}

impl Reserve for Gang {
    fn reserve(&self, _: &mut crate::framework::CycleState, _: &PodInfo, _: &str) -> Result<(), Rejection> {
        Ok(())
    }

    fn unreserve(&self, _: &mut crate::framework::CycleState, pod: &PodInfo, _: &str) {
        self.log.lock().push(format!("unreserved {}", pod.key.name()));
    }
}

impl Bind for Gang {
    fn bind<'a>(&'a self, request: &'a BindRequest) -> BoxFuture<'a, Option<Result<(), BindError>>> {
        self.log.lock().push(format!("bound {}", request.pod.key.name()));
        Box::pin(ready(Some(Ok(()))))
    }
}

/// A clock that stands still: a sleep ends at once, or never.
#[derive(Debug, Clone, Copy)]
struct StoppedClock {
    sleeps_end: bool,
}

impl Clock for StoppedClock {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    fn sleep(&self, _: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + Sync>> {
        match self.sleeps_end {
            true => Box::pin(ready(())),
            false => Box::pin(pending()),
        }
    }
}

struct Setup {
    gang: Arc<Gang>,
    planner: Planner,
    clock: Arc<StoppedClock>,
    metrics: Arc<Metrics>,
}

fn setup(size: usize, sleeps_end: bool) -> Setup {
    let handle = Handle::default();
    let gang = Arc::new(Gang {
        size,
        waiting_pods: handle.waiting_pods().clone(),
        log: Mutex::default(),
    });
    let mut profile = crate::default_profile(&handle);
    profile.bind.clear();
    let registration = Registration {
        reserve: Some(gang.clone()),
        permit: Some(gang.clone()),
        bind: Some(gang.clone()),
        ..Registration::new("Gang")
    };
    profile.add(registration, 0);
    let clock = Arc::new(StoppedClock { sleeps_end });
    let metrics = Arc::new(Metrics::new(clock.clone()));
    profile.recorder = metrics.recorder(&profile, clock.clone());
    let planner = Planner::new(Arc::new(Profiles::new([profile])), 1).with_metrics(metrics.clone());
    *planner.cluster.write() = cluster("a=1000 b=1000 c=1000");
    Setup {
        gang,
        planner,
        clock,
        metrics,
    }
}

/// A request to bind the pod, which was assumed on a node.
fn assume(setup: &Setup, name: &str) -> (Arc<Profile>, BindRequest) {
    let attempt = setup
        .planner
        .attempt(&Arc::new(pod(name, "")), &mut SignatureCache::default());
    let Attempt::Assumed { pod, cycle, .. } = attempt else {
        panic!("{attempt:?}");
    };
    let unavailable =
        |_: Request| -> ServeFuture<'static> { Box::pin(ready(Err(Status::unavailable("no server")))) };
    let profile = setup.planner.profiles.find(&pod.spec.scheduler).unwrap().clone();
    let client = Client::new(Arc::new(unavailable), Arc::default());
    let request = BindRequest {
        cycle: Arc::new(cycle),
        node: pod.node.clone(),
        pod,
        observed: ResourceVersion::ZERO,
        binding_client: client.clone(),
        events: setpoint_runtime::events::recorder(client.clone(), setup.clock.clone()).0,
        client,
        clock: setup.clock.clone(),
    };
    (profile, request)
}

async fn run((profile, request): (Arc<Profile>, BindRequest)) -> String {
    let info = AttemptInfo {
        attempts: 1,
        first_attempt: Timestamp::UNIX_EPOCH,
    };
    match run_binding_cycle(profile, request, info).await.result {
        BindResult::Rejected(rejection) => format!("{}: {rejection}", rejection.plugin),
        other => format!("{other:?}"),
    }
}

#[tokio::test]
async fn a_gang_is_bound_once_its_last_pod_has_a_node() {
    let setup = setup(3, false);
    let first = assume(&setup, "p1");
    let second = assume(&setup, "p2");
    assert_eq!(setup.planner.waiting_pods(), 2);
    assert_eq!(
        setup.gang.waiting_pods.find("p1").unwrap().pending_plugins(),
        ["Gang"]
    );
    let third = assume(&setup, "p3");
    let ended = tokio::join!(run(first), run(second), run(third));
    assert_eq!(ended, ("Bound".into(), "Bound".into(), "Bound".into()));
    assert_eq!(*setup.gang.log.lock(), ["bound p1", "bound p2", "bound p3"]);
    assert!(setup.gang.waiting_pods.is_empty());
}

#[tokio::test]
async fn a_pod_that_waits_too_long_is_rejected_and_its_reservations_are_taken_back() {
    let setup = setup(2, true);
    let ended = run(assume(&setup, "p1")).await;
    let expected = "Gang: rejected due to timeout after waiting 1m30s at plugin Gang";
    assert_eq!(ended, expected);
    assert_eq!(*setup.gang.log.lock(), ["unreserved p1"]);
    assert!(setup.gang.waiting_pods.is_empty());
}

/// Labels are those of one sample of a metric, without its name and its value.
#[track_caller]
fn check_counted(metrics: &Metrics, name: &str, labels: &str, expected: u64) {
    let sample = format!("{name}{{{labels}}} {expected}");
    let text = metrics.to_text();
    assert!(text.lines().any(|line| line == sample), "{sample}\n{text}");
}

#[tokio::test]
async fn the_binding_cycle_and_the_wait_for_a_permission_are_timed() {
    let setup = setup(2, false);
    let first = assume(&setup, "p1");
    let second = assume(&setup, "p2");
    tokio::join!(run(first), run(second));
    let waits = "scheduler_permit_wait_duration_seconds_count";
    check_counted(&setup.metrics, waits, "result=\"Success\"", 1);
    let points = "scheduler_framework_extension_point_duration_seconds_count";
    for point in ["Reserve", "Permit", "PreBind", "Bind", "PostBind"] {
        let labels = format!("extension_point=\"{point}\",profile=\"default-scheduler\",status=\"Success\"");
        check_counted(&setup.metrics, points, &labels, 2);
    }
    let plugins = "scheduler_plugin_execution_duration_seconds_count";
    let labels = "extension_point=\"Bind\",plugin=\"Gang\",status=\"Success\"";
    check_counted(&setup.metrics, plugins, labels, 1);
}

#[tokio::test]
async fn a_waiting_pod_can_be_rejected_once() {
    let setup = setup(2, false);
    let request = assume(&setup, "p1");
    let waiting = setup.gang.waiting_pods.find("p1").unwrap();
    assert!(waiting.reject("Gang", "the group is incomplete"));
    assert!(!waiting.reject("Gang", "again"));
    assert_eq!(run(request).await, "Gang: the group is incomplete");
}
