//! Deletes old CertificateSigningRequests: an hour after they were decided, a day after their creation if they were
//! not.

use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use setpoint_api::Stored;
use setpoint_runtime::{Context, Controller, Error};
use tokio_util::sync::CancellationToken;

use crate::certificates::issue;
use crate::certificates::request::{Condition, Request};
use crate::expiry::Expiry;
use crate::{Config, api_time};

/// The name as kube-controller-manager has it.
pub const NAME: &str = "certificatesigningrequest-cleaner-controller";

/// How long an issued, denied or failed request is kept.
const DECIDED_SECONDS: i64 = 3600;
/// How long a pending request is kept.
const PENDING_SECONDS: i64 = 24 * 3600;

/// Runs the controller until stopped.
pub async fn run(context: Context, config: Config, stop: CancellationToken) -> Result<(), Error> {
    let end = |object: &Stored| Ok(end(&*object.view::<Request>()?));
    Controller::new(NAME, Expiry::<CertificateSigningRequest>::new(&context, end)?)
        .reconciles::<CertificateSigningRequest>()
        .workers(config.workers(NAME))
        .run(&context, stop)
        .await
}

/// When the request is to be deleted; `None` if it has no time to count from.
fn end(request: &Request) -> Option<Timestamp> {
    let after = |since: Option<Timestamp>, seconds| since.map(|since| api_time::add_seconds(since, seconds));
    if request.status.conditions.is_empty() {
        return after(request.metadata.creation_timestamp, PENDING_SECONDS);
    }
    let of = |condition: &Condition| match condition.type_.as_str() {
        "Approved" if request.is_issued() => {
            let expires = issue::not_after(&request.status.certificate.0);
            [after(condition.last_update_time, DECIDED_SECONDS), expires]
                .into_iter()
                .flatten()
                .min()
        }
        "Approved" => after(condition.last_update_time, PENDING_SECONDS),
        "Denied" | "Failed" => after(condition.last_update_time, DECIDED_SECONDS),
        _ => None,
    };
    request.status.conditions.iter().filter_map(of).min()
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use k8s_openapi::ByteString;
    use serde_json::json;
    use setpoint_api::Clock;
    use setpoint_runtime::{Object, Patch};
    use setpoint_testkit::{Cluster, Component};

    use super::*;
    use crate::certificates::tests::request;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[track_caller]
    fn check(conditions: &[(&str, i64)], issued: bool, expected: Option<i64>) {
        let mut request = Request::default();
        request.metadata.creation_timestamp = Some(at(0));
        let condition = |(type_, second): &(&str, i64)| Condition {
            type_: (*type_).to_owned(),
            status: "True".to_owned(),
            last_update_time: Some(at(*second)),
        };
        request.status.conditions = conditions.iter().map(condition).collect();
        if issued {
            request.status.certificate = ByteString(b"signed".to_vec());
        }
        assert_eq!(end(&request), expected.map(at));
    }

    #[test]
    fn a_request_is_deleted_an_hour_after_its_decision_or_a_day_after_its_creation() {
        check(&[], false, Some(86_400));
        check(&[("Approved", 100)], true, Some(3700));
        check(&[("Approved", 100)], false, Some(86_500));
        check(&[("Denied", 100)], false, Some(3700));
        check(&[("Approved", 100), ("Failed", 200)], false, Some(3800));
        check(&[("Other", 100)], false, None);
    }

    #[tokio::test]
    async fn a_denied_request_is_deleted_after_an_hour() {
        let (cluster, _components) =
            Cluster::with([Component::Controller("certificatesigningrequest-cleaner")]).await;
        let csr = request("jane", "team", &[]);
        let body = json!({
            "metadata": {"name": "jane"},
            "spec": {
                "signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"],
                "request": STANDARD.encode(csr),
            },
        });
        let handle = cluster
            .client("test")
            .dynamic(CertificateSigningRequest::resource(), "");
        handle.create(body.to_string()).await.unwrap();
        let denial = json!({"type": "Denied", "status": "True", "reason": "Test", "message": "no"});
        let patch = Patch::merge(&json!({"status": {"conditions": [denial]}})).unwrap();
        handle
            .patch_subresource("jane", "approval", &patch)
            .await
            .unwrap();
        let start = cluster.clock.now();
        cluster
            .until("a request", |cluster| {
                cluster.list::<CertificateSigningRequest>().len() == 1
            })
            .await;
        cluster
            .until("no request", |cluster| {
                cluster.list::<CertificateSigningRequest>().is_empty()
            })
            .await;
        let stayed = cluster.clock.now().duration_since(start).as_secs();
        assert!((3600..3700).contains(&stayed), "it stayed for {stayed} seconds");
    }
}
