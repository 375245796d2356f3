//! ClusterTrustBundle: trust anchors (CA certificates) for the whole cluster.

use setpoint_schema::fields;
use setpoint_strategy::columns::{self, Column};
use setpoint_strategy::{
    EtcdEncoding, FieldLabel, FieldRef, NameRule, Names, RequestFacts, Rules, Scope, Strategy, name,
};
use setpoint_x509::Certificate;

use super::{GROUP, pem, signer_name};

const MAX_BYTES: usize = 1024 * 1024;
const OMITTED: &str = "<value omitted>";

#[derive(Debug)]
pub struct ClusterTrustBundle;

impl Strategy for ClusterTrustBundle {
    const KIND: (&'static str, &'static str, &'static str) = (GROUP, "v1", "ClusterTrustBundle");
    const NAMES: Names = Names::new("clustertrustbundles", "clustertrustbundle");
    const SCOPE: Scope = Scope::Cluster;
    const COLUMNS: &'static [Column] = &[
        columns::NAME,
        Column::text("SignerName", |bundle, _| {
            columns::or_none(&bundle.at(fields::SPEC).at(fields::SIGNER_NAME))
        })
        .description("The signer of the certificates."),
    ];
    const FIELDS: &'static [FieldLabel] = &[FieldLabel::new(
        "spec.signerName",
        &[&[fields::SPEC, fields::SIGNER_NAME]],
    )];
    const RULES: Rules = Rules::DEFAULT
        .name(NameRule::Custom)
        .no_unconditional_update()
        .discovery_storage_version("v1beta1")
        .etcd_encoding(EtcdEncoding::ProtobufIn("v1beta1"));

    fn validate(bundle: &FieldRef<'_>, _facts: &RequestFacts) {
        validate_names(bundle);
        validate_trust(&bundle.at(fields::SPEC).at(fields::TRUST_BUNDLE));
    }

    // An unchanged bundle is not parsed again, so that a stricter parser never blocks updates of a stored object.
    fn validate_for_update(bundle: &FieldRef<'_>, old: &FieldRef<'_>, _facts: &RequestFacts) {
        validate_names(bundle);
        let trust = bundle.at(fields::SPEC).at(fields::TRUST_BUNDLE);
        if !trust.is_same(&old.at(fields::SPEC).at(fields::TRUST_BUNDLE)) {
            validate_trust(&trust);
        }
    }

    fn validate_update(bundle: &FieldRef<'_>, old: &FieldRef<'_>, _facts: &RequestFacts) {
        bundle
            .at(fields::SPEC)
            .at(fields::SIGNER_NAME)
            .immutable(&old.at(fields::SPEC).at(fields::SIGNER_NAME));
    }
}

fn validate_names(bundle: &FieldRef<'_>) {
    let name = bundle.at(fields::METADATA).at(fields::NAME);
    let signer = bundle.at(fields::SPEC).at(fields::SIGNER_NAME);
    if !name.is_empty() {
        name::report(name.str(), check_name(name.str(), signer.str()), name.errors());
    }
    if !signer.is_empty() {
        signer_name::validate(&signer);
    }
}

/// The name of a signer's bundle has the signer's name as its prefix.
fn check_name(text: &str, signer: &str) -> name::Violations {
    if signer.is_empty() {
        if text.contains(':') {
            return vec!["ClusterTrustBundle without signer name must not have \":\" in its name".to_owned()];
        }
        return name::check_dns1123_subdomain(text);
    }
    let prefix = format!("{}:", signer.replace('/', ":"));
    match text.strip_prefix(&prefix) {
        Some(rest) => name::check_dns1123_subdomain(rest),
        None => vec![format!(
            "ClusterTrustBundle for signerName {signer} must be named with prefix {prefix}"
        )],
    }
}

fn validate_trust(trust: &FieldRef<'_>) {
    if trust.str().len() > MAX_BYTES {
        trust.too_long(MAX_BYTES);
        return;
    }
    let blocks = pem::blocks(trust.str());
    let wrong: Vec<String> = blocks
        .iter()
        .enumerate()
        .filter_map(|(at, block)| Some(format!("entry {at} {}", check_anchor(block)?)))
        .collect();
    for why in &wrong {
        trust.invalid_as(OMITTED, why);
    }
    if !wrong.is_empty() {
        return;
    }
    if blocks.is_empty() {
        trust.invalid_as(OMITTED, "at least one trust anchor must be provided");
    }
    for (at, block) in blocks.iter().enumerate() {
        let same: Vec<String> = (0..blocks.len())
            .filter(|other| blocks[*other].bytes == block.bytes)
            .map(|other| other.to_string())
            .collect();
        if same.len() > 1 && same[0] == at.to_string() {
            trust.invalid_as(
                OMITTED,
                &format!("duplicate trust anchor (indices [{}])", same.join(" ")),
            );
        }
    }
}

/// Why a PEM block is not a trust anchor.
fn check_anchor(block: &pem::Block) -> Option<String> {
    if block.label != "CERTIFICATE" {
        return Some(format!("has bad block type: {}", block.label));
    }
    if block.has_headers {
        return Some("has PEM block headers".to_owned());
    }
    let Ok(certificate) = Certificate::from_der(&block.bytes) else {
        return Some("does not parse as X.509".to_owned());
    };
    (!certificate.is_ca()).then(|| "does not have the CA bit set".to_owned())
}
