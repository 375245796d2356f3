//! CertificateApproval, CertificateSigning, ClusterTrustBundleAttest and CertificateSubjectRestriction: which users may
//! approve, sign and attest, and the subjects that no user may request.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls_pki_types::CertificateSigningRequestDer;
use rustls_pki_types::pem::PemObject as _;

use setpoint_api::Status;
use setpoint_api::field::Errors;
use setpoint_registry_api::{Operation, Review};
use setpoint_schema::{Tree, fields};
use setpoint_strategy::meta;
use setpoint_x509::CertificateRequest;

use crate::chain::{AccessAttributes, AccessChecker, Plugin};
use crate::review;

const GROUP: &str = "certificates.k8s.io";
const REQUESTS: &str = "certificatesigningrequests";
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";
const MASTERS: &str = "system:masters";

/// Requires the verb `approve` on the signer.
#[derive(Debug)]
pub(crate) struct CertificateApproval(pub(crate) Option<Arc<dyn AccessChecker>>);

/// Requires the verb `sign` on the signer.
#[derive(Debug)]
pub(crate) struct CertificateSigning(pub(crate) Option<Arc<dyn AccessChecker>>);

/// Requires the verb `attest` on the signer of a ClusterTrustBundle.
#[derive(Debug)]
pub(crate) struct ClusterTrustBundleAttest(pub(crate) Option<Arc<dyn AccessChecker>>);

/// Requires the verb `sign` on the signer, for the status of a PodCertificateRequest. It is no plugin upstream, but a rule
/// of the kind.
#[derive(Debug)]
pub(crate) struct PodCertificateSigning(pub(crate) Option<Arc<dyn AccessChecker>>);

/// Rejects client certificate requests for the group `system:masters`.
#[derive(Debug)]
pub(crate) struct CertificateSubjectRestriction;

impl Plugin for CertificateApproval {
    fn name(&self) -> &'static str {
        "CertificateApproval"
    }

    fn validate(&self, review: &mut Review<'_>) -> Result<(), Status> {
        if !updates(review, "approval") {
            return Ok(());
        }
        require(review, self.0.as_deref(), "approve")
    }
}

impl Plugin for CertificateSigning {
    fn name(&self) -> &'static str {
        "CertificateSigning"
    }

    fn validate(&self, review: &mut Review<'_>) -> Result<(), Status> {
        if !updates(review, "status") {
            return Ok(());
        }
        let (Some(old), Some(new)) = (review.decode_old(), review.object.as_deref()) else {
            return Ok(());
        };
        let null = Tree::Null;
        let same = |field: &str| {
            let value = |object: &Tree| object.at(&[fields::STATUS, field]).unwrap_or(&null).clone();
            value(&old).semantic_eq(&value(new))
        };
        if same("certificate") && same("conditions") {
            return Ok(());
        }
        require(review, self.0.as_deref(), "sign")
    }
}

impl Plugin for ClusterTrustBundleAttest {
    fn name(&self) -> &'static str {
        "ClusterTrustBundleAttest"
    }

    fn validate(&self, review: &mut Review<'_>) -> Result<(), Status> {
        let written = matches!(review.operation, Operation::Create | Operation::Update);
        if !written || !review::is_resource_or_subresource(review, GROUP, "clustertrustbundles") {
            return Ok(());
        }
        let signer = signer_name(review.object.as_deref());
        let access = self.0.as_deref();
        if signer.is_empty() || is_for_collector(review) || is_permitted(review, access, "attest", signer) {
            return Ok(());
        }
        let why = format!("user not permitted to attest for signerName {signer:?}");
        Err(review::forbidden(review, &why))
    }
}

impl Plugin for PodCertificateSigning {
    fn name(&self) -> &'static str {
        "PodCertificateSigning"
    }

    fn validate(&self, review: &mut Review<'_>) -> Result<(), Status> {
        let is_status = review.operation == Operation::Update && review.subresource == Some("status");
        if !is_status || !review::is_resource_or_subresource(review, GROUP, "podcertificaterequests") {
            return Ok(());
        }
        let (Some(old), Some(new)) = (review.decode_old(), review.object.as_deref()) else {
            return Ok(());
        };
        let status = |object: &Tree| object.get(fields::STATUS).cloned().unwrap_or_default();
        let signer = signer_name(Some(&old));
        let is_same = status(&old).semantic_eq(&status(new));
        if is_same || is_permitted(review, self.0.as_deref(), "sign", signer) {
            return Ok(());
        }
        let errors = Errors::default();
        let user = &review.user.name;
        errors
            .at(fields::SPEC)
            .at(fields::SIGNER_NAME)
            .forbidden(&format!(
                "User {user:?} is not permitted to \"sign\" for signer {signer:?}"
            ));
        Err(Status::invalid(&review.kind.gvk, review.name, &errors.into_vec()))
    }
}

impl Plugin for CertificateSubjectRestriction {
    fn name(&self) -> &'static str {
        "CertificateSubjectRestriction"
    }

    fn validate(&self, review: &mut Review<'_>) -> Result<(), Status> {
        if review.operation != Operation::Create || !review::is_resource(review, GROUP, REQUESTS) {
            return Ok(());
        }
        let request = review.object.as_deref();
        let text = |field: &str| {
            request
                .and_then(|request| request.str_at(&[fields::SPEC, field]))
                .unwrap_or_default()
        };
        if text("signerName") == CLIENT_SIGNER && requests_masters_group(text("request")) {
            let why = format!("use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed");
            return Err(review::forbidden(review, &why));
        }
        Ok(())
    }
}

/// Whether an update changes only the fields of the garbage collector.
fn is_for_collector(review: &Review<'_>) -> bool {
    let (Some(mut old), Some(new)) = (review.decode_old(), review.object.as_deref()) else {
        return false;
    };
    for field in [
        fields::OWNER_REFERENCES,
        fields::FINALIZERS,
        fields::MANAGED_FIELDS,
    ] {
        meta::clear(&mut old, field);
        meta::copy(&mut old, new, field);
    }
    old.semantic_eq(new)
}

fn updates(review: &Review<'_>, subresource: &str) -> bool {
    review.operation == Operation::Update
        && review.subresource == Some(subresource)
        && review::is_resource_or_subresource(review, GROUP, REQUESTS)
}

/// Requires the verb on the signer of the request.
fn require(review: &Review<'_>, access: Option<&dyn AccessChecker>, verb: &str) -> Result<(), Status> {
    let signer = signer_name(review.object.as_deref());
    if is_permitted(review, access, verb, signer) {
        return Ok(());
    }
    let why = format!("user not permitted to {verb} requests with signerName {signer:?}");
    Err(review::forbidden(review, &why))
}

fn signer_name(object: Option<&Tree>) -> &str {
    object
        .and_then(|object| object.str_at(&[fields::SPEC, fields::SIGNER_NAME]))
        .unwrap_or_default()
}

/// Whether the user has the verb on the signer, or on all signers of its domain.
fn is_permitted(review: &Review<'_>, access: Option<&dyn AccessChecker>, verb: &str, signer: &str) -> bool {
    let domain = signer.split('/').next().unwrap_or_default();
    let is_allowed = |name: &str| {
        let attributes = AccessAttributes {
            verb,
            group: GROUP,
            resource: "signers",
            subresource: "",
            namespace: "",
            name,
        };
        access.is_none_or(|access| access.is_allowed(review.user, &attributes))
    };
    is_allowed(signer) || is_allowed(&format!("{domain}/*"))
}

fn requests_masters_group(base64: &str) -> bool {
    let is_masters =
        |request: &CertificateRequest<'_>| request.subject.organizations().any(|name| name == MASTERS);
    read_request(base64, is_masters).unwrap_or_default()
}

/// Reads a certificate request as a CertificateSigningRequest has it: PEM, in base64.
pub(super) fn read_request<T>(
    base64: &str,
    read: impl FnOnce(&CertificateRequest<'_>) -> T,
) -> Result<T, String> {
    let pem = STANDARD.decode(base64).unwrap_or_default();
    let der = CertificateSigningRequestDer::from_pem_slice(&pem)
        .map_err(|_| "PEM block type must be CERTIFICATE REQUEST".to_owned())?;
    let request = CertificateRequest::from_der(&der).map_err(|error| error.to_string())?;
    Ok(read(&request))
}
