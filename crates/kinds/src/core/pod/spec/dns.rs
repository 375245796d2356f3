//! Host names, DNS settings and host aliases of a pod.

use setpoint_schema::fields;
use setpoint_strategy::name::{self, Violations};
use setpoint_strategy::{FieldRef, ip};

use super::tolerations;

const NAMESERVERS: usize = 3;
const SEARCH_PATHS: usize = 32;
const SEARCH_BYTES: usize = 2048;
const OVERRIDE_BYTES: usize = 64;
const UNDERSCORED: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')";

/// Validates host names, with the fields that Kubernetes validates between them, to keep the order of its errors.
pub(super) fn validate(spec: &FieldRef<'_>) {
    check_if_set(spec, fields::SERVICE_ACCOUNT_NAME, name::check_dns1123_subdomain);
    check_if_set(spec, fields::NODE_NAME, name::check_dns1123_subdomain);
    let deadline = spec.at(fields::ACTIVE_DEADLINE_SECONDS);
    if deadline.is_set() {
        deadline.in_range(1, i32::MAX.into());
    }
    check_if_set(spec, fields::HOSTNAME, name::check_dns1123_label);
    check_if_set(spec, fields::SUBDOMAIN, name::check_dns1123_label);
    tolerations::validate(&spec.at(fields::TOLERATIONS));
    validate_aliases(&spec.at(fields::HOST_ALIASES));
    check_if_set(spec, fields::PRIORITY_CLASS_NAME, name::check_dns1123_subdomain);
    if spec.at(fields::RUNTIME_CLASS_NAME).is_set() {
        name::check(
            &spec.at(fields::RUNTIME_CLASS_NAME),
            name::check_dns1123_subdomain,
        );
    }
}

/// Reports a `hostnameOverride` that is invalid or conflicts with another field.
pub(super) fn validate_hostname_override(spec: &FieldRef<'_>) {
    let hostname_override = spec.at(fields::HOSTNAME_OVERRIDE);
    if !hostname_override.is_set() {
        return;
    }
    if spec.at(fields::SET_HOSTNAME_AS_FQDN).bool() {
        hostname_override.forbidden("may not be specified when setHostnameAsFQDN is true");
    }
    if spec.at(fields::HOST_NETWORK).bool() {
        hostname_override.forbidden("may not be specified when hostNetwork is true");
    }
    if hostname_override.str().len() > OVERRIDE_BYTES {
        hostname_override.too_long(OVERRIDE_BYTES);
    }
    name::check(&hostname_override, name::check_dns1123_subdomain);
}

/// Validates the DNS policy and DNS config.
pub(super) fn validate_dns(spec: &FieldRef<'_>) {
    let config = spec.at(fields::DNS_CONFIG);
    if !config.is_set() && spec.at(fields::DNS_POLICY).str() != "None" {
        return;
    }
    let servers = config.at(fields::NAMESERVERS);
    if spec.at(fields::DNS_POLICY).str() == "None" {
        if !config.is_set() {
            return config.required("must provide `dnsConfig` when `dnsPolicy` is None");
        }
        if servers.is_empty() {
            return servers.required("must provide at least one DNS nameserver when `dnsPolicy` is None");
        }
    }
    if servers.len() > NAMESERVERS {
        servers.invalid(&format!("must not have more than {NAMESERVERS} nameservers"));
    }
    for server in servers.items() {
        ip::check(server.str(), server.errors());
    }
    validate_searches(&config.at(fields::SEARCHES));
    for option in config.at(fields::OPTIONS).items() {
        if option.at(fields::NAME).is_empty() {
            option.required("must not be empty");
        }
    }
}

fn validate_searches(searches: &FieldRef<'_>) {
    if searches.len() > SEARCH_PATHS {
        searches.invalid(&format!("must not have more than {SEARCH_PATHS} search paths"));
    }
    let bytes: usize = searches.strs().map(|search| search.len() + 1).sum();
    if bytes > SEARCH_BYTES + 1 {
        let detail = "must not have more than 2048 characters (including spaces) in the search list";
        searches.invalid(detail);
    }
    for search in searches.items().filter(|search| search.str() != ".") {
        let text = search.str().strip_suffix('.').unwrap_or(search.str());
        name::report(text, underscored(text), search.errors());
    }
}

fn validate_aliases(aliases: &FieldRef<'_>) {
    for alias in aliases.items() {
        ip::check(alias.at(fields::IP).str(), alias.at(fields::IP).errors());
        for hostname in alias.at(fields::HOSTNAMES).items() {
            name::check(&hostname, name::check_dns1123_subdomain);
        }
    }
}

fn check_if_set(spec: &FieldRef<'_>, field: &str, form: fn(&str) -> Violations) {
    if !spec.at(field).is_empty() {
        name::check(&spec.at(field), form);
    }
}

/// A DNS-1123 subdomain that may also contain underscores.
fn underscored(text: &str) -> Violations {
    let mut violations = Violations::new();
    if text.len() > 253 {
        violations.push("must be no more than 253 characters".to_owned());
    }
    let is_word = |word: &str| {
        let word = word.strip_prefix('_').unwrap_or(word).as_bytes();
        let edge =
            |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        let inner = |byte: &u8| edge(Some(byte)) || b"-_".contains(byte);
        edge(word.first()) && edge(word.last()) && word.iter().all(inner)
    };
    if !text.split('.').all(is_word) {
        violations.push(UNDERSCORED.to_owned());
    }
    violations
}
