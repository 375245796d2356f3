//! Candidates for one lease.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use parking_lot::Mutex;
use setpoint_api::{ApiVerb, Clock, GroupResource, Status};
use setpoint_runtime::leader::{Config, Leadership};
use setpoint_runtime::{Elector, reconcile::Error};
use setpoint_testkit::{Cluster, RecordedRequest};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// A candidate that works until it is stopped, and a log of its work.
struct Candidate {
    standing: Leadership,
    stop: CancellationToken,
    diary: Arc<Mutex<Vec<&'static str>>>,
    task: JoinSet<Result<(), Error>>,
}

impl Candidate {
    fn start(cluster: &Cluster, name: &'static str, release: bool) -> Self {
        let mut config = Config::new("default", "work", name);
        config.release_on_cancel = release;
        let clock = Arc::new(cluster.clock.clone());
        Self::run(Elector::new(&cluster.client(name), config, clock))
    }

    /// A candidate that watches the lease.
    fn start_with_watch(cluster: &Cluster, name: &'static str) -> Self {
        let config = Config::new("default", "work", name);
        let clock = Arc::new(cluster.clock.clone());
        Self::run(Elector::new(&cluster.client(name), config, clock).with_watch())
    }

    fn run(elector: Elector) -> Self {
        let (standing, stop) = (elector.leadership(), CancellationToken::new());
        let diary: Arc<Mutex<Vec<_>>> = Arc::default();
        let (entries, token) = (diary.clone(), stop.clone());
        let mut task = JoinSet::new();
        task.spawn(async move {
            let work = |stop: CancellationToken| async move {
                entries.lock().push("began");
                stop.cancelled().await;
                entries.lock().push("ended");
                Ok(())
            };
            elector.run(work, token).await
        });
        Self {
            standing,
            stop,
            diary,
            task,
        }
    }

    async fn stop(mut self) -> Result<(), Error> {
        self.stop.cancel();
        self.task.join_next().await.unwrap().unwrap()
    }

    /// Aborts it.
    async fn kill(mut self) {
        self.task.shutdown().await;
    }
}

fn spec(cluster: &Cluster) -> LeaseSpec {
    let lease: Option<Lease> = cluster.find("work");
    lease.and_then(|lease| lease.spec).unwrap_or_default()
}

fn holder(cluster: &Cluster) -> String {
    spec(cluster).holder_identity.unwrap_or_default()
}

async fn until_held_by(cluster: &Cluster, name: &str) {
    let what = format!("a lease of {name}");
    cluster.until(&what, |cluster| holder(cluster) == name).await;
    cluster.settle().await;
}

#[tokio::test]
async fn one_of_two_candidates_leads_and_both_know_which() {
    let cluster = Cluster::start().await;
    let one = Candidate::start(&cluster, "one", true);
    until_held_by(&cluster, "one").await;
    let two = Candidate::start(&cluster, "two", true);
    cluster.advance(Duration::from_secs(60)).await;
    assert_eq!(one.standing.changed_from("").await, "one");
    assert_eq!(two.standing.changed_from("").await, "one");
    assert!(one.standing.is_leader() && !two.standing.is_leader());
    assert_eq!(*one.diary.lock(), ["began"]);
    assert_eq!(*two.diary.lock(), [""; 0]);
    let spec = spec(&cluster);
    assert_eq!(
        (spec.lease_transitions, spec.lease_duration_seconds),
        (Some(0), Some(15))
    );
    assert!(spec.renew_time.unwrap().0 > spec.acquire_time.unwrap().0);
}

#[tokio::test]
async fn a_released_lease_is_acquired_without_waiting_for_its_expiry() {
    let cluster = Cluster::start().await;
    let one = Candidate::start(&cluster, "one", true);
    until_held_by(&cluster, "one").await;
    let two = Candidate::start(&cluster, "two", true);
    cluster.settle().await;
    let before = cluster.clock.now();
    let diary = one.diary.clone();
    one.stop().await.unwrap();
    assert_eq!(*diary.lock(), ["began", "ended"]);
    assert_eq!(holder(&cluster), "");
    assert_eq!(spec(&cluster).lease_duration_seconds, Some(1));
    until_held_by(&cluster, "two").await;
    let waited = cluster.clock.now().duration_since(before);
    assert!(waited.as_secs() < 5, "{waited:?}");
    assert_eq!(spec(&cluster).lease_transitions, Some(1));
    two.stop().await.unwrap();
}

#[tokio::test]
async fn the_lease_of_a_killed_leader_is_acquired_when_it_expires_and_not_before() {
    let cluster = Cluster::start().await;
    let one = Candidate::start(&cluster, "one", true);
    until_held_by(&cluster, "one").await;
    let _two = Candidate::start(&cluster, "two", true);
    cluster.settle().await;
    one.kill().await;
    let before = cluster.clock.now();
    until_held_by(&cluster, "two").await;
    let waited = cluster.clock.now().duration_since(before);
    assert_eq!(waited.as_millis(), 15_000);
}

/// The candidate reads the lease at other times than the leader renews it, but the watch shows it each renewal.
#[tokio::test]
async fn a_candidate_that_watches_acquires_the_lease_one_duration_after_its_last_renewal() {
    let cluster = Cluster::start().await;
    let one = Candidate::start(&cluster, "one", true);
    until_held_by(&cluster, "one").await;
    let _two = Candidate::start_with_watch(&cluster, "two");
    cluster.advance(Duration::from_secs(31)).await;
    one.kill().await;
    let renewed = spec(&cluster).renew_time.unwrap().0;
    until_held_by(&cluster, "two").await;
    let acquired = spec(&cluster).acquire_time.unwrap().0;
    assert_eq!(acquired.duration_since(renewed).as_millis(), 15_000);
}

#[tokio::test]
async fn a_candidate_that_watches_acquires_a_released_lease_at_once() {
    let cluster = Cluster::start().await;
    let one = Candidate::start(&cluster, "one", true);
    until_held_by(&cluster, "one").await;
    let _two = Candidate::start_with_watch(&cluster, "two");
    cluster.advance(Duration::from_secs(31)).await;
    let before = cluster.clock.now();
    one.stop().await.unwrap();
    until_held_by(&cluster, "two").await;
    assert_eq!(cluster.clock.now(), before);
}

#[tokio::test]
async fn a_candidate_that_may_not_watch_the_lease_reads_it() {
    let cluster = Cluster::start().await;
    let one = Candidate::start(&cluster, "one", true);
    until_held_by(&cluster, "one").await;
    let forbid_watches = |call: &RecordedRequest| {
        let leases = GroupResource::new("coordination.k8s.io", "leases");
        (call.verb == ApiVerb::Watch).then(|| Status::forbidden(&leases, "work", "no watches"))
    };
    cluster.interceptor.reject(forbid_watches);
    let _two = Candidate::start_with_watch(&cluster, "two");
    cluster.settle().await;
    one.kill().await;
    until_held_by(&cluster, "two").await;
}

/// A leader that cannot reach the server stops its work before another candidate begins.
#[tokio::test]
async fn a_leader_that_cannot_renew_stops_before_its_lease_expires() {
    let cluster = Cluster::start().await;
    let mut one = Candidate::start(&cluster, "one", true);
    until_held_by(&cluster, "one").await;
    let two = Candidate::start(&cluster, "two", true);
    cluster.settle().await;
    let cut_off = |call: &RecordedRequest| (call.user == "one").then(|| Status::unavailable("no route"));
    cluster.interceptor.reject(cut_off);
    let before = cluster.clock.now();
    cluster.advance(Duration::from_secs(13)).await;
    assert_eq!(*one.diary.lock(), ["began", "ended"]);
    assert!(!one.standing.is_leader());
    let ended = one.task.join_next().await.unwrap().unwrap();
    assert!(matches!(ended, Err(Error::LostLease(_))), "{ended:?}");
    assert_eq!(*two.diary.lock(), [""; 0]);
    until_held_by(&cluster, "two").await;
    assert!(cluster.clock.now().duration_since(before).as_secs() >= 13);
}

#[tokio::test]
async fn a_temporary_failure_to_renew_is_survived() {
    let cluster = Cluster::start().await;
    let one = Candidate::start(&cluster, "one", true);
    until_held_by(&cluster, "one").await;
    cluster
        .interceptor
        .reject(|_| Some(Status::unavailable("no route")));
    cluster.advance(Duration::from_secs(7)).await;
    cluster.interceptor.allow_all();
    cluster.advance(Duration::from_secs(60)).await;
    assert!(one.standing.is_leader());
    assert_eq!(one.standing.check(Duration::ZERO), Ok(()));
    assert_eq!(*one.diary.lock(), ["began"]);
}

/// The lease was changed by another client: the leader reads it and continues.
#[tokio::test]
async fn a_leader_whose_lease_was_changed_reads_it_and_renews() {
    let cluster = Cluster::start().await;
    let one = Candidate::start(&cluster, "one", true);
    until_held_by(&cluster, "one").await;
    let leases = cluster.client("test").namespaced::<Lease>("default");
    let mut lease = leases.get("work").await.unwrap().to_owned().unwrap();
    lease
        .metadata
        .labels
        .get_or_insert_default()
        .insert("touched".into(), "yes".into());
    leases.update(&lease).await.unwrap();
    cluster.advance(Duration::from_secs(30)).await;
    assert!(one.standing.is_leader());
    let lease: Lease = cluster.find("work").unwrap();
    assert_eq!(lease.metadata.labels.unwrap()["touched"], "yes");
    assert_eq!(lease.spec.unwrap().lease_transitions, Some(0));
}

#[tokio::test]
async fn without_release_on_cancel_the_lease_expires() {
    let cluster = Cluster::start().await;
    let one = Candidate::start(&cluster, "one", false);
    until_held_by(&cluster, "one").await;
    one.stop().await.unwrap();
    assert_eq!(holder(&cluster), "one");
}

#[tokio::test]
async fn a_stop_before_the_lease_is_acquired_is_no_error() {
    let cluster = Cluster::start().await;
    let one = Candidate::start(&cluster, "one", true);
    until_held_by(&cluster, "one").await;
    let two = Candidate::start(&cluster, "two", true);
    cluster.settle().await;
    two.stop().await.unwrap();
    assert_eq!(holder(&cluster), "one");
    drop(one);
}

/// Ten candidates, killed one after the other at any time: never two lead.
#[tokio::test]
async fn never_two_candidates_lead_at_a_time() {
    let cluster = Cluster::start().await;
    let names = ["c0", "c1", "c2", "c3", "c4"];
    let mut candidates: Vec<_> = names
        .iter()
        .map(|name| Candidate::start(&cluster, name, true))
        .collect();
    for round in 0..4 {
        cluster
            .until("a leader", |cluster| !holder(cluster).is_empty())
            .await;
        cluster.advance(Duration::from_secs(40)).await;
        let at_work = candidates
            .iter()
            .filter(|candidate| *candidate.diary.lock() == ["began"]);
        assert_eq!(at_work.count(), 1, "in round {round}");
        let leader = candidates
            .iter()
            .position(|candidate| candidate.standing.is_leader());
        let leader = candidates.remove(leader.unwrap());
        match round % 2 {
            0 => leader.kill().await,
            _ => leader.stop().await.unwrap(),
        }
    }
}
