//! Which ServiceAccounts a namespace lacks. Pure.

use setpoint_api::Stored;

/// The ServiceAccounts of every active namespace.
const ACCOUNTS: [&str; 1] = ["default"];

/// The ServiceAccounts that the namespace should have and lacks.
pub(crate) fn missing<'a>(
    namespace: &'a Stored,
    has: impl Fn(&str) -> bool + 'a,
) -> impl Iterator<Item = &'static str> + 'a {
    let in_use = !namespace.header().deleting;
    ACCOUNTS.into_iter().filter(move |name| in_use && !has(name))
}

#[cfg(test)]
mod tests {
    use setpoint_api::{Header, Key};

    use super::*;

    #[track_caller]
    fn check(deleting: bool, has: &[&str], expected: &[&str]) {
        let mut header = Header::new(Key::new("", "team"));
        header.deleting = deleting;
        let namespace = Stored::new(header, bytes::Bytes::from_static(b"{}"), 1);
        let found: Vec<&str> = missing(&namespace, |name| has.contains(&name)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn an_active_namespace_has_a_default_account() {
        check(false, &[], &["default"]);
        check(false, &["default"], &[]);
    }

    #[test]
    fn a_terminating_namespace_gets_none() {
        check(true, &[], &[]);
    }
}
