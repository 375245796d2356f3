//! Names of groups and versions in operation ids and tags.

/// A group's name in operation ids and in tags: `RbacAuthorization` and `rbacAuthorization` for
/// `rbac.authorization.k8s.io`.
pub(super) fn group_names(group: &str) -> (String, String) {
    let group = if group.is_empty() { "core" } else { group };
    let parts: Vec<&str> = group.trim_end_matches(".k8s.io").split('.').collect();
    let id: String = parts.iter().map(|part| title(part)).collect();
    let tag = parts[0].to_owned() + &parts[1..].iter().map(|part| title(part)).collect::<String>();
    (id, tag)
}

pub(super) fn title(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(group: &str, id: &str, tag: &str) {
        assert_eq!(group_names(group), (id.to_owned(), tag.to_owned()), "{group}");
    }

    #[test]
    fn a_group_is_named_by_its_labels_in_camel_case() {
        check("", "Core", "core");
        check("apps", "Apps", "apps");
        check(
            "rbac.authorization.k8s.io",
            "RbacAuthorization",
            "rbacAuthorization",
        );
    }
}
