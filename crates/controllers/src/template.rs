//! Creation of a pod from a template, as all controllers of pods do it.

use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use setpoint_runtime::{Object, TypedObject, owner};

/// A pod of the owner from this template, without a name: the server generates one from the owner's. Labels,
/// annotations and finalizers are the template's; its other metadata is ignored.
pub(crate) fn new_pod<T: Object>(owner: &TypedObject<T>, template: PodTemplateSpec) -> Pod {
    let of_template = template.metadata.unwrap_or_default();
    let metadata = ObjectMeta {
        generate_name: Some(name_prefix(owner.key().name())),
        namespace: Some(owner.key().namespace().to_owned()),
        labels: of_template.labels,
        annotations: of_template.annotations,
        finalizers: of_template.finalizers,
        owner_references: Some(vec![owner::controller_reference(owner)]),
        ..ObjectMeta::default()
    };
    Pod {
        metadata,
        spec: template.spec,
        status: None,
    }
}

/// The name prefix of an owner's pods.
fn name_prefix(owner: &str) -> String {
    /// The longest name of a pod is 253, and the server adds a suffix.
    const LONGEST: usize = 252;
    match owner.len() <= LONGEST {
        true => format!("{owner}-"),
        false => owner.to_owned(),
    }
}
