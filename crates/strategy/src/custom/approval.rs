//! The API approval policy: a CRD in a group of the Kubernetes community names where its API was approved.

use setpoint_api::field::DisplayJson;

/// The annotation with the approval: a URL, or a reason that starts with `unapproved`.
pub const ANNOTATION: &str = "api-approved.kubernetes.io";

/// Whether the API of a CRD is approved, by its annotation (upstream: `APIApprovalState`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalState {
    Approved,
    /// The author declares that the API is not approved, which is allowed.
    Bypassed,
    Missing,
    Invalid,
}

/// The approval of a CRD by its group and the value of the annotation, with a message. `None` for groups that need none.
pub fn approval(group: &str, annotation: &str) -> Option<(ApprovalState, String)> {
    const PROPOSAL: &str = "see https://github.com/kubernetes/enhancements/pull/1111";
    if !is_protected(group) {
        return None;
    }
    let name = ANNOTATION;
    Some(match annotation {
        "" => (
            ApprovalState::Missing,
            format!("protected groups must have approval annotation \"{name}\", {PROPOSAL}"),
        ),
        reason if reason.starts_with("unapproved") => (
            ApprovalState::Bypassed,
            format!("not approved: {}", reason.display_json()),
        ),
        url if is_url(url) => (ApprovalState::Approved, format!("approved in {url}")),
        _ => (
            ApprovalState::Invalid,
            format!(
                "protected groups must have approval annotation \"{name}\" with either a URL or a reason starting with \
                 \"unapproved\", {PROPOSAL}"
            ),
        ),
    })
}

/// Whether a group is one of the Kubernetes community.
fn is_protected(group: &str) -> bool {
    let mut domains = ["k8s.io", "kubernetes.io"].into_iter();
    domains.any(|domain| {
        let parent = group.strip_suffix(domain);
        parent.is_some_and(|parent| parent.is_empty() || parent.ends_with('.'))
    })
}

/// Whether a text is a URL with scheme and host.
fn is_url(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else {
        return false;
    };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let is_scheme = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '+' | '-' | '.');
    scheme.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && scheme.chars().all(is_scheme)
        && !host.is_empty()
        && !host.contains(' ')
        && !text.contains(|letter: char| letter.is_ascii_control())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(group: &str, annotation: &str, expected: Option<ApprovalState>) {
        let found = approval(group, annotation).map(|(state, _)| state);
        assert_eq!(found, expected, "{group} {annotation}");
    }

    #[test]
    fn a_community_group_needs_an_approval() {
        check("example.com", "", None);
        check("xk8s.io", "", None);
        check("k8s.io", "", Some(ApprovalState::Missing));
        check("gateway.networking.k8s.io", "", Some(ApprovalState::Missing));
        check(
            "a.kubernetes.io",
            "https://github.com/kubernetes/x/pull/1",
            Some(ApprovalState::Approved),
        );
        check("a.k8s.io", "unapproved, a trial", Some(ApprovalState::Bypassed));
        for invalid in ["yes", "/pull/1", "https://", "://x", "1a://x"] {
            check("a.k8s.io", invalid, Some(ApprovalState::Invalid));
        }
    }
}
