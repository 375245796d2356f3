//! Several servers on one real etcd. Skipped where etcd is not installed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "skipped tests are printed")]
#![allow(
    clippy::disallowed_methods,
    reason = "the tests wait for other processes, which have the time of the machine"
)]

mod cluster;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use cluster::etcd_process::EtcdProcess;
use cluster::{Cluster, replica_set};
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Endpoints, Pod, ResourceQuota, Secret, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use setpoint_api::Status;
use setpoint_api::options::{DeleteOptions, ListOptions};
use setpoint_client::{Client, Http, Patch};
use setpoint_codec::protobuf::range_allocation;
use setpoint_etcd::{EtcdConfig, TlsFiles};
use setpoint_registry::EtcdLayout;
use setpoint_store::{Op, Put, Store, Txn};
use tempfile::TempDir;
use tokio::task::JoinSet;

/// A running etcd with a directory of its own.
struct Etcd {
    process: EtcdProcess,
    _dir: TempDir,
}

impl Etcd {
    fn start() -> Option<Self> {
        let program = std::env::var("SETPOINT_ETCD").unwrap_or_else(|_| "etcd".to_owned());
        if Command::new(&program).arg("--version").output().is_err() {
            assert_ne!(
                std::env::var("CI").as_deref(),
                Ok("true"),
                "etcd is required here"
            );
            println!("SKIPPED: etcd is not installed");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        Some(Self {
            process: EtcdProcess::start(&program, &dir.path().join("data")),
            _dir: dir,
        })
    }

    fn server(&self, dir: &Arc<TempDir>, flags: &[&str]) -> Cluster {
        let etcd = ["--etcd-servers", &self.process.url];
        Cluster::start(dir, &[&etcd[..], flags].concat())
    }
}

/// A data directory with the CAs and the keys of another one.
fn dir_with_keys_of(other: &Path) -> Arc<TempDir> {
    let dir = Arc::new(tempfile::tempdir().unwrap());
    let copied = Command::new("cp")
        .arg("-rp")
        .arg(other.join("pki"))
        .arg(dir.path())
        .status();
    assert!(copied.unwrap().success());
    dir
}

fn map(name: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    map
}

async fn count_pods(client: &Client) -> usize {
    let pods = client.namespaced::<Pod>("default");
    let listed = pods.list(&ListOptions::default()).await.unwrap();
    listed.items.len()
}

async fn eventually_pods(client: &Client, expected: usize) {
    let start = Instant::now();
    while count_pods(client).await != expected {
        assert!(start.elapsed() < Duration::from_secs(60), "not {expected} pods");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The number of the process that holds a lease; empty if none does.
async fn holder_process(client: &Client, lease: &str) -> String {
    let leases = client.namespaced::<Lease>("kube-system");
    let spec = leases.get(lease).await.unwrap().to_owned().unwrap().spec;
    let holder = spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
    holder.rsplit('_').next().unwrap_or_default().to_owned()
}

/// Waits until the process with this number holds the lease.
async fn eventually_held(client: &Client, lease: &str, process: u32) {
    let start = Instant::now();
    loop {
        let holder = holder_process(client, lease).await;
        if holder == process.to_string() {
            return;
        }
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "{lease} is held by {holder:?}"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// CL7 OC3: what one server has acknowledged, the other serves; and the controllers of one take over from the other.
#[tokio::test(flavor = "multi_thread")]
async fn cl7_two_servers_share_one_etcd() {
    let Some(etcd) = Etcd::start() else { return };
    let first_dir = Arc::new(tempfile::tempdir().unwrap());
    let first = etcd.server(&first_dir, &[]);
    let second = etcd.server(&dir_with_keys_of(first_dir.path()), &["--nodes", "0"]);
    let clients = [first.client(), second.client()];
    for number in 0..40 {
        let (writer, reader) = (&clients[number % 2], &clients[(number + 1) % 2]);
        let name = format!("map-{number}");
        let created = writer
            .namespaced::<ConfigMap>("default")
            .create(&map(&name))
            .await
            .unwrap();
        let maps = reader.namespaced::<ConfigMap>("default");
        let read = maps.get(&name).await.unwrap();
        assert_eq!(read.resource_version(), created.resource_version());
        maps.delete(&name, DeleteOptions::default()).await.unwrap();
        let gone = writer.namespaced::<ConfigMap>("default").get(&name).await;
        assert!(gone.unwrap_err().is_not_found());
    }
    let sets = clients[1].namespaced::<ReplicaSet>("default");
    let set: ReplicaSet = serde_json::from_str(&replica_set("web", 3)).unwrap();
    sets.create(&set).await.unwrap();
    eventually_pods(&clients[1], 3).await;
    let terminated = first.id();
    assert!(first.terminate());
    let survivor = &clients[1];
    // A server that ends releases its leases, so that the next holder need not wait until they expire.
    for lease in ["kube-controller-manager", "kube-scheduler"] {
        assert_ne!(
            holder_process(survivor, lease).await,
            terminated.to_string(),
            "{lease}"
        );
    }
    survivor
        .namespaced::<ReplicaSet>("default")
        .scale_to("web", 5)
        .await
        .unwrap();
    eventually_pods(survivor, 5).await;
    for lease in ["kube-controller-manager", "kube-scheduler"] {
        eventually_held(survivor, lease, second.id()).await;
    }
}

/// CL7: servers that start at the same time on an empty etcd share the bootstrap.
#[tokio::test(flavor = "multi_thread")]
async fn cl7_servers_that_start_at_once_bootstrap_one_cluster() {
    let Some(etcd) = Etcd::start() else { return };
    // The keys come from a server on another prefix.
    let keys = Arc::new(tempfile::tempdir().unwrap());
    drop(etcd.server(&keys, &["--etcd-prefix", "/other", "--nodes", "0"]));
    let servers: Vec<_> = std::thread::scope(|scope| {
        let start = |_| {
            scope.spawn(|| {
                let dir = dir_with_keys_of(keys.path());
                etcd.server(&dir, &["--nodes", "0"])
            })
        };
        let started: Vec<_> = (0..3).map(start).collect();
        started.into_iter().map(|server| server.join().unwrap()).collect()
    });
    let mut lists = Vec::new();
    for server in &servers {
        let maps = server.client().all::<ConfigMap>();
        let listed = maps.list(&ListOptions::default()).await.unwrap();
        let authentication = listed
            .items
            .iter()
            .filter(|map| map.stored().key().name() == "extension-apiserver-authentication");
        lists.push(authentication.count());
    }
    assert_eq!(lists, [1, 1, 1]);
}

/// The addresses in the Endpoints and in the EndpointSlice of the `kubernetes` Service.
async fn server_addresses(client: &Client) -> (Vec<String>, Vec<String>) {
    let endpoints = client.namespaced::<Endpoints>("default").get("kubernetes").await;
    let subsets = match endpoints {
        Ok(endpoints) => endpoints.to_owned().unwrap().subsets.unwrap_or_default(),
        // The first server may be about to create it.
        Err(status) => {
            assert!(status.is_not_found(), "{status:?}");
            return Default::default();
        }
    };
    let listed = subsets
        .into_iter()
        .flat_map(|subset| subset.addresses.unwrap_or_default());
    let slices = client.namespaced::<EndpointSlice>("default");
    let slice = match slices.get("kubernetes").await {
        Ok(slice) => slice.to_owned().unwrap().endpoints,
        Err(_) => return Default::default(),
    };
    let of_slice = slice.unwrap_or_default().into_iter();
    (
        listed.map(|address| address.ip).collect(),
        of_slice.flat_map(|endpoint| endpoint.addresses).collect(),
    )
}

async fn eventually_addresses(client: &Client, expected: &[&str]) {
    let start = Instant::now();
    loop {
        let (endpoints, slice) = server_addresses(client).await;
        if endpoints == expected && slice == expected {
            return;
        }
        assert!(
            start.elapsed() < Duration::from_secs(120),
            "{endpoints:?} and {slice:?} instead of {expected:?}"
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// CL7: the `kubernetes` Service has the servers that live: one that is terminated is removed before it exits, one that is
/// killed once its lease has expired, and the lease of a kube-apiserver counts as that of any server.
#[tokio::test(flavor = "multi_thread")]
async fn cl7_the_kubernetes_service_lists_the_live_servers() {
    let Some(etcd) = Etcd::start() else { return };
    let keys = Arc::new(tempfile::tempdir().unwrap());
    let advertising = |dir: &Arc<TempDir>, address: &str| {
        etcd.server(dir, &["--nodes", "0", "--advertise-address", address])
    };
    let first = advertising(&keys, "192.0.2.1");
    let survivor = first.client();
    let second = advertising(&dir_with_keys_of(keys.path()), "192.0.2.2");
    eventually_addresses(&survivor, &["192.0.2.1", "192.0.2.2"]).await;
    assert!(second.terminate());
    let one = vec!["192.0.2.1".to_owned()];
    assert_eq!(server_addresses(&survivor).await, (one.clone(), one));
    let third = advertising(&dir_with_keys_of(keys.path()), "192.0.2.10");
    eventually_addresses(&survivor, &["192.0.2.1", "192.0.2.10"]).await;
    third.kill();
    eventually_addresses(&survivor, &["192.0.2.1"]).await;
}

/// Two servers on one etcd, with these flags.
fn start_two(etcd: &Etcd, flags: &[&str]) -> [Cluster; 2] {
    let dir = Arc::new(tempfile::tempdir().unwrap());
    let flags = [&["--nodes", "0"], flags].concat();
    let first = etcd.server(&dir, &flags);
    let second = etcd.server(&dir_with_keys_of(dir.path()), &flags);
    [first, second]
}

/// A Service with a node port: a free one if it is zero.
fn node_port_service(name: &str, node_port: i32) -> Service {
    let json = format!(
        r#"{{"metadata":{{"name":"{name}"}},"spec":{{"type":"NodePort","ports":[{{"port":80,"nodePort":{node_port}}}]}}}}"#
    );
    serde_json::from_str(&json).unwrap()
}

/// Creates Services at once, each at the next server.
async fn create_services(servers: &[Cluster; 2], services: Vec<Service>) -> Vec<Result<Service, Status>> {
    let mut creates = JoinSet::new();
    for (number, service) in services.into_iter().enumerate() {
        let handle = servers[number % 2].client().namespaced::<Service>("default");
        creates.spawn(async move { handle.create(&service).await.map(|one| one.to_owned().unwrap()) });
    }
    creates.join_all().await
}

/// CL7: what must be unique is so for all servers: while both allocate the last node ports and cluster IPs, each is allocated
/// once, and a port that is requested from both is given to one.
#[tokio::test(flavor = "multi_thread")]
async fn cl7_two_servers_allocate_each_node_port_and_cluster_ip_once() {
    let Some(etcd) = Etcd::start() else { return };
    let ranges = [
        "--service-node-port-range",
        "30000-30031",
        "--service-cluster-ip-range",
        "10.0.0.0/26",
    ];
    let servers = start_two(&etcd, &ranges);
    let services = (0..32).map(|number| node_port_service(&format!("s{number}"), 0));
    let created = create_services(&servers, services.collect()).await;
    let specs: Vec<_> = created
        .into_iter()
        .map(|service| service.unwrap().spec.unwrap())
        .collect();
    let ports: BTreeSet<_> = specs
        .iter()
        .map(|spec| spec.ports.as_ref().unwrap()[0].node_port)
        .collect();
    let addresses: BTreeSet<_> = specs.iter().map(|spec| spec.cluster_ip.clone()).collect();
    assert_eq!((ports.len(), addresses.len()), (32, 32));
    let services = servers[0].client().namespaced::<Service>("default");
    for number in 0..32 {
        let name = format!("s{number}");
        services.delete(&name, DeleteOptions::default()).await.unwrap();
    }
    for port in 30000..30016 {
        let pair = ["a", "b"].map(|name| node_port_service(&format!("{name}{port}"), port));
        let created = create_services(&servers, pair.into()).await;
        let accepted = created.iter().filter(|one| one.is_ok()).count();
        assert_eq!(accepted, 1, "{port}: {created:?}");
    }
}

/// Another server on the same etcd, as far as the bitmap of node ports is concerned: kube-apiserver.
struct OtherServer(Store);

const NODE_PORTS: &[u8] = b"/registry/ranges/services";

impl OtherServer {
    async fn open(etcd: &Etcd) -> Self {
        let servers = [etcd.process.url.clone()];
        let config = EtcdConfig::new(&servers, &TlsFiles::default()).unwrap();
        let mut store = setpoint_store::Config::new(Arc::new(|| 0));
        store.codec = Arc::new(EtcdLayout::new("/registry", &setpoint_kinds::builtin()));
        Self(setpoint_etcd::open(config, store).await.unwrap())
    }

    /// The bitmap of the ports that are allocated.
    async fn read(&self) -> Vec<u8> {
        self.0.confirm().await.unwrap();
        let record = self.0.snapshot().get(NODE_PORTS).unwrap();
        let (range, data) = range_allocation::decode(&record.value).unwrap();
        assert_eq!(range, "30000-30015");
        data
    }

    async fn write(&self, data: &[u8]) {
        let put = Put {
            key: Bytes::from_static(NODE_PORTS),
            value: range_allocation::encode("30000-30015", data).into(),
            ..Put::default()
        };
        let txn = Txn {
            compares: Vec::new(),
            ops: vec![Op::Put(put)],
        };
        self.0.commit(txn).await.unwrap();
    }
}

fn only_port(created: &Service) -> i32 {
    let ports = created.spec.as_ref().unwrap().ports.as_ref().unwrap();
    ports[0].node_port.unwrap()
}

/// CL7: node ports are allocated from the bitmap that kube-apiserver has in etcd, and it is written with the Service.
#[tokio::test(flavor = "multi_thread")]
async fn cl7_the_bitmap_of_node_ports_is_read_and_written() {
    let Some(etcd) = Etcd::start() else { return };
    let dir = Arc::new(tempfile::tempdir().unwrap());
    let flags = ["--nodes=0", "--service-node-port-range=30000-30015"];
    let server = etcd.server(&dir, &flags);
    let services = server.client().namespaced::<Service>("default");
    let create = async |name: &str, port| {
        let created = services.create(&node_port_service(name, port)).await;
        created.map(|created| created.to_owned().unwrap())
    };
    let other = OtherServer::open(&etcd).await;
    create("first", 30001).await.unwrap();
    assert_eq!(other.read().await, [2]);

    // The other server has allocated all ports but 30009, to Services that it has yet to write.
    other.write(&[0xfd, 0xff]).await;
    let taken = create("taken", 30003).await.unwrap_err();
    assert!(
        taken.message.ends_with("provided port is already allocated"),
        "{taken:?}"
    );
    assert_eq!(only_port(&create("second", 0).await.unwrap()), 30009);
    assert_eq!(other.read().await, [0xff, 0xff]);
    let full = create("third", 0).await.unwrap_err();
    assert!(full.message.ends_with("range is full"), "{full:?}");

    // It releases them all, and that of the first Service, which is not allocated again while the Service has it.
    other.write(&[2, 0]).await;
    let taken = create("again", 30001).await.unwrap_err();
    assert!(
        taken.message.ends_with("provided port is already allocated"),
        "{taken:?}"
    );
    create("chosen", 30003).await.unwrap();
    assert_eq!(other.read().await, [2, 8]);
    services.delete("first", DeleteOptions::default()).await.unwrap();
    let patch = Patch::merge(&serde_json::json!({"spec": {"type": "ClusterIP"}})).unwrap();
    services.patch("chosen", &patch).await.unwrap();
    assert_eq!(other.read().await, [2, 0]);

    // A copy has the Services and no bitmap, which servers calculate.
    let backup = dir.path().join("copy").display().to_string();
    drop(server);
    let copies = [
        [etcd.process.url.as_str(), backup.as_str(), "--to-backup"],
        [backup.as_str(), etcd.process.url.as_str(), "--etcd-prefix=/copy"],
    ];
    for arguments in copies {
        let copy = Command::new(env!("CARGO_BIN_EXE_setpoint"))
            .args(["store", "copy"])
            .args(arguments)
            .output();
        let copy = copy.unwrap();
        assert!(copy.status.success(), "{}", String::from_utf8_lossy(&copy.stderr));
    }
    let copied = etcd.server(&dir, &[&flags[..], &["--etcd-prefix=/copy"]].concat());
    let services = copied.client().namespaced::<Service>("default");
    let taken = services
        .create(&node_port_service("other", 30009))
        .await
        .unwrap_err();
    assert!(
        taken.message.ends_with("provided port is already allocated"),
        "{taken:?}"
    );
    services.create(&node_port_service("free", 30010)).await.unwrap();
}

/// CL7: a quota is not exceeded by writes to two servers at once.
#[tokio::test(flavor = "multi_thread")]
async fn cl7_two_servers_charge_one_quota() {
    let Some(etcd) = Etcd::start() else { return };
    let servers = start_two(&etcd, &[]);
    let quotas = servers[0].client().namespaced::<ResourceQuota>("default");
    let quota = r#"{"metadata":{"name":"q"},"spec":{"hard":{"count/secrets":"10"}}}"#;
    quotas
        .create(&serde_json::from_str(quota).unwrap())
        .await
        .unwrap();
    let start = Instant::now();
    loop {
        let quota = quotas.get("q").await.unwrap().to_owned().unwrap();
        if quota.status.is_some_and(|status| status.used.is_some()) {
            break;
        }
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "the quota has no status"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let mut creates = JoinSet::new();
    for number in 0..40 {
        let handle = servers[number % 2].client().namespaced::<Secret>("default");
        let mut secret = Secret::default();
        secret.metadata.name = Some(format!("s{number}"));
        creates.spawn(async move { handle.create(&secret).await.map(drop) });
    }
    let created = creates.join_all().await;
    let rejected: Vec<_> = created.iter().filter_map(|one| one.as_ref().err()).collect();
    assert_eq!(rejected.len(), 30, "{rejected:?}");
    for status in rejected {
        assert!(status.message.contains("exceeded quota: q"), "{status:?}");
    }
}

fn secret(name: &str) -> Secret {
    let mut secret = Secret::default();
    secret.metadata.name = Some(name.to_owned());
    secret
}

/// CL7: a resource with an override is stored on the other etcd alone, with the versions of that one; its watches and
/// lists are as consistent as all others, from whichever server.
#[tokio::test(flavor = "multi_thread")]
async fn cl7_an_override_stores_a_resource_on_another_etcd() {
    let (Some(etcd), Some(other)) = (Etcd::start(), Etcd::start()) else {
        return;
    };
    let overrides = format!("/events#{0},/configmaps#{0}", other.process.url);
    let flag = "--etcd-servers-overrides";
    let servers = start_two(&etcd, &["--controllers", "none", flag, overrides.as_str()]);
    let clients = [servers[0].client(), servers[1].client()];
    for number in 0..20 {
        let (writer, reader) = (&clients[number % 2], &clients[(number + 1) % 2]);
        let name = format!("one-{number}");
        let secrets = writer.namespaced::<Secret>("default");
        let kept = secrets.create(&secret(&name)).await.unwrap();
        let maps = writer.namespaced::<ConfigMap>("default");
        let created = maps.create(&map(&name)).await.unwrap();
        let read = reader
            .namespaced::<ConfigMap>("default")
            .get(&name)
            .await
            .unwrap();
        assert_eq!(read.resource_version(), created.resource_version());
        let listed = reader.namespaced::<ConfigMap>("default");
        let listed = listed.list(&ListOptions::default()).await.unwrap();
        assert!(listed.resource_version >= created.resource_version());
        // The default etcd has the bootstrap objects, so that its revisions are ahead.
        assert!(created.resource_version() < kept.resource_version(), "{name}");
    }
    // A server without the override sees the other etcd as a cluster of its own, and no ConfigMap on the first.
    let dir = Arc::new(tempfile::tempdir().unwrap());
    let plain = etcd.server(
        &dir_with_keys_of(servers[0].kubeconfig().parent().unwrap()),
        &["--nodes=0", "--controllers=none"],
    );
    let absent = plain
        .client()
        .namespaced::<ConfigMap>("default")
        .get("one-0")
        .await;
    assert!(absent.unwrap_err().is_not_found());
    plain
        .client()
        .namespaced::<Secret>("default")
        .get("one-0")
        .await
        .unwrap();
    let elsewhere = other.server(&dir, &["--nodes=0", "--controllers=none"]);
    let maps = elsewhere.client().namespaced::<ConfigMap>("default");
    maps.get("one-0").await.unwrap();
}

/// CL7: each etcd fails for its own resources only.
#[tokio::test(flavor = "multi_thread")]
async fn cl7_without_the_etcd_of_an_override_the_other_resources_are_served() {
    let (Some(etcd), Some(other)) = (Etcd::start(), Etcd::start()) else {
        return;
    };
    let overrides = format!("/configmaps#{}", other.process.url);
    let dir = Arc::new(tempfile::tempdir().unwrap());
    let flags = [
        "--nodes=0",
        "--controllers=none",
        "--etcd-servers-overrides",
        overrides.as_str(),
    ];
    let server = etcd.server(&dir, &flags);
    let client = server.client();
    let http = Http::new(&server.connection()).unwrap();
    let ready = String::from_utf8(http.get("/readyz?verbose").await.unwrap().to_vec()).unwrap();
    assert!(ready.contains("[+]etcd ok\n[+]etcd-override-0 ok\n"), "{ready}");
    drop(other);
    let maps = client.namespaced::<ConfigMap>("default");
    let error = maps.create(&map("a")).await.unwrap_err();
    assert_eq!(error.code, 500, "{error:?}");
    assert_eq!(maps.get("a").await.unwrap_err().code, 500);
    let secrets = client.namespaced::<Secret>("default");
    secrets.create(&secret("a")).await.unwrap();
    secrets.get("a").await.unwrap();
    let start = Instant::now();
    while http.get("/livez/etcd-override-0").await.is_ok() {
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "the check does not fail"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    http.get("/livez/etcd").await.unwrap();
}

/// CL7: what must be unique or exact is so where the objects are on two etcd clusters, too.
#[tokio::test(flavor = "multi_thread")]
async fn cl7_allocations_and_quotas_on_another_etcd_than_their_objects() {
    let (Some(etcd), Some(other)) = (Etcd::start(), Etcd::start()) else {
        return;
    };
    let overrides = format!(
        "networking.k8s.io/ipaddresses#{0},/resourcequotas#{0}",
        other.process.url
    );
    let range = ["--service-cluster-ip-range", "10.0.0.0/28"];
    let flags = [&range[..], &["--etcd-servers-overrides", overrides.as_str()]].concat();
    let servers = start_two(&etcd, &flags);
    let client = servers[0].client();
    // Of 14 addresses one is that of the Service `kubernetes`.
    let services = (0..16).map(|number| node_port_service(&format!("s{number}"), 0));
    let created = create_services(&servers, services.collect()).await;
    let created: Vec<_> = created.into_iter().filter_map(Result::ok).collect();
    let addresses = created
        .iter()
        .map(|service| service.spec.clone().unwrap().cluster_ip);
    assert_eq!(addresses.collect::<BTreeSet<_>>().len(), 13);
    let services = client.namespaced::<Service>("default");
    for service in &created {
        let name = service.metadata.name.as_deref().unwrap();
        services.delete(name, DeleteOptions::default()).await.unwrap();
    }
    // All addresses are free again.
    let again = (0..13).map(|number| node_port_service(&format!("t{number}"), 0));
    for service in create_services(&servers, again.collect()).await {
        service.unwrap();
    }
    let quotas = client.namespaced::<ResourceQuota>("default");
    let quota = r#"{"metadata":{"name":"q"},"spec":{"hard":{"count/secrets":"10"}}}"#;
    quotas
        .create(&serde_json::from_str(quota).unwrap())
        .await
        .unwrap();
    let start = Instant::now();
    while quotas
        .get("q")
        .await
        .unwrap()
        .to_owned()
        .unwrap()
        .status
        .is_none()
    {
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "the quota has no status"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let mut creates = JoinSet::new();
    for number in 0..30 {
        let handle = servers[number % 2].client().namespaced::<Secret>("default");
        let secret = secret(&format!("s{number}"));
        creates.spawn(async move { handle.create(&secret).await.map(drop) });
    }
    let created = creates.join_all().await;
    let accepted = created.iter().filter(|one| one.is_ok()).count();
    assert_eq!(accepted, 10, "{created:?}");
}

/// Two keys of 32 equal bytes, in base 64.
const KEY_1: &str = "{name: key1, secret: AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=}";
const KEY_2: &str = "{name: key2, secret: AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI=}";

/// Writes the file that has secrets encrypted with these keys. Returns its path.
fn write_encryption_config(dir: &Path, keys: &str) -> String {
    let file = dir.join("encryption.yaml");
    let text = format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [secrets]\n  providers: [{{aesgcm: {{keys: [{keys}]}}}}]\n"
    );
    std::fs::write(&file, text).unwrap();
    file.display().to_string()
}

/// A Secret that a server cannot decrypt is an error there, and not absent: who reads that its owner is absent deletes what
/// it owns. A rotation by rewriting ends with all secrets readable without the old key.
#[tokio::test(flavor = "multi_thread")]
async fn a_secret_of_another_servers_key_is_an_error_until_it_can_be_decrypted() {
    let Some(etcd) = Etcd::start() else { return };
    let dir = Arc::new(tempfile::tempdir().unwrap());
    let other_dir = Arc::new(tempfile::tempdir().unwrap());
    let config = write_encryption_config(dir.path(), KEY_1);
    let other_config = write_encryption_config(other_dir.path(), KEY_2);
    let flag = "--encryption-provider-config";
    let first = etcd.server(&dir, &["--nodes=0", flag, config.as_str()]);
    let secrets = first.client().namespaced::<Secret>("default");
    let secret: Secret = serde_json::from_str(r#"{"metadata":{"name":"a"},"stringData":{"k":"v"}}"#).unwrap();
    secrets.create(&secret).await.unwrap();

    let second_dir = dir_with_keys_of(dir.path());
    let flags = ["--nodes=0", "--controllers=none", flag, other_config.as_str()];
    let second = etcd.server(&second_dir, &flags);
    let elsewhere = second.client().namespaced::<Secret>("default");
    let error = elsewhere.get("a").await.unwrap_err();
    assert_eq!(
        (error.code, error.message.as_str()),
        (
            500,
            "Internal error occurred: no matching key was found for the provided AES transformer"
        )
    );
    let error = elsewhere.create(&secret).await.unwrap_err();
    assert_eq!(error.code, 500, "{error:?}");
    // A list would lack it.
    let error = elsewhere.list(&ListOptions::default()).await.unwrap_err();
    assert_eq!(error.code, 500, "{error:?}");
    let expected = r#"secrets/default/a": no matching key was found for the provided AES transformer"#;
    assert!(error.message.ends_with(expected), "{error:?}");
    let others = second.client().namespaced::<Secret>("kube-system");
    others.list(&ListOptions::default()).await.unwrap();
    second.kill();

    // With both keys it is readable; a rewrite, at whichever server, makes it readable with the new key alone.
    write_encryption_config(other_dir.path(), &format!("{KEY_2}, {KEY_1}"));
    let second = etcd.server(&second_dir, &flags);
    let elsewhere = second.client().namespaced::<Secret>("default");
    let stored = elsewhere.get("a").await.unwrap();
    let same = stored.to_owned().unwrap();
    let rewritten = elsewhere.update(&same).await.unwrap();
    assert_ne!(rewritten.resource_version(), stored.resource_version());
    second.kill();
    write_encryption_config(other_dir.path(), KEY_2);
    let second = etcd.server(&second_dir, &flags);
    let elsewhere = second.client().namespaced::<Secret>("default");
    let data = elsewhere
        .get("a")
        .await
        .unwrap()
        .to_owned()
        .unwrap()
        .data
        .unwrap();
    assert_eq!(data["k"].0, b"v");
}
