//! A ReplicaSet controller at the other end of a line: expectations, slow starts, failures and crashes over HTTPS.

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use setpoint_api::Status;
use setpoint_client::{Object, discovery};
use setpoint_runtime::Manager;
use setpoint_runtime::factory::Factory;
use setpoint_testkit::{Crash, Moment, Part, RunningPart, set};

use crate::clock;
use crate::far::{Far, until};

const CREATES: &str = "far create pods";
const DELETES: &str = "far delete pods";

impl Far {
    /// The controller as a process of its own, which lives by real time.
    async fn control(&self) -> RunningPart {
        let found = discovery::discover(&self.http).await.unwrap();
        let watchable = found.into_iter().filter(|resource| resource.is_watchable());
        let client = self.client.clone();
        let factory = Factory::new(client.clone(), clock()).knowing(watchable.map(|one| one.gvr));
        let manager = Manager::mirroring(factory, client, clock());
        self.cluster.run_by(manager, Part::Controller("replicaset"))
    }

    async fn scale(&self, replicas: i32) {
        let sets = self.cluster.client("test").namespaced::<ReplicaSet>("default");
        sets.scale_to("web", replicas).await.unwrap();
    }

    fn pods(&self) -> Vec<Pod> {
        let pods = self.cluster.list::<Pod>();
        let is_active = |pod: &Pod| pod.metadata.deletion_timestamp.is_none();
        pods.into_iter().filter(is_active).collect()
    }

    /// Waits until there are so many pods and the set says so.
    async fn settled_at(&self, replicas: usize) {
        let is_told = || {
            let web: ReplicaSet = self.cluster.find("web").unwrap();
            let generation = web.metadata.generation;
            let status = web.status.unwrap_or_default();
            status.replicas == replicas as i32 && status.observed_generation == generation
        };
        until(|| self.pods().len() == replicas && is_told()).await;
    }
}

async fn web(far: &Far, replicas: i32) {
    let sets = far.cluster.client("test").namespaced("default");
    sets.create(&set("web").replicas(replicas).build()).await.unwrap();
}

/// CL1, CL4, CL6, RS7, RS10, RS11: pods come with their reference and go again, never one too many, and the status answers
/// the spec.
#[tokio::test]
async fn rs10_a_set_controlled_over_https_settles_at_every_number() {
    let far = Far::open().await;
    let _running = far.control().await;
    web(&far, 5).await;
    far.settled_at(5).await;
    assert_eq!(far.link.count(CREATES), 5);
    let owner: ReplicaSet = far.cluster.find("web").unwrap();
    for pod in far.pods() {
        let owners = pod.meta().owner_references.clone().unwrap();
        assert_eq!(owners.len(), 1);
        assert_eq!(Some(&owners[0].uid), owner.metadata.uid.as_ref());
        assert_eq!(
            (owners[0].controller, owners[0].block_owner_deletion),
            (Some(true), Some(true))
        );
    }
    far.scale(2).await;
    far.settled_at(2).await;
    assert_eq!(far.link.count(DELETES), 3);
    far.scale(4).await;
    far.settled_at(4).await;
    assert_eq!((far.link.count(CREATES), far.link.count(DELETES)), (7, 3));
}

/// RS8, RS9: where every create is refused, a sync asks once; and it is tried again by backoff, not after five minutes.
#[tokio::test]
async fn rs8_a_server_over_https_that_refuses_is_asked_once_in_a_sync() {
    let far = Far::open().await;
    far.link.refuse(|call| {
        (call.verb == "create" && call.resource == "pods").then(|| {
            Status::forbidden(
                &Pod::resource().group_resource(),
                &call.name,
                "exceeded quota: pods",
            )
        })
    });
    let _running = far.control().await;
    web(&far, 50).await;
    until(|| far.link.count(CREATES) > 0).await;
    let asked = far.link.count(CREATES);
    assert!(asked < 20, "all fifty were tried at once: {asked}");
    far.link.allow_all();
    far.settled_at(50).await;
}

/// RS12: a deletion that is refused stops no other and is tried again.
#[tokio::test]
async fn rs12_a_deletion_refused_over_https_stops_no_other() {
    let far = Far::open().await;
    let _running = far.control().await;
    web(&far, 4).await;
    far.settled_at(4).await;
    let spared = far.pods()[0].metadata.name.clone().unwrap();
    let name = spared.clone();
    far.link.refuse(move |call| {
        (call.verb == "delete" && call.name == name).then(|| Status::internal("not this one"))
    });
    far.scale(0).await;
    until(|| far.pods().len() == 1).await;
    assert_eq!(far.pods()[0].metadata.name.as_ref(), Some(&spared));
    far.link.allow_all();
    far.settled_at(0).await;
}

/// OC9: whatever of the work was done when the process died, its successor makes it whole and does nothing twice.
#[tokio::test]
async fn oc9_a_crash_at_the_other_end_of_a_line_is_made_good() {
    for moment in [Moment::Before, Moment::After] {
        let far = Far::open().await;
        web(&far, 3).await;
        far.link.crash(Crash {
            user: "far",
            at: 4,
            moment,
        });
        let running = far.control().await;
        until(|| far.link.has_crashed()).await;
        drop(running);
        far.link.mend();
        let _running = far.control().await;
        far.settled_at(3).await;
        assert_eq!(far.cluster.list::<Pod>().len(), 3, "{moment:?}");
    }
}
