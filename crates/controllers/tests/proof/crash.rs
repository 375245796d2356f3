//! Crash points (OC9): a controller dies before or after each of its requests, and the next instance continues
//! correctly, with no object too many and none missing.

use std::future::Future;
use std::pin::Pin;

use k8s_openapi::api::apps::v1::{ControllerRevision, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use setpoint_testkit::{Cluster, Component, Crash, CrashPoint, RunningComponent, deployment, replica_set};

use crate::fixtures::*;

/// Actions on the cluster, one after the other, and what must hold in the end.
struct Scenario {
    /// The name of the controller that dies.
    victim: &'static str,
    /// Components that run beside it and stay alive.
    beside: Vec<Component>,
    steps: Vec<Step>,
    /// Panics if there is an object too many or too few.
    check: fn(&Cluster),
}

/// An action on the cluster, and the condition that shows its completion.
struct Step {
    act: fn(&Cluster) -> ActionFuture<'_>,
    met: fn(&Cluster) -> bool,
}

type ActionFuture<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// A cluster in which a controller may die.
struct Run {
    cluster: Cluster,
    victim: &'static str,
    running: Option<RunningComponent>,
    crash: Option<Crash>,
    deaths: usize,
}

impl Run {
    async fn start(scenario: &Scenario, crash: Option<Crash>) -> (Self, Vec<RunningComponent>) {
        let cluster = Cluster::start().await;
        let beside = scenario.beside.iter().map(|part| cluster.run(part.clone()));
        let beside = beside.collect();
        if let Some(crash) = &crash {
            cluster.interceptor.crash(crash.clone());
        }
        let running = Some(cluster.run(Component::Controller(scenario.victim)));
        let run = Self {
            cluster,
            victim: scenario.victim,
            running,
            crash,
            deaths: 0,
        };
        (run, beside)
    }

    /// Waits for the condition, and replaces the controller if it dies.
    async fn until(&mut self, step: usize, met: fn(&Cluster) -> bool) {
        let what = format!("step {step} done, dying at {:?}", self.crash);
        let is_over = |cluster: &Cluster| cluster.interceptor.has_crashed() || met(cluster);
        self.cluster.until(&what, is_over).await;
        self.cluster.settle().await;
        while self.cluster.interceptor.has_crashed() {
            self.replace().await;
            self.cluster.until(&what, met).await;
            self.cluster.settle().await;
        }
    }

    /// Removes the dead controller and starts another.
    async fn replace(&mut self) {
        let dead = self.running.take().unwrap();
        dead.kill().await;
        self.cluster.interceptor.clear_crash();
        self.running = Some(self.cluster.run(Component::Controller(self.victim)));
        self.deaths += 1;
    }
}

/// Runs the scenario to the end; whether the controller died on the way.
async fn run(scenario: &Scenario, crash: Option<Crash>) -> bool {
    let (mut run, _beside) = Run::start(scenario, crash).await;
    for (number, step) in scenario.steps.iter().enumerate() {
        (step.act)(&run.cluster).await;
        run.cluster.settle().await;
        run.until(number, step.met).await;
    }
    (scenario.check)(&run.cluster);
    run.deaths > 0
}

/// Lets the controller die at every request, before and after it, until the run needs no more requests than that.
async fn check(scenario: Scenario, at_least: usize) {
    assert!(!run(&scenario, None).await);
    for moment in [CrashPoint::Before, CrashPoint::After] {
        let mut at = 0;
        loop {
            at += 1;
            let crash = Crash {
                user: scenario.victim,
                request: at,
                point: moment,
            };
            if !run(&scenario, Some(crash)).await {
                break;
            }
        }
        assert!(at > at_least, "only {at} requests were tried");
    }
}

/// Checks how many writes of this form have reached the server.
#[track_caller]
fn check_writes(cluster: &Cluster, line: &str, expected: usize) {
    assert_eq!(
        cluster.interceptor.count(line),
        expected,
        "{line}: {:?}",
        cluster.interceptor.writes()
    );
}

/// OC9
#[tokio::test(start_paused = true)]
async fn oc9_a_replica_set_recovers_from_a_crash_at_every_request() {
    let scenario = Scenario {
        victim: REPLICA_SETS,
        beside: Vec::new(),
        steps: vec![
            Step {
                act: |cluster| {
                    Box::pin(async { create(cluster, &replica_set("web").replicas(4).build()).await })
                },
                met: |cluster| set_status(cluster, "web").0 == 4,
            },
            Step {
                act: |cluster| Box::pin(scale::<ReplicaSet>(cluster, "web", 7)),
                met: |cluster| set_status(cluster, "web").0 == 7,
            },
            Step {
                act: |cluster| Box::pin(scale::<ReplicaSet>(cluster, "web", 2)),
                met: |cluster| set_status(cluster, "web").0 == 2,
            },
        ],
        check: |cluster| {
            assert_eq!(pods(cluster).len(), 2);
            check_writes(cluster, "replicaset-controller create pods", 7);
            check_writes(cluster, "replicaset-controller delete pods", 5);
        },
    };
    check(scenario, 15).await;
}

/// OC9
#[tokio::test(start_paused = true)]
async fn oc9_a_deployment_recovers_from_a_crash_at_every_request() {
    let scenario = Scenario {
        victim: DEPLOYMENTS,
        beside: vec![
            Component::Controller(REPLICA_SETS),
            Component::Scheduler,
            Component::nodes(1),
        ],
        steps: vec![
            Step {
                act: |cluster| {
                    Box::pin(async { create(cluster, &deployment("web").replicas(2).build()).await })
                },
                met: |cluster| is_rolled_out(cluster, "web"),
            },
            Step {
                act: |cluster| Box::pin(set_image::<Deployment>(cluster, "web", "example.com/app:2")),
                met: |cluster| is_rolled_out(cluster, "web"),
            },
            Step {
                act: |cluster| Box::pin(scale::<Deployment>(cluster, "web", 1)),
                met: |cluster| is_rolled_out(cluster, "web"),
            },
        ],
        check: |cluster| {
            let sets: Vec<ReplicaSet> = cluster.list();
            let mut sizes: Vec<_> = sets.iter().map(|set| set.spec.replicas.unwrap()).collect();
            sizes.sort_unstable();
            assert_eq!(sizes, [0, 1]);
            assert_eq!(pods(cluster).len(), 1);
            check_writes(cluster, "deployment-controller create replicasets", 2);
            // An interrupted rollout creates no more pods than an uninterrupted one.
            check_writes(cluster, "replicaset-controller create pods", 4);
            assert_eq!(deployment_status(cluster, "web").collision_count, None);
            let deployment: Deployment = cluster.find("web").unwrap();
            let turn = &deployment.metadata.annotations.unwrap()["deployment.kubernetes.io/revision"];
            assert_eq!(turn, "2");
        },
    };
    check(scenario, 15).await;
}

/// OC9
#[tokio::test(start_paused = true)]
async fn oc9_a_stateful_set_recovers_from_a_crash_at_every_request() {
    let scenario = Scenario {
        victim: STATEFUL_SETS,
        beside: vec![
            Component::Controller(VOLUMES),
            Component::Scheduler,
            Component::nodes(1),
        ],
        steps: vec![
            Step {
                act: |cluster| Box::pin(async { create_stateful_set(cluster, 2, "OrderedReady").await }),
                met: |cluster| is_stateful(cluster, 2),
            },
            Step {
                act: |cluster| Box::pin(set_image::<StatefulSet>(cluster, "db", "example.com/app:2")),
                met: |cluster| is_stateful(cluster, 2),
            },
            Step {
                act: |cluster| Box::pin(scale::<StatefulSet>(cluster, "db", 1)),
                met: |cluster| is_stateful(cluster, 1),
            },
        ],
        check: |cluster| {
            assert_eq!(names::<Pod>(cluster), ["db-0"]);
            assert_eq!(
                names::<PersistentVolumeClaim>(cluster),
                ["data-db-0", "data-db-1"]
            );
            check_writes(cluster, "statefulset-controller create pods", 4);
            check_writes(cluster, "statefulset-controller delete pods", 3);
            let revisions: Vec<ControllerRevision> = cluster.list();
            let mut numbers: Vec<_> = revisions.iter().map(|one| one.revision.unwrap()).collect();
            numbers.sort_unstable();
            assert_eq!(numbers, [1, 2]);
            assert_eq!(stateful_status(cluster).collision_count, Some(0));
        },
    };
    check(scenario, 15).await;
}

/// OC9: each finished pod is counted once, whatever is interrupted.
#[tokio::test(start_paused = true)]
async fn oc9_a_job_recovers_from_a_crash_at_every_request() {
    let scenario = Scenario {
        victim: JOBS,
        beside: Vec::new(),
        steps: vec![
            Step {
                act: |cluster| Box::pin(async { create(cluster, &job(2, 3)).await }),
                met: |cluster| has_active(cluster, 2),
            },
            Step {
                act: |cluster| Box::pin(end(cluster, &["Failed", "Succeeded"])),
                met: |cluster| has_active(cluster, 2) && job_status(cluster).failed == Some(1),
            },
            Step {
                act: |cluster| Box::pin(end(cluster, &["Succeeded", "Succeeded"])),
                met: |cluster| job_conditions(cluster).iter().any(|type_| type_ == "Complete"),
            },
        ],
        check: |cluster| {
            let status = job_status(cluster);
            assert_eq!(
                (status.succeeded, status.failed, status.active),
                (Some(3), Some(1), None)
            );
            assert_eq!(job_conditions(cluster), ["SuccessCriteriaMet", "Complete"]);
            let pods = pods(cluster);
            assert_eq!(pods.len(), 4);
            assert!(pods.iter().all(|pod| pod.metadata.finalizers.is_none()));
            check_writes(cluster, "job-controller create pods", 4);
        },
    };
    check(scenario, 12).await;
}

/// Whether so many pods of the Job are active, and its status reports them.
fn has_active(cluster: &Cluster, count: usize) -> bool {
    active(cluster).len() == count && job_status(cluster).active == i32::try_from(count).ok()
}
