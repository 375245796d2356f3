//! The `pods/binding` subresource: assigns a pod to a node. The first binding wins; later ones get a conflict that names
//! the node. A binding by what a scheduler saw before another one used the node is a conflict, too, if it names the version
//! that it saw ([`recent`]).

mod recent;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use setpoint_api::call::Body;
use setpoint_api::field::Errors;
use setpoint_api::options::WriteOptions;
use setpoint_api::{GroupResource, Payload, Response, Status, Stored};
use setpoint_codec::json::scan;
use setpoint_schema::{Tree, fields};
use setpoint_strategy::{Action, SubresourceKind, meta, name};

use crate::commit::Outcome;
use crate::encoded_object::EncodedObject;
use crate::error;
use crate::large_requests::LARGE_BYTES;
use crate::request_context::RequestContext;
use crate::verbs::{UpdatedObject, guaranteed_update};

pub(crate) use recent::RecentBindings;
use recent::{Comparison, Observation, PendingBinding};

/// The reason of the cause in a conflict about the node rather than the pod.
const NODE_CHANGED: &str = "NodeChanged";

/// The new pod of a binding: the stored one, assigned to the node.
#[derive(Debug)]
struct BoundPod<'a> {
    binding: &'a Tree,
}

/// Binds the pod to the node that the Binding names.
pub(crate) async fn bind(
    context: &RequestContext<'_>,
    payload: &Payload,
    options: &WriteOptions,
) -> Result<Response, Status> {
    let (gvk, shape) = super::body_kind("", "v1", "Binding");
    let mut binding = context.decode_as(payload, shape, options.field_validation)?;
    super::admit_body(context, &mut binding, (&gvk, shape), options).await?;
    if meta::name(&binding) != context.target.name.as_deref().unwrap_or_default() {
        return Err(Status::bad_request(
            "name in URL does not match name in Binding object",
        ));
    }
    validate(&binding)?;
    let pending = require_current_node(context, &binding, options)?;
    let bound = match bind_encoded(context, &binding, options).await? {
        Some(bound) => bound,
        None => {
            let subresource = SubresourceKind::Action(Action::Bind);
            let bound = BoundPod { binding: &binding };
            guaranteed_update(context, Some(subresource), options, &bound).await?
        }
    };
    if !options.dry_run {
        pending.committed(bound.resource_version());
    }
    let created = Status {
        code: 201,
        ..Status::ok()
    };
    Ok(Response {
        created: true,
        ..Response::new(Body::Status(Box::new(created)))
    })
}

/// Binds the pod without decoding it: most Bindings only add the node name and a condition. `None` if this one does more,
/// or conflicts with another write of the pod.
async fn bind_encoded(
    context: &RequestContext<'_>,
    binding: &Tree,
    options: &WriteOptions,
) -> Result<Option<Arc<Stored>>, Status> {
    let key = context.key()?;
    let pod = context.require(&key)?;
    require_unbound(context, binding, &pod)?;
    if options.dry_run || !has_valid_labels(binding) {
        return Ok(None);
    }
    let bound = context
        .kind
        .apply_action_encoded(&pod, Action::Bind, binding, &context.facts);
    let bound = bound.filter(|(written, _)| written.bytes.len() <= LARGE_BYTES);
    let Some((written, header)) = bound else {
        return Ok(None);
    };
    let encoded = EncodedObject {
        written,
        header: Some(header),
    };
    let version = pod.resource_version();
    match context.replace(&key, version, encoded, Vec::new()).await? {
        Outcome::Written(bound) => Ok(Some(bound)),
        Outcome::Conflict | Outcome::SideWriteConflict => Ok(None),
    }
}

/// Whether the labels that the Binding gives to the pod are valid. Those that are not are reported by the update loop, as
/// errors of the pod.
fn has_valid_labels(binding: &Tree) -> bool {
    let Some(labels) = meta::find(binding, fields::LABELS).and_then(Tree::as_map) else {
        return true;
    };
    let is_valid = |value: &Tree| {
        value
            .as_str()
            .is_some_and(|value| name::check_label_value(value).is_empty())
    };
    !labels.is_empty()
        && labels
            .iter()
            .all(|(label, value)| name::check_qualified_name(label).is_empty() && is_valid(value))
}

impl UpdatedObject for BoundPod<'_> {
    fn compute(
        &self,
        context: &RequestContext<'_>,
        old: &Arc<Stored>,
        old_tree: &Tree,
    ) -> Result<Tree, Status> {
        require_unbound(context, self.binding, old)?;
        let mut pod = old_tree.clone();
        let kind = &context.kind;
        kind.apply_action(&mut pod, Action::Bind, self.binding, &context.facts);
        Ok(pod)
    }

    /// The node's name was validated with the Binding; its labels and annotations were not.
    fn needs_validation(&self) -> bool {
        [fields::LABELS, fields::ANNOTATIONS]
            .iter()
            .any(|field| meta::find(self.binding, field).is_some())
    }
}

fn validate(binding: &Tree) -> Result<(), Status> {
    let errors = Errors::default();
    let target = errors.at(fields::TARGET);
    let kind = binding
        .str_at(&[fields::TARGET, fields::KIND])
        .unwrap_or_default();
    let is_node = matches!(kind, "" | "Node");
    if !is_node {
        target.at(fields::KIND).not_supported(kind, &["Node", "<empty>"]);
    }
    match node_name(binding) {
        "" => target.at(fields::NAME).required(""),
        node if is_node => name::report(
            node,
            name::check_dns1123_subdomain(node),
            &target.at(fields::NAME),
        ),
        _ => {}
    }
    let messages: Vec<String> = errors.into_vec().iter().map(ToString::to_string).collect();
    match messages.as_slice() {
        [] => Ok(()),
        [one] => Err(error::plain(500, one.clone())),
        several => Err(error::plain(500, format!("[{}]", several.join(", ")))),
    }
}

fn node_name(binding: &Tree) -> &str {
    binding
        .str_at(&[fields::TARGET, fields::NAME])
        .unwrap_or_default()
}

/// Requires that no other binder has used the node since the version that the Binding names, and announces the binding.
fn require_current_node<'a>(
    context: &'a RequestContext<'_>,
    binding: &Tree,
    options: &WriteOptions,
) -> Result<PendingBinding<'a>, Status> {
    let observed = binding.str_at(&[fields::TARGET, fields::RESOURCE_VERSION]);
    let observation = Observation {
        node: node_name(binding),
        binder: options.field_manager.as_deref().unwrap_or_default(),
        version: observed.and_then(|version| version.parse().ok()),
    };
    match context.registry.recent_bindings.begin(observation) {
        Comparison::Current(pending) => return Ok(pending),
        Comparison::Unknown(pending) if !has_newer_pods(context, observation) => return Ok(pending),
        Comparison::Unknown(_) | Comparison::Stale => {}
    }
    context.registry.counters.conflicts.fetch_add(1, Relaxed);
    let why = format!(
        "node {:?} was assigned pods by another scheduler since resource version {}",
        observation.node,
        observed.unwrap_or_default()
    );
    let name = context.target.name.as_deref().unwrap_or_default();
    Err(Status::conflict(&action_name(context), name, &why).with_cause(NODE_CHANGED, &why))
}

/// Whether a pod on the node has changed since the version that was observed.
fn has_newer_pods(context: &RequestContext<'_>, observation: Observation<'_>) -> bool {
    let version = observation.version.unwrap_or_default();
    let pods = context.resource.cache.snapshot();
    let mut newer = pods.iter().filter(|pod| pod.resource_version() > version);
    newer.any(|pod| pod.field("spec.nodeName") == Some(observation.node))
}

/// The resource that a conflict names.
fn action_name(context: &RequestContext<'_>) -> GroupResource {
    GroupResource::new("", &format!("{}/binding", context.name.resource))
}

fn require_unbound(context: &RequestContext<'_>, binding: &Tree, old: &Stored) -> Result<(), Status> {
    let name = old.key().name();
    let conflict = |why: &str| Err(Status::conflict(&action_name(context), name, why));
    let uid = meta::str(binding, "uid");
    if !uid.is_empty() && uid != old.uid() {
        let why = format!(
            "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
            old.uid()
        );
        return conflict(&why);
    }
    let version = meta::str(binding, "resourceVersion");
    if !version.is_empty() && version != old.resource_version().to_string() {
        let why = format!(
            "Precondition failed: ResourceVersion in precondition: {version}, ResourceVersion in object meta: {}",
            old.resource_version()
        );
        return conflict(&why);
    }
    if old.header().deleting {
        return conflict(&format!(
            "pod {name} is being deleted, cannot be assigned to a host"
        ));
    }
    if has_scheduling_gates(old.json()) {
        return conflict(&format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    match old.field("spec.nodeName") {
        None | Some("") => Ok(()),
        Some(node) => conflict(&format!("pod {name} is already assigned to node {node:?}")),
    }
}

fn has_scheduling_gates(pod: &[u8]) -> bool {
    let gates = || scan::find_member(scan::find_member(pod, fields::SPEC)?, fields::SCHEDULING_GATES);
    // Most pods have none, which is found out without a scan.
    scan::mentions_key(pod, fields::SCHEDULING_GATES)
        && gates().is_some_and(|gates| scan::items(gates).next().is_some())
}
