//! Projected volumes: files of several sources in one directory.

use std::collections::BTreeSet;

use setpoint_schema::fields;
use setpoint_strategy::name::{self, Violations};
use setpoint_strategy::{FieldRef, label_selector, meta};

use crate::certificates::signer_name;

use super::super::{PodContext, paths};
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

/// The paths used so far; two sources may not write the same file.
struct ProjectedPaths<'a, 'b> {
    volume: &'b FieldRef<'a>,
    paths: BTreeSet<&'a str>,
}

/// Validates a projected volume.
pub(super) fn validate(volume: &FieldRef<'_>, pod_context: &PodContext<'_>) {
    paths::check_mode(&volume.at(fields::DEFAULT_MODE));
    let mut paths_used = ProjectedPaths {
        volume,
        paths: BTreeSet::new(),
    };
    for source in volume.at(fields::SOURCES).items() {
        let set = validate_source(&source, pod_context, &mut paths_used);
        if set > 1 {
            source.forbidden("may not specify more than 1 volume type per source");
        }
    }
}

/// Validates one item of `sources`. Returns how many source types it has set.
fn validate_source<'a>(
    source: &FieldRef<'a>,
    pod_context: &PodContext<'_>,
    paths_used: &mut ProjectedPaths<'a, '_>,
) -> usize {
    let mut set = 0;
    for kind in [fields::SECRET, fields::CONFIG_MAP].map(|kind| source.at(kind)) {
        if kind.is_set() {
            set += 1;
            validate_object(&kind, paths_used);
        }
    }
    let [api, token, bundle, certificate] = [
        fields::DOWNWARD_API,
        fields::SERVICE_ACCOUNT_TOKEN,
        fields::CLUSTER_TRUST_BUNDLE,
        fields::POD_CERTIFICATE,
    ]
    .map(|kind| source.at(kind));
    if api.is_set() {
        set += 1;
        validate_downward(&api, paths_used);
    }
    if token.is_set() {
        set += 1;
        validate_token(&token, pod_context, paths_used.volume);
    }
    if bundle.is_set() {
        set += 1;
        validate_bundle(&bundle, paths_used);
    }
    if certificate.is_set() {
        set += 1;
        validate_certificate(&certificate, paths_used);
    }
    set
}

impl<'a> ProjectedPaths<'a, '_> {
    /// Adds a path, or reports that it is used already; `shown` is the value in the message.
    fn take(&mut self, path: &'a str, shown: &str) {
        if !self.paths.insert(path) {
            self.volume.invalid_as(shown, "conflicting duplicate paths");
        }
    }
}

fn validate_object<'a>(object: &FieldRef<'a>, paths_used: &mut ProjectedPaths<'a, '_>) {
    object.at(fields::NAME).require();
    for item in object.at(fields::ITEMS).items() {
        files::validate_item(&item);
        let path = item.at(fields::PATH).str();
        if !path.is_empty() {
            paths_used.take(path, object.at(fields::NAME).str());
        }
    }
}

fn validate_downward<'a>(source: &FieldRef<'a>, paths_used: &mut ProjectedPaths<'a, '_>) {
    for file in source.at(fields::ITEMS).items() {
        files::validate_field(&file.with_errors(source.errors().clone()));
        let path = file.at(fields::PATH).str();
        if !path.is_empty() {
            paths_used.take(path, path);
        }
    }
}

fn validate_token(token: &FieldRef<'_>, pod_context: &PodContext<'_>, volume: &FieldRef<'_>) {
    let expiration = token.at(fields::EXPIRATION_SECONDS);
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
    let path = token
        .at(fields::PATH)
        .with_errors(volume.errors().at(fields::PATH));
    if path.require() && !pod_context.options.token_paths {
        paths::check_local_path(&path);
    }
}

fn validate_bundle<'a>(bundle: &FieldRef<'a>, paths_used: &mut ProjectedPaths<'a, '_>) {
    let (name, signer) = (bundle.at(fields::NAME), bundle.at(fields::SIGNER_NAME));
    match (name.is_set(), signer.is_set()) {
        (true, true) => bundle.invalid("only one of name and signerName may be used"),
        (true, false) => validate_bundle_name(bundle, &name),
        (false, true) => {
            if signer.str().is_empty() {
                signer.required("must be a valid signer name");
            }
            signer_name::validate(&signer);
            label_selector::validate(&bundle.at(fields::LABEL_SELECTOR));
        }
        (false, false) => bundle.required("either name or signerName must be specified"),
    }
    let path = bundle.at(fields::PATH);
    path.require();
    paths::check_local_path(&path);
    paths_used.take(path.str(), path.str());
}

fn validate_bundle_name(bundle: &FieldRef<'_>, name: &FieldRef<'_>) {
    if name.str().is_empty() {
        name.required("must be a valid object name");
    }
    for violation in check_bundle_name(name.str()) {
        name.invalid(&format!("not a valid clustertrustbundlename: {violation}"));
    }
    let selector = bundle.at(fields::LABEL_SELECTOR);
    if selector.is_set() {
        selector.invalid("labelSelector must be unset if name is specified");
    }
}

/// The name of a signer's trust bundle has the signer as prefix: `example.com:signer:name`.
fn check_bundle_name(text: &str) -> Violations {
    match text.rsplit_once(':') {
        // The signer's name is not checked here, so only the last segment may be invalid.
        Some((_, last)) => name::check_dns1123_subdomain(last),
        None => name::check_dns1123_subdomain(text),
    }
}

fn validate_certificate<'a>(certificate: &FieldRef<'a>, paths_used: &mut ProjectedPaths<'a, '_>) {
    let signer = certificate.at(fields::SIGNER_NAME);
    signer_name::validate(&signer);
    validate_annotations(&certificate.at(fields::USER_ANNOTATIONS));
    let kind = certificate.at(fields::KEY_TYPE);
    if !KEY_TYPES.contains(&kind.str()) {
        kind.not_supported(KEY_TYPES);
    }
    let max = match signer_name::is_reserved(signer.str()) {
        true => LONGEST_OWN_CERTIFICATE_SECONDS,
        false => LONGEST_CERTIFICATE_SECONDS,
    };
    let expiration = certificate.at(fields::MAX_EXPIRATION_SECONDS);
    if let Some(seconds) = expiration.find_int() {
        if seconds < SHORTEST_CERTIFICATE_SECONDS {
            expiration.invalid("if provided, maxExpirationSeconds must be >= 3600");
        }
        if seconds > max {
            expiration.invalid(&format!("if provided, maxExpirationSeconds must be <= {max}"));
        }
    }
    let paths = [
        fields::CREDENTIAL_BUNDLE_PATH,
        fields::KEY_PATH,
        fields::CERTIFICATE_CHAIN_PATH,
    ]
    .map(|path| certificate.at(path));
    let set: Vec<&FieldRef<'a>> = paths.iter().filter(|path| !path.is_empty()).collect();
    for path in &set {
        paths::check_local_path(path);
        paths_used.take(path.str(), path.str());
    }
    if set.is_empty() {
        certificate
            .required("specify at least one of credentialBundlePath, keyPath, and certificateChainPath");
    }
}

fn validate_annotations(annotations: &FieldRef<'_>) {
    for (key, _) in annotations.entries() {
        let key = key.to_lowercase();
        let violations = name::check_qualified_name(&key);
        if violations.is_empty() && !key.contains('/') {
            let detail = "must be a domain-prefixed key (such as \"acme.io/foo\")";
            annotations.invalid_as(key.as_str(), detail);
        }
        name::report(&key, violations, annotations.errors());
    }
    meta::validate_annotation_bytes(annotations);
}
