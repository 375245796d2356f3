//! Keys of objects in the store: `/registry/<resource>[.<group>]/[<namespace>/]<name>`.
//!
//! The order of the store's keys under one resource is the order of [`Key`]s, since both are the order of the text.

use bytes::Bytes;

use setpoint_api::{GroupResource, Gvr, Key};
use setpoint_store::Revision;
use setpoint_strategy::KindInfo;

use setpoint_api::ResourceVersion;

/// The prefix of all keys.
pub(crate) const ROOT: &str = "/registry/";

/// The segment of the keys of ranges, which are no objects.
pub(crate) const RANGES: &str = "ranges";

/// The key of the range of a resource.
pub(crate) fn range_key(resource: &GroupResource) -> Bytes {
    Bytes::from(format!("{ROOT}{RANGES}/{resource}"))
}

/// The prefix of the keys of one resource.
pub(crate) fn prefix(resource: &GroupResource) -> String {
    format!("{ROOT}{resource}/")
}

/// The prefix of a kind's keys in Kubernetes' etcd, which error messages contain.
pub(crate) fn upstream_prefix(info: &KindInfo) -> String {
    format!("{ROOT}{}/", upstream_path(info))
}

/// The path of a kind's resource in Kubernetes' etcd: the part of its keys between the root and the object's key.
pub(crate) fn upstream_path(info: &KindInfo) -> String {
    let Gvr { group, resource, .. } = &info.storage;
    match info.rules.upstream.error_storage_path {
        "" if info.is_custom => format!("{group}/{resource}"),
        "" => resource.to_string(),
        path => path.to_owned(),
    }
}

/// The store's key of an object under its resource's prefix.
pub(crate) fn storage_key(prefix: &str, key: &Key) -> Bytes {
    let mut text = String::with_capacity(prefix.len() + key.as_str().len());
    text.push_str(prefix);
    text.push_str(key.as_str());
    Bytes::from(text)
}

/// The end of the range of keys with this prefix, which ends in a slash.
pub(crate) fn prefix_end(prefix: &str) -> String {
    let shared = prefix.strip_suffix('/').expect("prefixes of keys end in a slash");
    // In the order of texts `0` follows `/`.
    format!("{shared}0")
}

/// The segment of a store key that names the resource, and the object's key.
pub(crate) fn split(key: &[u8]) -> Option<(&str, &str)> {
    let text = std::str::from_utf8(key).ok()?;
    text.strip_prefix(ROOT)?.split_once('/')
}

/// The resource version of a revision.
pub(crate) fn version(revision: Revision) -> ResourceVersion {
    ResourceVersion(revision.get())
}

/// The revision of a resource version.
pub(crate) fn revision(version: ResourceVersion) -> Revision {
    Revision::new(version.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(group: &str, resource: &str, key: &str, expected: &str) {
        let prefix = prefix(&GroupResource::new(group, resource));
        let stored = storage_key(&prefix, &key.parse().unwrap());
        assert_eq!(stored, expected);
        let (_, rest) = split(&stored).unwrap();
        assert_eq!(rest, key);
    }

    #[test]
    fn a_key_names_the_resource_with_its_group() {
        check("", "pods", "default/web", "/registry/pods/default/web");
        check("apps", "replicasets", "a/b", "/registry/replicasets.apps/a/b");
        check("", "nodes", "n1", "/registry/nodes/n1");
    }
}
