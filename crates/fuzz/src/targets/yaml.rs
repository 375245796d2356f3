//! YAML: what is read can be written as YAML and as JSON and read again. YAML is written with sorted keys.

use setpoint_codec::{json, yaml};

use super::Target;
use crate::corpus;

pub(super) const TARGET: Target = Target {
    name: "yaml",
    cost: 3,
    seeds: || corpus::files("yaml"),
    run,
};

fn run(bytes: &[u8]) {
    let Ok(tree) = yaml::parse(bytes) else { return };
    json::parse(&json::write(&tree)).expect("what was written can be read");
    let written = yaml::write(&tree);
    let again = yaml::parse(written.as_bytes()).expect("what was written can be read");
    assert_eq!(yaml::write(&again), written, "not the same as YAML");
}
