//! Formats of names, keys and label values, with Kubernetes' messages.
//!
//! A check returns the error messages; an empty list means that the text is valid. The formats are those of
//! <https://kubernetes.io/docs/concepts/overview/working-with-objects/names/>.

use setpoint_api::field::Errors;

use crate::field::FieldRef;

pub use setpoint_api::name::{
    Violations, check_dns1123_label, check_dns1123_subdomain, check_label_value, check_length,
    check_qualified_name, is_dns1123_label,
};

const SERVICE: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const CONFIG_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

const WILDCARD: &str = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used for validation is '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const CASELESS: &str = "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'Example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// A DNS-1123 subdomain in any case, at most 253 bytes.
pub fn caseless_subdomain(text: &str) -> Violations {
    let mut violations = check_length(text, 253);
    if !text.to_ascii_lowercase().split('.').all(is_dns1123_label) {
        violations.push(CASELESS.to_owned());
    }
    violations
}

/// A DNS-1123 subdomain whose first label is `*`.
pub fn wildcard_subdomain(text: &str) -> Violations {
    let mut violations = check_length(text, 253);
    let rest = text.strip_prefix("*.");
    if !rest.is_some_and(|rest| rest.split('.').all(is_dns1123_label)) {
        violations.push(WILDCARD.to_owned());
    }
    violations
}

/// A path segment of a URL.
pub fn path_segment(text: &str) -> Violations {
    if matches!(text, "." | "..") {
        return vec![format!("may not be '{text}'")];
    }
    ["/", "%"]
        .iter()
        .filter(|part| text.contains(**part))
        .map(|part| format!("may not contain '{part}'"))
        .collect()
}

/// A key of a ConfigMap or a Secret.
pub fn config_key(text: &str) -> Violations {
    let mut violations = check_length(text, 253);
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    if text.is_empty() || !text.bytes().all(allowed) {
        violations.push(CONFIG_KEY.to_owned());
    } else if text == "." || text == ".." {
        violations.push(format!("must not be '{text}'"));
    } else if text.starts_with("..") {
        violations.push("must not start with '..'".to_owned());
    }
    violations
}

/// The name of an environment variable.
pub fn env_var(text: &str) -> Violations {
    let allowed = |byte: u8| (b' '..=b'~').contains(&byte) && byte != b'=';
    if !text.is_empty() && text.bytes().all(allowed) {
        return Violations::new();
    }
    vec![
        "a valid environment variable name must consist only of printable ASCII characters other than '='"
            .to_owned(),
    ]
}

/// A port name (IANA service name): at most 15 bytes, with at least one letter.
pub fn port(text: &str) -> Violations {
    let mut violations = Violations::new();
    if text.len() > 15 {
        violations.push("must be no more than 15 characters".to_owned());
    }
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if !text.bytes().all(allowed) {
        violations.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !text.bytes().any(|byte| byte.is_ascii_lowercase()) {
        violations.push("must contain at least one letter (a-z)".to_owned());
    }
    if text.contains("--") {
        violations.push("must not contain consecutive hyphens".to_owned());
    }
    if text.starts_with('-') || text.ends_with('-') {
        violations.push("must not begin or end with a hyphen".to_owned());
    }
    violations
}

/// A DNS-1035 label: lower-case, starts with a letter, at most 63 bytes.
pub fn service(text: &str) -> Violations {
    let mut violations = check_length(text, 63);
    if !is_dns1123_label(text) || text.starts_with(|first: char| first.is_ascii_digit()) {
        violations.push(SERVICE.to_owned());
    }
    violations
}

/// The warning about a name that is not a DNS label although pods are named after it.
pub fn recommend_label(text: &str) -> Option<String> {
    let violations = check_dns1123_label(text);
    let advice = "this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended";
    (!violations.is_empty()).then(|| format!("metadata.name: {advice}: [{}]", violations.join(" ")))
}

/// Reports a string field by one of the checks above.
pub fn check(field: &FieldRef<'_>, form: fn(&str) -> Violations) {
    report(field.str(), form(field.str()), field.errors());
}

/// Reports a string field as upstream's declarative validation does, which counts lengths in bytes. Absence is
/// reported elsewhere.
pub fn check_declarative(field: &FieldRef<'_>, form: fn(&str) -> Violations) {
    if field.is_empty() {
        return;
    }
    for violation in form(field.str()) {
        let is_length = violation.starts_with("must be no more than");
        match is_length {
            true => field.invalid(&violation.replace(" characters", " bytes")),
            false => field.invalid(&violation),
        }
    }
}

/// Reports error messages about a text.
pub fn report(text: &str, violations: Violations, errors: &Errors) {
    for violation in violations {
        errors.invalid(text, &violation);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(violations: &Violations, expected: &[&str]) {
        assert_eq!(violations.len(), expected.len(), "{violations:?}");
        for (violation, start) in violations.iter().zip(expected) {
            assert!(violation.starts_with(start), "{violation}");
        }
    }

    #[test]
    fn subdomains_are_lower_case_words_joined_by_dots() {
        check(&check_dns1123_subdomain("a.b-c.9"), &[]);
        check(
            &check_dns1123_subdomain("Bad_Name"),
            &["a lowercase RFC 1123 subdomain"],
        );
        check(
            &check_dns1123_subdomain("a..b"),
            &["a lowercase RFC 1123 subdomain"],
        );
        check(
            &check_dns1123_subdomain("-a"),
            &["a lowercase RFC 1123 subdomain"],
        );
        check(
            &check_dns1123_subdomain(&"a".repeat(254)),
            &["must be no more than 253 characters"],
        );
    }

    #[test]
    fn labels_are_one_word() {
        check(&check_dns1123_label("web-1"), &[]);
        check(&check_dns1123_label("a.b"), &["must not contain dots"]);
        check(&check_dns1123_label("a..b"), &["a lowercase RFC 1123 label"]);
        check(
            &check_dns1123_label(&"a".repeat(64)),
            &["must be no more than 63 characters"],
        );
    }

    #[test]
    fn label_keys_may_have_a_domain() {
        check(&check_qualified_name("app"), &[]);
        check(&check_qualified_name("example.com/App_1"), &[]);
        check(&check_qualified_name("bad key"), &["name part must consist"]);
        check(&check_qualified_name("/x"), &["prefix part must be non-empty"]);
        check(&check_qualified_name("A_/x"), &["prefix part a lowercase"]);
        check(
            &check_qualified_name("a/b/c"),
            &["a valid label key must consist"],
        );
        check(
            &check_qualified_name(""),
            &["name part must be non-empty", "name part must consist"],
        );
    }

    #[test]
    fn label_values_may_be_empty() {
        check(&check_label_value(""), &[]);
        check(&check_label_value("a_B.c"), &[]);
        check(
            &check_label_value("bad value!"),
            &["a valid label must be an empty string"],
        );
        check(
            &check_label_value(&"v".repeat(64)),
            &["must be no more than 63 bytes"],
        );
    }

    #[test]
    fn config_keys_are_file_names() {
        check(&config_key("key.name_1"), &[]);
        check(&config_key("a b"), &["a valid config key"]);
        check(&config_key(".."), &["must not be '..'"]);
        check(&config_key("..a"), &["must not start with '..'"]);
    }

    #[test]
    fn port_names_have_a_letter() {
        check(&port("http"), &[]);
        check(&port("80"), &["must contain at least one letter"]);
        check(&port("Http"), &["must contain only alpha-numeric"]);
        check(&port("a--b"), &["must not contain consecutive"]);
    }
}
