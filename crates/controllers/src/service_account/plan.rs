//! Which service accounts a namespace lacks: pure.

use setpoint_api::Stored;

/// The accounts that every namespace in use has.
const ACCOUNTS: [&str; 1] = ["default"];

/// The accounts that the namespace should have and does not.
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
    fn a_namespace_in_use_has_a_default_account() {
        check(false, &[], &["default"]);
        check(false, &["default"], &[]);
    }

    #[test]
    fn a_namespace_on_its_way_out_gets_none() {
        check(true, &[], &[]);
    }
}
