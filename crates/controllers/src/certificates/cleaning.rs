//! Clears away requests that are done with: an hour after they were decided, a day after nobody did anything.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use setpoint_api::options::DeleteOptions;
use setpoint_api::{Clock, Key};
use setpoint_runtime::{Client, Context, Controller, Error, Lister, Next, Object, Reconcile};
use tokio_util::sync::CancellationToken;

use crate::certificates::issue;
use crate::certificates::request::{Condition, Request};
use crate::{Config, moments};

/// The name as kube-controller-manager has it.
pub const NAME: &str = "certificatesigningrequest-cleaner-controller";

/// How long a request stays that was signed, denied or failed.
const DECIDED_SECONDS: i64 = 3600;
/// How long one stays that waits for something.
const PENDING_SECONDS: i64 = 24 * 3600;

/// Runs the controller until stopped.
pub async fn run(context: Context, config: Config, stop: CancellationToken) -> Result<(), Error> {
    let reconciler = Cleaner {
        requests: context.lister()?,
        client: context.client.clone(),
        clock: context.clock.clone(),
    };
    Controller::new(NAME, reconciler)
        .reconciles::<CertificateSigningRequest>()
        .workers(config.workers(NAME))
        .run(&context, stop)
        .await
}

/// The reconciler.
#[derive(Debug)]
struct Cleaner {
    requests: Lister<CertificateSigningRequest>,
    client: Client,
    clock: Arc<dyn Clock>,
}

impl Reconcile for Cleaner {
    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let Some(object) = self.requests.find(key) else {
            return Ok(Next::Done);
        };
        let request = object.view::<Request>()?;
        let Some(end) = end(&request) else {
            return Ok(Next::Done);
        };
        if let Some(left) = moments::until(self.clock.now(), end) {
            return Ok(Next::After(left + Duration::from_secs(1)));
        }
        let options = DeleteOptions::of_uid(object.uid());
        let handle = self.client.dynamic(CertificateSigningRequest::resource(), "");
        match handle.delete(key.name(), options).await {
            Err(status) if status.is_not_found() => Ok(Next::Done),
            deleted => Ok(deleted.map(|_| Next::Done)?),
        }
    }
}

/// When the request has been there for long enough; nothing if no time says so.
fn end(request: &Request) -> Option<Timestamp> {
    let after = |since: Option<Timestamp>, seconds| since.map(|since| moments::later(since, seconds));
    if request.status.conditions.is_empty() {
        return after(request.metadata.creation_timestamp, PENDING_SECONDS);
    }
    let of = |condition: &Condition| match condition.type_.as_str() {
        "Approved" if request.is_issued() => {
            let expires = issue::ends(&request.status.certificate.0);
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
    use setpoint_runtime::Patch;
    use setpoint_testkit::{Cluster, Part};

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
    fn a_request_goes_an_hour_after_its_end_or_a_day_after_its_start() {
        check(&[], false, Some(86_400));
        check(&[("Approved", 100)], true, Some(3700));
        check(&[("Approved", 100)], false, Some(86_500));
        check(&[("Denied", 100)], false, Some(3700));
        check(&[("Approved", 100), ("Failed", 200)], false, Some(3800));
        check(&[("Other", 100)], false, None);
    }

    #[tokio::test]
    async fn a_request_that_was_denied_goes_after_an_hour() {
        let (cluster, _parts) = Cluster::with([Part::Controller("certificatesigningrequest-cleaner")]).await;
        let asked = request("jane", "team", &[]);
        let document = json!({
            "metadata": {"name": "jane"},
            "spec": {
                "signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"],
                "request": STANDARD.encode(asked),
            },
        });
        let handle = cluster
            .client("test")
            .dynamic(CertificateSigningRequest::resource(), "");
        handle.create(document.to_string()).await.unwrap();
        let denial = json!({"type": "Denied", "status": "True", "reason": "Test", "message": "no"});
        let patch = Patch::merge(&json!({"status": {"conditions": [denial]}})).unwrap();
        handle.patch_sub("jane", "approval", &patch).await.unwrap();
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
