//! Binding: a pod is given to a node. The one who is first wins; everyone else is told which node it is.

use k8s_openapi::api::core::v1::{Binding, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use setpoint_api::call::Body;
use setpoint_api::field::Errors;
use setpoint_api::options::WriteOptions;
use setpoint_api::{GroupResource, Payload, Response, Status, Stored};
use setpoint_kinds::{Draft, Part};
use setpoint_schema::Pack;

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
    validate(&binding)?;
    revise_until_written(call, Some(Part::Action), options, |old| {
        let mut draft = call.resource.kind.revise(old).map_err(error::unreadable)?;
        require_unbound(call, &binding, &*draft, old)?;
        let pod = draft.typed_mut::<Pod>().expect("only pods have bindings");
        assign(pod, &binding, Time(call.facts.now));
        Ok(Attempt {
            draft,
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

fn decode(call: &Call<'_>, payload: &Payload, options: &WriteOptions) -> Result<Binding, Status> {
    let shape = Pack::builtin()
        .shape_of("", "v1", "Binding")
        .expect("the pack has every built-in kind");
    let tree = call.read(payload, shape, options.field_validation)?.tree;
    setpoint_schema::tree::from_tree(&tree).map_err(|error| Status::bad_request(error.to_string()))
}

fn validate(binding: &Binding) -> Result<(), Status> {
    let errors = Errors::default();
    let target = errors.at("target");
    match binding.target.kind.as_deref() {
        None | Some("" | "Node") => {}
        Some(kind) => target.at("kind").not_supported(kind, &["Node", "<empty>"]),
    }
    if binding.target.name.as_ref().is_none_or(String::is_empty) {
        target.at("name").required("");
    }
    match errors.into_vec().first() {
        Some(error) => Err(error::plain(500, error.to_string())),
        None => Ok(()),
    }
}

fn require_unbound(
    call: &Call<'_>,
    binding: &Binding,
    draft: &dyn Draft,
    old: &Stored,
) -> Result<(), Status> {
    let name = old.key().name();
    let action = GroupResource::new("", &format!("{}/binding", call.resource.name.resource));
    let conflict = |why: &str| Err(Status::conflict(&action, name, why));
    let uid = binding.metadata.uid.as_deref().unwrap_or_default();
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
    let spec = draft.typed::<Pod>().and_then(|pod| pod.spec.as_ref());
    let gated = spec.and_then(|spec| spec.scheduling_gates.as_ref());
    if gated.is_some_and(|gates| !gates.is_empty()) {
        return conflict(&format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    match old.field("spec.nodeName") {
        None | Some("") => Ok(()),
        Some(node) => conflict(&format!("pod {name} is already assigned to node {node:?}")),
    }
}

fn assign(pod: &mut Pod, binding: &Binding, now: Time) {
    let node = binding.target.name.as_deref().unwrap_or_default();
    setpoint_kinds::core::pod::bind(pod, node, now);
    if let Some(annotations) = binding.metadata.annotations.clone() {
        pod.metadata
            .annotations
            .get_or_insert_default()
            .extend(annotations);
    }
}
