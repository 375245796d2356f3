//! Deletes PodCertificateRequests a quarter of an hour after their creation, whatever their outcome.

use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::PodCertificateRequest;
use serde::Deserialize;
use setpoint_api::Stored;
use setpoint_runtime::{Context, Controller, Error};
use tokio_util::sync::CancellationToken;

use crate::expiry::Expiry;
use crate::{Config, api_time};

/// The name as kube-controller-manager has it.
pub const NAME: &str = "podcertificaterequest-cleaner-controller";

/// How long a request is kept.
const KEPT_SECONDS: i64 = 15 * 60;

#[derive(Debug, Deserialize)]
struct Request {
    metadata: Metadata,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    creation_timestamp: Timestamp,
}

/// Runs the controller until stopped.
pub async fn run(context: Context, config: Config, stop: CancellationToken) -> Result<(), Error> {
    Controller::new(NAME, Expiry::<PodCertificateRequest>::new(&context, end)?)
        .reconciles::<PodCertificateRequest>()
        .workers(config.workers(NAME))
        .run(&context, stop)
        .await
}

fn end(object: &Stored) -> Result<Option<Timestamp>, Error> {
    let request: Request = object.decode()?;
    let created = request.metadata.creation_timestamp;
    Ok(Some(api_time::add_seconds(created, KEPT_SECONDS)))
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use rustls_pki_types::CertificateSigningRequestDer;
    use rustls_pki_types::pem::PemObject;
    use serde_json::json;
    use setpoint_api::Clock;
    use setpoint_runtime::Object;
    use setpoint_testkit::{Cluster, Component};

    use super::*;
    use crate::certificates::tests::request;

    #[tokio::test]
    async fn a_pod_certificate_request_is_deleted_after_a_quarter_of_an_hour() {
        let (cluster, _components) =
            Cluster::with([Component::Controller("podcertificaterequest-cleaner")]).await;
        let csr =
            CertificateSigningRequestDer::from_pem_slice(request("pod", "team", &[]).as_bytes()).unwrap();
        let body = json!({
            "metadata": {"name": "a", "namespace": "default"},
            "spec": {
                "signerName": "example.com/pods", "stubPKCS10Request": STANDARD.encode(&csr),
                "podName": "web", "podUID": "u1", "serviceAccountName": "default", "serviceAccountUID": "u2",
                "nodeName": "n1", "nodeUID": "u3",
            },
        });
        let handle = cluster
            .client("test")
            .dynamic(PodCertificateRequest::resource(), "default");
        handle.create(body.to_string()).await.unwrap();
        let start = cluster.clock.now();
        cluster
            .until("a request", |cluster| {
                cluster.list::<PodCertificateRequest>().len() == 1
            })
            .await;
        cluster
            .until("no request", |cluster| {
                cluster.list::<PodCertificateRequest>().is_empty()
            })
            .await;
        let stayed = cluster.clock.now().duration_since(start).as_secs();
        assert!((900..1000).contains(&stayed), "it stayed for {stayed} seconds");
    }
}
