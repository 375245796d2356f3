//! What events are called: after the object and the time, so that no two have the same name.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use setpoint_api::name;

/// Gives names to the events of one sink.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// The number in the last name; names must differ even where the clock does not move.
    last: i128,
}

impl Names {
    /// A name that no other event about the object has. Some objects have names that an event cannot have; then it says
    /// nothing.
    pub(super) fn next(&mut self, about: &ObjectReference, now: Timestamp) -> String {
        self.last = now.as_nanosecond().max(self.last + 1);
        let name = format!("{}.{:x}", about.name.as_deref().unwrap_or("unknown"), self.last);
        match name::subdomain(&name).is_empty() {
            true => name,
            false => format!("{:032x}", rand::random::<u128>()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(names: &mut Names, about: &str) -> String {
        let about = ObjectReference {
            name: Some(about.to_owned()),
            ..ObjectReference::default()
        };
        names.next(&about, Timestamp::from_nanosecond(0x10).expect("it is a time"))
    }

    #[test]
    fn names_differ_though_the_clock_stands_still() {
        let mut names = Names::default();
        assert_eq!(next(&mut names, "web"), "web.10");
        assert_eq!(next(&mut names, "web"), "web.11");
    }

    #[test]
    fn an_object_whose_name_no_event_can_have_is_not_named() {
        let mut names = Names::default();
        for odd in ["system:node", "Upper", &"a".repeat(252)] {
            let name = next(&mut names, odd);
            assert!(name::subdomain(&name).is_empty() && name.len() == 32, "{name}");
        }
    }
}
