//! Label and field selectors: the text of one is the same selector.

use setpoint_api::selector::{FieldSelector, LabelSelector};

use super::Target;
use crate::corpus;

pub(super) const TARGET: Target = Target {
    name: "selector",
    cost: 1,
    seeds: || corpus::lines("selectors.txt"),
    run,
};

fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(selector) = text.parse::<LabelSelector>() {
        let again = selector.to_string().parse();
        assert_eq!(again.as_ref(), Ok(&selector), "{text:?} is {selector}");
        selector.matches(|_| None);
        selector.matches(|_| Some("1"));
    }
    if let Ok(selector) = text.parse::<FieldSelector>() {
        let again = selector.to_string().parse();
        assert_eq!(again.as_ref(), Ok(&selector), "{text:?} is {selector}");
        selector.matches(|_| Some("x"));
    }
}
