//! The controller against a real registry.

use std::sync::atomic::{AtomicBool, Ordering};

use k8s_openapi::api::core::v1::{ServicePort, ServiceSpec};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIServiceSpec;
use parking_lot::Mutex;
use setpoint_testkit::{Cluster, Component};
use tokio::task::JoinSet;

use super::*;

fn remote(name: &str) -> APIService {
    let mut service = APIService {
        spec: Some(APIServiceSpec {
            group: Some("things.example.org".to_owned()),
            version: Some("v1".to_owned()),
            group_priority_minimum: 1000,
            version_priority: 10,
            insecure_skip_tls_verify: Some(true),
            service: Some(ServiceReference {
                name: Some(name.to_owned()),
                namespace: Some("default".to_owned()),
                port: Some(443),
            }),
            ..APIServiceSpec::default()
        }),
        ..APIService::default()
    };
    service.metadata.name = Some("v1.things.example.org".to_owned());
    service
}

fn reason(cluster: &Cluster) -> Option<String> {
    let key = Key::new("", "v1.things.example.org");
    let service = TypedObject::<APIService>::new(cluster.cache::<APIService>().find(&key)?);
    let conditions = service.to_owned().ok()?.status?.conditions?;
    conditions.first()?.reason.clone()
}

#[tokio::test]
async fn a_new_service_changes_the_condition() {
    let (cluster, _components) = Cluster::with([Component::Controller("apiservice-availability")]).await;
    let client = cluster.client("test");
    client.all().create(&remote("api")).await.unwrap();
    cluster
        .until("the service is missed", |cluster| {
            reason(cluster).as_deref() == Some("ServiceNotFound")
        })
        .await;
    let mut service = Service {
        spec: Some(ServiceSpec {
            cluster_ip: Some("10.0.0.9".to_owned()),
            cluster_ips: Some(vec!["10.0.0.9".to_owned()]),
            ip_families: Some(vec!["IPv4".to_owned()]),
            ip_family_policy: Some("SingleStack".to_owned()),
            ports: Some(vec![ServicePort {
                port: 443,
                ..ServicePort::default()
            }]),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    };
    service.metadata.name = Some("api".to_owned());
    client.namespaced("default").create(&service).await.unwrap();
    cluster
        .until("its endpoints are missed", |cluster| {
            reason(cluster).as_deref() == Some("EndpointsNotFound")
        })
        .await;
}

/// A remote server that passes its probe or not, and what was published.
#[derive(Default)]
struct FakeServer {
    healthy: AtomicBool,
    published: Mutex<Vec<RemoteApiService>>,
    metrics: Arc<AvailabilityMetrics>,
}

impl FakeServer {
    fn aggregator(self: &Arc<Self>) -> AggregatorHooks {
        let (published, probed) = (self.clone(), self.clone());
        AggregatorHooks::new(
            self.metrics.clone(),
            move |all| *published.published.lock() = all,
            move |one| {
                let healthy = probed.healthy.load(Ordering::Relaxed);
                let why = format!("{} is silent", one.name);
                Box::pin(async move { if healthy { Ok(()) } else { Err(why) } })
            },
        )
    }

    /// The availability that was last published; `None` if the APIService was not published.
    fn published_availability(&self) -> Option<bool> {
        self.published.lock().first().map(|one| one.available)
    }
}

fn outside(name: &str) -> Service {
    let mut service = Service {
        spec: Some(ServiceSpec {
            type_: Some("ExternalName".to_owned()),
            external_name: Some("api.example.org".to_owned()),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    };
    service.metadata.name = Some(name.to_owned());
    service
}

#[tokio::test]
async fn a_server_is_published_and_probed_repeatedly() {
    let (cluster, server) = (Cluster::start().await, Arc::new(FakeServer::default()));
    let mut running = JoinSet::new();
    let config = Config {
        aggregator: server.aggregator(),
        ..Config::default()
    };
    let stop = CancellationToken::new();
    running.spawn(run(cluster.context(NAME), config.clone(), stop.clone()));
    running.spawn(registration::run(
        cluster.context(registration::NAME),
        config,
        stop,
    ));
    let client = cluster.client("test");
    client
        .namespaced("default")
        .create(&outside("api"))
        .await
        .unwrap();
    client.all().create(&remote("api")).await.unwrap();
    cluster
        .until("it is silent", |cluster| {
            reason(cluster).as_deref() == Some("FailedDiscoveryCheck")
        })
        .await;
    assert_eq!(server.published_availability(), Some(false));
    server.healthy.store(true, Ordering::Relaxed);
    cluster
        .until("it is available", |cluster| {
            reason(cluster).as_deref() == Some("Passed")
        })
        .await;
    cluster
        .until("that is published", |_| {
            server.published_availability() == Some(true)
        })
        .await;
    server.healthy.store(false, Ordering::Relaxed);
    cluster
        .until("it is silent again", |cluster| {
            reason(cluster).as_deref() == Some("FailedDiscoveryCheck")
        })
        .await;
    let lost = r#"aggregator_unavailable_apiservice_total{name="v1.things.example.org",reason="FailedDiscoveryCheck"} 1"#;
    cluster
        .until("that counts", |_| server.metrics.to_text().contains(lost))
        .await;
    let options = setpoint_api::options::DeleteOptions::default();
    let deleted = client
        .all::<APIService>()
        .delete("v1.things.example.org", options)
        .await;
    deleted.unwrap();
    cluster
        .until("no remote APIService is published", |_| {
            server.published_availability().is_none()
        })
        .await;
}
