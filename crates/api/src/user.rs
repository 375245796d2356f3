//! Who is calling.

use std::collections::BTreeMap;

/// A caller as its credentials name it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// The group whose members may do anything.
    pub const MASTERS: &'static str = "system:masters";
    /// The group of everyone who showed credentials.
    pub const AUTHENTICATED: &'static str = "system:authenticated";
    /// The group of everyone who did not.
    pub const UNAUTHENTICATED: &'static str = "system:unauthenticated";

    /// A user in these groups.
    pub fn new(name: &str, groups: &[&str]) -> Self {
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        Self {
            name: name.to_owned(),
            groups,
            ..Self::default()
        }
    }

    /// A caller without credentials.
    pub fn anonymous() -> Self {
        Self::new("system:anonymous", &[Self::UNAUTHENTICATED])
    }

    /// A part of this process, by its name as a component.
    pub fn component(name: &str) -> Self {
        Self::new(name, &[Self::MASTERS, Self::AUTHENTICATED])
    }

    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }
}
