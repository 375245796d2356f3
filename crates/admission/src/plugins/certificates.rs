//! CertificateApproval, CertificateSigning and CertificateSubjectRestriction: who may approve, who may sign, and what
//! nobody may ask for.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::FromDer;

use setpoint_api::Status;
use setpoint_registry::{Operation, Review};
use setpoint_schema::Tree;

use crate::about;
use crate::chain::{Plugin, Right, Rights};

const GROUP: &str = "certificates.k8s.io";
const REQUESTS: &str = "certificatesigningrequests";
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";
const MASTERS: &str = "system:masters";

/// The rule of who approves.
#[derive(Debug)]
pub(crate) struct CertificateApproval(pub(crate) Option<Arc<dyn Rights>>);

/// The rule of who signs.
#[derive(Debug)]
pub(crate) struct CertificateSigning(pub(crate) Option<Arc<dyn Rights>>);

/// The rule of what nobody may ask for.
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
        let (Some(old), Some(new)) = (review.old_document(), review.object.as_deref()) else {
            return Ok(());
        };
        let null = Tree::Null;
        let same = |field: &str| {
            let part = |object: &Tree| object.at(&["status", field]).unwrap_or(&null).clone();
            part(&old).means_same(&part(new))
        };
        if same("certificate") && same("conditions") {
            return Ok(());
        }
        require(review, self.0.as_deref(), "sign")
    }
}

impl Plugin for CertificateSubjectRestriction {
    fn name(&self) -> &'static str {
        "CertificateSubjectRestriction"
    }

    fn validate(&self, review: &mut Review<'_>) -> Result<(), Status> {
        if review.operation != Operation::Create || !about::is(review, GROUP, REQUESTS) {
            return Ok(());
        }
        let request = review.object.as_deref();
        let text = |field: &str| {
            request
                .and_then(|request| request.str_at(&["spec", field]))
                .unwrap_or_default()
        };
        if text("signerName") == CLIENT_SIGNER && asks_for_masters(text("request")) {
            let why = format!("use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed");
            return Err(about::forbidden(review, &why));
        }
        Ok(())
    }
}

fn updates(review: &Review<'_>, part: &str) -> bool {
    review.operation == Operation::Update
        && review.subresource == Some(part)
        && about::is_any(review, GROUP, REQUESTS)
}

/// The caller needs the right to the signer itself, or to all signers of its domain.
fn require(review: &Review<'_>, rights: Option<&dyn Rights>, verb: &str) -> Result<(), Status> {
    let Some(rights) = rights else {
        return Ok(());
    };
    let object = review.object.as_deref();
    let signer = object
        .and_then(|object| object.str_at(&["spec", "signerName"]))
        .unwrap_or_default();
    let domain = signer.split('/').next().unwrap_or_default();
    let may = |name: &str| {
        let right = Right {
            verb,
            group: GROUP,
            resource: "signers",
            subresource: "",
            namespace: "",
            name,
        };
        rights.may(review.user, &right)
    };
    if may(signer) || may(&format!("{domain}/*")) {
        return Ok(());
    }
    let why = format!("user not permitted to {verb} requests with signerName {signer:?}");
    Err(about::forbidden(review, &why))
}

fn asks_for_masters(base64: &str) -> bool {
    let pem = STANDARD.decode(base64).unwrap_or_default();
    let Ok((_, block)) = x509_parser::pem::parse_x509_pem(&pem) else {
        return false;
    };
    let Ok((_, request)) = X509CertificationRequest::from_der(&block.contents) else {
        return false;
    };
    let subject = &request.certification_request_info.subject;
    subject
        .iter_organization()
        .any(|organization| organization.as_str().is_ok_and(|name| name == MASTERS))
}
