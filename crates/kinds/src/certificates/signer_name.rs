//! Signer names: a domain, a slash, and a path chosen by the domain's owner.

use setpoint_strategy::{FieldRef, name};

/// The signer of requests from before `signerName` existed.
pub(crate) const LEGACY: &str = "kubernetes.io/legacy-unknown";
const DOMAIN_BYTES: usize = 253;
const PATH_BYTES: usize = 253 + 63 + 1;

/// Reports a signer name that is missing or invalid.
pub(crate) fn validate(signer: &FieldRef<'_>) {
    if !signer.require() {
        return;
    }
    let mut parts = signer.str().split('/');
    let (Some(domain), Some(path), None) = (parts.next(), parts.next(), parts.next()) else {
        signer.invalid("must be a fully qualified domain and path of the form 'example.com/signer-name'");
        return;
    };
    validate_domain(signer, domain);
    report_first(signer, path, name::check_dns1123_subdomain);
    if signer.str().len() > DOMAIN_BYTES + PATH_BYTES + 1 {
        signer.too_long(DOMAIN_BYTES + PATH_BYTES + 1);
    }
}

/// Whether the Kubernetes project reserves the name.
pub(crate) fn is_reserved(signer: &str) -> bool {
    let domain = signer.split('/').next().unwrap_or_default();
    domain == "kubernetes.io" || domain.ends_with(".kubernetes.io")
}

fn validate_domain(signer: &FieldRef<'_>, domain: &str) {
    if domain.len() > DOMAIN_BYTES {
        signer.too_long(DOMAIN_BYTES);
    }
    report_first(signer, domain, name::check_dns1123_label);
    if !domain.contains('.') {
        signer.invalid_as(
            domain,
            "should be a domain with at least two segments separated by dots",
        );
    }
}

/// Reports the first invalid word only: the messages of all others would be the same.
fn report_first(signer: &FieldRef<'_>, words: &str, form: fn(&str) -> name::Violations) {
    let wrong = words.split('.').map(|word| (word, form(word)));
    if let Some((word, violations)) = wrong.into_iter().find(|(_, violations)| !violations.is_empty()) {
        for violation in violations {
            signer.invalid_as(words, &format!("validating label {word:?}: {violation}"));
        }
    }
}
