//! CertificateSigningRequest (CSR): a request for a certificate, approved by one user and signed by another.
//!
//! The spec is immutable. `approval` and `status` are separate subresources, so that RBAC can grant approving and
//! signing separately.

mod status;

use std::collections::HashSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use setpoint_api::User;
use setpoint_api::table::Cell;
use setpoint_schema::{Map, Tree, fields};
use setpoint_strategy::columns::{self, Column, NONE};
use setpoint_strategy::{
    FieldLabel, FieldRef, NameRule, Names, PartialRules, RequestFacts, Rules, Scope, Strategy, Subresource,
    top_level,
};
use setpoint_x509::CertificateRequest;

use super::{GROUP, pem, signer_name};

/// The key usages, in the order of error messages.
const USAGES: &[&str] = &[
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];
const MIN_SECONDS: i64 = 600;

/// The `approval` subresource changes the conditions Approved and Denied.
const APPROVAL: PartialRules = PartialRules {
    prepare: prepare_approval,
    validate: validate_approval,
};

#[derive(Debug)]
pub struct CertificateSigningRequest;

impl Strategy for CertificateSigningRequest {
    const KIND: (&'static str, &'static str, &'static str) = (GROUP, "v1", "CertificateSigningRequest");
    const NAMES: Names =
        Names::new("certificatesigningrequests", "certificatesigningrequest").short(&["csr"]);
    const SCOPE: Scope = Scope::Cluster;
    const COLUMNS: &'static [Column] = &[
        columns::NAME,
        columns::AGE,
        Column::text("SignerName", |request, _| {
            columns::or_none(&request.at(fields::SPEC).at(fields::SIGNER_NAME))
        })
        .description("The requested signer."),
        Column::text("Requestor", |request, _| {
            columns::or_empty(&request.at(fields::SPEC).at(fields::USERNAME))
        })
        .description("The user who created the request."),
        Column::text("RequestedDuration", |request, _| {
            let seconds = request.at(fields::SPEC).at(fields::EXPIRATION_SECONDS).find_int();
            Cell::from(seconds.map_or_else(|| NONE.to_owned(), columns::human_duration))
        })
        .description("The requested lifetime of the certificate."),
        Column::text("Condition", |request, _| {
            Cell::from(status::condition_column(&request.at(fields::STATUS)))
        })
        .description("The state of the request."),
    ];
    const FIELDS: &'static [FieldLabel] = &[FieldLabel::new(
        "spec.signerName",
        &[&[fields::SPEC, fields::SIGNER_NAME]],
    )];
    const SUBRESOURCES: &'static [Subresource] =
        &[Subresource::partial("approval", APPROVAL), Subresource::STATUS];
    const RULES: Rules = Rules::DEFAULT
        .reset_fields(&[&[fields::SPEC]])
        .name(NameRule::Custom);

    fn prepare_create(request: &mut Tree, facts: &RequestFacts) {
        top_level::drop(request, fields::STATUS);
        set_requesting_user(request.child(fields::SPEC), &facts.user);
    }

    fn prepare_update(request: &mut Tree, old: &Tree, _facts: &RequestFacts) {
        top_level::keep(request, old, fields::SPEC);
        top_level::keep(request, old, fields::STATUS);
    }

    fn prepare_status(request: &mut Tree, old: &Tree, facts: &RequestFacts) {
        top_level::keep(request, old, fields::SPEC);
        status::keep_approval_conditions(request, old);
        status::default_condition_times(request, old, facts);
    }

    fn validate(request: &FieldRef<'_>, _facts: &RequestFacts) {
        validate_spec(&request.at(fields::SPEC), &FieldRef::absent());
        status::validate(&request.at(fields::STATUS), &FieldRef::absent());
    }

    fn validate_for_update(request: &FieldRef<'_>, old: &FieldRef<'_>, _facts: &RequestFacts) {
        validate_spec(&request.at(fields::SPEC), &old.at(fields::SPEC));
        status::validate(&request.at(fields::STATUS), &old.at(fields::STATUS));
    }

    fn validate_update(request: &FieldRef<'_>, old: &FieldRef<'_>, _facts: &RequestFacts) {
        status::validate_update(request, old, status::AllowedChange::Nothing);
    }

    fn validate_status(request: &FieldRef<'_>, old: &FieldRef<'_>, facts: &RequestFacts) {
        Self::validate_for_update(request, old, facts);
        status::validate_update(request, old, status::AllowedChange::Certificate);
    }
}

/// Keeps everything but the conditions.
fn prepare_approval(request: &mut Tree, old: &Tree, facts: &RequestFacts) {
    status::default_condition_times(request, old, facts);
    let conditions = request.take(&[fields::STATUS, fields::CONDITIONS]);
    top_level::keep(request, old, fields::SPEC);
    top_level::keep(request, old, fields::STATUS);
    match conditions {
        Some(conditions) => request
            .child(fields::STATUS)
            .set(&[fields::CONDITIONS], conditions),
        None => drop(request.take(&[fields::STATUS, fields::CONDITIONS])),
    }
}

fn validate_approval(request: &FieldRef<'_>, old: &FieldRef<'_>, facts: &RequestFacts) {
    CertificateSigningRequest::validate_for_update(request, old, facts);
    status::validate_update(request, old, status::AllowedChange::Approval);
}

/// Sets the requesting user to the caller, whatever the body contains.
fn set_requesting_user(spec: &mut Tree, user: &User) {
    for field in [fields::USERNAME, fields::UID, fields::GROUPS, fields::EXTRA] {
        spec.take(&[field]);
    }
    spec.set(&[fields::USERNAME], user.name.as_str());
    if !user.uid.is_empty() {
        spec.set(&[fields::UID], user.uid.as_str());
    }
    if !user.groups.is_empty() {
        spec.set(&[fields::GROUPS], texts(&user.groups));
    }
    if !user.extra.is_empty() {
        let mut extra = Map::default();
        for (key, values) in &user.extra {
            extra.insert(key.as_str(), texts(values));
        }
        spec.set(&[fields::EXTRA], extra);
    }
}

fn texts(values: &[String]) -> Tree {
    Tree::from(
        values
            .iter()
            .map(|value| Tree::from(value.as_str()))
            .collect::<Vec<_>>(),
    )
}

/// An update may keep what the stored object already violates.
fn validate_spec(spec: &FieldRef<'_>, old: &FieldRef<'_>) {
    if let Err(why) = check_request(spec.at(fields::REQUEST).str()) {
        spec.at(fields::REQUEST).invalid(&why);
    }
    let usages = spec.at(fields::USAGES);
    usages.require();
    if old.at(fields::USAGES).strs().all(|usage| USAGES.contains(&usage)) {
        let unknown = |usage: &FieldRef<'_>| !USAGES.contains(&usage.str());
        let unknown = usages.items().filter(unknown);
        unknown.for_each(|usage| usage.not_supported(USAGES));
    }
    if !has_duplicate(&old.at(fields::USAGES)) {
        let mut seen = HashSet::new();
        let again = usages.items().filter(|usage| !seen.insert(usage.str()));
        again.for_each(|usage| usage.duplicate());
    }
    let signer = spec.at(fields::SIGNER_NAME);
    if signer.str() == signer_name::LEGACY && old.at(fields::SIGNER_NAME).str() != signer_name::LEGACY {
        signer.invalid("the legacy signerName is not allowed via this API version");
    } else {
        signer_name::validate(&signer);
    }
    let seconds = spec.at(fields::EXPIRATION_SECONDS);
    if seconds.is_set() && seconds.int() < MIN_SECONDS {
        seconds.invalid("may not specify a duration less than 600 seconds (10 minutes)");
    }
}

fn has_duplicate(usages: &FieldRef<'_>) -> bool {
    let mut seen = HashSet::new();
    !usages.strs().all(|usage| seen.insert(usage))
}

/// Checks that the bytes are a PKCS#10 request signed by its own key.
fn check_request(base64: &str) -> Result<(), String> {
    let bytes = STANDARD.decode(base64).unwrap_or_default();
    let blocks = pem::blocks(&String::from_utf8_lossy(&bytes));
    let block = blocks
        .first()
        .filter(|block| block.label == "CERTIFICATE REQUEST");
    let block = block.ok_or("PEM block type must be CERTIFICATE REQUEST")?;
    let request = CertificateRequest::from_der(&block.bytes)
        .map_err(|error| format!("asn1: structure error: {error}"))?;
    request
        .verify_signature()
        .map_err(|_| "x509: signature of the certificate request is not valid".to_owned())
}
