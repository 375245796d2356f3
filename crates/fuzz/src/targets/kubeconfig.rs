//! Kubeconfig files: what is read can be written and read again.

use setpoint_client::Kubeconfig;

use super::Target;
use crate::corpus;

pub(super) const TARGET: Target = Target {
    name: "kubeconfig",
    cost: 3,
    seeds: || corpus::files("kubeconfig"),
    run,
};

fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let Ok(config) = Kubeconfig::parse(text) else {
        return;
    };
    let written = config.to_yaml().expect("what was read can be written");
    let again = Kubeconfig::parse(&written).expect("what was written can be read");
    assert_eq!(again, config);
    config.connection(None).ok();
}
