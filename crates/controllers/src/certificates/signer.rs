//! Signs approved CertificateSigningRequests for Kubernetes' own signers.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::SignedDuration;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use serde_json::{Value, json};
use setpoint_api::{Clock, Key, Stored};
use setpoint_runtime::{Client, Context, Controller, Error, Lister, Next, Object, Reconcile};
use tokio_util::sync::CancellationToken;

use crate::certificates::issue::{Issuer, validity};
use crate::certificates::request::{self, CertificateRequest, Request};
use crate::certificates::rules;
use crate::{Config, api_time};

/// The name as kube-controller-manager has it.
pub const NAME: &str = "certificatesigningrequest-signing-controller";

/// Runs the controller until stopped. Without a certificate authority it signs nothing.
pub async fn run(context: Context, config: Config, stop: CancellationToken) -> Result<(), Error> {
    let Some(authority) = &config.authority else {
        stop.cancelled().await;
        return Ok(());
    };
    let reconciler = Signer {
        requests: context.lister()?,
        clock: context.clock.clone(),
        issuer: Issuer::try_new(authority).map_err(Error::terminal)?,
        longest: SignedDuration::try_from(config.signing_duration).unwrap_or(SignedDuration::MAX),
    };
    Controller::new(NAME, reconciler)
        .reconciles::<CertificateSigningRequest>()
        .workers(config.workers(NAME))
        .run(&context, stop)
        .await
}

/// The reconciler.
#[derive(Debug)]
struct Signer {
    requests: Lister<CertificateSigningRequest>,
    clock: Arc<dyn Clock>,
    issuer: Issuer,
    longest: SignedDuration,
}

impl Reconcile for Signer {
    async fn reconcile(&self, key: &Key, client: &Client) -> Result<Next, Error> {
        let Some(object) = self.requests.find(key) else {
            return Ok(Next::Done);
        };
        let request = object.view::<Request>()?;
        if request.is_issued() || !request.is_approved() || !rules::is_handled(&request.spec.signer_name) {
            return Ok(Next::Done);
        }
        let csr = CertificateRequest::read(&request.spec.request.0).map_err(Error::terminal)?;
        let body = match rules::check(&request.spec.signer_name, &csr, &request.spec.usages) {
            Err(why) => self.with_failed_condition(&object, &why)?,
            Ok(()) => {
                let mut body: Value = object.decode()?;
                let pem = self.sign(&object, &request, &csr)?;
                body["status"]["certificate"] = json!(STANDARD.encode(pem));
                body
            }
        };
        let handle = client.dynamic(CertificateSigningRequest::resource(), "");
        match handle
            .update_subresource(key.name(), "status", body.to_string())
            .await
        {
            Err(status) if status.is_not_found() => Ok(Next::Done),
            written => Ok(written.map(|_| Next::Done)?),
        }
    }
}

impl Signer {
    /// The certificate. Its serial number is the request's uid, which is unique.
    fn sign(&self, object: &Stored, request: &Request, csr: &CertificateRequest) -> Result<String, Error> {
        let requested = (self.longest, request.spec.expiration_seconds);
        let period = validity(self.clock.now(), requested, self.issuer.not_after());
        let signed = self
            .issuer
            .issue(csr, &request.spec.usages, period, &serial_number(object.uid()));
        signed.map_err(Error::failed)
    }

    /// The request with a `Failed` condition and the reason why it was not signed.
    fn with_failed_condition(&self, object: &Stored, why: &str) -> Result<Value, Error> {
        let condition = json!({
            "type": "Failed", "status": "True", "reason": "SignerValidationFailure", "message": why,
            "lastUpdateTime": api_time::from_timestamp(self.clock.now()),
        });
        request::with_condition(object, condition)
    }
}

/// The hex digits of a uid as bytes.
fn serial_number(uid: &str) -> Vec<u8> {
    let digits: Vec<u32> = uid.chars().filter_map(|digit| digit.to_digit(16)).collect();
    let byte = |pair: &[u32]| pair.iter().fold(0, |byte, digit| byte * 16 + digit);
    let bytes = digits.chunks(2).map(byte);
    bytes
        .map(|byte| u8::try_from(byte).expect("two digits are a byte"))
        .collect()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::certificates::v1::CertificateSigningRequestStatus;
    use setpoint_runtime::Patch;
    use setpoint_testkit::Cluster;
    use tokio::task::JoinSet;

    use super::*;
    use crate::certificates::tests::{authority, request};

    async fn start_signer() -> (Cluster, JoinSet<Result<(), Error>>) {
        let cluster = Cluster::start().await;
        let config = Config {
            authority: Some(authority()),
            ..Config::default()
        };
        let mut running = JoinSet::new();
        running.spawn(run(cluster.context(NAME), config, CancellationToken::new()));
        (cluster, running)
    }

    #[test]
    fn a_serial_number_is_the_uid() {
        assert_eq!(serial_number("0af1-7f"), [0x0a, 0xf1, 0x7f]);
    }

    fn csr_json(name: &str, signer: &str, usages: &[&str], pem: &str) -> Value {
        json!({
            "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
            "metadata": {"name": name},
            "spec": {"signerName": signer, "usages": usages, "request": STANDARD.encode(pem)},
        })
    }

    /// Creates a request and approves it.
    async fn approve(cluster: &Cluster, body: &Value) {
        let handle = cluster
            .client("test")
            .dynamic(CertificateSigningRequest::resource(), "");
        let name = body["metadata"]["name"].as_str().unwrap();
        handle.create(body.to_string()).await.unwrap();
        let approval = json!({"status": {"conditions": [
            {"type": "Approved", "status": "True", "reason": "Test", "message": "yes"}]}});
        let patch = Patch::strategic(&approval).unwrap();
        handle.patch_subresource(name, "approval", &patch).await.unwrap();
    }

    fn status(cluster: &Cluster, name: &str) -> CertificateSigningRequestStatus {
        let request: Option<CertificateSigningRequest> = cluster.find(name);
        request.and_then(|request| request.status).unwrap_or_default()
    }

    #[tokio::test]
    async fn an_approved_request_is_signed_once() {
        let (cluster, _running) = start_signer().await;
        let pem = request("jane", "team", &[]);
        let client = "kubernetes.io/kube-apiserver-client";
        approve(&cluster, &csr_json("jane", client, &["client auth"], &pem)).await;
        let is_issued = |cluster: &Cluster| {
            let certificate = status(cluster, "jane").certificate;
            certificate.is_some_and(|certificate| !certificate.0.is_empty())
        };
        cluster.until("a certificate", is_issued).await;
        cluster.interceptor.clear();
        cluster.settle().await;
        assert_eq!(cluster.interceptor.writes().len(), 0);
    }

    #[tokio::test]
    async fn a_rejected_request_fails_and_other_signers_are_left_alone() {
        let (cluster, _running) = start_signer().await;
        let pem = request("jane", "team", &[]);
        let client = "kubernetes.io/kube-apiserver-client";
        approve(
            &cluster,
            &csr_json("other", "example.com/own", &["client auth"], &pem),
        )
        .await;
        approve(
            &cluster,
            &csr_json("jane", client, &["server auth", "client auth"], &pem),
        )
        .await;
        let failed = |cluster: &Cluster| {
            let conditions = status(cluster, "jane").conditions.unwrap_or_default();
            let failed = conditions.into_iter().find(|own| own.type_ == "Failed");
            failed.map(|own| (own.reason.unwrap_or_default(), own.message.unwrap_or_default()))
        };
        cluster
            .until("a failure", |cluster| failed(cluster).is_some())
            .await;
        let why = "invalid usage for client certificate: server auth";
        assert_eq!(
            failed(&cluster),
            Some(("SignerValidationFailure".to_owned(), why.to_owned()))
        );
        let other = status(&cluster, "other");
        assert!(other.certificate.is_none() && other.conditions.unwrap().len() == 1);
    }
}
