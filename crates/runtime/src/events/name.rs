//! Names of events: the name of the object and the time, so that no two events have the same name.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use setpoint_api::name;

/// Generates the names of one sink's events.
#[derive(Debug, Default)]
pub(super) struct NameGenerator {
    /// The number in the last name; names must differ even where the clock does not move.
    last: i128,
}

impl NameGenerator {
    /// A unique name for an event about the object. If the object's name is not valid in an event's name, it is random.
    pub(super) fn next(&mut self, involved_object: &ObjectReference, now: Timestamp) -> String {
        self.last = now.as_nanosecond().max(self.last + 1);
        let name = format!(
            "{}.{:x}",
            involved_object.name.as_deref().unwrap_or("unknown"),
            self.last
        );
        match name::check_dns1123_subdomain(&name).is_empty() {
            true => name,
            false => format!("{:032x}", rand::random::<u128>()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(names: &mut NameGenerator, about: &str) -> String {
        let about = ObjectReference {
            name: Some(about.to_owned()),
            ..ObjectReference::default()
        };
        names.next(&about, Timestamp::from_nanosecond(0x10).expect("it is a time"))
    }

    #[test]
    fn names_differ_though_the_clock_stands_still() {
        let mut names = NameGenerator::default();
        assert_eq!(next(&mut names, "web"), "web.10");
        assert_eq!(next(&mut names, "web"), "web.11");
    }

    #[test]
    fn an_event_about_an_object_with_an_invalid_name_has_a_random_name() {
        let mut names = NameGenerator::default();
        for odd in ["system:node", "Upper", &"a".repeat(252)] {
            let name = next(&mut names, odd);
            assert!(
                name::check_dns1123_subdomain(&name).is_empty() && name.len() == 32,
                "{name}"
            );
        }
    }
}
