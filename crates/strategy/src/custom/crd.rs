//! Names of CustomResourceDefinitions (CRDs) that the registry and the rules of the kind share.

use setpoint_api::Gvr;

/// Group, version and kind of CRDs.
pub const KIND: (&str, &str, &str) = ("apiextensions.k8s.io", "v1", "CustomResourceDefinition");

/// The plural of the resource.
pub const PLURAL: &str = "customresourcedefinitions";

/// The finalizer that keeps a CRD until its custom objects are deleted.
pub const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// The resource of CRDs.
pub fn resource() -> Gvr {
    let (group, version, _) = KIND;
    Gvr::new(group, version, PLURAL)
}
