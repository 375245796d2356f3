//! Names of groups, versions and kinds as they stand in the names of operations.

/// A group as it stands in names: `RbacAuthorization` and `rbacAuthorization` for `rbac.authorization.k8s.io`.
pub(super) fn words(group: &str) -> (String, String) {
    let group = if group.is_empty() { "core" } else { group };
    let parts: Vec<&str> = group.trim_end_matches(".k8s.io").split('.').collect();
    let word: String = parts.iter().map(|part| title(part)).collect();
    let tag = parts[0].to_owned() + &parts[1..].iter().map(|part| title(part)).collect::<String>();
    (word, tag)
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
    fn check(group: &str, word: &str, tag: &str) {
        assert_eq!(words(group), (word.to_owned(), tag.to_owned()), "{group}");
    }

    #[test]
    fn names_of_groups_are_put_together_from_their_words() {
        check("", "Core", "core");
        check("apps", "Apps", "apps");
        check(
            "rbac.authorization.k8s.io",
            "RbacAuthorization",
            "rbacAuthorization",
        );
    }
}
