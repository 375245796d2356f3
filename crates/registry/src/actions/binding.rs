//! Binding: a pod is given to a node. The one who is first wins; everyone else is told which node it is.

use setpoint_api::call::Body;
use setpoint_api::field::Errors;
use setpoint_api::options::WriteOptions;
use setpoint_api::{GroupResource, Payload, Response, Status, Stored};
use setpoint_kinds::shared::name;
use setpoint_kinds::{Part, meta};
use setpoint_schema::{Map, Pack, Tree};

use crate::call::Call;
use crate::error;
use crate::verbs::{Attempt, revise_until_written};

/// Binds the pod to the node the document names.
pub(crate) async fn bind(
    call: &Call<'_>,
    payload: &Payload,
    options: &WriteOptions,
) -> Result<Response, Status> {
    let binding = decode(call, payload, options)?;
    if meta::name(&binding) != call.target.name.as_deref().unwrap_or_default() {
        return Err(Status::bad_request(
            "name in URL does not match name in Binding object",
        ));
    }
    validate(&binding)?;
    revise_until_written(call, Some(Part::Action), options, |old, before| {
        let mut object = before.clone();
        require_unbound(call, &binding, &object, old)?;
        assign(&mut object, &binding, call);
        Ok(Attempt {
            object,
            version: None,
            warnings: Vec::new(),
        })
    })
    .await?;
    let done = Status {
        code: 201,
        ..Status::done()
    };
    Ok(Response {
        created: true,
        ..Response::of(Body::Status(Box::new(done)))
    })
}

fn decode(call: &Call<'_>, payload: &Payload, options: &WriteOptions) -> Result<Tree, Status> {
    let shape = Pack::builtin()
        .shape_of("", "v1", "Binding")
        .expect("the pack has every built-in kind");
    Ok(call.read(payload, shape, options.field_validation)?.tree)
}

fn validate(binding: &Tree) -> Result<(), Status> {
    let errors = Errors::default();
    let target = errors.at("target");
    let kind = binding.str_at(&["target", "kind"]).unwrap_or_default();
    let is_node = matches!(kind, "" | "Node");
    if !is_node {
        target.at("kind").not_supported(kind, &["Node", "<empty>"]);
    }
    match node(binding) {
        "" => target.at("name").required(""),
        node if is_node => name::report(node, name::subdomain(node), &target.at("name")),
        _ => {}
    }
    let found: Vec<String> = errors.into_vec().iter().map(ToString::to_string).collect();
    match found.as_slice() {
        [] => Ok(()),
        [one] => Err(error::plain(500, one.clone())),
        several => Err(error::plain(500, format!("[{}]", several.join(", ")))),
    }
}

fn node(binding: &Tree) -> &str {
    binding.str_at(&["target", "name"]).unwrap_or_default()
}

fn require_unbound(call: &Call<'_>, binding: &Tree, pod: &Tree, old: &Stored) -> Result<(), Status> {
    let name = old.key().name();
    let action = GroupResource::new("", &format!("{}/binding", call.name.resource));
    let conflict = |why: &str| Err(Status::conflict(&action, name, why));
    let uid = meta::str(binding, "uid");
    if !uid.is_empty() && uid != old.uid() {
        let why = format!(
            "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
            old.uid()
        );
        return conflict(&why);
    }
    if old.header().deleting {
        return conflict(&format!(
            "pod {name} is being deleted, cannot be assigned to a host"
        ));
    }
    let gates = pod
        .get("spec")
        .map_or(&[][..], |spec| spec.items("schedulingGates"));
    if !gates.is_empty() {
        return conflict(&format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    match old.field("spec.nodeName") {
        None | Some("") => Ok(()),
        Some(node) => conflict(&format!("pod {name} is already assigned to node {node:?}")),
    }
}

fn assign(pod: &mut Tree, binding: &Tree, call: &Call<'_>) {
    setpoint_kinds::core::pod::bind(pod, node(binding), call.facts.now);
    for field in ["annotations", "labels"] {
        let said = meta::find(binding, field).and_then(Tree::as_map);
        for (key, value) in said.into_iter().flat_map(Map::iter) {
            pod.set(&["metadata", field, key], value.clone());
        }
    }
}
