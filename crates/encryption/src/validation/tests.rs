//! Invalid configurations and their messages.

use setpoint_codec::{from_tree, yaml};

use super::*;

#[track_caller]
fn check(resources: &str, expected: &str) {
    let tree = yaml::parse(format!("resources:\n{resources}").as_bytes()).unwrap();
    let configuration: EncryptionConfiguration = from_tree(&tree).unwrap();
    let message = validate(&configuration).err().unwrap_or_default();
    assert_eq!(message, expected);
}

/// A rule for these resources.
fn resources(names: &str) -> String {
    format!("- {{resources: [{names}], providers: [{{identity: {{}}}}]}}")
}

/// A rule for secrets with these providers.
fn providers(providers: &str) -> String {
    format!("- {{resources: [secrets], providers: [{providers}]}}")
}

#[test]
fn a_valid_configuration_has_no_error() {
    check(&resources("secrets, deployments.apps, '*.batch'"), "");
    check(
        &providers("{aescbc: {keys: [{name: a, secret: MDEyMzQ1Njc4OWFiY2RlZg==}]}}"),
        "",
    );
    check(
        &providers("{kms: {apiVersion: v2, name: a, endpoint: 'unix:///tmp/kms.sock', timeout: 3s}}"),
        "",
    );
}

#[test]
fn lists_must_not_be_empty() {
    check(
        " []",
        "resources: Required value: at least one resources is required",
    );
    check(
        "- {}",
        "[resources[0].resources: Required value: at least one resources[0].resources is required, resources[0].providers: Required value: at least one resources[0].providers is required]",
    );
    check(
        &providers("{aesgcm: {}}"),
        "resources[0].providers[0].aesgcm.keys: Required value: at least one keys is required",
    );
}

#[test]
fn resources_are_names_or_wildcards() {
    let invalid =
        |name: &str, detail: &str| format!("resources[0].resources[0]: Invalid value: {name:?}: {detail}");
    check(
        &resources("Secrets"),
        &invalid("Secrets", "resource name should not contain capital letters"),
    );
    check(
        &resources("'*'"),
        &invalid(
            "*",
            "use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources",
        ),
    );
    check(
        &resources("apiserveripinfo"),
        &invalid(
            "apiserveripinfo",
            "resources which do not have REST API/s cannot be encrypted",
        ),
    );
    check(
        &resources("events.events.k8s.io"),
        &invalid(
            "events.events.k8s.io",
            "'*.events.k8s.io' objects are stored using the 'events' API group in etcd. Use 'events' instead in the config file",
        ),
    );
    check(
        &resources("ingresses.extensions"),
        &invalid(
            "ingresses.extensions",
            "'extensions' group has been removed and cannot be used for encryption",
        ),
    );
    check(
        &resources("'secrets.*'"),
        &invalid(
            "secrets.*",
            "encrypting the same resource across groups is not supported",
        ),
    );
}

#[test]
fn resources_of_a_list_do_not_overlap() {
    const OVERLAP: &str = "using overlapping resources such as 'secrets' and '*.' in the same resource list is not allowed as they will be masked";
    check(
        &resources("secrets, '*.'"),
        &format!(r#"resources[0].resources: Invalid value: ["secrets","*."]: {OVERLAP}"#),
    );
    check(
        &resources("'*.*', deployments.apps"),
        &format!(r#"resources[0].resources: Invalid value: ["*.*","deployments.apps"]: {OVERLAP}"#),
    );
    check(
        &resources("secrets, secrets"),
        r#"resources[0].resources: Invalid value: ["secrets","secrets"]: the same resource cannot be specified multiple times"#,
    );
}

#[test]
fn keys_have_a_name_and_a_secret_of_the_right_length() {
    let at = "resources[0].providers[0].secretbox.keys[0]";
    check(
        &providers("{secretbox: {keys: [{}]}}"),
        &format!(
            "[{at}.name: Required value: name is a mandatory field for a key, {at}.secret: Required value: secret is a mandatory field for a key]"
        ),
    );
    check(
        &providers("{secretbox: {keys: [{name: a, secret: '?'}]}}"),
        &format!(r#"{at}.secret: Invalid value: "REDACTED": secrets must be base64 encoded"#),
    );
    check(
        &providers("{secretbox: {keys: [{name: a, secret: MDEyMzQ1Njc4OWFiY2RlZg==}]}}"),
        &format!(
            r#"{at}.secret: Invalid value: "REDACTED": secret is not of the expected length, got 16, expected one of [32]"#
        ),
    );
    check(
        &providers("{aesgcm: {keys: [{name: a, secret: MDEyMw==}]}}"),
        r#"resources[0].providers[0].aesgcm.keys[0].secret: Invalid value: "REDACTED": secret is not of the expected length, got 4, expected one of [16 24 32]"#,
    );
}

#[test]
fn an_element_is_one_provider() {
    check(
        &providers("{}"),
        r#"resources[0].providers[0]: Invalid value: {"AESGCM":null,"AESCBC":null,"Secretbox":null,"Identity":null,"KMS":null}: provider does not contain any of the expected providers: KMS, AESGCM, AESCBC, Secretbox, Identity"#,
    );
    check(
        &providers("{identity: {}, kms: {apiVersion: v2, name: a, endpoint: 'unix:///a'}}"),
        "resources[0].providers[0]: Invalid value: more than one provider specified in a single element, should split into different list elements",
    );
}

#[test]
fn a_plugin_has_a_name_and_a_unix_socket() {
    let at = "resources[0].providers[0].kms";
    check(
        &providers("{kms: {apiVersion: v2, name: 'a:b', endpoint: 'unix:///a'}}"),
        &format!(r#"{at}.name: Invalid value: "a:b": invalid KMS provider name a:b, must not contain ':'"#),
    );
    check(
        &providers("{kms: {apiVersion: v2, endpoint: 'tcp://a', timeout: 0s, cachesize: 5}}"),
        &format!(
            r#"[{at}.name: Required value: name is a mandatory field for a provider, {at}.timeout: Invalid value: "0s": timeout should be a positive value, {at}.endpoint: Invalid value: "tcp://a": unsupported scheme "tcp" for KMS provider, only unix is supported, {at}.cachesize: Invalid value: 5: cachesize is not supported in v2]"#
        ),
    );
    check(
        &providers("{kms: {apiVersion: v3, name: a, endpoint: 'unix:///a'}}"),
        &format!(
            r#"{at}.apiVersion: Invalid value: "v3": unsupported apiVersion apiVersion for KMS provider, only v1 and v2 are supported"#
        ),
    );
    let twice = "{kms: {apiVersion: v2, name: a, endpoint: 'unix:///a'}}";
    check(
        &providers(&format!("{twice}, {twice}")),
        r#"resources[0].providers[1].kms.name: Invalid value: "a": duplicate KMS provider name a, names must be unique"#,
    );
}
