//! Values in etcd, which another server may have written. What is decoded can be encoded and decoded again.

use std::sync::LazyLock;

use setpoint_codec::protobuf::builtin;
use setpoint_registry::{EtcdLayout, etcd_layout};
use setpoint_store::{Attachment, Record, Revision, SealId, ValueCodec};

use super::Target;
use crate::corpus;

pub(super) const TARGET: Target = Target {
    name: "etcd-value",
    cost: 6,
    seeds,
    run,
};

const REVISION: Revision = Revision::new(4711);

/// The keys of which the first byte of an input selects one.
const KEYS: [&[u8]; 6] = [
    b"/registry/pods/a/b",
    b"/registry/deployments/a/b",
    b"/registry/services/specs/a/b",
    b"/registry/jobs/a/b",
    b"/registry/apiextensions.k8s.io/customresourcedefinitions/b",
    b"/registry/example.com/gadgets/a/b",
];

static LAYOUT: LazyLock<EtcdLayout> =
    LazyLock::new(|| EtcdLayout::new(etcd_layout::DEFAULT_PREFIX, &setpoint_kinds::builtin()));

fn seeds() -> Vec<Vec<u8>> {
    let objects = corpus::files("json");
    let with_keys = |value: Vec<u8>| (0..KEYS.len() as u8).map(move |key| [&[key], &value[..]].concat());
    let protobuf = objects.iter().filter_map(|object| builtin::seal_json(object));
    let json = objects.iter().cloned();
    protobuf.chain(json).flat_map(with_keys).collect()
}

fn run(bytes: &[u8]) {
    let Some((selector, value)) = bytes.split_first() else {
        return;
    };
    let key = KEYS[usize::from(*selector) % KEYS.len()];
    let Ok(decoded) = LAYOUT.decode(key, value.to_vec().into(), REVISION) else {
        return;
    };
    let record = Record {
        key: decoded.key,
        value: decoded.value.clone(),
        created: REVISION,
        modified: REVISION,
        version: 1,
        expires: None,
        attachment: Attachment::default(),
        seal: SealId::NONE,
    };
    let Ok(stored) = LAYOUT.encode(&etcd_layout::put_again(&record)) else {
        panic!("decoded and not encoded: {}", decoded.value.escape_ascii());
    };
    assert_eq!(stored.key, key);
    let Ok(again) = LAYOUT.decode(key, stored.value, REVISION) else {
        panic!("encoded and not decoded: {}", decoded.value.escape_ascii());
    };
    assert_eq!(again.value, decoded.value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_seeds_are_values_of_built_in_and_of_custom_kinds() {
        let is_decoded = |selector: u8| {
            let key = KEYS[usize::from(selector)];
            let mut seeds = seeds().into_iter().filter(move |seed| seed[0] == selector);
            seeds.any(|seed| LAYOUT.decode(key, seed[1..].to_vec().into(), REVISION).is_ok())
        };
        assert!(is_decoded(0), "no pod");
        assert!(is_decoded(KEYS.len() as u8 - 1), "no custom resource");
    }
}
