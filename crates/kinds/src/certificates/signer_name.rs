//! Names of signers: a domain, a slash, and what the domain's owner calls the signer.

use crate::at::At;
use crate::shared::name;

/// The signer of requests from before signers had names.
pub(crate) const LEGACY: &str = "kubernetes.io/legacy-unknown";
const DOMAIN_BYTES: usize = 253;
const PATH_BYTES: usize = 253 + 63 + 1;

/// Reports a name that is missing or is none.
pub(crate) fn validate(signer: &At<'_>) {
    if !signer.require() {
        return;
    }
    let mut parts = signer.str().split('/');
    let (Some(domain), Some(path), None) = (parts.next(), parts.next(), parts.next()) else {
        signer.invalid("must be a fully qualified domain and path of the form 'example.com/signer-name'");
        return;
    };
    validate_domain(signer, domain);
    report_first(signer, path, name::subdomain);
    if signer.str().len() > DOMAIN_BYTES + PATH_BYTES + 1 {
        signer.too_long(DOMAIN_BYTES + PATH_BYTES + 1);
    }
}

/// Whether the name is one that the Kubernetes project reserves.
pub(crate) fn is_reserved(signer: &str) -> bool {
    let domain = signer.split('/').next().unwrap_or_default();
    domain == "kubernetes.io" || domain.ends_with(".kubernetes.io")
}

fn validate_domain(signer: &At<'_>, domain: &str) {
    if domain.len() > DOMAIN_BYTES {
        signer.too_long(DOMAIN_BYTES);
    }
    report_first(signer, domain, name::label);
    if !domain.contains('.') {
        signer.invalid_as(
            domain,
            "should be a domain with at least two segments separated by dots",
        );
    }
}

/// Reports the first word that is none: all others would read the same.
fn report_first(signer: &At<'_>, words: &str, form: fn(&str) -> name::Complaints) {
    let wrong = words.split('.').map(|word| (word, form(word)));
    if let Some((word, complaints)) = wrong.into_iter().find(|(_, complaints)| !complaints.is_empty()) {
        for complaint in complaints {
            signer.invalid_as(words, &format!("validating label {word:?}: {complaint}"));
        }
    }
}
