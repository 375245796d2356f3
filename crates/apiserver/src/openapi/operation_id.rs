//! Names of groups and versions in operation ids and tags.

/// A group's name in operation ids and in tags: `RbacAuthorization` and `rbacAuthorization` for
/// `rbac.authorization.k8s.io`.
pub(super) fn group_names(group: &str) -> (String, String) {
    let group = if group.is_empty() { "core" } else { group };
    let group = group.strip_suffix(".k8s.io").unwrap_or(group);
    (camel_case(group, true), camel_case(group, false))
}

/// A name without what an identifier may not have; the letter after it is a capital, and the first letter may be. A
/// digit at the start is left out too.
pub(super) fn camel_case(name: &str, capital: bool) -> String {
    let mut id = String::with_capacity(name.len());
    let mut capital = capital;
    for (at, letter) in name.char_indices() {
        if !letter.is_alphabetic() && letter != '_' && (at == 0 || !letter.is_numeric()) {
            capital = true;
        } else if std::mem::take(&mut capital) {
            id.extend(letter.to_uppercase());
        } else {
            id.push(letter);
        }
    }
    id
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

    #[test]
    fn a_letter_after_a_hyphen_is_a_capital() {
        check("acme.cert-manager.io", "AcmeCertManagerIo", "acmeCertManagerIo");
        check("3d.example.com", "DExampleCom", "DExampleCom");
        check("a-1.b", "A1B", "a1B");
    }
}
