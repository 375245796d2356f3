//! A new pod of a template, as every controller of pods makes it.

use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use setpoint_runtime::{Object, Typed, owner};

/// A pod of the owner, of this template and without a name of its own: the server makes one up from the owner's.
/// Labels, annotations and finalizers are the template's; nothing else of its metadata means anything.
pub(crate) fn new_pod<T: Object>(owner: &Typed<T>, template: PodTemplateSpec) -> Pod {
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

/// What the names of an owner's pods begin with.
fn name_prefix(owner: &str) -> String {
    /// The longest name of a pod is 253, and the server adds a few letters.
    const LONGEST: usize = 252;
    match owner.len() <= LONGEST {
        true => format!("{owner}-"),
        false => owner.to_owned(),
    }
}
