//! A controller as its author writes it: a Lease for each ConfigMap, held by what the map says, on a mirror of the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use setpoint_api::options::DeleteOptions;
use setpoint_api::selector::LabelSelector;
use setpoint_api::{Change, Clock, Key};
use setpoint_runtime::claim::Claims;
use setpoint_runtime::controller::for_;
use setpoint_runtime::finalizer::{self, Step};
use setpoint_runtime::{
    Client, Handle, Lister, Manager, Predicate, Typed, create_or_update,
    ensure::Ensured,
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
    client: Client,
    runs: Arc<AtomicUsize>,
    writes: Arc<AtomicUsize>,
}

impl Reconcile for Copier {
    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        self.runs.fetch_add(1, Ordering::SeqCst);
        let Some(map) = self.maps.find(key) else {
            return Ok(Next::Done);
        };
        let maps = self.client.namespaced::<ConfigMap>(key.namespace());
        finalizer::guard(&maps, map, FINALIZER, async |step| match step {
            Step::Apply(map) => self.copy(&map).await,
            Step::CleanUp(map) => {
                let leases = self.client.namespaced::<Lease>(map.key().namespace());
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
    async fn copy(&self, map: &Typed<ConfigMap>) -> Result<Next, Error> {
        let value = map
            .shared()?
            .data
            .iter()
            .flatten()
            .next()
            .map(|(_, value)| value.clone());
        let leases = self.client.namespaced::<Lease>(map.key().namespace());
        let ensured = create_or_update(&leases, map.key().name(), Lease::default(), |lease| {
            lease.spec.get_or_insert_default().holder_identity = value;
            lease.metadata.namespace = Some(map.key().namespace().to_owned());
            owner::set_controller(map, lease).expect("nobody else makes such leases");
        })
        .await?;
        if !matches!(ensured, Ensured::Unchanged(_)) {
            self.writes.fetch_add(1, Ordering::SeqCst);
        }
        Ok(Next::Done)
    }
}

struct World {
    cluster: Cluster,
    runs: Arc<AtomicUsize>,
    writes: Arc<AtomicUsize>,
    stop: CancellationToken,
    running: JoinSet<Result<(), Error>>,
}

impl World {
    async fn start() -> Self {
        let cluster = Cluster::start().await;
        let mut world = Self {
            cluster,
            runs: Arc::default(),
            writes: Arc::default(),
            stop: CancellationToken::new(),
            running: JoinSet::new(),
        };
        let manager = world.manager("copier");
        world.running.spawn(manager.run(world.stop.clone()));
        world
    }

    fn manager(&self, identity: &str) -> Manager {
        let clock = Arc::new(self.cluster.clock.clone());
        let mut manager = Manager::remote(self.cluster.client(identity), clock);
        let context = manager.context().clone();
        let copier = Copier {
            maps: context.lister().unwrap(),
            client: context.client.clone(),
            runs: self.runs.clone(),
            writes: self.writes.clone(),
        };
        let named = Predicate::new(|change: &Change| change.key().name().starts_with("copy-"));
        let controller = for_::<ConfigMap>().named("copier").when(named).owns::<Lease>();
        manager.control(controller.workers(2).reconciles_with(copier));
        manager.elect(leader::Config::new("default", "copier", identity));
        manager
    }

    fn maps(&self) -> Handle<ConfigMap> {
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

/// CL1, TO4, TO5: what reconcile makes is made again when it goes, and nothing is written without need.
#[tokio::test]
async fn to4_what_a_controller_owns_is_made_again_when_it_goes() {
    let world = World::start().await;
    world
        .maps()
        .create(&config_map("copy-a", "v", "1"))
        .await
        .unwrap();
    world.maps().create(&config_map("other", "v", "1")).await.unwrap();
    world.until_copied("copy-a", "1").await;
    let leases = world.cluster.client("test").namespaced::<Lease>("default");
    leases.delete("copy-a", DeleteOptions::default()).await.unwrap();
    world.cluster.settle().await;
    world.until_copied("copy-a", "1").await;
    let mut map = world.maps().get("copy-a").await.unwrap().to_owned().unwrap();
    map.data.get_or_insert_default().insert("v".into(), "2".into());
    world.maps().update(&map).await.unwrap();
    world.until_copied("copy-a", "2").await;
    world.cluster.settle().await;
    assert!(world.cluster.find::<Lease>("other").is_none());
    assert_eq!(world.writes.load(Ordering::SeqCst), 3);
    let lease: Lease = world.cluster.find("copy-a").unwrap();
    let reference = &lease.metadata.owner_references.unwrap()[0];
    assert_eq!(
        (reference.kind.as_str(), reference.controller),
        ("ConfigMap", Some(true))
    );
}

/// CL5: a converged world is left alone, however often it is looked at.
#[tokio::test]
async fn cl5_after_convergence_nothing_is_written() {
    let world = World::start().await;
    world
        .maps()
        .create(&config_map("copy-a", "v", "1"))
        .await
        .unwrap();
    world.until_copied("copy-a", "1").await;
    world.cluster.settle().await;
    // The lease of the election is renewed all the time.
    let copies = || {
        let mut versions = world.cluster.versions::<Lease>();
        versions.retain(|(key, _)| key.name().starts_with("copy-"));
        versions
    };
    let before = copies();
    world.cluster.advance(Duration::from_secs(60)).await;
    assert_eq!((copies(), before.len()), (before, 1));
}

#[tokio::test]
async fn a_finalizer_keeps_an_object_until_it_is_cleaned_up_after() {
    let world = World::start().await;
    world
        .maps()
        .create(&config_map("copy-a", "v", "1"))
        .await
        .unwrap();
    world.until_copied("copy-a", "1").await;
    let map: ConfigMap = world.cluster.find("copy-a").unwrap();
    assert_eq!(map.metadata.finalizers.unwrap(), [FINALIZER]);
    world
        .maps()
        .delete("copy-a", DeleteOptions::default())
        .await
        .unwrap();
    world
        .cluster
        .until("nothing left", |cluster| {
            cluster.find::<ConfigMap>("copy-a").is_none() && cluster.find::<Lease>("copy-a").is_none()
        })
        .await;
}

/// One replica works; when it stops, the other goes on where it was.
#[tokio::test]
async fn of_two_managers_one_works_and_the_other_takes_over() {
    let mut world = World::start().await;
    world
        .maps()
        .create(&config_map("copy-a", "v", "1"))
        .await
        .unwrap();
    world.until_copied("copy-a", "1").await;
    let second = CancellationToken::new();
    let manager = world.manager("second");
    world.running.spawn(manager.run(second.clone()));
    world.cluster.settle().await;
    world.stop.cancel();
    world.running.join_next().await.unwrap().unwrap().unwrap();
    let before = world.cluster.clock.now();
    world
        .maps()
        .create(&config_map("copy-b", "v", "2"))
        .await
        .unwrap();
    world.until_copied("copy-b", "2").await;
    assert!(world.cluster.clock.now().duration_since(before).as_secs() < 10);
}

/// RS1: adoption and release, carried out by the server.
#[tokio::test]
async fn rs1_claims_are_carried_out() {
    let cluster = Cluster::start().await;
    let maps = cluster.client("test").namespaced::<ConfigMap>("default");
    let owner = maps.create(&config_map("owner", "v", "")).await.unwrap();
    for (name, app) in [("in", "web"), ("out", "db")] {
        let mut map = config_map(name, "v", "");
        map.metadata.labels = Some([("app".to_owned(), app.to_owned())].into());
        if name == "out" {
            owner::set_controller(&owner, &mut map).unwrap();
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
    let claims = Claims {
        owner: &owner,
        selector: &selector,
        owners: &maps,
        objects: maps.dynamic(),
    };
    let ours = claims.carry_out(&objects).await.unwrap();
    let names: Vec<_> = ours.iter().map(|object| object.key().name()).collect();
    assert_eq!(names, ["in"]);
    let controller = |name| maps.get(name);
    assert!(owner::controls(&owner, &controller("in").await.unwrap()));
    assert!(controller("out").await.unwrap().controller().is_none());
}
