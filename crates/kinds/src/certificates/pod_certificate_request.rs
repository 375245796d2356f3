//! PodCertificateRequest: a kubelet's request for a certificate for one of its pods. It is immutable once it is
//! issued, denied or failed.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use setpoint_api::table::Cell;
use setpoint_schema::{Tree, fields};
use setpoint_strategy::columns::{self, Column, NONE};
use setpoint_strategy::{
    EtcdEncoding, FieldLabel, FieldRef, Names, RequestFacts, Rules, Strategy, Subresource, name,
};
use setpoint_x509::CertificateRequest;

use super::{GROUP, signer_name};
use crate::shared::condition;

const MIN_SECONDS: i64 = 3600;
const MAX_SECONDS: i64 = 91 * 86_400;
/// Signers that the Kubernetes project reserves issue certificates for one day at most.
const MAX_RESERVED_SECONDS: i64 = 86_400;
const REQUEST_BYTES: usize = 10 * 1024;
const UID_BYTES: usize = 128;
const FINAL_CONDITIONS: &[&str] = &["Issued", "Denied", "Failed"];

#[derive(Debug)]
pub struct PodCertificateRequest;

impl Strategy for PodCertificateRequest {
    const KIND: (&'static str, &'static str, &'static str) = (GROUP, "v1", "PodCertificateRequest");
    const NAMES: Names = Names::new("podcertificaterequests", "podcertificaterequest");
    const COLUMNS: &'static [Column] = &[
        columns::NAME,
        Column::text("PodName", |request, _| {
            columns::or_empty(&request.at(fields::SPEC).at(fields::POD_NAME))
        })
        .description("The pod that the certificate is for."),
        Column::text("ServiceAccountName", |request, _| {
            columns::or_empty(&request.at(fields::SPEC).at(fields::SERVICE_ACCOUNT_NAME))
        })
        .description("The service account of the pod."),
        Column::text("NodeName", |request, _| {
            columns::or_empty(&request.at(fields::SPEC).at(fields::NODE_NAME))
        })
        .description("The node of the pod."),
        Column::text("SignerName", |request, _| {
            columns::or_empty(&request.at(fields::SPEC).at(fields::SIGNER_NAME))
        })
        .description("The requested signer."),
        Column::text("State", |request, _| {
            Cell::from(final_condition(request).unwrap_or("Pending"))
        })
        .description("The state of the request."),
        Column::text("UnverifiedUserAnnotations", |request, _| {
            Cell::from(annotations(
                &request.at(fields::SPEC).at(fields::UNVERIFIED_USER_ANNOTATIONS),
            ))
        })
        .description("The unverified user annotations."),
    ];
    const FIELDS: &'static [FieldLabel] = &[
        FieldLabel::new("spec.signerName", &[&[fields::SPEC, fields::SIGNER_NAME]]),
        FieldLabel::new("spec.podName", &[&[fields::SPEC, fields::POD_NAME]]),
        FieldLabel::new("spec.nodeName", &[&[fields::SPEC, fields::NODE_NAME]]),
    ];
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::STATUS];
    const RULES: Rules = Rules::DEFAULT
        .no_unconditional_update()
        .discovery_storage_version("v1beta1")
        .etcd_encoding(EtcdEncoding::ProtobufIn("v1beta1"));

    fn default_fields(request: &mut Tree) {
        request
            .child(fields::SPEC)
            .set_default(fields::MAX_EXPIRATION_SECONDS, MAX_RESERVED_SECONDS);
    }

    fn validate(request: &FieldRef<'_>, _facts: &RequestFacts) {
        let spec = request.at(fields::SPEC);
        signer_name::validate(&spec.at(fields::SIGNER_NAME));
        for (key, value) in spec.at(fields::UNVERIFIED_USER_ANNOTATIONS).entries() {
            name::report(key, name::check_qualified_name(key), value.errors());
        }
        for (who, uid) in [
            (fields::POD_NAME, fields::POD_UID),
            (fields::SERVICE_ACCOUNT_NAME, fields::SERVICE_ACCOUNT_UID),
            (fields::NODE_NAME, fields::NODE_UID),
        ] {
            name::check(&spec.at(who), name::check_dns1123_subdomain);
            validate_uid(&spec.at(uid));
        }
        validate_seconds(&spec);
        validate_request(&spec);
    }

    fn validate_for_update(_request: &FieldRef<'_>, _old: &FieldRef<'_>, _facts: &RequestFacts) {}

    fn validate_update(request: &FieldRef<'_>, old: &FieldRef<'_>, _facts: &RequestFacts) {
        request.at(fields::SPEC).immutable(&old.at(fields::SPEC));
    }

    fn validate_status(request: &FieldRef<'_>, old: &FieldRef<'_>, _facts: &RequestFacts) {
        let (status, before) = (request.at(fields::STATUS), old.at(fields::STATUS));
        let conditions = status.at(fields::CONDITIONS);
        validate_final_conditions(&conditions);
        condition::validate(&conditions);
        if !request.errors().is_empty() || status.is_same(&before) {
            return;
        }
        if final_condition(old).is_some() {
            status.invalid_as(
                (),
                "immutable after PodCertificateRequest is issued, denied, or failed",
            );
        } else if final_condition(request).is_none() {
            status.invalid_as(
                (),
                "status is immutable unless transitioning to \"Issued\", \"Denied\", or \"Failed\"",
            );
        }
    }
}

fn validate_uid(uid: &FieldRef<'_>) {
    if uid.is_empty() {
        uid.invalid("must not be empty");
    }
    if uid.str().len() > UID_BYTES {
        uid.too_long(UID_BYTES);
    }
}

fn validate_seconds(spec: &FieldRef<'_>) {
    let reserved = signer_name::is_reserved(spec.at(fields::SIGNER_NAME).str());
    let max = if reserved {
        MAX_RESERVED_SECONDS
    } else {
        MAX_SECONDS
    };
    let seconds = spec.at(fields::MAX_EXPIRATION_SECONDS);
    if !(MIN_SECONDS..=max).contains(&seconds.int()) {
        seconds.invalid(&format!("must be in the range [{MIN_SECONDS}, {max}]"));
    }
}

/// The request: a PKCS#10 request. The older fields, a public key with a proof of possession, are reported.
fn validate_request(spec: &FieldRef<'_>) {
    let request = spec.at(fields::STUB_PKCS10_REQUEST);
    if request.str().is_empty() {
        let ways = "exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set";
        return spec.errors().invalid_omitting_value(ways);
    }
    let bytes = STANDARD.decode(request.str()).unwrap_or_default();
    if bytes.len() > REQUEST_BYTES {
        request.too_long(REQUEST_BYTES);
        return;
    }
    match CertificateRequest::from_der(&bytes) {
        Err(_) => request
            .errors()
            .invalid_omitting_value("must be a valid PKCS#10 CSR"),
        Ok(parsed) if parsed.verify_signature().is_err() => {
            request.errors().invalid_omitting_value("invalid signature");
        }
        Ok(_) => {}
    }
}

/// Validates the types of the conditions. Kubernetes prints the path of an item with a dot.
fn validate_final_conditions(conditions: &FieldRef<'_>) {
    let mut known = 0;
    for (index, condition) in conditions.items().enumerate() {
        let errors = conditions.errors().at(&format!("[{index}]"));
        let kind = condition.at(fields::TYPE).with_errors(errors.at(fields::TYPE));
        if !FINAL_CONDITIONS.contains(&kind.str()) {
            kind.not_supported(FINAL_CONDITIONS);
            continue;
        }
        known += 1;
        if known > 1 {
            kind.invalid(
                "There may be at most one condition with type \"Issued\", \"Denied\", or \"Failed\"",
            );
        }
        let status = condition
            .at(fields::STATUS)
            .with_errors(errors.at(fields::STATUS));
        if status.str() != "True" {
            status.not_supported(&["True"]);
        }
    }
}

/// The type of the terminal condition, if there is one.
fn final_condition<'a>(request: &FieldRef<'a>) -> Option<&'a str> {
    let conditions = request.at(fields::STATUS).at(fields::CONDITIONS);
    let last = conditions
        .items()
        .rfind(|condition| FINAL_CONDITIONS.contains(&condition.at(fields::TYPE).str()));
    last.map(|condition| condition.at(fields::TYPE).str())
}

fn annotations(annotations: &FieldRef<'_>) -> String {
    if annotations.is_empty() {
        return NONE.to_owned();
    }
    let pairs = annotations
        .entries()
        .map(|(key, value)| format!("{key}={}", value.str()));
    pairs.collect::<Vec<_>>().join(",")
}
