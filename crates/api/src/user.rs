//! [`User`]: the authenticated identity of a caller (upstream: `user.Info`).

use std::collections::BTreeMap;

/// The identity that a caller's credentials prove.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// The group whose members bypass authorization.
    pub const MASTERS: &'static str = "system:masters";
    /// The group of all authenticated users.
    pub const AUTHENTICATED: &'static str = "system:authenticated";
    /// The group of the anonymous user.
    pub const UNAUTHENTICATED: &'static str = "system:unauthenticated";

    /// A user with these groups.
    pub fn new(name: &str, groups: &[&str]) -> Self {
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        Self {
            name: name.to_owned(),
            groups,
            ..Self::default()
        }
    }

    /// The user of requests without credentials.
    pub fn anonymous() -> Self {
        Self::new("system:anonymous", &[Self::UNAUTHENTICATED])
    }

    /// A component of this process, by its user name (`system:kube-scheduler`); it bypasses authorization.
    pub fn component(name: &str) -> Self {
        Self::new(name, &[Self::MASTERS, Self::AUTHENTICATED])
    }

    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }
}
