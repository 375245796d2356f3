//! Volumes that lay the files of several sources into one directory.

use std::collections::BTreeSet;

use crate::at::At;
use crate::certificates::signer_name;
use crate::meta;
use crate::shared::label_selector;
use crate::shared::name::{self, Complaints};

use super::super::{Around, paths};
use super::files;

const KEY_TYPES: &[&str] = &[
    "RSA3072",
    "RSA4096",
    "ECDSAP256",
    "ECDSAP384",
    "ECDSAP521",
    "ED25519",
];
const SHORTEST_TOKEN_SECONDS: i64 = 600;
const LONGEST_TOKEN_SECONDS: i64 = 1 << 32;
const SHORTEST_CERTIFICATE_SECONDS: i64 = 3600;
const LONGEST_CERTIFICATE_SECONDS: i64 = 91 * 24 * 3600;
const LONGEST_OWN_CERTIFICATE_SECONDS: i64 = 24 * 3600;

/// The paths that are taken; two sources may not write the same file.
struct Taken<'a, 'b> {
    volume: &'b At<'a>,
    paths: BTreeSet<&'a str>,
}

/// Reports what is wrong with a projected volume.
pub(super) fn validate(volume: &At<'_>, around: &Around<'_>) {
    paths::check_mode(&volume.at("defaultMode"));
    let mut taken = Taken {
        volume,
        paths: BTreeSet::new(),
    };
    for source in volume.at("sources").items() {
        let given = validate_source(&source, around, &mut taken);
        if given > 1 {
            source.forbidden("may not specify more than 1 volume type per source");
        }
    }
}

/// How many sources there are in one.
fn validate_source<'a>(source: &At<'a>, around: &Around<'_>, taken: &mut Taken<'a, '_>) -> usize {
    let mut given = 0;
    for kind in ["secret", "configMap"].map(|kind| source.at(kind)) {
        if kind.is_set() {
            given += 1;
            validate_object(&kind, taken);
        }
    }
    let [api, token, bundle, certificate] = [
        "downwardAPI",
        "serviceAccountToken",
        "clusterTrustBundle",
        "podCertificate",
    ]
    .map(|kind| source.at(kind));
    if api.is_set() {
        given += 1;
        validate_downward(&api, taken);
    }
    if token.is_set() {
        given += 1;
        validate_token(&token, around, taken.volume);
    }
    if bundle.is_set() {
        given += 1;
        validate_bundle(&bundle, taken);
    }
    if certificate.is_set() {
        given += 1;
        validate_certificate(&certificate, taken);
    }
    given
}

impl<'a> Taken<'a, '_> {
    /// Takes a path, or reports that it is taken; `shown` is what the report shows.
    fn take(&mut self, path: &'a str, shown: &str) {
        if !self.paths.insert(path) {
            self.volume.invalid_as(shown, "conflicting duplicate paths");
        }
    }
}

fn validate_object<'a>(object: &At<'a>, taken: &mut Taken<'a, '_>) {
    object.at("name").require();
    for item in object.at("items").items() {
        files::validate_item(&item);
        let path = item.at("path").str();
        if !path.is_empty() {
            taken.take(path, object.at("name").str());
        }
    }
}

fn validate_downward<'a>(source: &At<'a>, taken: &mut Taken<'a, '_>) {
    for file in source.at("items").items() {
        files::validate_field(&file.reported_at(source.errors().clone()));
        let path = file.at("path").str();
        if !path.is_empty() {
            taken.take(path, path);
        }
    }
}

fn validate_token(token: &At<'_>, around: &Around<'_>, volume: &At<'_>) {
    let expiration = token.at("expirationSeconds");
    match expiration.find_int() {
        None => expiration.required(""),
        Some(..SHORTEST_TOKEN_SECONDS) => {
            expiration.invalid("may not specify a duration less than 10 minutes");
        }
        Some(seconds) if seconds > LONGEST_TOKEN_SECONDS => {
            expiration.invalid("may not specify a duration larger than 2^32 seconds");
        }
        Some(_) => {}
    }
    let path = token.at("path").reported_at(volume.errors().at("path"));
    if path.require() && !around.waived.token_paths {
        paths::check_local(&path);
    }
}

fn validate_bundle<'a>(bundle: &At<'a>, taken: &mut Taken<'a, '_>) {
    let (own, signer) = (bundle.at("name"), bundle.at("signerName"));
    match (own.is_set(), signer.is_set()) {
        (true, true) => bundle.invalid("only one of name and signerName may be used"),
        (true, false) => validate_bundle_name(bundle, &own),
        (false, true) => {
            if signer.str().is_empty() {
                signer.required("must be a valid signer name");
            }
            signer_name::validate(&signer);
            label_selector::validate(&bundle.at("labelSelector"));
        }
        (false, false) => bundle.required("either name or signerName must be specified"),
    }
    let path = bundle.at("path");
    path.require();
    paths::check_local(&path);
    taken.take(path.str(), path.str());
}

fn validate_bundle_name(bundle: &At<'_>, own: &At<'_>) {
    if own.str().is_empty() {
        own.required("must be a valid object name");
    }
    for complaint in check_bundle_name(own.str()) {
        own.invalid(&format!("not a valid clustertrustbundlename: {complaint}"));
    }
    let selector = bundle.at("labelSelector");
    if selector.is_set() {
        selector.invalid("labelSelector must be unset if name is specified");
    }
}

/// A bundle of a signer is named after it: `example.com:signer:name`.
fn check_bundle_name(text: &str) -> Complaints {
    match text.rsplit_once(':') {
        // The signer is read from the name, so only its last part may be wrong.
        Some((_, own)) => name::subdomain(own),
        None => name::subdomain(text),
    }
}

fn validate_certificate<'a>(certificate: &At<'a>, taken: &mut Taken<'a, '_>) {
    let signer = certificate.at("signerName");
    signer_name::validate(&signer);
    validate_annotations(&certificate.at("userAnnotations"));
    let kind = certificate.at("keyType");
    if !KEY_TYPES.contains(&kind.str()) {
        kind.not_supported(KEY_TYPES);
    }
    let most = match signer_name::is_reserved(signer.str()) {
        true => LONGEST_OWN_CERTIFICATE_SECONDS,
        false => LONGEST_CERTIFICATE_SECONDS,
    };
    let expiration = certificate.at("maxExpirationSeconds");
    if let Some(seconds) = expiration.find_int() {
        if seconds < SHORTEST_CERTIFICATE_SECONDS {
            expiration.invalid("if provided, maxExpirationSeconds must be >= 3600");
        }
        if seconds > most {
            expiration.invalid(&format!("if provided, maxExpirationSeconds must be <= {most}"));
        }
    }
    let paths = ["credentialBundlePath", "keyPath", "certificateChainPath"].map(|path| certificate.at(path));
    let given: Vec<&At<'a>> = paths.iter().filter(|path| !path.is_empty()).collect();
    for path in &given {
        paths::check_local(path);
        taken.take(path.str(), path.str());
    }
    if given.is_empty() {
        certificate
            .required("specify at least one of credentialBundlePath, keyPath, and certificateChainPath");
    }
}

fn validate_annotations(annotations: &At<'_>) {
    for (key, _) in annotations.entries() {
        let key = key.to_lowercase();
        let complaints = name::qualified(&key);
        if complaints.is_empty() && !key.contains('/') {
            let detail = "must be a domain-prefixed key (such as \"acme.io/foo\")";
            annotations.invalid_as(key.as_str(), detail);
        }
        name::report(&key, complaints, annotations.errors());
    }
    meta::validate_annotation_bytes(annotations);
}
