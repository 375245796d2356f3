//! The `pods/eviction` subresource: deletes a pod if its PodDisruptionBudget allows a disruption.

use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;

use setpoint_api::call::{Body, Encoding};
use setpoint_api::field::Errors;
use setpoint_api::options::{DeleteOptions, PatchType, WriteOptions};
use setpoint_api::status::StatusCause;
use setpoint_api::{
    GroupResource, Gvk, Gvr, Payload, Request, Response, Serve, Status, Stored, Target, Verb,
};
use setpoint_schema::{Map, Tree, fields};
use setpoint_strategy::{Action, SubresourceKind, label_selector, meta};

use crate::error;
use crate::request_context::RequestContext;
use crate::verbs::{UpdatedObject, delete_object, guaranteed_update};

/// How many times a budget is tried while other writers change it.
const MAX_ATTEMPTS: usize = 16;

/// View of a PodDisruptionBudget.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Budget {
    metadata: Metadata,
    spec: Spec,
    status: BudgetStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Metadata {
    generation: i64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    unhealthy_pod_eviction_policy: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct BudgetStatus {
    observed_generation: i64,
    disruptions_allowed: i64,
    current_healthy: i64,
    desired_healthy: i64,
}

/// The new pod of an eviction: the stored one with the condition `DisruptionTarget`.
#[derive(Debug)]
struct DisruptedPod<'a> {
    deletion: &'a DeleteOptions,
}

/// Deletes the pod, unless a budget forbids it.
pub(crate) async fn evict(
    context: &RequestContext<'_>,
    payload: &Payload,
    options: &WriteOptions,
) -> Result<Response, Status> {
    let (gvk, shape) = super::body_kind("policy", "v1", "Eviction");
    let mut eviction = context.decode_as(payload, shape, options.field_validation)?;
    check_eviction(context, &eviction)?;
    let key = context.key()?;
    // Before any budget is consumed.
    super::admit_body(context, &mut eviction, (&gvk, shape), options).await?;
    let mut deletion = deletion(&eviction, options);
    let pod = context.require(&key)?;
    let pod_tree = context.kind.decode_stored(&pod).map_err(error::undecodable)?;
    if !ignores_budgets(&pod_tree) {
        let budgets = budgets(context, &pod_tree).await?;
        match budgets.as_slice() {
            [] => {}
            [budget] if may_evict_unhealthy(&pod_tree, budget)? => {
                let version = || pod.resource_version().to_string();
                deletion.resource_version.get_or_insert_with(version);
            }
            [budget] => consume_disruption(context, budget, pod.key().name(), deletion.dry_run).await?,
            _ => return Err(error::plain(500, SEVERAL_BUDGETS)),
        }
    }
    if !deletion.dry_run {
        set_disruption_target(context, &deletion).await?;
        // The condition has made a new version, which is the one to delete.
        deletion.resource_version = None;
    }
    delete_object(context, &key, &deletion).await?;
    Ok(done())
}

const IGNORE_READ_ERROR: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";
const SEVERAL_BUDGETS: &str =
    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";

fn done() -> Response {
    let status = Status {
        code: 201,
        ..Status::ok()
    };
    Response {
        created: true,
        ..Response::new(Body::Status(Box::new(status)))
    }
}

fn check_eviction(context: &RequestContext<'_>, eviction: &Tree) -> Result<(), Status> {
    if meta::name(eviction) != context.target.name.as_deref().unwrap_or_default() {
        return Err(Status::bad_request(
            "name in URL does not match name in Eviction object",
        ));
    }
    reject_unsafe_delete(eviction)
}

/// A pod that cannot be decoded cannot be checked against its budget.
fn reject_unsafe_delete(eviction: &Tree) -> Result<(), Status> {
    let requested = eviction
        .at(&[fields::DELETE_OPTIONS, IGNORE_READ_ERROR])
        .and_then(Tree::as_bool);
    if requested != Some(true) {
        return Ok(());
    }
    let errors = Errors::default();
    errors.at(fields::DELETE_OPTIONS).at(IGNORE_READ_ERROR).invalid(
        true,
        "can not be set for pod eviction, try after removing the option",
    );
    let kind = Gvk::new("policy", "v1", "Eviction");
    Err(Status::invalid(&kind, meta::name(eviction), &errors.into_vec()))
}

fn deletion(eviction: &Tree, options: &WriteOptions) -> DeleteOptions {
    let delete_options = eviction.get("deleteOptions").cloned().unwrap_or_default();
    let precondition = |name: &str| {
        delete_options
            .str_at(&[fields::PRECONDITIONS, name])
            .map(str::to_owned)
    };
    DeleteOptions {
        grace_period_seconds: delete_options.get("gracePeriodSeconds").and_then(Tree::as_i64),
        uid: precondition("uid"),
        resource_version: precondition("resourceVersion"),
        dry_run: options.dry_run || !delete_options.items(fields::DRY_RUN).is_empty(),
        ..DeleteOptions::default()
    }
}

/// Whether no budget counts the pod: it is finished, terminating, or has not started.
fn ignores_budgets(pod: &Tree) -> bool {
    let phase = pod.str_at(&[fields::STATUS, fields::PHASE]).unwrap_or_default();
    matches!(phase, "Succeeded" | "Failed" | "Pending") || meta::is_deleting(pod)
}

/// The budgets whose selector selects the pod.
async fn budgets(context: &RequestContext<'_>, pod: &Tree) -> Result<Vec<Arc<Stored>>, Status> {
    let resource = GroupResource::new("policy", "poddisruptionbudgets");
    let Some(resource) = context.registry.find_resource(&resource) else {
        return Ok(Vec::new());
    };
    // The cache must hold a budget that was created just now.
    resource.backend.caught_up().await;
    let labels = meta::find(pod, "labels");
    let mut budgets = Vec::new();
    for budget in resource.cache.snapshot().in_namespace(context.namespace()) {
        let budget_tree = resource.kind.decode_stored(budget).map_err(error::undecodable)?;
        let Some(selector) = budget_tree.at(&[fields::SPEC, fields::SELECTOR]) else {
            continue;
        };
        let selector = label_selector::parse(selector).map_err(Status::internal)?;
        if selector.matches(|label| labels?.get(label)?.as_str()) {
            // Read from the store: the cached status may be stale.
            let fresh = context.registry.find(&resource, budget.key())?;
            budgets.extend(fresh);
        }
    }
    Ok(budgets)
}

fn view(budget: &Stored) -> Result<Budget, Status> {
    budget.decode().map_err(Status::internal)
}

/// Whether the pod is not ready and its budget's `unhealthyPodEvictionPolicy` allows its eviction.
fn may_evict_unhealthy(pod: &Tree, budget: &Stored) -> Result<bool, Status> {
    let conditions = pod
        .get("status")
        .map_or(&[][..], |status| status.items(fields::CONDITIONS));
    let ready = conditions.iter().any(|condition| {
        condition.str_at(&[fields::TYPE]) == Some("Ready")
            && condition.str_at(&[fields::STATUS]) == Some("True")
    });
    let budget = view(budget)?;
    let status = &budget.status;
    let enough = status.current_healthy >= status.desired_healthy && status.desired_healthy > 0;
    Ok(!ready && (budget.spec.unhealthy_pod_eviction_policy == "AlwaysAllow" || enough))
}

/// Consumes one allowed disruption of a budget, retrying on conflicts.
async fn consume_disruption(
    context: &RequestContext<'_>,
    budget: &Stored,
    pod: &str,
    dry_run: bool,
) -> Result<(), Status> {
    let resource = GroupResource::new("policy", "poddisruptionbudgets");
    let resource = context.registry.find_resource(&resource);
    let resource = resource.ok_or_else(Status::no_such_resource)?;
    for _ in 0..MAX_ATTEMPTS {
        let fresh = context.registry.find(&resource, budget.key())?;
        let Some(fresh) = fresh else { return Ok(()) };
        check(&view(&fresh)?, fresh.key().name())?;
        if dry_run {
            return Ok(());
        }
        match context.registry.call(decrement(context, &fresh, pod)?).await {
            Err(status) if status.is_conflict() => {}
            result => return result.map(drop),
        }
    }
    Err(too_many(
        budget.key().name(),
        "is still being processed by the server.",
    ))
}

fn check(budget: &Budget, name: &str) -> Result<(), Status> {
    let status = &budget.status;
    if status.observed_generation < budget.metadata.generation {
        return Err(too_many(name, "is still being processed by the server."));
    }
    match status.disruptions_allowed {
        ..0 => {
            let resource = GroupResource::new("policy", "poddisruptionbudget");
            Err(Status::forbidden(
                &resource,
                name,
                "pdb disruptions allowed is negative",
            ))
        }
        0 => {
            let why = format!(
                "needs {} healthy pods and has {} currently",
                status.desired_healthy, status.current_healthy
            );
            Err(too_many(name, &why))
        }
        _ => Ok(()),
    }
}

fn decrement(context: &RequestContext<'_>, budget: &Stored, pod: &str) -> Result<Request, Status> {
    let allowed = view(budget)?.status.disruptions_allowed - 1;
    let now = meta::timestamp(context.facts.now);
    let patch = json!({
        "metadata": {"resourceVersion": budget.resource_version().to_string()},
        "status": {"disruptionsAllowed": allowed, "disruptedPods": {pod: now.as_str()}},
    });
    let mut target = Target::object(Gvr::new("policy", "v1", "poddisruptionbudgets"), budget.key());
    target.subresource = Some("status".into());
    let payload = Payload {
        encoding: Encoding::Json,
        bytes: patch.to_string().into(),
    };
    Ok(Request {
        user: context.user.clone(),
        target,
        verb: Verb::Patch(PatchType::Merge, payload, WriteOptions::default()),
    })
}

fn too_many(name: &str, why: &str) -> Status {
    let mut status = Status {
        reason: "TooManyRequests".to_owned(),
        ..error::plain(
            429,
            "Cannot evict pod as it would violate the pod's disruption budget.",
        )
    };
    let details = status.details.get_or_insert_default();
    details.causes.push(StatusCause {
        reason: "DisruptionBudget".to_owned(),
        message: format!("The disruption budget {name} {why}"),
        field: String::new(),
    });
    if why.contains("still being processed") {
        details.retry_after_seconds = 10;
    }
    status
}

/// Sets the condition `DisruptionTarget` of the pod, which gives the reason of its deletion.
async fn set_disruption_target(context: &RequestContext<'_>, deletion: &DeleteOptions) -> Result<(), Status> {
    let options = WriteOptions::default();
    let disrupted = DisruptedPod { deletion };
    guaranteed_update(
        context,
        Some(SubresourceKind::Action(Action::Evict)),
        &options,
        &disrupted,
    )
    .await
    .map(drop)
}

impl UpdatedObject for DisruptedPod<'_> {
    fn compute(
        &self,
        context: &RequestContext<'_>,
        old: &Arc<Stored>,
        old_tree: &Tree,
    ) -> Result<Tree, Status> {
        let version = self.deletion.resource_version.as_deref();
        if version.is_some_and(|version| version != old.resource_version().to_string()) {
            return Err(Status::modified(&context.name, old.key().name()));
        }
        let mut pod = old_tree.clone();
        set_condition(&mut pod, context.facts.now);
        Ok(pod)
    }
}

fn set_condition(pod: &mut Tree, now: Timestamp) {
    let conditions = pod.child(fields::STATUS).map_or_default().entry("conditions");
    let mut list = conditions.as_list().unwrap_or_default().to_vec();
    list.retain(|condition| condition.str_at(&[fields::TYPE]) != Some("DisruptionTarget"));
    let condition: Map = [
        ("type", Tree::from("DisruptionTarget")),
        ("lastTransitionTime", meta::timestamp(now)),
        ("status", Tree::from("True")),
        ("reason", Tree::from("EvictionByEvictionAPI")),
        ("message", Tree::from("Eviction API: evicting")),
    ]
    .into_iter()
    .collect();
    list.push(condition.into());
    *conditions = list.into();
}
