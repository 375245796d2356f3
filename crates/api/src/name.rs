//! What names, label keys and label values may look like, in Kubernetes' words.
//!
//! A check returns the sentences that say what is wrong; none means all is well. The forms are those of
//! <https://kubernetes.io/docs/concepts/overview/working-with-objects/names/>.

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// What is wrong with a text, sentence by sentence.
pub type Complaints = Vec<String>;

/// Lower-case words joined by dots, at most 253 bytes.
pub fn subdomain(text: &str) -> Complaints {
    let mut complaints = too_long(text, 253);
    if !text.split('.').all(is_label) {
        complaints.push(SUBDOMAIN.to_owned());
    }
    complaints
}

/// One lower-case word, at most 63 bytes.
pub fn label(text: &str) -> Complaints {
    let mut complaints = too_long(text, 63);
    if !is_label(text) {
        let dots_only = text.split('.').all(is_label);
        let complaint = if dots_only { "must not contain dots" } else { LABEL };
        complaints.push(complaint.to_owned());
    }
    complaints
}

/// The key of a label or annotation: a name, perhaps behind a domain and a slash.
pub fn qualified(text: &str) -> Complaints {
    let mut complaints = Complaints::new();
    let mut parts = text.split('/');
    let (first, second, third) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
    let name = match (second, third) {
        (None, _) => first,
        (Some(name), None) => {
            if first.is_empty() {
                complaints.push("prefix part must be non-empty".to_owned());
            } else {
                complaints.extend(subdomain(first).iter().map(|why| format!("prefix part {why}")));
            }
            name
        }
        (Some(_), Some(_)) => {
            let form = "a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
            return vec![form.to_owned()];
        }
    };
    if name.is_empty() {
        complaints.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        complaints.push("name part must be no more than 63 bytes".to_owned());
    }
    if !is_word(name) {
        complaints.push(QUALIFIED.to_owned());
    }
    complaints
}

/// The value of a label; may be empty.
pub fn label_value(text: &str) -> Complaints {
    let mut complaints = Complaints::new();
    if text.len() > 63 {
        complaints.push("must be no more than 63 bytes".to_owned());
    }
    if !text.is_empty() && !is_word(text) {
        complaints.push(VALUE.to_owned());
    }
    complaints
}

/// A complaint about a text that is longer than this many characters.
pub fn too_long(text: &str, most: usize) -> Complaints {
    if text.len() <= most {
        return Complaints::new();
    }
    vec![format!("must be no more than {most} characters")]
}

/// Whether a text is one lower-case word.
pub fn is_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

fn is_word(text: &str) -> bool {
    let bytes = text.as_bytes();
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let inner = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    edge(bytes.first()) && edge(bytes.last()) && bytes.iter().all(inner)
}
