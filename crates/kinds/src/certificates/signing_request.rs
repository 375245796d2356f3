//! CertificateSigningRequest: someone's request for a certificate, approved or denied by one, signed by another.
//!
//! The request itself never changes. Approval and the certificate have an address of their own each, so that who may
//! approve and who may sign can be told apart.

mod status;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::FromDer;

use setpoint_api::User;
use setpoint_api::table::Cell;
use setpoint_schema::{Map, Tree};

use super::{GROUP, pem, signer_name};
use crate::at::At;
use crate::columns::{self, Column, NONE};
use crate::parts;
use crate::strategy::{Facts, Field, NameRule, Names, Rules, Scope, Strategy, Subresource};

/// What a key may be used for, in the order messages list it.
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
const LEAST_SECONDS: i64 = 600;

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
            columns::or_none(&request.at("spec").at("signerName"))
        })
        .about("Who is to sign."),
        Column::text("Requestor", |request, _| {
            columns::or_empty(&request.at("spec").at("username"))
        })
        .about("Who asks."),
        Column::text("RequestedDuration", |request, _| {
            let seconds = request.at("spec").at("expirationSeconds").find_int();
            Cell::from(seconds.map_or_else(|| NONE.to_owned(), columns::human))
        })
        .about("For how long the certificate is to be good."),
        Column::text("Condition", |request, _| {
            Cell::from(status::word(&request.at("status")))
        })
        .about("How far the request is."),
    ];
    const FIELDS: &'static [Field] = &[Field::new("spec.signerName", &[&["spec", "signerName"]])];
    const SUBRESOURCES: &'static [Subresource] = &[
        Subresource::slice("approval", &["get", "patch", "update"]),
        Subresource::STATUS,
    ];
    const RULES: Rules = Rules {
        resets: &[&["spec"]],
        name: NameRule::Own,
        ..Rules::DEFAULT
    };

    fn prepare_create(request: &mut Tree, facts: &Facts) {
        parts::drop(request, "status");
        name_requestor(request.child("spec"), &facts.user);
    }

    fn prepare_update(request: &mut Tree, old: &Tree, _facts: &Facts) {
        parts::keep(request, old, "spec");
        parts::keep(request, old, "status");
    }

    fn prepare_status(request: &mut Tree, old: &Tree, facts: &Facts) {
        parts::keep(request, old, "spec");
        status::keep_decisions(request, old);
        status::fill_times(request, old, facts);
    }

    fn prepare_part(request: &mut Tree, _name: &str, old: &Tree, facts: &Facts) {
        status::fill_times(request, old, facts);
        let conditions = request.take(&["status", "conditions"]);
        parts::keep(request, old, "spec");
        parts::keep(request, old, "status");
        match conditions {
            Some(conditions) => request.child("status").set(&["conditions"], conditions),
            None => drop(request.take(&["status", "conditions"])),
        }
    }

    fn validate(request: &At<'_>) {
        validate_spec(&request.at("spec"), &At::absent());
        status::validate(&request.at("status"), &At::absent());
    }

    fn validate_again(request: &At<'_>, old: &At<'_>) {
        validate_spec(&request.at("spec"), &old.at("spec"));
        status::validate(&request.at("status"), &old.at("status"));
    }

    fn validate_update(request: &At<'_>, old: &At<'_>) {
        status::validate_update(request, old, status::May::Nothing);
    }

    fn validate_status(request: &At<'_>, old: &At<'_>) {
        Self::validate_again(request, old);
        status::validate_update(request, old, status::May::Sign);
    }

    fn validate_part(request: &At<'_>, _name: &str, old: &At<'_>) {
        Self::validate_again(request, old);
        status::validate_update(request, old, status::May::Decide);
    }
}

/// Who asks is who is calling, whatever the document says.
fn name_requestor(spec: &mut Tree, user: &User) {
    for field in ["username", "uid", "groups", "extra"] {
        spec.take(&[field]);
    }
    spec.set(&["username"], user.name.as_str());
    if !user.uid.is_empty() {
        spec.set(&["uid"], user.uid.as_str());
    }
    if !user.groups.is_empty() {
        spec.set(&["groups"], texts(&user.groups));
    }
    if !user.extra.is_empty() {
        let mut extra = Map::default();
        for (key, values) in &user.extra {
            extra.insert(key.as_str(), texts(values));
        }
        spec.set(&["extra"], extra);
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

/// What was wrong before and is stored may stay so.
fn validate_spec(spec: &At<'_>, old: &At<'_>) {
    if let Err(why) = check_request(spec.at("request").str()) {
        spec.at("request").invalid(&why);
    }
    let usages = spec.at("usages");
    usages.require();
    if old.at("usages").strs().all(|usage| USAGES.contains(&usage)) {
        let unknown = |usage: &At<'_>| !USAGES.contains(&usage.str());
        let unknown = usages.items().filter(unknown);
        unknown.for_each(|usage| usage.not_supported(USAGES));
    }
    if !has_duplicate(&old.at("usages")) {
        let all: Vec<&str> = usages.strs().collect();
        let again = usages.items().enumerate();
        let again = again.filter(|(at, usage)| all[..*at].contains(&usage.str()));
        again.for_each(|(_, usage)| usage.duplicate());
    }
    let signer = spec.at("signerName");
    if signer.str() == signer_name::LEGACY && old.at("signerName").str() != signer_name::LEGACY {
        signer.invalid("the legacy signerName is not allowed via this API version");
    } else {
        signer_name::validate(&signer);
    }
    let seconds = spec.at("expirationSeconds");
    if seconds.is_set() && seconds.int() < LEAST_SECONDS {
        seconds.invalid("may not specify a duration less than 600 seconds (10 minutes)");
    }
}

fn has_duplicate(usages: &At<'_>) -> bool {
    let all: Vec<&str> = usages.strs().collect();
    all.iter()
        .enumerate()
        .any(|(at, usage)| all[..at].contains(usage))
}

/// Whether the bytes are a request for a certificate, signed by the key that it is for.
fn check_request(base64: &str) -> Result<(), String> {
    let bytes = STANDARD.decode(base64).unwrap_or_default();
    let blocks = pem::blocks(&String::from_utf8_lossy(&bytes));
    let block = blocks
        .first()
        .filter(|block| block.label == "CERTIFICATE REQUEST");
    let block = block.ok_or("PEM block type must be CERTIFICATE REQUEST")?;
    let (_, request) = X509CertificationRequest::from_der(&block.bytes)
        .map_err(|error| format!("asn1: structure error: {error}"))?;
    request
        .verify_signature()
        .map_err(|_| "x509: signature of the certificate request is not valid".to_owned())
}
