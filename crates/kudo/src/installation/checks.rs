//! Checks of a cluster: before an installation or an upgrade, and of what is installed. The messages are upstream's.

use serde_json::Value;
use setpoint_api::selector::LabelSelector;
use setpoint_api::{Gvk, Status};
use setpoint_kuttl::ObjectClient;

use super::objects::{self, CERT_MANAGER, CERTIFICATE, ISSUER, MANAGER, ROLE, SECRET};
use super::{CertificateSource, DEFAULT_NAMESPACE, DEFAULT_SERVICE_ACCOUNT, Options, reference};
use crate::crds;
use crate::engine::manager::webhook_configuration;
use crate::health::{Health, health};

/// What a check has found. With an error, the installation cannot go on, or is not valid.
#[derive(Debug, Default)]
pub struct Findings {
    /// What is wrong.
    pub errors: Vec<String>,
    /// What may be wrong.
    pub warnings: Vec<String>,
}

/// What an installation needs. Upstream rejects one if the CRDs exist, which are patched here: they may have been
/// installed alone before, for an engine outside of the cluster.
pub async fn before_install(client: &ObjectClient, options: &Options) -> Result<Findings, Status> {
    let mut findings = Findings::default();
    if options.image.is_none() {
        return Ok(findings);
    }
    let namespace = &options.namespace;
    let found = client
        .find(&reference(["v1", "Namespace"], "", namespace))
        .await?;
    match found {
        Some(found) if found["status"]["phase"] == "Terminating" => findings.error(format!(
            "Namespace {namespace} is being terminated - Wait until it is fully gone and retry"
        )),
        None if namespace != DEFAULT_NAMESPACE => findings.error(format!(
            "Namespace {namespace} does not exist - KUDO expects that any namespace except the default {DEFAULT_NAMESPACE} is created beforehand"
        )),
        _ => {}
    }
    if options.service_account != DEFAULT_SERVICE_ACCOUNT {
        check_service_account(client, options, &mut findings).await?;
    }
    check_cert_manager(client, options, &mut findings).await?;
    if client.find(&objects::manager_reference(options)).await?.is_some() {
        findings.error(format!(
            "KUDO manager {namespace}/{MANAGER} seems to be installed. Did you mean to use --upgrade"
        ));
    }
    Ok(findings)
}

/// What an upgrade needs.
pub async fn before_upgrade(client: &ObjectClient, options: &Options) -> Result<Findings, Status> {
    let mut findings = Findings::default();
    check_namespace(client, options, &mut findings).await?;
    check_service_account(client, options, &mut findings).await?;
    check_cert_manager(client, options, &mut findings).await?;
    Ok(findings)
}

/// Whether everything is installed, and the engine runs.
pub async fn of_installation(client: &ObjectClient, options: &Options) -> Result<Findings, Status> {
    let mut findings = Findings::default();
    for crd in crds::all() {
        check_crd(client, &crd, &mut findings).await?;
    }
    check_namespace(client, options, &mut findings).await?;
    check_service_account(client, options, &mut findings).await?;
    check_webhook(client, options, &mut findings).await?;
    check_manager(client, options, &mut findings).await?;
    Ok(findings)
}

async fn check_crd(client: &ObjectClient, expected: &Value, findings: &mut Findings) -> Result<(), Status> {
    let name = expected["metadata"]["name"].as_str().unwrap_or_default();
    let Some(found) = client.find(expected).await? else {
        findings.error(format!("CRD {name} is not installed"));
        return Ok(());
    };
    let schemas = |crd: &Value| -> Vec<[Value; 3]> {
        let versions = crd["spec"]["versions"].as_array().into_iter().flatten();
        let fields = |version: &Value| ["name", "served", "schema"].map(|field| version[field].clone());
        versions.map(fields).collect()
    };
    if schemas(&found) != schemas(expected) {
        findings.error(format!(
            "Installed versions of CRD {name} do not match expected CRD versions"
        ));
    }
    if health(&found) != Health::Healthy {
        findings.error(format!("Installed CRD {name} is not healthy"));
    }
    Ok(())
}

async fn check_namespace(
    client: &ObjectClient,
    options: &Options,
    findings: &mut Findings,
) -> Result<(), Status> {
    let namespace = &options.namespace;
    match client
        .find(&reference(["v1", "Namespace"], "", namespace))
        .await?
    {
        None => findings.error(format!("namespace {namespace} does not exist")),
        Some(found) if health(&found) != Health::Healthy => {
            findings.error(format!("namespace {namespace} is not healthy"));
        }
        Some(_) => {}
    }
    Ok(())
}

async fn check_service_account(
    client: &ObjectClient,
    options: &Options,
    findings: &mut Findings,
) -> Result<(), Status> {
    let (name, namespace) = (&options.service_account, &options.namespace);
    let account = reference(["v1", "ServiceAccount"], namespace, name);
    if client.find(&account).await?.is_none() {
        findings.error(format!(
            "Service Account {name} does not exists - KUDO expects the serviceAccount to be present in the namespace {namespace}"
        ));
        return Ok(());
    }
    let gvk = Gvk::new("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding");
    let bindings = client.list(&gvk, "", LabelSelector::default()).await?;
    let is_bound = bindings.iter().any(|binding| {
        let subjects = binding["subjects"].as_array().into_iter().flatten();
        let mut subjects = subjects.filter(|subject| subject["kind"] == "ServiceAccount");
        binding["roleRef"]["name"] == ROLE
            && subjects
                .any(|subject| subject["name"] == name.as_str() && subject["namespace"] == namespace.as_str())
    });
    if !is_bound {
        findings.error(format!(
            "Service Account {name} does not have cluster-admin role - KUDO expects the serviceAccount passed to be in the namespace {namespace} and to have cluster-admin role"
        ));
    }
    Ok(())
}

async fn check_cert_manager(
    client: &ObjectClient,
    options: &Options,
    findings: &mut Findings,
) -> Result<(), Status> {
    if options.certificate == CertificateSource::SelfSigned {
        return Ok(());
    }
    for kind in ["Certificate", "Issuer"] {
        match client.resource(&reference([CERT_MANAGER, kind], "", "")).await {
            Ok(_) => {}
            Err(status) if status.code == 400 => {
                findings.error(
                    "failed to detect any valid cert-manager CRDs. Make sure cert-manager is installed, or use --unsafe-self-signed-webhook-ca"
                        .to_owned(),
                );
                break;
            }
            Err(status) => return Err(status),
        }
    }
    Ok(())
}

async fn check_webhook(
    client: &ObjectClient,
    options: &Options,
    findings: &mut Findings,
) -> Result<(), Status> {
    let namespace = &options.namespace;
    let configuration = webhook_configuration(Value::Null);
    if client.find(&configuration).await?.is_none() {
        let name = configuration["metadata"]["name"].as_str().unwrap_or_default();
        findings.error(format!("admission webhook {name} is not installed"));
    }
    let expected = match options.certificate {
        CertificateSource::SelfSigned => vec![reference(["v1", "Secret"], namespace, SECRET)],
        CertificateSource::CertManager => {
            check_cert_manager(client, options, findings).await?;
            if !findings.errors.is_empty() {
                return Ok(());
            }
            let issuer = reference([CERT_MANAGER, "Issuer"], namespace, ISSUER);
            let certificate = reference([CERT_MANAGER, "Certificate"], namespace, CERTIFICATE);
            vec![issuer, certificate]
        }
    };
    for object in expected {
        if client.find(&object).await?.is_none() {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            findings.error(format!("{name} is not installed in namespace {namespace}"));
        }
    }
    Ok(())
}

async fn check_manager(
    client: &ObjectClient,
    options: &Options,
    findings: &mut Findings,
) -> Result<(), Status> {
    let namespace = &options.namespace;
    let Some(found) = client.find(&objects::manager_reference(options)).await? else {
        findings.error(format!("failed to find KUDO manager {namespace}/{MANAGER}"));
        return Ok(());
    };
    let image = found.pointer("/spec/template/spec/containers/0/image");
    let image = image.and_then(Value::as_str).unwrap_or_default();
    if let Some(expected) = options.image.as_deref().filter(|expected| *expected != image) {
        findings.warnings.push(format!(
            "KUDO manager has an unexpected image. Expected {expected} but found {image}"
        ));
    }
    if let Health::Waiting(message) | Health::Failed(message) = health(&found) {
        findings.error(format!("KUDO manager is not healthy: {message}"));
    }
    Ok(())
}

impl Findings {
    fn error(&mut self, message: String) {
        self.errors.push(message);
    }
}
