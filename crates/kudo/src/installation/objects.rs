//! Manifests of the installation.

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Value, json};
use setpoint_pki::WebhookPki;

use super::{CertificateSource, DEFAULT_NAMESPACE, DEFAULT_SERVICE_ACCOUNT, Options, reference};
use crate::engine::manager::webhook_configuration;
use crate::{admission, crds};

/// Objects that are installed together.
#[derive(Debug, Clone)]
pub struct Step {
    /// The name that users read.
    pub name: &'static str,
    /// The objects, in the order of their creation.
    pub objects: Vec<Value>,
}

pub(super) const MANAGER: &str = "kudo-controller-manager";
pub(super) const SERVICE: &str = "kudo-controller-manager-service";
pub(super) const SECRET: &str = "kudo-webhook-server-secret";
pub(super) const ISSUER: &str = "selfsigned-issuer";
pub(super) const CERTIFICATE: &str = "kudo-webhook-server-certificate";
pub(super) const ROLE: &str = "cluster-admin";
pub(super) const CERT_MANAGER: &str = "cert-manager.io/v1";
const ROLE_BINDING: &str = "kudo-manager-rolebinding";
const APP: &str = "kudo-manager";
/// The port of the webhook in the container. Below 1024, the image would need to run as root.
const WEBHOOK_PORT: u16 = 9443;
const CERTIFICATE_DIR: &str = "/tmp/cert";
const GRACE_PERIOD_SECONDS: u64 = 10;

/// The objects of an installation, in the order of their creation; without an image, the CRDs only.
pub fn steps(options: &Options, now: Timestamp) -> Result<Vec<Step>> {
    let mut steps = vec![Step {
        name: "crds",
        objects: crds::all().to_vec(),
    }];
    let Some(image) = &options.image else {
        return Ok(steps);
    };
    steps.push(Step {
        name: "namespace",
        objects: namespace(options),
    });
    steps.push(Step {
        name: "service account",
        objects: service_account(options),
    });
    steps.push(Step {
        name: "webhook",
        objects: webhook(options, now)?,
    });
    steps.push(Step {
        name: "kudo controller",
        objects: vec![service(options), stateful_set(options, image)],
    });
    Ok(steps)
}

/// What an upgrade removes before it installs everything again.
pub(super) fn replaced(options: &Options) -> [Value; 2] {
    [manager_reference(options), webhook_configuration(json!({}))]
}

pub(super) fn manager_reference(options: &Options) -> Value {
    reference(["apps/v1", "StatefulSet"], &options.namespace, MANAGER)
}

fn namespace(options: &Options) -> Vec<Value> {
    match options.namespace == DEFAULT_NAMESPACE {
        false => Vec::new(),
        true => vec![json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": options.namespace, "labels": {"app": APP}},
        })],
    }
}

fn service_account(options: &Options) -> Vec<Value> {
    let (name, namespace) = (&options.service_account, &options.namespace);
    if name != DEFAULT_SERVICE_ACCOUNT {
        return Vec::new();
    }
    vec![
        json!({
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": name, "namespace": namespace, "labels": {"app": APP}},
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": ROLE_BINDING},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ROLE},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
        }),
    ]
}

/// The configuration of the webhook, and its certificate or the request for one.
fn webhook(options: &Options, now: Timestamp) -> Result<Vec<Value>> {
    let namespace = &options.namespace;
    let name = format!("{SERVICE}.{namespace}.svc");
    let service = json!({"name": SERVICE, "namespace": namespace, "path": admission::PATH});
    if options.certificate == CertificateSource::SelfSigned {
        let pki = WebhookPki::generate(&[name], now).context("unable to set up the CA of the webhook")?;
        let bundle = STANDARD.encode(&pki.authority);
        let secret = json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": SECRET, "namespace": namespace},
            "type": "kubernetes.io/tls",
            "data": {
                "tls.crt": STANDARD.encode(&pki.serving.certificate),
                "tls.key": STANDARD.encode(&pki.serving.key),
            },
        });
        let configuration = webhook_configuration(json!({"service": service, "caBundle": bundle}));
        return Ok(vec![configuration, secret]);
    }
    let mut configuration = webhook_configuration(json!({"service": service}));
    configuration["metadata"]["annotations"] =
        json!({"cert-manager.io/inject-ca-from": format!("{namespace}/{CERTIFICATE}")});
    let mut issuer = reference([CERT_MANAGER, "Issuer"], namespace, ISSUER);
    issuer["spec"] = json!({"selfSigned": {}});
    let mut certificate = reference([CERT_MANAGER, "Certificate"], namespace, CERTIFICATE);
    certificate["spec"] = json!({
        "commonName": name,
        "dnsNames": [name],
        "issuerRef": {"kind": "Issuer", "name": ISSUER},
        "secretName": SECRET,
    });
    Ok(vec![configuration, issuer, certificate])
}

fn labels() -> Value {
    json!({"app": APP, "control-plane": "controller-manager"})
}

fn service(options: &Options) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": SERVICE, "namespace": options.namespace, "labels": labels()},
        "spec": {
            "ports": [{"name": "kudo", "port": 443, "targetPort": "webhook-server"}],
            "selector": labels(),
        },
    })
}

fn stateful_set(options: &Options, image: &str) -> Value {
    let field = json!({"fieldRef": {"fieldPath": "metadata.namespace"}});
    let container = json!({
        "name": "manager",
        "image": image,
        "imagePullPolicy": options.image_pull_policy,
        "command": ["setpoint", "kudo", "manager"],
        "args": [
            "--webhook-listen", format!("0.0.0.0:{WEBHOOK_PORT}"),
            "--cert-dir", CERTIFICATE_DIR,
        ],
        "env": [
            {"name": "POD_NAMESPACE", "valueFrom": field},
            {"name": "SECRET_NAME", "value": SECRET},
        ],
        "ports": [{"name": "webhook-server", "containerPort": WEBHOOK_PORT, "protocol": "TCP"}],
        "readinessProbe": {"tcpSocket": {"port": WEBHOOK_PORT}},
        "resources": {"requests": {"cpu": "100m", "memory": "50Mi"}},
        "volumeMounts": [{"name": "cert", "mountPath": CERTIFICATE_DIR, "readOnly": true}],
    });
    json!({
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": MANAGER, "namespace": options.namespace, "labels": labels()},
        "spec": {
            "serviceName": SERVICE,
            "selector": {"matchLabels": labels()},
            "template": {
                "metadata": {"labels": labels()},
                "spec": {
                    "serviceAccountName": options.service_account,
                    "terminationGracePeriodSeconds": GRACE_PERIOD_SECONDS,
                    "containers": [container],
                    "volumes": [{"name": "cert", "secret": {"secretName": SECRET, "defaultMode": 0o644}}],
                },
            },
        },
    })
}
