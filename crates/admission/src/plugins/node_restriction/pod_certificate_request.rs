//! A node requests certificates for the pods on it, of signers that the pods use.

use setpoint_registry_api::{Operation, Review};
use setpoint_schema::{Tree, fields};
use setpoint_strategy::meta;

use super::{MIRROR, Outcome, fail, find, forbid, is_allowed, operation_name, text};
use crate::chain::AccessChecker;

/// The verb on a signer, as resource, for certificates of the account that is its name.
const VERB: &str = "request-serviceaccounts-podcertificate-signer";

pub(super) fn check(review: &Review<'_>, node: &str, access: Option<&dyn AccessChecker>) -> Outcome {
    if review.operation != Operation::Create {
        return forbid(format!(
            "unexpected operation {}",
            operation_name(review.operation)
        ));
    }
    if let Some(subresource) = review.subresource {
        return forbid(format!("unexpected subresource {subresource}"));
    }
    let Some(request) = review.object.as_deref() else {
        return forbid("unexpected type <nil>");
    };
    let pod_key = format!("{}/{}", review.namespace, spec(request, fields::POD_NAME));
    check_node(review, node, request, &pod_key)?;
    let pod = check_pod(review, node, request, &pod_key)?;
    check_account(review, request, &pod, &pod_key)?;
    check_signer(review, access, request, &pod, &pod_key)
}

fn spec<'a>(request: &'a Tree, field: &str) -> &'a str {
    text(request, &[fields::SPEC, field])
}

fn check_node(review: &Review<'_>, node: &str, request: &Tree, pod_key: &str) -> Outcome {
    let named = spec(request, fields::NODE_NAME);
    if named != node {
        return forbid(format!(
            "PodCertificateRequest.Spec.NodeName={named:?}, which is not the requesting node {node:?}"
        ));
    }
    let Some(stored) = find(review, "nodes", "", node) else {
        return fail(format!(
            "while retrieving node {node:?} named in the PodCertificateRequest: node {node:?} not found"
        ));
    };
    let uid = spec(request, fields::NODE_UID);
    match uid == stored.uid() {
        true => Ok(()),
        false => fail(format!(
            "PodCertificateRequest for pod {pod_key:?} names node UID {uid:?}, inconsistent with the running node ({:?})",
            stored.uid()
        )),
    }
}

/// The pod of the request, which must run on the node.
fn check_pod(review: &Review<'_>, node: &str, request: &Tree, pod_key: &str) -> Outcome<Tree> {
    let name = spec(request, fields::POD_NAME);
    let Some(stored) = find(review, "pods", review.namespace, name) else {
        return fail(format!(
            "while retrieving pod {pod_key:?} named in the PodCertificateRequest: pod {name:?} not found"
        ));
    };
    let uid = spec(request, fields::POD_UID);
    if uid != stored.uid() {
        return fail(format!(
            "PodCertificateRequest for pod {pod_key:?} contains pod UID ({uid:?}) which differs from running pod {:?}",
            stored.uid()
        ));
    }
    if stored.field("spec.nodeName") != Some(node) {
        return forbid(format!(
            "pod {pod_key:?} is not running on node {node:?} named in the PodCertificateRequest"
        ));
    }
    let pod: Tree = stored.decode().unwrap_or_default();
    match meta::entry(&pod, fields::ANNOTATIONS, MIRROR) {
        Some(_) => forbid(format!("pod {pod_key:?} is a mirror pod")),
        None => Ok(pod),
    }
}

fn check_account(review: &Review<'_>, request: &Tree, pod: &Tree, pod_key: &str) -> Outcome {
    let (name, own) = (
        spec(request, fields::SERVICE_ACCOUNT_NAME),
        spec(pod, fields::SERVICE_ACCOUNT_NAME),
    );
    if name != own {
        return forbid(format!(
            "PodCertificateRequest for pod {pod_key:?} contains serviceAccountName ({name:?}) that differs from \
             running pod ({own:?})"
        ));
    }
    let Some(stored) = find(review, "serviceaccounts", review.namespace, name) else {
        return fail(format!(
            "while retrieving service account \"{}/{name}\" named in the PodCertificateRequest: serviceaccount \
             {name:?} not found",
            review.namespace
        ));
    };
    let uid = spec(request, fields::SERVICE_ACCOUNT_UID);
    match uid == stored.uid() {
        true => Ok(()),
        false => fail(format!(
            "PodCertificateRequest for pod {pod_key:?} names service account UID {uid:?}, which differs from the \
             running service account ({:?})",
            stored.uid()
        )),
    }
}

fn check_signer(
    review: &Review<'_>,
    access: Option<&dyn AccessChecker>,
    request: &Tree,
    pod: &Tree,
    pod_key: &str,
) -> Outcome {
    let signer = spec(request, fields::SIGNER_NAME);
    let account = spec(request, fields::SERVICE_ACCOUNT_NAME);
    if projects_certificate(pod, signer) {
        return Ok(());
    }
    // A resource in a rule cannot have a slash.
    let resource = signer.replace('/', ":");
    match is_allowed(review, access, VERB, (&resource, account)) {
        true => Ok(()),
        false => forbid(format!(
            "pod {pod_key:?} does not mount a podCertificate projected volume for signer {signer:?}"
        )),
    }
}

fn projects_certificate(pod: &Tree, signer: &str) -> bool {
    let volumes = pod
        .get(fields::SPEC)
        .map_or(&[][..], |spec| spec.items(fields::VOLUMES));
    let projected = volumes.iter().filter_map(|volume| volume.get(fields::PROJECTED));
    let mut sources = projected.flat_map(|projected| projected.items(fields::SOURCES));
    sources.any(|source| text(source, &[fields::POD_CERTIFICATE, fields::SIGNER_NAME]) == signer)
}
