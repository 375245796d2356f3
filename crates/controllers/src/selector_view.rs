//! The label selector of an object, read without the rest of its spec.

use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use serde::Deserialize;
use setpoint_api::Stored;
use setpoint_api::selector::LabelSelector;
use setpoint_runtime::label_selector;

#[derive(Debug, Deserialize)]
struct SelectorView {
    spec: SelectorViewSpec,
}

#[derive(Debug, Deserialize)]
struct SelectorViewSpec {
    selector: Option<meta::LabelSelector>,
}

/// The `spec.selector` of an object; `None` if it has none, or an invalid one.
pub(crate) fn selector_of(object: &Stored) -> Option<LabelSelector> {
    let view = object.view::<SelectorView>().ok()?;
    label_selector(view.spec.selector.as_ref()?).ok()
}
