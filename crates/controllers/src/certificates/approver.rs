//! Approves CertificateSigningRequests of nodes for their own client certificate, if a SubjectAccessReview allows it.

use std::time::Duration;

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use serde::Deserialize;
use serde_json::json;
use setpoint_api::options::WriteOptions;
use setpoint_api::{ApiVerb, Body, Gvr, Key, Payload, Status, Stored, Target, Verb};
use setpoint_runtime::{Client, Context, Controller, Error, Lister, Next, Object, Reconcile};
use tokio_util::sync::CancellationToken;

use crate::Config;
use crate::certificates::request::{self, CertificateRequest, Request};
use crate::certificates::rules::{self, KUBELET_CLIENT};

/// The name as kube-controller-manager has it.
pub const NAME: &str = "certificatesigningrequest-approving-controller";

/// The subresource that the requester must be allowed to create, and the message of the approval.
const SELF_NODE: (&str, &str) = (
    "selfnodeclient",
    "Auto approving self kubelet client certificate after SubjectAccessReview.",
);
const NODE: (&str, &str) = (
    "nodeclient",
    "Auto approving kubelet client certificate after SubjectAccessReview.",
);
/// The permission may be granted later, and no event reports that.
const RETRY_INTERVAL: Duration = Duration::from_secs(60);

/// Runs the controller until stopped.
pub async fn run(context: Context, config: Config, stop: CancellationToken) -> Result<(), Error> {
    let reconciler = Approver {
        requests: context.lister()?,
    };
    Controller::new(NAME, reconciler)
        .reconciles::<CertificateSigningRequest>()
        .workers(config.workers(NAME))
        .run(&context, stop)
        .await
}

/// The reconciler.
#[derive(Debug)]
struct Approver {
    requests: Lister<CertificateSigningRequest>,
}

/// The response to a SubjectAccessReview.
#[derive(Debug, Deserialize)]
struct Review {
    status: ReviewStatus,
}

#[derive(Debug, Deserialize)]
struct ReviewStatus {
    allowed: bool,
}

impl Reconcile for Approver {
    async fn reconcile(&self, key: &Key, client: &Client) -> Result<Next, Error> {
        let Some(object) = self.requests.find(key) else {
            return Ok(Next::Done);
        };
        let request = object.view::<Request>()?;
        if request.is_issued() || request.is_decided() {
            return Ok(Next::Done);
        }
        let csr = CertificateRequest::read(&request.spec.request.0).map_err(Error::terminal)?;
        let permissions = permissions(&request, &csr);
        for (permission, message) in permissions {
            if is_allowed(client, &request, permission).await? {
                approve(client, &object, message).await?;
                return Ok(Next::Done);
            }
        }
        Ok(if permissions.is_empty() {
            Next::Done
        } else {
            Next::After(RETRY_INTERVAL)
        })
    }
}

/// The permissions any of which approves the request; none unless it is a node's client certificate.
fn permissions(request: &Request, csr: &CertificateRequest) -> &'static [(&'static str, &'static str)] {
    let spec = &request.spec;
    if spec.signer_name != KUBELET_CLIENT || rules::kubelet_client(csr, &spec.usages).is_err() {
        return &[];
    }
    match spec.username == csr.common_name {
        true => &[SELF_NODE, NODE],
        false => &[NODE],
    }
}

/// Whether the requester has this permission.
async fn is_allowed(client: &Client, request: &Request, permission: &str) -> Result<bool, Error> {
    let spec = &request.spec;
    let review_request = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {
            "user": spec.username, "uid": spec.uid, "groups": spec.groups, "extra": spec.extra,
            "resourceAttributes": {
                "group": "certificates.k8s.io", "resource": "certificatesigningrequests",
                "verb": ApiVerb::Create, "subresource": permission, "version": "*",
            },
        },
    });
    let reviews = Gvr::new("authorization.k8s.io", "v1", "subjectaccessreviews");
    let verb = Verb::Create(Payload::json(review_request.to_string()), WriteOptions::default());
    let response = client.call(Target::all(reviews), verb).await?;
    let review: Review = match &response.body {
        Body::Json(bytes) => setpoint_api::json::from_slice(bytes)?,
        Body::Object(object) => object.decode()?,
        body => return Err(Status::internal(format_args!("{body:?} is not a review")).into()),
    };
    Ok(review.status.allowed)
}

async fn approve(client: &Client, object: &Stored, message: &str) -> Result<(), Error> {
    let condition =
        json!({"type": "Approved", "status": "True", "reason": "AutoApproved", "message": message});
    let body = request::with_condition(object, condition)?;
    let handle = client.dynamic(CertificateSigningRequest::resource(), "");
    let name = object.key().name();
    match handle
        .update_subresource(name, "approval", body.to_string())
        .await
    {
        Err(status) if status.is_not_found() => Ok(()),
        written => Ok(written.map(drop)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(signer: &str, user: &str, expected: &[&str]) {
        let mut request = Request::default();
        request.spec.signer_name = signer.to_owned();
        request.spec.username = user.to_owned();
        request.spec.usages = vec!["digital signature".to_owned(), "client auth".to_owned()];
        let csr = CertificateRequest {
            common_name: "system:node:a".to_owned(),
            organizations: vec!["system:nodes".to_owned()],
            ..CertificateRequest::default()
        };
        let found: Vec<&str> = permissions(&request, &csr)
            .iter()
            .map(|(permission, _)| *permission)
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_node_requesting_for_itself_needs_fewer_permissions() {
        check(KUBELET_CLIENT, "system:node:a", &["selfnodeclient", "nodeclient"]);
        check(KUBELET_CLIENT, "system:bootstrap:abcdef", &["nodeclient"]);
        check("kubernetes.io/kubelet-serving", "system:node:a", &[]);
        check("kubernetes.io/kube-apiserver-client", "system:node:a", &[]);
    }
}
