//! Validation of names, label keys and label values (upstream: `util/validation`).
//!
//! Each check returns Kubernetes' messages for the rules that the text violates; an empty list means it is valid. The
//! rules are those of <https://kubernetes.io/docs/concepts/overview/working-with-objects/names/>.

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// Messages of the rules that a text violates.
pub type Violations = Vec<String>;

/// A DNS subdomain: DNS labels joined by dots, at most 253 bytes.
pub fn check_dns1123_subdomain(text: &str) -> Violations {
    let mut violations = check_length(text, 253);
    if !text.split('.').all(is_dns1123_label) {
        violations.push(SUBDOMAIN.to_owned());
    }
    violations
}

/// A DNS label: lower-case letters, digits and `-`, at most 63 bytes.
pub fn check_dns1123_label(text: &str) -> Violations {
    let mut violations = check_length(text, 63);
    if !is_dns1123_label(text) {
        let dots_only = text.split('.').all(is_dns1123_label);
        let violation = if dots_only { "must not contain dots" } else { LABEL };
        violations.push(violation.to_owned());
    }
    violations
}

/// The key of a label or annotation: a name with an optional DNS subdomain prefix and slash.
pub fn check_qualified_name(text: &str) -> Violations {
    let mut violations = Violations::new();
    let mut parts = text.split('/');
    let (first, second, third) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
    let name = match (second, third) {
        (None, _) => first,
        (Some(name), None) => {
            if first.is_empty() {
                violations.push("prefix part must be non-empty".to_owned());
            } else {
                violations.extend(
                    check_dns1123_subdomain(first)
                        .iter()
                        .map(|why| format!("prefix part {why}")),
                );
            }
            name
        }
        (Some(_), Some(_)) => {
            let form = "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
            return vec![form.to_owned()];
        }
    };
    if name.is_empty() {
        violations.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        violations.push("name part must be no more than 63 bytes".to_owned());
    }
    if !is_word(name) {
        violations.push(QUALIFIED.to_owned());
    }
    violations
}

/// The value of a label, which may be empty.
pub fn check_label_value(text: &str) -> Violations {
    let mut violations = Violations::new();
    if text.len() > 63 {
        violations.push("must be no more than 63 bytes".to_owned());
    }
    if !text.is_empty() && !is_word(text) {
        violations.push(VALUE.to_owned());
    }
    violations
}

/// The length of a text, at most `max` characters.
pub fn check_length(text: &str, max: usize) -> Violations {
    if text.len() <= max {
        return Violations::new();
    }
    vec![format!("must be no more than {max} characters")]
}

/// Whether a text is a DNS label, its length aside.
pub fn is_dns1123_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

fn is_word(text: &str) -> bool {
    let bytes = text.as_bytes();
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let inner = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    edge(bytes.first()) && edge(bytes.last()) && bytes.iter().all(inner)
}
