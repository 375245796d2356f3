//! Validation of the configuration: the rules and messages of `validation_encryption.go` in Kubernetes.

use std::collections::HashSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use setpoint_api::field::Errors;
use setpoint_api::go_duration;

use crate::config::{
    EncryptionConfiguration, Key, KeysConfiguration, KmsConfiguration, ProviderConfiguration,
};
use crate::resource_rules::ResourcePattern;

const AES_KEY_BYTES: &[usize] = &[16, 24, 32];
const SECRETBOX_KEY_BYTES: &[usize] = &[32];

/// Ranges and addresses that have no REST API.
const INTERNAL_RESOURCES: [&str; 3] = [
    "apiserveripinfo",
    "serviceipallocations",
    "servicenodeportallocations",
];

/// A provider without any, as upstream prints it.
#[derive(Clone, Copy, serde::Serialize)]
#[serde(rename_all = "PascalCase")]
struct EmptyProvider {
    #[serde(rename = "AESGCM")]
    aesgcm: (),
    #[serde(rename = "AESCBC")]
    aescbc: (),
    secretbox: (),
    identity: (),
    #[serde(rename = "KMS")]
    kms: (),
}

const NO_PROVIDER: EmptyProvider = EmptyProvider {
    aesgcm: (),
    aescbc: (),
    secretbox: (),
    identity: (),
    kms: (),
};

/// Checks a configuration; the error has all problems.
pub(crate) fn validate(configuration: &EncryptionConfiguration) -> Result<(), String> {
    let errors = Errors::default();
    let root = errors.at("resources");
    if configuration.resources.is_empty() {
        root.required("at least one resources is required");
    }
    let mut kms_names = HashSet::new();
    for (index, rule) in configuration.resources.iter().enumerate() {
        let (resources, providers) = (
            root.index(index).at("resources"),
            root.index(index).at("providers"),
        );
        if rule.resources.is_empty() {
            resources.required(&format!("at least one {} is required", resources.path()));
        }
        validate_overlap(&rule.resources, &resources);
        for (index, name) in rule.resources.iter().enumerate() {
            validate_resource(name, &resources.index(index));
        }
        if rule.providers.is_empty() {
            providers.required(&format!("at least one {} is required", providers.path()));
        }
        for (index, provider) in rule.providers.iter().enumerate() {
            validate_provider(provider, &providers.index(index), &mut kms_names);
        }
    }
    let messages: Vec<String> = errors.into_vec().iter().map(ToString::to_string).collect();
    match messages.as_slice() {
        [] => Ok(()),
        [one] => Err(one.clone()),
        many => Err(format!("[{}]", many.join(", "))),
    }
}

/// Two entries of one list that are equal, or of which one masks the other.
fn validate_overlap(resources: &[String], at: &Errors) {
    let patterns: Vec<_> = resources
        .iter()
        .map(|name| ResourcePattern::parse(name))
        .collect();
    let (mut has_duplicate, mut has_overlap) = (false, false);
    for (index, first) in patterns.iter().enumerate() {
        for second in &patterns[index + 1..] {
            has_duplicate |= first == second;
            has_overlap |= first.is_any() || second.is_any();
            has_overlap |= first.group == second.group && (first.resource == "*" || second.resource == "*");
        }
    }
    if has_duplicate {
        at.invalid(resources, "the same resource cannot be specified multiple times");
    }
    if has_overlap {
        at.invalid(resources, "using overlapping resources such as 'secrets' and '*.' in the same resource list is not allowed as they will be masked");
    }
}

fn validate_resource(name: &str, at: &Errors) {
    let pattern = ResourcePattern::parse(name);
    let problem = if name.to_lowercase() != name {
        "resource name should not contain capital letters"
    } else if name == "*" {
        "use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources"
    } else if INTERNAL_RESOURCES.contains(&name) {
        "resources which do not have REST API/s cannot be encrypted"
    } else if pattern.group == "events.k8s.io" {
        "'*.events.k8s.io' objects are stored using the 'events' API group in etcd. Use 'events' instead in the config file"
    } else if pattern.group == "extensions" {
        "'extensions' group has been removed and cannot be used for encryption"
    } else if pattern.group == "*" && pattern.resource != "*" {
        "encrypting the same resource across groups is not supported"
    } else {
        return;
    };
    at.invalid(name, problem);
}

fn validate_provider(provider: &ProviderConfiguration, at: &Errors, kms_names: &mut HashSet<String>) {
    let count = usize::from(provider.kms.is_some())
        + usize::from(provider.aesgcm.is_some())
        + usize::from(provider.aescbc.is_some())
        + usize::from(provider.secretbox.is_some())
        + usize::from(provider.identity.is_some());
    match count {
        0 => at.invalid(
            NO_PROVIDER,
            "provider does not contain any of the expected providers: KMS, AESGCM, AESCBC, Secretbox, Identity",
        ),
        1 => {}
        // Upstream prints the providers, with their keys.
        _ => at.invalid_omitting_value(
            "more than one provider specified in a single element, should split into different list elements",
        ),
    }
    if let Some(kms) = &provider.kms {
        validate_kms(kms, &at.at("kms"), kms_names);
        kms_names.insert(kms.name.clone());
    } else if let Some(keys) = &provider.aesgcm {
        validate_keys(keys, &at.at("aesgcm").at("keys"), AES_KEY_BYTES);
    } else if let Some(keys) = &provider.aescbc {
        validate_keys(keys, &at.at("aescbc").at("keys"), AES_KEY_BYTES);
    } else if let Some(keys) = &provider.secretbox {
        validate_keys(keys, &at.at("secretbox").at("keys"), SECRETBOX_KEY_BYTES);
    }
}

fn validate_keys(configuration: &KeysConfiguration, at: &Errors, key_bytes: &[usize]) {
    if configuration.keys.is_empty() {
        at.required("at least one keys is required");
    }
    for (index, key) in configuration.keys.iter().enumerate() {
        validate_key(key, &at.index(index), key_bytes);
    }
}

fn validate_key(key: &Key, at: &Errors, key_bytes: &[usize]) {
    if key.name.is_empty() {
        at.at("name").required("name is a mandatory field for a key");
    }
    if key.secret.is_empty() {
        return at.at("secret").required("secret is a mandatory field for a key");
    }
    match STANDARD.decode(&key.secret) {
        Err(_) => at
            .at("secret")
            .invalid("REDACTED", "secrets must be base64 encoded"),
        Ok(secret) if !key_bytes.contains(&secret.len()) => {
            let lengths: Vec<String> = key_bytes.iter().map(ToString::to_string).collect();
            let expected = lengths.join(" ");
            let detail = format!(
                "secret is not of the expected length, got {}, expected one of [{expected}]",
                secret.len()
            );
            at.at("secret").invalid("REDACTED", &detail);
        }
        Ok(_) => {}
    }
}

fn validate_kms(kms: &KmsConfiguration, at: &Errors, names: &HashSet<String>) {
    let version = match kms.api_version.as_str() {
        "" => "v1",
        version => version,
    };
    let name = at.at("name");
    if kms.name.is_empty() {
        name.required("name is a mandatory field for a provider");
    }
    if version != "v1" && kms.name.contains(':') {
        name.invalid(
            &kms.name,
            &format!("invalid KMS provider name {}, must not contain ':'", kms.name),
        );
    }
    if names.contains(&kms.name) {
        name.invalid(
            &kms.name,
            &format!("duplicate KMS provider name {}, names must be unique", kms.name),
        );
    }
    if let Some(timeout) = &kms.timeout
        && !go_duration::parse(timeout).is_ok_and(|timeout| !timeout.is_zero())
    {
        at.at("timeout")
            .invalid(timeout, "timeout should be a positive value");
    }
    validate_endpoint(kms, &at.at("endpoint"));
    if let (Some(size), true) = (kms.cachesize, version != "v1") {
        at.at("cachesize")
            .invalid(size, "cachesize is not supported in v2");
    }
    if kms.cachesize == Some(0) && version == "v1" {
        at.at("cachesize")
            .invalid(0, "cachesize should be a positive value, or negative to disable");
    }
    if version != "v1" && version != "v2" {
        at.at("apiVersion").invalid(
            version,
            "unsupported apiVersion apiVersion for KMS provider, only v1 and v2 are supported",
        );
    }
}

fn validate_endpoint(kms: &KmsConfiguration, at: &Errors) {
    let scheme = kms.endpoint.split_once(':').map_or("", |(scheme, _)| scheme);
    if kms.endpoint.is_empty() {
        at.invalid("", "endpoint is a mandatory field for a kms");
    } else if scheme != "unix" {
        let detail = format!("unsupported scheme {scheme:?} for KMS provider, only unix is supported");
        at.invalid(&kms.endpoint, &detail);
    }
}

#[cfg(test)]
mod tests;
