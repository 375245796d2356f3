//! The rules of a user, as far as the authorizers can list them.

use super::PolicyRule;

/// All rules of a user in a namespace (upstream: the result of `RuleResolver.RulesFor`).
#[derive(Debug, Default)]
pub struct UserRules {
    pub rules: Vec<PolicyRule>,
    /// Errors of bindings whose role does not exist, and of authorizers that cannot list their rules.
    pub problems: Vec<String>,
    /// Whether the user may have further permissions that cannot be listed.
    pub incomplete: bool,
}

impl UserRules {
    /// The rules of an authorizer that cannot list them.
    pub(crate) fn unsupported(problem: &str) -> Self {
        Self {
            problems: vec![problem.to_owned()],
            incomplete: true,
            ..Self::default()
        }
    }

    /// Adds the rules of another authorizer.
    pub(crate) fn extend(&mut self, other: Self) {
        self.rules.extend(other.rules);
        self.problems.extend(other.problems);
        self.incomplete |= other.incomplete;
    }
}
