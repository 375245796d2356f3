//! Eviction: a pod is asked to go, as far as its disruption budget allows.

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
use setpoint_kinds::shared::label_selector;
use setpoint_kinds::{Part, meta};
use setpoint_schema::{Map, Pack, Tree};

use crate::call::Call;
use crate::verbs::{Attempt, delete_object, revise_until_written};
use crate::{error, key};

/// How often a budget is tried that others change at the same time.
const TRIES: usize = 16;

/// What is read of a budget.
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

/// Deletes the pod, unless a budget forbids it.
pub(crate) async fn evict(
    call: &Call<'_>,
    payload: &Payload,
    options: &WriteOptions,
) -> Result<Response, Status> {
    let eviction = read(call, payload, options)?;
    let mut deletion = deletion(&eviction, options);
    let key = call.key()?;
    let pod = call.find(&key)?.ok_or_else(|| call.not_found(&key))?;
    let document = call.kind.revise(&pod).map_err(error::unreadable)?;
    if !is_free(&document) {
        // A budget that was made just now counts, too.
        let now = key::version(call.registry.store.revision());
        call.registry.progress.reached(now).await;
        let budgets = budgets(call, &document)?;
        match budgets.as_slice() {
            [] => {}
            [budget] if may_go_unhealthy(&document, budget)? => {
                let version = || pod.resource_version().to_string();
                deletion.resource_version.get_or_insert_with(version);
            }
            [budget] => take_from(call, budget, pod.key().name(), deletion.dry_run).await?,
            _ => return Err(error::plain(500, SEVERAL)),
        }
    }
    if !deletion.dry_run {
        mark(call, &deletion).await?;
        // The mark has made a new version, which is the one that goes.
        deletion.resource_version = None;
    }
    delete_object(call, &key, &deletion).await?;
    Ok(done())
}

const UNREADABLE: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";
const SEVERAL: &str =
    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";

fn done() -> Response {
    let status = Status {
        code: 201,
        ..Status::done()
    };
    Response {
        created: true,
        ..Response::of(Body::Status(Box::new(status)))
    }
}

fn read(call: &Call<'_>, payload: &Payload, options: &WriteOptions) -> Result<Tree, Status> {
    let shape = Pack::builtin().shape_of("policy", "v1", "Eviction");
    let shape = shape.expect("the pack has every built-in kind");
    let eviction = call.read(payload, shape, options.field_validation)?.tree;
    if meta::name(&eviction) != call.target.name.as_deref().unwrap_or_default() {
        return Err(Status::bad_request(
            "name in URL does not match name in Eviction object",
        ));
    }
    refuse_unreadable(&eviction)?;
    Ok(eviction)
}

/// What cannot be read cannot be asked whether it may go.
fn refuse_unreadable(eviction: &Tree) -> Result<(), Status> {
    let asked = eviction
        .at(&["deleteOptions", UNREADABLE])
        .and_then(Tree::as_bool);
    if asked != Some(true) {
        return Ok(());
    }
    let errors = Errors::default();
    errors.at("deleteOptions").at(UNREADABLE).invalid(
        true,
        "can not be set for pod eviction, try after removing the option",
    );
    let kind = Gvk::new("policy", "v1", "Eviction");
    Err(Status::invalid(&kind, meta::name(eviction), &errors.into_vec()))
}

fn deletion(eviction: &Tree, options: &WriteOptions) -> DeleteOptions {
    let given = eviction.get("deleteOptions").cloned().unwrap_or_default();
    let precondition = |name: &str| given.str_at(&["preconditions", name]).map(str::to_owned);
    DeleteOptions {
        grace_period_seconds: given.get("gracePeriodSeconds").and_then(Tree::as_i64),
        uid: precondition("uid"),
        resource_version: precondition("resourceVersion"),
        dry_run: options.dry_run || !given.items("dryRun").is_empty(),
        ..DeleteOptions::default()
    }
}

/// Whether no budget counts the pod: it is over, going, or has not begun.
fn is_free(pod: &Tree) -> bool {
    let phase = pod.str_at(&["status", "phase"]).unwrap_or_default();
    matches!(phase, "Succeeded" | "Failed" | "Pending") || meta::is_deleting(pod)
}

/// The budgets whose selector selects the pod.
fn budgets(call: &Call<'_>, pod: &Tree) -> Result<Vec<std::sync::Arc<Stored>>, Status> {
    let resource = GroupResource::new("policy", "poddisruptionbudgets");
    let Some(resource) = call.registry.find_resource(&resource) else {
        return Ok(Vec::new());
    };
    let labels = meta::find(pod, "labels");
    let mut found = Vec::new();
    for budget in resource.cache.snapshot().in_namespace(call.namespace()) {
        let document = resource.kind.revise(budget).map_err(error::unreadable)?;
        let Some(selector) = document.at(&["spec", "selector"]) else {
            continue;
        };
        let selector = label_selector::parse(selector).map_err(Status::internal)?;
        if selector.matches(|label| labels?.get(label)?.as_str()) {
            // As fresh as the store has it: its numbers are what counts.
            let fresh = call.registry.find(&resource, budget.key())?;
            found.extend(fresh);
        }
    }
    Ok(found)
}

fn view(budget: &Stored) -> Result<Budget, Status> {
    budget.decode().map_err(Status::internal)
}

/// Whether the pod is not ready, and its budget does not count that against anyone.
fn may_go_unhealthy(pod: &Tree, budget: &Stored) -> Result<bool, Status> {
    let conditions = pod
        .get("status")
        .map_or(&[][..], |status| status.items("conditions"));
    let ready = conditions.iter().any(|condition| {
        condition.str_at(&["type"]) == Some("Ready") && condition.str_at(&["status"]) == Some("True")
    });
    let budget = view(budget)?;
    let status = &budget.status;
    let enough = status.current_healthy >= status.desired_healthy && status.desired_healthy > 0;
    Ok(!ready && (budget.spec.unhealthy_pod_eviction_policy == "AlwaysAllow" || enough))
}

/// Takes one disruption from a budget, trying again while others change it.
async fn take_from(call: &Call<'_>, budget: &Stored, pod: &str, dry_run: bool) -> Result<(), Status> {
    let resource = GroupResource::new("policy", "poddisruptionbudgets");
    let resource = call.registry.find_resource(&resource);
    let resource = resource.ok_or_else(Status::no_such_resource)?;
    for _ in 0..TRIES {
        let fresh = call.registry.find(&resource, budget.key())?;
        let Some(fresh) = fresh else { return Ok(()) };
        check(&view(&fresh)?, fresh.key().name())?;
        if dry_run {
            return Ok(());
        }
        match call.registry.call(decrement(call, &fresh, pod)?).await {
            Err(status) if status.is_conflict() => {}
            answer => return answer.map(drop),
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

fn decrement(call: &Call<'_>, budget: &Stored, pod: &str) -> Result<Request, Status> {
    let left = view(budget)?.status.disruptions_allowed - 1;
    let now = meta::moment(call.facts.now);
    let patch = json!({
        "metadata": {"resourceVersion": budget.resource_version().to_string()},
        "status": {"disruptionsAllowed": left, "disruptedPods": {pod: now.as_str()}},
    });
    let mut target = Target::object(Gvr::new("policy", "v1", "poddisruptionbudgets"), budget.key());
    target.subresource = Some("status".into());
    let payload = Payload {
        encoding: Encoding::Json,
        bytes: patch.to_string().into(),
    };
    Ok(Request {
        user: call.user.clone(),
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

/// The pod says why it goes.
async fn mark(call: &Call<'_>, deletion: &DeleteOptions) -> Result<(), Status> {
    let options = WriteOptions::default();
    revise_until_written(call, Some(Part::Action), &options, |old, before| {
        let version = deletion.resource_version.as_deref();
        if version.is_some_and(|version| version != old.resource_version().to_string()) {
            return Err(Status::modified(&call.name, old.key().name()));
        }
        let mut object = before.clone();
        set_condition(&mut object, call.facts.now);
        Ok(Attempt {
            object,
            version: None,
            warnings: Vec::new(),
        })
    })
    .await
    .map(drop)
}

fn set_condition(pod: &mut Tree, now: Timestamp) {
    let conditions = pod.child("status").map_or_default().entry("conditions");
    let mut list = conditions.as_list().unwrap_or_default().to_vec();
    list.retain(|condition| condition.str_at(&["type"]) != Some("DisruptionTarget"));
    let condition: Map = [
        ("type", Tree::from("DisruptionTarget")),
        ("lastTransitionTime", meta::moment(now)),
        ("status", Tree::from("True")),
        ("reason", Tree::from("EvictionByEvictionAPI")),
        ("message", Tree::from("Eviction API: evicting")),
    ]
    .into_iter()
    .collect();
    list.push(condition.into());
    *conditions = list.into();
}
