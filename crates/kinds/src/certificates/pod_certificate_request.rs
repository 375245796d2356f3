//! PodCertificateRequest: a node's request for a certificate for one of its pods. Answered once, and then fixed.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::FromDer;

use setpoint_api::table::Cell;

use super::{GROUP, signer_name};
use crate::at::At;
use crate::columns::{self, Column, NONE};
use crate::shared::name;
use crate::strategy::{Field, Names, Rules, Strategy, Subresource};

const LEAST_SECONDS: i64 = 3600;
const MOST_SECONDS: i64 = 91 * 86_400;
/// Signers that the Kubernetes project reserves sign for a day at most.
const MOST_RESERVED_SECONDS: i64 = 86_400;
const REQUEST_BYTES: usize = 10 * 1024;
const UID_BYTES: usize = 128;
const ANSWERS: &[&str] = &["Issued", "Denied", "Failed"];

#[derive(Debug)]
pub struct PodCertificateRequest;

impl Strategy for PodCertificateRequest {
    const KIND: (&'static str, &'static str, &'static str) = (GROUP, "v1", "PodCertificateRequest");
    const NAMES: Names = Names::new("podcertificaterequests", "podcertificaterequest");
    const COLUMNS: &'static [Column] = &[
        columns::NAME,
        Column::text("PodName", |request, _| {
            columns::or_empty(&request.at("spec").at("podName"))
        })
        .about("The pod that is to be certified."),
        Column::text("ServiceAccountName", |request, _| {
            columns::or_empty(&request.at("spec").at("serviceAccountName"))
        })
        .about("Who the pod runs as."),
        Column::text("NodeName", |request, _| {
            columns::or_empty(&request.at("spec").at("nodeName"))
        })
        .about("Where the pod runs."),
        Column::text("SignerName", |request, _| {
            columns::or_empty(&request.at("spec").at("signerName"))
        })
        .about("Who is to sign."),
        Column::text("State", |request, _| {
            Cell::from(answer(request).unwrap_or("Pending"))
        })
        .about("What was answered."),
        Column::text("UnverifiedUserAnnotations", |request, _| {
            Cell::from(annotations(&request.at("spec").at("unverifiedUserAnnotations")))
        })
        .about("What the pod says of itself."),
    ];
    const FIELDS: &'static [Field] = &[
        Field::new("spec.signerName", &[&["spec", "signerName"]]),
        Field::new("spec.podName", &[&["spec", "podName"]]),
        Field::new("spec.nodeName", &[&["spec", "nodeName"]]),
    ];
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::STATUS];
    const RULES: Rules = Rules {
        unconditional_update: false,
        said_stored: "v1beta1",
        ..Rules::DEFAULT
    };

    fn validate(request: &At<'_>) {
        let spec = request.at("spec");
        signer_name::validate(&spec.at("signerName"));
        for (key, value) in spec.at("unverifiedUserAnnotations").entries() {
            name::report(key, name::qualified(key), value.errors());
        }
        for (who, uid) in [
            ("podName", "podUID"),
            ("serviceAccountName", "serviceAccountUID"),
            ("nodeName", "nodeUID"),
        ] {
            name::check(&spec.at(who), name::subdomain);
            validate_uid(&spec.at(uid));
        }
        validate_seconds(&spec);
        validate_request(&spec);
    }

    fn validate_again(_request: &At<'_>, _old: &At<'_>) {}

    fn validate_update(request: &At<'_>, old: &At<'_>) {
        request.at("spec").immutable(&old.at("spec"));
    }

    fn validate_status(request: &At<'_>, old: &At<'_>) {
        validate_answers(&request.at("status").at("conditions"));
        let (status, before) = (request.at("status"), old.at("status"));
        if status.is_same(&before) {
            return;
        }
        if answer(old).is_some() {
            status.invalid_as(
                (),
                "immutable after PodCertificateRequest is issued, denied, or failed",
            );
        } else if answer(request).is_none() {
            status.invalid_as(
                (),
                "status is immutable unless transitioning to \"Issued\", \"Denied\", or \"Failed\"",
            );
        }
    }
}

fn validate_uid(uid: &At<'_>) {
    if uid.is_empty() {
        uid.invalid("must not be empty");
    }
    if uid.str().len() > UID_BYTES {
        uid.too_long(UID_BYTES);
    }
}

fn validate_seconds(spec: &At<'_>) {
    let reserved = signer_name::is_reserved(spec.at("signerName").str());
    let most = if reserved {
        MOST_RESERVED_SECONDS
    } else {
        MOST_SECONDS
    };
    let seconds = spec.at("maxExpirationSeconds");
    if !(LEAST_SECONDS..=most).contains(&seconds.int()) {
        seconds.invalid(&format!("must be in the range [{LEAST_SECONDS}, {most}]"));
    }
}

/// The request itself. The older way of a bare key with a proof is no longer written in this version, but named.
fn validate_request(spec: &At<'_>) {
    let request = spec.at("stubPKCS10Request");
    if request.str().is_empty() {
        let ways = "exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set";
        return spec.invalid_as((), ways);
    }
    let bytes = STANDARD.decode(request.str()).unwrap_or_default();
    if bytes.len() > REQUEST_BYTES {
        request.too_long(REQUEST_BYTES);
        return;
    }
    match X509CertificationRequest::from_der(&bytes) {
        Err(_) => request.invalid("must be a valid PKCS#10 CSR"),
        Ok((_, parsed)) if parsed.verify_signature().is_err() => {
            request.invalid("must be signed by its own key")
        }
        Ok(_) => {}
    }
}

fn validate_answers(conditions: &At<'_>) {
    let mut known = 0;
    for condition in conditions.items() {
        if !ANSWERS.contains(&condition.at("type").str()) {
            condition.at("type").not_supported(ANSWERS);
            continue;
        }
        known += 1;
        if known > 1 {
            condition.at("type").invalid(
                "There may be at most one condition with type \"Issued\", \"Denied\", or \"Failed\"",
            );
        }
        if condition.at("status").str() != "True" {
            condition.at("status").not_supported(&["True"]);
        }
    }
}

/// What was answered, if anything was.
fn answer<'a>(request: &At<'a>) -> Option<&'a str> {
    let conditions = request.at("status").at("conditions");
    let last = conditions
        .items()
        .rfind(|condition| ANSWERS.contains(&condition.at("type").str()));
    last.map(|condition| condition.at("type").str())
}

fn annotations(annotations: &At<'_>) -> String {
    if annotations.is_empty() {
        return NONE.to_owned();
    }
    let pairs = annotations
        .entries()
        .map(|(key, value)| format!("{key}={}", value.str()));
    pairs.collect::<Vec<_>>().join(",")
}
