//! A node requests certificates of kubelets in its own name only.

use setpoint_registry_api::{Operation, Review};
use setpoint_schema::fields;

use super::{Outcome, PREFIX, forbid, text};
use crate::plugins::certificates;

/// The signers of certificates that authenticate as a node, or serve as one.
const KUBELET_SIGNERS: [&str; 2] = [
    "kubernetes.io/kubelet-serving",
    "kubernetes.io/kube-apiserver-client-kubelet",
];

pub(super) fn check(review: &Review<'_>, node: &str) -> Outcome {
    let (Operation::Create, Some(request)) = (review.operation, review.object.as_deref()) else {
        return Ok(());
    };
    if !KUBELET_SIGNERS.contains(&text(request, &[fields::SPEC, fields::SIGNER_NAME])) {
        return Ok(());
    }
    let encoded = text(request, &[fields::SPEC, fields::REQUEST]);
    let expected = format!("{PREFIX}{node}");
    let is_own = certificates::read_request(encoded, |request| {
        request.subject.common_names().last() == Some(&expected)
    });
    match is_own {
        Ok(true) => Ok(()),
        Ok(false) => forbid(format!("can only create a node CSR with CN={expected}")),
        Err(error) => forbid(format!("unable to parse csr: {error}")),
    }
}
