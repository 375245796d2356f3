//! The controller against a real registry.

use std::sync::atomic::{AtomicBool, Ordering};

use k8s_openapi::api::core::v1::{ServicePort, ServiceSpec};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIServiceSpec;
use parking_lot::Mutex;
use setpoint_testkit::{Cluster, Part};
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
    let service = Typed::<APIService>::new(cluster.cache::<APIService>().find(&key)?);
    let conditions = service.to_owned().ok()?.status?.conditions?;
    conditions.first()?.reason.clone()
}

#[tokio::test]
async fn a_service_that_comes_changes_what_is_said() {
    let (cluster, _parts) = Cluster::with([Part::Controller("apiservice-availability")]).await;
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

/// A server that answers or not, and what was told of it.
#[derive(Default)]
struct Other {
    answers: AtomicBool,
    told: Mutex<Vec<Behind>>,
    figures: Arc<Figures>,
}

impl Other {
    fn aggregation(self: &Arc<Self>) -> Aggregation {
        let (told, asked) = (self.clone(), self.clone());
        Aggregation::new(
            self.figures.clone(),
            move |all| *told.told.lock() = all,
            move |one| {
                let answers = asked.answers.load(Ordering::Relaxed);
                let why = format!("{} is silent", one.name);
                Box::pin(async move { if answers { Ok(()) } else { Err(why) } })
            },
        )
    }

    /// Whether it is said to be available; nothing if it is not told of.
    fn is_told(&self) -> Option<bool> {
        self.told.lock().first().map(|one| one.available)
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
async fn a_server_is_told_of_and_asked_again_and_again() {
    let (cluster, other) = (Cluster::start().await, Arc::new(Other::default()));
    let mut running = JoinSet::new();
    let config = Config {
        aggregation: other.aggregation(),
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
    assert_eq!(other.is_told(), Some(false));
    other.answers.store(true, Ordering::Relaxed);
    cluster
        .until("it answers", |cluster| {
            reason(cluster).as_deref() == Some("Passed")
        })
        .await;
    cluster
        .until("that is told", |_| other.is_told() == Some(true))
        .await;
    other.answers.store(false, Ordering::Relaxed);
    cluster
        .until("it is silent again", |cluster| {
            reason(cluster).as_deref() == Some("FailedDiscoveryCheck")
        })
        .await;
    let lost = r#"aggregator_unavailable_apiservice_total{name="v1.things.example.org",reason="FailedDiscoveryCheck"} 1"#;
    cluster
        .until("that counts", |_| other.figures.to_text().contains(lost))
        .await;
    let options = setpoint_api::options::DeleteOptions::default();
    let gone = client
        .all::<APIService>()
        .delete("v1.things.example.org", options)
        .await;
    gone.unwrap();
    cluster
        .until("nobody is told of", |_| other.is_told().is_none())
        .await;
}
