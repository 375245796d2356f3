//! What names, keys and label values may look like, in Kubernetes' words.
//!
//! A check returns the sentences that say what is wrong; none means all is well. The forms are those of
//! <https://kubernetes.io/docs/concepts/overview/working-with-objects/names/>.

use setpoint_api::field::Errors;

use crate::at::At;

pub use setpoint_api::name::{Complaints, is_label, label, label_value, qualified, subdomain, too_long};

const SERVICE: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const CONFIG_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

const WILDCARD: &str = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used for validation is '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const CASELESS: &str = "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'Example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// Words of any case joined by dots, at most 253 bytes.
pub fn caseless_subdomain(text: &str) -> Complaints {
    let mut complaints = too_long(text, 253);
    if !text.to_ascii_lowercase().split('.').all(is_label) {
        complaints.push(CASELESS.to_owned());
    }
    complaints
}

/// A subdomain whose first word may be anything.
pub fn wildcard_subdomain(text: &str) -> Complaints {
    let mut complaints = too_long(text, 253);
    let rest = text.strip_prefix("*.");
    if !rest.is_some_and(|rest| rest.split('.').all(is_label)) {
        complaints.push(WILDCARD.to_owned());
    }
    complaints
}

/// Anything that can stand between two slashes of a URL.
pub fn path_segment(text: &str) -> Complaints {
    if matches!(text, "." | "..") {
        return vec![format!("may not be '{text}'")];
    }
    ["/", "%"]
        .iter()
        .filter(|part| text.contains(**part))
        .map(|part| format!("may not contain '{part}'"))
        .collect()
}

/// The key of an entry in a config map or a secret.
pub fn config_key(text: &str) -> Complaints {
    let mut complaints = too_long(text, 253);
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    if text.is_empty() || !text.bytes().all(allowed) {
        complaints.push(CONFIG_KEY.to_owned());
    } else if text == "." || text == ".." {
        complaints.push(format!("must not be '{text}'"));
    } else if text.starts_with("..") {
        complaints.push("must not start with '..'".to_owned());
    }
    complaints
}

/// The name of an environment variable.
pub fn env_var(text: &str) -> Complaints {
    let allowed = |byte: u8| (b' '..=b'~').contains(&byte) && byte != b'=';
    if !text.is_empty() && text.bytes().all(allowed) {
        return Complaints::new();
    }
    vec![
        "a valid environment variable name must consist only of printable ASCII characters other than '='"
            .to_owned(),
    ]
}

/// The name of a port: a word of at most 15 bytes with a letter in it.
pub fn port(text: &str) -> Complaints {
    let mut complaints = Complaints::new();
    if text.len() > 15 {
        complaints.push("must be no more than 15 characters".to_owned());
    }
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if !text.bytes().all(allowed) {
        complaints.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !text.bytes().any(|byte| byte.is_ascii_lowercase()) {
        complaints.push("must contain at least one letter (a-z)".to_owned());
    }
    if text.contains("--") {
        complaints.push("must not contain consecutive hyphens".to_owned());
    }
    if text.starts_with('-') || text.ends_with('-') {
        complaints.push("must not begin or end with a hyphen".to_owned());
    }
    complaints
}

/// One lower-case word that begins with a letter, at most 63 bytes: what a service may be called.
pub fn service(text: &str) -> Complaints {
    let mut complaints = too_long(text, 63);
    if !is_label(text) || text.starts_with(|first: char| first.is_ascii_digit()) {
        complaints.push(SERVICE.to_owned());
    }
    complaints
}

/// What to tell the caller whose name goes into the names of pods but is no host name.
pub fn recommend_label(text: &str) -> Option<String> {
    let complaints = label(text);
    let advice = "this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended";
    (!complaints.is_empty()).then(|| format!("metadata.name: {advice}: [{}]", complaints.join(" ")))
}

/// Reports a text at a place by one of the checks above.
pub fn check(place: &At<'_>, form: fn(&str) -> Complaints) {
    report(place.str(), form(place.str()), place.errors());
}

/// Reports a text by a check that is declared with its field: lengths are counted in bytes there. What is absent is for
/// others to report.
pub fn declared(place: &At<'_>, form: fn(&str) -> Complaints) {
    if place.is_empty() {
        return;
    }
    for complaint in form(place.str()) {
        let is_length = complaint.starts_with("must be no more than");
        match is_length {
            true => place.invalid(&complaint.replace(" characters", " bytes")),
            false => place.invalid(&complaint),
        }
    }
}

/// Reports every complaint about a text at this place.
pub fn report(text: &str, complaints: Complaints, errors: &Errors) {
    for complaint in complaints {
        errors.invalid(text, &complaint);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(complaints: &Complaints, expected: &[&str]) {
        assert_eq!(complaints.len(), expected.len(), "{complaints:?}");
        for (complaint, start) in complaints.iter().zip(expected) {
            assert!(complaint.starts_with(start), "{complaint}");
        }
    }

    #[test]
    fn subdomains_are_lower_case_words_joined_by_dots() {
        check(&subdomain("a.b-c.9"), &[]);
        check(&subdomain("Bad_Name"), &["a lowercase RFC 1123 subdomain"]);
        check(&subdomain("a..b"), &["a lowercase RFC 1123 subdomain"]);
        check(&subdomain("-a"), &["a lowercase RFC 1123 subdomain"]);
        check(
            &subdomain(&"a".repeat(254)),
            &["must be no more than 253 characters"],
        );
    }

    #[test]
    fn labels_are_one_word() {
        check(&label("web-1"), &[]);
        check(&label("a.b"), &["must not contain dots"]);
        check(&label("a..b"), &["a lowercase RFC 1123 label"]);
        check(&label(&"a".repeat(64)), &["must be no more than 63 characters"]);
    }

    #[test]
    fn label_keys_may_have_a_domain() {
        check(&qualified("app"), &[]);
        check(&qualified("example.com/App_1"), &[]);
        check(&qualified("bad key"), &["name part must consist"]);
        check(&qualified("/x"), &["prefix part must be non-empty"]);
        check(&qualified("A_/x"), &["prefix part a lowercase"]);
        check(&qualified("a/b/c"), &["a qualified name must consist"]);
        check(
            &qualified(""),
            &["name part must be non-empty", "name part must consist"],
        );
    }

    #[test]
    fn label_values_may_be_empty() {
        check(&label_value(""), &[]);
        check(&label_value("a_B.c"), &[]);
        check(
            &label_value("bad value!"),
            &["a valid label must be an empty string"],
        );
        check(&label_value(&"v".repeat(64)), &["must be no more than 63 bytes"]);
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
