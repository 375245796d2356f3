//! Approves what nodes ask for themselves, if they may.

use std::time::Duration;

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use serde::Deserialize;
use serde_json::json;
use setpoint_api::options::WriteOptions;
use setpoint_api::{Body, Gvr, Key, Payload, Status, Stored, Target, Verb};
use setpoint_runtime::{Client, Context, Controller, Error, Lister, Next, Object, Reconcile};
use tokio_util::sync::CancellationToken;

use crate::Config;
use crate::certificates::request::{self, Asked, Request};
use crate::certificates::rules::{self, KUBELET_CLIENT};

/// The name as kube-controller-manager has it.
pub const NAME: &str = "certificatesigningrequest-approving-controller";

/// What a node may be allowed: a right, and what is said when it is approved for that.
const SELF_NODE: (&str, &str) = (
    "selfnodeclient",
    "Auto approving self kubelet client certificate after SubjectAccessReview.",
);
const NODE: (&str, &str) = (
    "nodeclient",
    "Auto approving kubelet client certificate after SubjectAccessReview.",
);
/// Rights may be given later; nothing tells of that.
const ASK_AGAIN: Duration = Duration::from_secs(60);

/// Runs the controller until stopped.
pub async fn run(context: Context, config: Config, stop: CancellationToken) -> Result<(), Error> {
    let reconciler = Approver {
        requests: context.lister()?,
        client: context.client.clone(),
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
    client: Client,
}

/// The answer to a question about a right.
#[derive(Debug, Deserialize)]
struct Review {
    status: ReviewStatus,
}

#[derive(Debug, Deserialize)]
struct ReviewStatus {
    allowed: bool,
}

impl Reconcile for Approver {
    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let Some(object) = self.requests.find(key) else {
            return Ok(Next::Done);
        };
        let request = object.view::<Request>()?;
        if request.is_issued() || request.is_decided() {
            return Ok(Next::Done);
        }
        let asked = Asked::read(&request.spec.request.0).map_err(Error::terminal)?;
        let rights = rights(&request, &asked);
        for (right, message) in rights {
            if self.may(&request, right).await? {
                self.approve(&object, message).await?;
                return Ok(Next::Done);
            }
        }
        Ok(if rights.is_empty() {
            Next::Done
        } else {
            Next::After(ASK_AGAIN)
        })
    }
}

/// The rights by any of which the request is approved; none for what is not of a node.
fn rights(request: &Request, asked: &Asked) -> &'static [(&'static str, &'static str)] {
    let spec = &request.spec;
    if spec.signer_name != KUBELET_CLIENT || rules::kubelet_client(asked, &spec.usages).is_err() {
        return &[];
    }
    match spec.username == asked.common_name {
        true => &[SELF_NODE, NODE],
        false => &[NODE],
    }
}

impl Approver {
    /// Whether the one who asks has a right.
    async fn may(&self, request: &Request, right: &str) -> Result<bool, Error> {
        let spec = &request.spec;
        let question = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {
                "user": spec.username, "uid": spec.uid, "groups": spec.groups, "extra": spec.extra,
                "resourceAttributes": {
                    "group": "certificates.k8s.io", "resource": "certificatesigningrequests", "verb": "create",
                    "subresource": right, "version": "*",
                },
            },
        });
        let reviews = Gvr::new("authorization.k8s.io", "v1", "subjectaccessreviews");
        let verb = Verb::Create(Payload::json(question.to_string()), WriteOptions::default());
        let response = self.client.call(Target::all(reviews), verb).await?;
        let review: Review = match &response.body {
            Body::Document(bytes) => serde_json::from_slice(bytes)?,
            Body::Object(object) => object.decode()?,
            body => return Err(Status::internal(format_args!("{body:?} is no review")).into()),
        };
        Ok(review.status.allowed)
    }

    async fn approve(&self, object: &Stored, message: &str) -> Result<(), Error> {
        let condition =
            json!({"type": "Approved", "status": "True", "reason": "AutoApproved", "message": message});
        let document = request::with_condition(object, condition)?;
        let handle = self.client.dynamic(CertificateSigningRequest::resource(), "");
        let name = object.key().name();
        match handle.update_sub(name, "approval", document.to_string()).await {
            Err(status) if status.is_not_found() => Ok(()),
            written => Ok(written.map(drop)?),
        }
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
        let asked = Asked {
            common_name: "system:node:a".to_owned(),
            organizations: vec!["system:nodes".to_owned()],
            ..Asked::default()
        };
        let found: Vec<&str> = rights(&request, &asked).iter().map(|(right, _)| *right).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_node_that_asks_for_itself_needs_less() {
        check(KUBELET_CLIENT, "system:node:a", &["selfnodeclient", "nodeclient"]);
        check(KUBELET_CLIENT, "system:bootstrap:abcdef", &["nodeclient"]);
        check("kubernetes.io/kubelet-serving", "system:node:a", &[]);
        check("kubernetes.io/kube-apiserver-client", "system:node:a", &[]);
    }
}
