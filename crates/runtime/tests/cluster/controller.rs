//! A controller as its author writes it: a Lease for each ConfigMap, on informer caches.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use setpoint_api::options::DeleteOptions;
use setpoint_api::selector::LabelSelector;
use setpoint_api::{Change, Clock, Key};
use setpoint_runtime::controller::for_;
use setpoint_runtime::controller_ref::ControllerRefManager;
use setpoint_runtime::finalizer::{self, Step};
use setpoint_runtime::{
    Api, Client, Lister, Manager, Predicate, TypedObject, create_or_update,
    create_or_update::OperationResult,
    leader, owner,
    reconcile::{Error, Next, Reconcile},
};
use setpoint_testkit::{Cluster, config_map};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

const FINALIZER: &str = "example.com/copy";

/// Keeps a Lease of the same name and content for each ConfigMap called `copy-...`.
struct Copier {
    maps: Lister<ConfigMap>,
    runs: Arc<AtomicUsize>,
    writes: Arc<AtomicUsize>,
}

impl Reconcile for Copier {
    async fn reconcile(&self, key: &Key, client: &Client) -> Result<Next, Error> {
        self.runs.fetch_add(1, Ordering::SeqCst);
        let Some(map) = self.maps.find(key) else {
            return Ok(Next::Done);
        };
        let maps = client.namespaced::<ConfigMap>(key.namespace());
        finalizer::guard(&maps, map, FINALIZER, async |step| match step {
            Step::Apply(map) => self.copy(client, &map).await,
            Step::CleanUp(map) => {
                let leases = client.namespaced::<Lease>(map.key().namespace());
                match leases.delete(map.key().name(), DeleteOptions::default()).await {
                    Err(status) if !status.is_not_found() => Err(status.into()),
                    _ => Ok(Next::Done),
                }
            }
        })
        .await
    }
}

impl Copier {
    async fn copy(&self, client: &Client, map: &TypedObject<ConfigMap>) -> Result<Next, Error> {
        let value = map
            .shared()?
            .data
            .iter()
            .flatten()
            .next()
            .map(|(_, value)| value.clone());
        let leases = client.namespaced::<Lease>(map.key().namespace());
        let ensured = create_or_update(&leases, map.key().name(), Lease::default(), |lease| {
            lease.spec.get_or_insert_default().holder_identity = value;
            lease.metadata.namespace = Some(map.key().namespace().to_owned());
            owner::set_controller_reference(map, lease).expect("nobody else makes such leases");
        })
        .await?;
        if !matches!(ensured, OperationResult::Unchanged(_)) {
            self.writes.fetch_add(1, Ordering::SeqCst);
        }
        Ok(Next::Done)
    }
}

struct Fixture {
    cluster: Cluster,
    runs: Arc<AtomicUsize>,
    writes: Arc<AtomicUsize>,
    stop: CancellationToken,
    running: JoinSet<Result<(), Error>>,
}

impl Fixture {
    async fn start() -> Self {
        let cluster = Cluster::start().await;
        let mut fixture = Self {
            cluster,
            runs: Arc::default(),
            writes: Arc::default(),
            stop: CancellationToken::new(),
            running: JoinSet::new(),
        };
        let manager = fixture.manager("copier");
        fixture.running.spawn(manager.run(fixture.stop.clone()));
        fixture
    }

    fn manager(&self, identity: &str) -> Manager {
        let clock = Arc::new(self.cluster.clock.clone());
        let mut manager = Manager::remote(self.cluster.client(identity), clock);
        let copier = Copier {
            maps: manager.context().lister().unwrap(),
            runs: self.runs.clone(),
            writes: self.writes.clone(),
        };
        let named = Predicate::new(|change: &Change| change.key().name().starts_with("copy-"));
        let controller = for_::<ConfigMap>().named("copier").when(named).owns::<Lease>();
        manager.add_controller(controller.workers(2).reconciles_with(copier));
        manager.enable_leader_election(leader::Config::new("default", "copier", identity));
        manager
    }

    fn maps(&self) -> Api<ConfigMap> {
        self.cluster.client("test").namespaced("default")
    }

    async fn until_copied(&self, name: &str, value: &str) {
        let what = format!("a copy {name} of {value}");
        self.cluster
            .until(&what, |cluster| {
                let lease: Option<Lease> = cluster.find(name);
                let holder = lease.and_then(|lease| lease.spec?.holder_identity);
                holder.as_deref() == Some(value)
            })
            .await;
    }
}

/// CL1, TO4, TO5: an owned object is created again when it is deleted, and nothing is written without need.
#[tokio::test]
async fn to4_an_owned_object_is_created_again_when_it_is_deleted() {
    let fixture = Fixture::start().await;
    fixture
        .maps()
        .create(&config_map("copy-a", "v", "1"))
        .await
        .unwrap();
    fixture
        .maps()
        .create(&config_map("other", "v", "1"))
        .await
        .unwrap();
    fixture.until_copied("copy-a", "1").await;
    let leases = fixture.cluster.client("test").namespaced::<Lease>("default");
    leases.delete("copy-a", DeleteOptions::default()).await.unwrap();
    fixture.cluster.settle().await;
    fixture.until_copied("copy-a", "1").await;
    let mut map = fixture.maps().get("copy-a").await.unwrap().to_owned().unwrap();
    map.data.get_or_insert_default().insert("v".into(), "2".into());
    fixture.maps().update(&map).await.unwrap();
    fixture.until_copied("copy-a", "2").await;
    fixture.cluster.settle().await;
    assert!(fixture.cluster.find::<Lease>("other").is_none());
    assert_eq!(fixture.writes.load(Ordering::SeqCst), 3);
    let lease: Lease = fixture.cluster.find("copy-a").unwrap();
    let reference = &lease.metadata.owner_references.unwrap()[0];
    assert_eq!(
        (reference.kind.as_str(), reference.controller),
        ("ConfigMap", Some(true))
    );
}

/// CL5: a converged object is not written, however often it is reconciled.
#[tokio::test]
async fn cl5_after_convergence_nothing_is_written() {
    let fixture = Fixture::start().await;
    fixture
        .maps()
        .create(&config_map("copy-a", "v", "1"))
        .await
        .unwrap();
    fixture.until_copied("copy-a", "1").await;
    fixture.cluster.settle().await;
    // The election lease is renewed all the time.
    let copies = || {
        let mut versions = fixture.cluster.versions::<Lease>();
        versions.retain(|(key, _)| key.name().starts_with("copy-"));
        versions
    };
    let before = copies();
    fixture.cluster.advance(Duration::from_secs(60)).await;
    assert_eq!((copies(), before.len()), (before, 1));
}

#[tokio::test]
async fn a_finalizer_keeps_an_object_until_it_is_cleaned_up_after() {
    let fixture = Fixture::start().await;
    fixture
        .maps()
        .create(&config_map("copy-a", "v", "1"))
        .await
        .unwrap();
    fixture.until_copied("copy-a", "1").await;
    let map: ConfigMap = fixture.cluster.find("copy-a").unwrap();
    assert_eq!(map.metadata.finalizers.unwrap(), [FINALIZER]);
    fixture
        .maps()
        .delete("copy-a", DeleteOptions::default())
        .await
        .unwrap();
    fixture
        .cluster
        .until("nothing left", |cluster| {
            cluster.find::<ConfigMap>("copy-a").is_none() && cluster.find::<Lease>("copy-a").is_none()
        })
        .await;
}

/// One replica leads; when it stops, the other continues.
#[tokio::test]
async fn of_two_managers_one_leads_and_the_other_takes_over() {
    let mut fixture = Fixture::start().await;
    fixture
        .maps()
        .create(&config_map("copy-a", "v", "1"))
        .await
        .unwrap();
    fixture.until_copied("copy-a", "1").await;
    let second = CancellationToken::new();
    let manager = fixture.manager("second");
    fixture.running.spawn(manager.run(second.clone()));
    fixture.cluster.settle().await;
    fixture.stop.cancel();
    fixture.running.join_next().await.unwrap().unwrap().unwrap();
    let before = fixture.cluster.clock.now();
    fixture
        .maps()
        .create(&config_map("copy-b", "v", "2"))
        .await
        .unwrap();
    fixture.until_copied("copy-b", "2").await;
    assert!(fixture.cluster.clock.now().duration_since(before).as_secs() < 10);
}

/// RS1: adoption and release on a real server.
#[tokio::test]
async fn rs1_objects_are_adopted_and_released() {
    let cluster = Cluster::start().await;
    let maps = cluster.client("test").namespaced::<ConfigMap>("default");
    let owner = maps.create(&config_map("owner", "v", "")).await.unwrap();
    for (name, app) in [("in", "web"), ("out", "db")] {
        let mut map = config_map(name, "v", "");
        map.metadata.labels = Some([("app".to_owned(), app.to_owned())].into());
        if name == "out" {
            owner::set_controller_reference(&owner, &mut map).unwrap();
        }
        maps.create(&map).await.unwrap();
    }
    let selector: LabelSelector = "app in (web,db),app=web".parse().unwrap();
    cluster.settle().await;
    let objects: Vec<_> = cluster
        .cache::<ConfigMap>()
        .snapshot()
        .in_namespace("default")
        .cloned()
        .collect();
    let claims = ControllerRefManager {
        owner: &owner,
        selector: &selector,
        owners: &maps,
        objects: maps.dynamic(),
    };
    let ours = claims.claim_objects(&objects).await.unwrap();
    let names: Vec<_> = ours.iter().map(|object| object.key().name()).collect();
    assert_eq!(names, ["in"]);
    let controller = |name| maps.get(name);
    assert!(owner::controls(&owner, &controller("in").await.unwrap()));
    assert!(controller("out").await.unwrap().controller().is_none());
}
