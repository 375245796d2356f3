//! The `binding` subresource of a pod: the pod is assigned to a node.

use jiff::Timestamp;

use setpoint_schema::{Map, Tree, fields};
use setpoint_strategy::meta;

/// Binds a pod to the node that a Binding names, and adds the annotations and labels of the Binding.
pub(super) fn bind(pod: &mut Tree, binding: &Tree, now: Timestamp) {
    let node = binding
        .str_at(&[fields::TARGET, fields::NAME])
        .unwrap_or_default();
    assign(pod, node, now);
    for field in [fields::ANNOTATIONS, fields::LABELS] {
        let values = meta::find(binding, field).and_then(Tree::as_map);
        for (key, value) in values.into_iter().flat_map(Map::iter) {
            pod.set(&[fields::METADATA, field, key], value.clone());
        }
    }
}

/// Sets the node name and the `PodScheduled` condition.
fn assign(pod: &mut Tree, node: &str, now: Timestamp) {
    pod.set(&[fields::SPEC, fields::NODE_NAME], node);
    let conditions = pod
        .child(fields::STATUS)
        .map_or_default()
        .entry(fields::CONDITIONS);
    let mut list = conditions.as_list().unwrap_or_default().to_vec();
    list.retain(|condition| condition.str_at(&[fields::TYPE]) != Some("PodScheduled"));
    let mut condition = Map::default();
    condition.insert(fields::TYPE, "PodScheduled");
    condition.insert(fields::LAST_TRANSITION_TIME, meta::timestamp(now));
    condition.insert(fields::STATUS, "True");
    list.push(condition.into());
    *conditions = list.into();
}
