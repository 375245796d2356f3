//! The `binding` subresource of a pod: the pod is assigned to a node.

use jiff::Timestamp;

use setpoint_api::Stored;
use setpoint_codec::json::scan;
use setpoint_schema::{Map, Tree, fields};
use setpoint_strategy::{NewMember, meta};

/// Binds a pod to the node that a Binding names, and adds the annotations and labels of the Binding. The node to which the
/// pod was nominated is of no interest then (upstream: ClearingNominatedNodeNameAfterBinding).
pub(super) fn bind(pod: &mut Tree, binding: &Tree, now: Timestamp) {
    assign(pod, node_name(binding), now);
    for field in [fields::ANNOTATIONS, fields::LABELS] {
        let values = meta::find(binding, field).and_then(Tree::as_map);
        for (key, value) in values.into_iter().flat_map(Map::iter) {
            pod.set(&[fields::METADATA, field, key], value.clone());
        }
    }
}

/// What [`bind`] adds to a pod without conditions and without a nominated node, by a Binding without annotations: those of a
/// pod may have to match its spec.
pub(super) fn new_members(pod: &Stored, binding: &Tree, now: Timestamp) -> Option<Vec<NewMember>> {
    if meta::find(binding, fields::ANNOTATIONS).is_some() || has_nominated_node(pod) {
        return None;
    }
    let node = NewMember {
        field: fields::SPEC,
        name: fields::NODE_NAME,
        value: node_name(binding).into(),
    };
    let conditions = NewMember {
        field: fields::STATUS,
        name: fields::CONDITIONS,
        value: vec![scheduled_condition(now)].into(),
    };
    let labels = meta::find(binding, fields::LABELS).map(|labels| NewMember {
        field: fields::METADATA,
        name: fields::LABELS,
        value: labels.clone(),
    });
    Some([node, conditions].into_iter().chain(labels).collect())
}

fn has_nominated_node(pod: &Stored) -> bool {
    let status = scan::find_member(pod.json(), fields::STATUS);
    status.is_some_and(|status| scan::find_member(status, fields::NOMINATED_NODE_NAME).is_some())
}

/// Sets the node name and the `PodScheduled` condition.
fn assign(pod: &mut Tree, node: &str, now: Timestamp) {
    pod.set(&[fields::SPEC, fields::NODE_NAME], node);
    let status = pod.child(fields::STATUS).map_or_default();
    status.remove(fields::NOMINATED_NODE_NAME);
    let conditions = status.entry(fields::CONDITIONS);
    let mut list = conditions.as_list().unwrap_or_default().to_vec();
    list.retain(|condition| condition.str_at(&[fields::TYPE]) != Some("PodScheduled"));
    list.push(scheduled_condition(now));
    *conditions = list.into();
}

fn scheduled_condition(now: Timestamp) -> Tree {
    let mut condition = Map::default();
    condition.insert(fields::TYPE, "PodScheduled");
    condition.insert(fields::LAST_TRANSITION_TIME, meta::timestamp(now));
    condition.insert(fields::STATUS, "True");
    condition.into()
}

fn node_name(binding: &Tree) -> &str {
    binding
        .str_at(&[fields::TARGET, fields::NAME])
        .unwrap_or_default()
}
