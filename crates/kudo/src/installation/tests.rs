//! Tests of the installation on a cluster without nodes.

use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetStatus};
use k8s_openapi::api::core::v1::{Secret, Service};
use setpoint_api::SystemClock;
use setpoint_client::{Client, Http};
use setpoint_testkit::{Cluster, HttpsServer};

use super::*;

struct Subject {
    objects: ObjectClient,
    client: Client,
    clock: SystemClock,
    _server: HttpsServer,
    _cluster: Cluster,
}

fn options(image: Option<&str>) -> Options {
    Options {
        namespace: DEFAULT_NAMESPACE.to_owned(),
        service_account: DEFAULT_SERVICE_ACCOUNT.to_owned(),
        image: image.map(str::to_owned),
        image_pull_policy: "IfNotPresent".to_owned(),
        certificate: CertificateSource::SelfSigned,
    }
}

impl Subject {
    async fn new() -> Self {
        let cluster = Cluster::start().await;
        let server = cluster.serve_https().await;
        let (http, clock) = (Http::new(&server.connection()).unwrap(), SystemClock::new());
        Self {
            objects: ObjectClient::new(http, std::sync::Arc::new(clock.clone())),
            client: cluster.client("test"),
            clock,
            _server: server,
            _cluster: cluster,
        }
    }

    async fn install(&self, options: &Options) {
        let steps = steps(options, self.clock.now()).unwrap();
        install(&self.objects, &steps, |_| {}).await.unwrap();
    }

    async fn manager(&self) -> StatefulSet {
        let sets = self.client.namespaced::<StatefulSet>(DEFAULT_NAMESPACE);
        let found = sets.get("kudo-controller-manager").await.unwrap();
        found.to_owned().unwrap()
    }

    /// What a controller and a node would report.
    async fn start_manager(&self) {
        let mut set = self.manager().await;
        set.status = Some(StatefulSetStatus {
            observed_generation: set.metadata.generation,
            replicas: 1,
            ready_replicas: Some(1),
            updated_replicas: Some(1),
            ..StatefulSetStatus::default()
        });
        let sets = self.client.namespaced::<StatefulSet>(DEFAULT_NAMESPACE);
        sets.update_status(&set).await.unwrap();
    }

    /// What the garbage collector does with the objects that an upgrade deletes: they have no dependents here.
    async fn finish_deletions(&self, options: &Options) {
        for object in objects::replaced(options) {
            let is_terminating = async || match self.objects.find(&object).await.unwrap() {
                Some(found) => found["metadata"]["finalizers"].is_array(),
                None => false,
            };
            while !is_terminating().await {
                self.clock.sleep(Duration::from_millis(20)).await;
            }
            let finished = Patch::merge(&json!({"metadata": {"finalizers": null}})).unwrap();
            self.objects.patch(&object, &finished).await.unwrap();
        }
    }

    async fn errors(&self, options: &Options) -> Vec<String> {
        of_installation(&self.objects, options).await.unwrap().errors
    }
}

/// TO7
#[tokio::test]
async fn an_installation_is_valid_once_its_engine_runs() {
    let (subject, options) = (Subject::new().await, options(Some("registry/setpoint:1")));
    assert!(
        before_install(&subject.objects, &options)
            .await
            .unwrap()
            .errors
            .is_empty()
    );
    let missing = subject.errors(&options).await;
    assert!(
        missing.contains(&"CRD instances.kudo.dev is not installed".to_owned()),
        "{missing:?}"
    );
    assert!(
        missing.contains(&"namespace kudo-system does not exist".to_owned()),
        "{missing:?}"
    );
    subject.install(&options).await;
    let set = subject.manager().await;
    let container = &set.spec.template.spec.unwrap().containers[0];
    assert_eq!(container.image.as_deref(), Some("registry/setpoint:1"));
    let errors = subject.errors(&options).await;
    assert!(
        errors
            .iter()
            .any(|error| error.starts_with("KUDO manager is not healthy")),
        "{errors:?}"
    );
    subject.start_manager().await;
    wait_for_crds(&subject, &options).await;
    assert_eq!(subject.errors(&options).await, Vec::<String>::new());
}

/// The server marks CRDs as established some time after their creation.
async fn wait_for_crds(subject: &Subject, options: &Options) {
    for _ in 0..100 {
        let errors = subject.errors(options).await;
        if !errors.iter().any(|error| error.contains("CRD")) {
            return;
        }
        subject.clock.sleep(Duration::from_millis(50)).await;
    }
}

/// TO7
#[tokio::test]
async fn an_engine_that_is_installed_is_replaced_by_an_upgrade_only() {
    let (subject, old) = (Subject::new().await, options(Some("registry/setpoint:1")));
    subject.install(&old).await;
    let new = options(Some("registry/setpoint:2"));
    let findings = before_install(&subject.objects, &new).await.unwrap();
    assert_eq!(
        findings.errors,
        [
            "KUDO manager kudo-system/kudo-controller-manager seems to be installed. Did you mean to use --upgrade"
        ]
    );
    let findings = before_upgrade(&subject.objects, &new).await.unwrap();
    assert_eq!(findings.errors, Vec::<String>::new());
    let secrets = subject.client.namespaced::<Secret>(DEFAULT_NAMESPACE);
    let certificate = async || {
        let secret = secrets.get("kudo-webhook-server-secret").await.unwrap();
        secret.to_owned().unwrap().data
    };
    let before = (subject.manager().await.metadata.uid, certificate().await);
    let steps = steps(&new, subject.clock.now()).unwrap();
    let upgraded = upgrade(&subject.objects, (&new, &steps), &subject.clock, |_| {});
    let (upgraded, ()) = tokio::join!(upgraded, subject.finish_deletions(&new));
    upgraded.unwrap();
    let after = subject.manager().await;
    assert_ne!(after.metadata.uid, before.0);
    let image = after.spec.template.spec.unwrap().containers[0].image.clone();
    assert_eq!(image.as_deref(), Some("registry/setpoint:2"));
    // The webhook has the CA of the new certificate.
    assert_ne!(certificate().await, before.1);
    let services = subject.client.namespaced::<Service>(DEFAULT_NAMESPACE);
    services.get("kudo-controller-manager-service").await.unwrap();
}

/// TO7
#[tokio::test]
async fn what_an_installation_needs_is_checked_first() {
    let subject = Subject::new().await;
    let own = Options {
        namespace: "team".to_owned(),
        service_account: "own".to_owned(),
        certificate: CertificateSource::CertManager,
        ..options(Some("x"))
    };
    let errors = before_install(&subject.objects, &own).await.unwrap().errors;
    let expected = [
        "Namespace team does not exist",
        "Service Account own does not exists",
        "failed to detect any valid cert-manager CRDs",
    ];
    assert_eq!(errors.len(), expected.len(), "{errors:?}");
    for (error, expected) in errors.iter().zip(expected) {
        assert!(error.starts_with(expected), "{error}");
    }
}

/// TO7
#[test]
fn without_an_image_only_the_crds_are_installed() {
    let steps = steps(&options(None), jiff::Timestamp::UNIX_EPOCH).unwrap();
    let names: Vec<&str> = steps.iter().map(|step| step.name).collect();
    assert_eq!(names, ["crds"]);
}

/// TO7
#[test]
fn the_certificate_is_requested_from_cert_manager() {
    let options = Options {
        certificate: CertificateSource::CertManager,
        ..options(Some("x"))
    };
    let steps = steps(&options, jiff::Timestamp::UNIX_EPOCH).unwrap();
    let webhook = steps.iter().find(|step| step.name == "webhook").unwrap();
    let kinds: Vec<&Value> = webhook.objects.iter().map(|object| &object["kind"]).collect();
    assert_eq!(kinds, ["MutatingWebhookConfiguration", "Issuer", "Certificate"]);
    assert_eq!(
        webhook.objects[0]["metadata"]["annotations"]["cert-manager.io/inject-ca-from"],
        "kudo-system/kudo-webhook-server-certificate"
    );
}
