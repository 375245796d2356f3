//! Clears away PodCertificateRequests: whatever became of them, they are done with after a quarter of an hour.

use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::PodCertificateRequest;
use serde::Deserialize;
use setpoint_api::Stored;
use setpoint_runtime::{Context, Controller, Error};
use tokio_util::sync::CancellationToken;

use crate::expiry::Expiry;
use crate::{Config, moments};

/// The name as kube-controller-manager has it.
pub const NAME: &str = "podcertificaterequest-cleaner-controller";

/// How long a request stays.
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
    Ok(Some(moments::later(created, KEPT_SECONDS)))
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
    use setpoint_testkit::{Cluster, Part};

    use super::*;
    use crate::certificates::tests::request;

    #[tokio::test]
    async fn a_request_of_a_pod_goes_after_a_quarter_of_an_hour() {
        let (cluster, _parts) = Cluster::with([Part::Controller("podcertificaterequest-cleaner")]).await;
        let asked =
            CertificateSigningRequestDer::from_pem_slice(request("pod", "team", &[]).as_bytes()).unwrap();
        let document = json!({
            "metadata": {"name": "a", "namespace": "default"},
            "spec": {
                "signerName": "example.com/pods", "stubPKCS10Request": STANDARD.encode(&asked),
                "podName": "web", "podUID": "u1", "serviceAccountName": "default", "serviceAccountUID": "u2",
                "nodeName": "n1", "nodeUID": "u3",
            },
        });
        let handle = cluster
            .client("test")
            .dynamic(PodCertificateRequest::resource(), "default");
        handle.create(document.to_string()).await.unwrap();
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
