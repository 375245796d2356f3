//! The controller against a real registry.

use k8s_openapi::api::core::v1::{ServicePort, ServiceSpec};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIServiceSpec;
use setpoint_testkit::{Cluster, Part};

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
