//! User names and groups of service accounts.

/// The prefix of the user name of a service account.
const PREFIX: &str = "system:serviceaccount:";
/// The group of all service accounts.
const ALL: &str = "system:serviceaccounts";

/// The user name of a service account.
pub fn user_name(namespace: &str, name: &str) -> String {
    format!("{PREFIX}{namespace}:{name}")
}

/// Namespace and name of the service account that has this user name.
pub fn parse(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(PREFIX)?.split_once(':')?;
    (is_label(namespace) && is_subdomain(name)).then_some((namespace, name))
}

/// The groups of every service account of a namespace.
pub fn groups(namespace: &str) -> Vec<String> {
    vec![ALL.to_owned(), format!("{ALL}:{namespace}")]
}

/// Whether a text is a DNS subdomain: labels with dots between them.
pub(crate) fn is_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(|part| part.len() <= 253 && is_dns(part))
}

fn is_label(text: &str) -> bool {
    text.len() <= 63 && is_dns(text)
}

fn is_dns(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.first().copied().is_some_and(plain)
        && bytes.last().copied().is_some_and(plain)
        && bytes.iter().all(|byte| plain(*byte) || *byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(user: &str, expected: Option<(&str, &str)>) {
        assert_eq!(parse(user), expected);
    }

    #[test]
    fn a_service_account_is_namespace_and_name() {
        check("system:serviceaccount:ns1:sa.a", Some(("ns1", "sa.a")));
        assert_eq!(user_name("ns1", "sa.a"), "system:serviceaccount:ns1:sa.a");
        assert_eq!(
            groups("ns1"),
            ["system:serviceaccounts", "system:serviceaccounts:ns1"]
        );
    }

    #[test]
    fn a_malformed_name_is_not_a_service_account() {
        check("alice", None);
        check("system:serviceaccount:ns1", None);
        check("system:serviceaccount:ns1:a:b", None);
        check("system:serviceaccount:Ns1:a", None);
        check("system:serviceaccount::a", None);
    }
}
