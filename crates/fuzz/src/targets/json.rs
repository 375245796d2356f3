//! JSON: what is read can be written and read again, and the text does not grow.

use setpoint_codec::json;

use super::Target;
use crate::corpus;

pub(super) const TARGET: Target = Target {
    name: "json",
    cost: 1,
    seeds: || corpus::files("json"),
    run,
};

/// A control character or an invalid byte takes at most this many bytes when it is written.
const GROWTH: usize = 6;

fn run(bytes: &[u8]) {
    let members = json::scan::members(bytes);
    members.take_while(Result::is_ok).for_each(drop);
    let Ok(tree) = json::parse(bytes) else { return };
    let written = json::write(&tree);
    assert!(written.len() <= GROWTH * bytes.len(), "the text has grown");
    // Numbers may take another form once: -0.0 is written as the integer it is read as.
    let again = json::parse(&written).expect("what was written can be read");
    let written = json::write(&again);
    assert_eq!(
        json::parse(&written),
        Ok(again),
        "it is read as something else again"
    );
    json::indent(&written);
}
