//! Certificates that a signer issues, renews or denies.

use jiff::ToSpan;
use serde_json::{Value, json};
use setpoint_api::Clock;
use setpoint_client::{Client, Object, Patch};
use setpoint_testkit::Cluster;
use setpoint_x509::CertificateRequest;

use super::*;
use crate::container_config::NodeFacts;

async fn create<T: Object>(client: &Client, object: Value) -> String {
    let object: T = serde_json::from_value(object).unwrap();
    let created = match T::is_namespaced() {
        true => client.namespaced::<T>("default").create(&object).await,
        false => client.all::<T>().create(&object).await,
    };
    created.unwrap().uid().to_owned()
}

/// The certificate that a signer issues in this test, PEM.
fn certificate(name: &str) -> String {
    let now = Timestamp::UNIX_EPOCH;
    let pki = setpoint_pki::WebhookPki::generate(&[name.to_owned()], now).unwrap();
    pki.serving.certificate
}

/// A cluster with a node and a pod with a source of a certificate.
struct Fixture {
    cluster: Cluster,
    manager: VolumeManager,
    pod: v1::Pod,
}

impl Fixture {
    async fn start() -> Self {
        let cluster = Cluster::start().await;
        let client = cluster.client("node");
        create::<v1::Node>(&client, json!({ "metadata": { "name": "n1" } })).await;
        create::<v1::ServiceAccount>(&client, json!({ "metadata": { "name": "web" } })).await;
        let pod = json!({
            "metadata": { "name": "web", "namespace": "default" },
            "spec": {
                "nodeName": "n1", "serviceAccountName": "web",
                "containers": [{ "name": "main", "image": "app" }],
            },
        });
        let uid = create::<v1::Pod>(&client, pod.clone()).await;
        let mut pod: v1::Pod = serde_json::from_value(pod).unwrap();
        pod.metadata.uid = Some(uid);
        let facts = NodeFacts {
            name: "n1".to_owned(),
            ..NodeFacts::default()
        };
        let clock: Arc<dyn Clock> = Arc::new(cluster.clock.clone());
        Self {
            manager: VolumeManager::new(client, clock, Arc::new(facts)),
            cluster,
            pod,
        }
    }

    async fn credentials(&self, key_type: &str) -> Result<Credentials, String> {
        let source = v1::PodCertificateProjection {
            signer_name: "example.com/s".to_owned(),
            key_type: key_type.to_owned(),
            user_annotations: Some([("example.com/a".to_owned(), "b".to_owned())].into()),
            ..v1::PodCertificateProjection::default()
        };
        let key = CredentialKey {
            pod_uid: self.pod.metadata.uid.clone().unwrap(),
            volume: "tls".to_owned(),
            source: 0,
        };
        self.manager.pod_credentials(&self.pod, &source, key).await
    }

    /// The next request, which gets this status once it is there.
    async fn decide(&self, requests: usize, status: Value) -> PodCertificateRequest {
        let undecided = || {
            let mut all = self.cluster.list::<PodCertificateRequest>();
            let count = all.len();
            all.retain(|request| {
                request
                    .status
                    .as_ref()
                    .is_none_or(|status| status.conditions.is_none())
            });
            all.pop().filter(|_| count == requests)
        };
        self.cluster.until("a request", |_| undecided().is_some()).await;
        let request = undecided().unwrap();
        let client = self.cluster.client("signer");
        let api = client.namespaced::<PodCertificateRequest>("default");
        let patch = Patch::merge(&json!({ "status": status })).unwrap();
        let name = request.metadata.name.as_deref().unwrap();
        api.patch_status(name, &patch).await.unwrap();
        request
    }
}

fn condition(type_: &str, clock: &dyn Clock) -> Value {
    json!([{
        "type": type_, "status": "True", "reason": "Reason", "message": "text",
        "lastTransitionTime": clock.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
    }])
}

fn issued(name: &str, refresh: Timestamp, clock: &dyn Clock) -> Value {
    json!({
        "conditions": condition("Issued", clock),
        "certificateChain": format!("text\n{}", certificate(name)),
        "beginRefreshAt": refresh.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
    })
}

#[tokio::test]
async fn a_pod_gets_a_certificate_and_the_next_one_when_its_signer_wants_it() {
    let fixture = Fixture::start().await;
    let clock = fixture.cluster.clock.clone();
    let refresh = clock.now() + 1.hour();
    let (first, request) = tokio::join!(
        fixture.credentials("ECDSAP384"),
        fixture.decide(1, issued("first", refresh, &clock))
    );
    let first = first.unwrap();
    assert!(first.key.starts_with("-----BEGIN PRIVATE KEY-----\n"));
    assert!(first.chain.starts_with("-----BEGIN CERTIFICATE-----\n"));
    let stub = CertificateRequest::from_der(&request.spec.stub_pkc_s10_request.0).unwrap();
    assert_eq!(stub.verify_signature(), Ok(()));
    let names = (
        &*request.spec.pod_name,
        &*request.spec.node_name,
        &*request.spec.service_account_name,
    );
    assert_eq!(names, ("web", "n1", "web"));
    assert_eq!(fixture.credentials("ECDSAP384").await.unwrap(), first);

    clock.set(refresh);
    assert_eq!(fixture.credentials("ECDSAP384").await.unwrap(), first);
    fixture
        .decide(2, issued("second", refresh + 1.hour(), &clock))
        .await;
    let second = fixture.credentials("ECDSAP384").await.unwrap();
    assert!(second.key != first.key && second.chain != first.chain);
}

#[tokio::test]
async fn a_request_that_is_denied_is_final_for_the_pod() {
    let fixture = Fixture::start().await;
    let clock = fixture.cluster.clock.clone();
    let denied = json!({ "conditions": condition("Denied", &clock) });
    let (denied, _) = tokio::join!(fixture.credentials("ED25519"), fixture.decide(1, denied));
    let message = "PodCertificateRequest was permanently denied: reason=\"Reason\" message=\"text\"";
    assert_eq!(denied.unwrap_err(), message);
    assert_eq!(fixture.credentials("ED25519").await.unwrap_err(), message);
}

#[tokio::test]
async fn a_key_type_that_cannot_be_generated_is_an_error() {
    let fixture = Fixture::start().await;
    let error = fixture.credentials("RSA3072").await.unwrap_err();
    assert_eq!(error, "this node cannot generate keys of type \"RSA3072\"");
}
