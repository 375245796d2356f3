//! Where objects are in the store: `/registry/<resource>[.<group>]/[<namespace>/]<name>`.
//!
//! The order of the store's keys under one resource is the order of [`Key`]s, since both are the order of the text.

use bytes::Bytes;

use setpoint_api::{GroupResource, Gvr, Key};
use setpoint_kinds::About;
use setpoint_store::Revision;

use setpoint_api::ResourceVersion;

/// What all keys start with.
pub(crate) const ROOT: &str = "/registry/";

/// What the keys of one resource start with.
pub(crate) fn prefix(resource: &GroupResource) -> String {
    format!("{ROOT}{resource}/")
}

/// Where Kubernetes keeps the objects of a kind: what messages show, and some people look for.
pub(crate) fn told(about: &About) -> String {
    let Gvr { group, resource, .. } = &about.home;
    match about.rules.kept_at {
        "" if about.defined => format!("{ROOT}{group}/{resource}/"),
        "" => format!("{ROOT}{resource}/"),
        place => format!("{ROOT}{place}/"),
    }
}

/// The store's key of an object under its resource's prefix.
pub(crate) fn of(prefix: &str, key: &Key) -> Bytes {
    let mut text = String::with_capacity(prefix.len() + key.as_str().len());
    text.push_str(prefix);
    text.push_str(key.as_str());
    Bytes::from(text)
}

/// The first text behind everything that starts with this one, which ends in a slash.
pub(crate) fn behind(prefix: &str) -> String {
    let shared = prefix.strip_suffix('/').expect("prefixes of keys end in a slash");
    // In the order of texts `0` follows `/`.
    format!("{shared}0")
}

/// The resource's part of a store key, and the object's.
pub(crate) fn split(key: &[u8]) -> Option<(&str, &str)> {
    let text = std::str::from_utf8(key).ok()?;
    text.strip_prefix(ROOT)?.split_once('/')
}

/// A revision as the API shows it.
pub(crate) fn version(revision: Revision) -> ResourceVersion {
    ResourceVersion(revision.get())
}

/// A resource version as the store knows it.
pub(crate) fn revision(version: ResourceVersion) -> Revision {
    Revision::new(version.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(group: &str, resource: &str, key: &str, expected: &str) {
        let prefix = prefix(&GroupResource::new(group, resource));
        let stored = of(&prefix, &key.parse().unwrap());
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
