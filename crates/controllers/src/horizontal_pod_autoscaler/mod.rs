//! HorizontalPodAutoscaler: scales a target according to the metrics of its pods.
//!
//! Once per sync period each autoscaler reads the scale of its target and its metrics, from whichever server serves
//! them ([`mod@metrics`]). [`mod@plan`] computes the recommended replicas, [`behavior`] limits how fast to follow, and
//! the result is written through the target's `scale` subresource, whatever its kind.

mod behavior;
mod metrics;
mod plan;
mod recommendation;
mod status;
mod views;

use std::collections::HashMap;
use std::sync::Arc;

use jiff::SignedDuration;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1;
use parking_lot::Mutex;
use serde_json::{Value, json};
use setpoint_api::options::{GetOptions, WriteOptions};
use setpoint_api::selector::LabelSelector;
use setpoint_api::{Body, Change, Clock, Gvr, Key, Payload, Status as StatusError, Target, Verb};
use setpoint_runtime::{
    Client, Context, Controller, Error, Lister, Next, Object, Patch, Predicate, Reconcile, Recorder,
    TypedObject,
};
use tokio_util::sync::CancellationToken;

use crate::horizontal_pod_autoscaler::behavior::History;
use crate::horizontal_pod_autoscaler::recommendation::Recommendation;
use crate::horizontal_pod_autoscaler::status::{ABLE, ACTIVE, AT_ZERO, LIMITED, Status};
use crate::horizontal_pod_autoscaler::views::{Autoscaler, Scale, Spec};
use crate::resources::ServedResources;
use crate::{Config, api_time};

pub use plan::Settings;

/// The name as kube-controller-manager has it.
pub const NAME: &str = "horizontal-pod-autoscaler-controller";

/// How often the scale is written if another client changes it meanwhile.
const WRITE_ATTEMPTS: usize = 5;

/// Runs the controller until stopped.
pub async fn run(context: Context, config: Config, stop: CancellationToken) -> Result<(), Error> {
    let reconciler = Autoscalers {
        all: context.lister()?,
        pods: context.lister()?,
        clock: context.clock.clone(),
        events: context.events.for_component("horizontal-pod-autoscaler"),
        resources: config.resources.clone(),
        settings: config.autoscaler,
        memory: Mutex::default(),
    };
    let changed = Predicate::generation_changed();
    let enqueue = move |change: &Change| match changed.passes(change) {
        true => vec![change.key().clone()],
        false => Vec::new(),
    };
    Controller::new(NAME, reconciler)
        .watches(HorizontalPodAutoscaler::resource().group_resource(), enqueue)
        .reads(v1::Pod::resource().group_resource())
        .workers(config.workers(NAME))
        .run(&context, stop)
        .await
}

/// The reconciler.
#[derive(Debug)]
struct Autoscalers {
    all: Lister<HorizontalPodAutoscaler>,
    pods: Lister<v1::Pod>,
    clock: Arc<dyn Clock>,
    events: Recorder,
    resources: ServedResources,
    settings: Settings,
    memory: Mutex<HashMap<Key, Memory>>,
}

/// The state of an autoscaler between two reconciles.
#[derive(Debug, Default)]
struct Memory {
    history: History,
    /// The pods that it counts as its own.
    selector: Option<LabelSelector>,
}

/// The autoscaler of a reconcile, and the client of that reconcile.
#[derive(Clone, Copy)]
struct ScaleContext<'a> {
    client: &'a Client,
    object: &'a TypedObject<HorizontalPodAutoscaler>,
    spec: &'a Spec,
}

/// The scale of a target, and how to write it.
struct TargetScale {
    scale: Scale,
    body: Value,
    target: Target,
}

/// The replicas to set, and why.
struct Decision {
    replicas: i32,
    why: String,
}

/// Why the target cannot be scaled; also in the status.
struct ScaleError(String);

impl Reconcile for Autoscalers {
    async fn reconcile(&self, key: &Key, client: &Client) -> Result<Next, Error> {
        let Some(object) = self.all.find(key) else {
            self.memory.lock().remove(key);
            return Ok(Next::Done);
        };
        let view = object.view::<Autoscaler>()?;
        let mut status = view.status.clone();
        let context = ScaleContext {
            client,
            object: &object,
            spec: &view.spec,
        };
        if let Err(ScaleError(why)) = self.scale(context, &mut status).await {
            tracing::debug!(autoscaler = ?key, %why, "cannot scale");
        }
        self.report(client, &object, &view.status, status).await;
        Ok(Next::After(self.settings.period))
    }
}

impl Autoscalers {
    /// One reconcile of an autoscaler, from the current scale of its target to the new one.
    async fn scale(&self, context: ScaleContext<'_>, status: &mut Status) -> Result<(), ScaleError> {
        let ScaleContext { client, object, spec } = context;
        let now = self.clock.now();
        let found = self.find_scale(client, object.key(), spec).await;
        let found = found.map_err(|why| self.no_scale(object, status, &why))?;
        status.set_condition(
            ABLE,
            true,
            (
                "SucceededGetScale",
                "the HPA controller was able to get the target's current scale",
            ),
            now,
        );
        let current = found.scale.spec.replicas;
        self.remember(object.key(), |memory| memory.history.begin(current, now));
        let decided = self.decide(context, &found.scale, status).await;
        status.observed_generation = Some(object.header().generation);
        status.current_replicas = current;
        let Some(decision) = decided? else {
            status.desired_replicas = current;
            return Ok(());
        };
        self.rescale(context, found, &decision, status).await
    }

    /// The replicas to set; `None` if they are right already or scaling is disabled.
    async fn decide(
        &self,
        context: ScaleContext<'_>,
        scale: &Scale,
        status: &mut Status,
    ) -> Result<Option<Decision>, ScaleError> {
        let ScaleContext { object, spec, .. } = context;
        let (now, current) = (self.clock.now(), scale.spec.replicas);
        status.current_metrics = None;
        let decision = |replicas, why: &str| {
            let why = why.to_owned();
            Ok(Some(Decision { replicas, why }))
        };
        if current == 0 && !may_leave_zero(spec, status) {
            let off = "scaling is disabled since the replica count of the target is zero";
            status.set_condition(ACTIVE, false, ("ScalingDisabled", off), now);
            return Ok(None);
        }
        if current > spec.max_replicas {
            return decision(
                spec.max_replicas,
                "Current number of replicas above Spec.MaxReplicas",
            );
        }
        if current < spec.min() && current != 0 {
            return decision(spec.min(), "Current number of replicas below Spec.MinReplicas");
        }
        let Recommendation { replicas, metric } = self.recommend(context, scale, status).await?;
        let mut why = String::new();
        if replicas > current {
            why = format!("{metric} above target");
        } else if replicas < current {
            "All metrics below target".clone_into(&mut why);
        }
        let normalized = self.remember(object.key(), |memory| {
            let window = SignedDuration::try_from(self.settings.downscale_stabilization)
                .unwrap_or(SignedDuration::MAX);
            memory.history.normalize(spec, (current, replicas), window, now)
        });
        status.set_condition(ABLE, true, normalized.able, now);
        status.set_condition(LIMITED, normalized.limited, normalized.limit, now);
        if current == 0 && normalized.replicas < spec.min() {
            let few = "Current number of replicas below Spec.MinReplicas";
            return decision(spec.min(), if why.is_empty() { few } else { &why });
        }
        match normalized.replicas == current {
            true => Ok(None),
            false => decision(normalized.replicas, &why),
        }
    }

    /// Writes the new replicas, and records events and conditions.
    async fn rescale(
        &self,
        context: ScaleContext<'_>,
        found: TargetScale,
        Decision { replicas, why }: &Decision,
        status: &mut Status,
    ) -> Result<(), ScaleError> {
        let ScaleContext { client, object, spec } = context;
        let (now, current) = (self.clock.now(), found.scale.spec.replicas);
        if let Err(status_error) = write(client, found, *replicas).await {
            let message = format!("New size: {replicas}; reason: {why}; error: {status_error}");
            self.events.warning(object, "FailedRescale", message);
            let message = format!("the HPA controller was unable to update the target scale: {status_error}");
            status.set_condition(ABLE, false, ("FailedUpdateScale", &message), now);
            return Err(ScaleError(message));
        }
        let message = format!("the HPA controller was able to update the target scale to {replicas}");
        status.set_condition(ABLE, true, ("SucceededRescale", &message), now);
        let message = format!("New size: {replicas}; reason: {why}");
        self.events.normal(object, "SuccessfulRescale", message);
        self.remember(object.key(), |memory| {
            let behavior = spec.behavior.as_ref();
            memory.history.record_scale(behavior, (current, *replicas), now);
        });
        let to_zero = current > 0 && *replicas == 0 && spec.min() == 0 && spec.measures_without_pods();
        let reason = match to_zero {
            true => ("ScaledToZero", "the HPA controller scaled the workload to zero"),
            false => (
                "NotScaledToZero",
                "the HPA controller did not scale the workload to zero",
            ),
        };
        status.set_condition(AT_ZERO, to_zero, reason, now);
        status.desired_replicas = *replicas;
        status.last_scale_time = Some(api_time::whole_seconds(now));
        Ok(())
    }

    /// The scale of the target, of any kind.
    async fn find_scale(&self, client: &Client, key: &Key, spec: &Spec) -> Result<TargetScale, String> {
        let target_ref = &spec.scale_target_ref;
        let (version, kind) = (&target_ref.api_version, &target_ref.kind);
        let gvr = self.resource(version, kind).ok_or_else(|| {
            let (group, version) = version.split_once('/').unwrap_or(("", version));
            match group {
                "" => format!("no matches for kind {kind:?} in version {version:?}"),
                group => format!("no matches for kind {kind:?} in group {group:?}"),
            }
        })?;
        let target = Target::object(gvr, &Key::new(key.namespace(), &target_ref.name)).subresource("scale");
        let body = get(client, &target)
            .await
            .map_err(|status_error| status_error.to_string())?;
        let scale = serde_json::from_value(body.clone()).map_err(|error| error.to_string())?;
        Ok(TargetScale { scale, body, target })
    }

    /// The resource of a kind, in its storage version.
    fn resource(&self, api_version: &str, kind: &str) -> Option<Gvr> {
        let served = self.resources.now();
        let resource_index = served.find_kind(api_version, kind)?;
        Some(served.at(resource_index).gvr.clone())
    }

    fn no_scale(
        &self,
        object: &TypedObject<HorizontalPodAutoscaler>,
        status: &mut Status,
        why: &str,
    ) -> ScaleError {
        self.events.warning(object, "FailedGetScale", why);
        let message = format!("the HPA controller was unable to get the target's current scale: {why}");
        status.set_condition(ABLE, false, ("FailedGetScale", &message), self.clock.now());
        ScaleError(message)
    }

    fn remember<T>(&self, key: &Key, act: impl FnOnce(&mut Memory) -> T) -> T {
        act(self.memory.lock().entry(key.clone()).or_default())
    }

    /// Writes the status if it changed. If that fails, the next reconcile writes it.
    async fn report(
        &self,
        client: &Client,
        object: &TypedObject<HorizontalPodAutoscaler>,
        old: &Status,
        new: Status,
    ) {
        if *old == new {
            return;
        }
        let handle = client.dynamic(HorizontalPodAutoscaler::resource(), object.key().namespace());
        let patch = json!({"metadata": {"uid": object.uid()}, "status": new});
        let written = match Patch::merge(&patch) {
            Ok(patch) => {
                handle
                    .patch_subresource(object.key().name(), "status", &patch)
                    .await
            }
            Err(status_error) => Err(status_error),
        };
        if let Err(status_error) = written
            && !status_error.is_not_found()
        {
            self.events
                .warning(object, "FailedUpdateStatus", status_error.to_string());
        }
    }
}

/// Writes the replicas, with the newest resource version.
async fn write(client: &Client, found: TargetScale, replicas: i32) -> Result<(), StatusError> {
    let mut body = found.body;
    for _ in 1..WRITE_ATTEMPTS {
        match put(client, &found.target, &mut body, replicas).await {
            Err(status_error) if status_error.is_conflict() => body = get(client, &found.target).await?,
            written => return written,
        }
    }
    put(client, &found.target, &mut body, replicas).await
}

async fn put(client: &Client, target: &Target, body: &mut Value, replicas: i32) -> Result<(), StatusError> {
    body["spec"]["replicas"] = json!(replicas);
    let verb = Verb::Update(Payload::json(body.to_string()), WriteOptions::default());
    client.call(target.clone(), verb).await.map(drop)
}

async fn get(client: &Client, target: &Target) -> Result<Value, StatusError> {
    let verb = Verb::Get(GetOptions::default());
    let response = client.call(target.clone(), verb).await?;
    let decoded = match &response.body {
        Body::Json(bytes) => setpoint_api::json::from_slice(bytes),
        Body::Object(object) => object.decode(),
        body => return Err(StatusError::internal(format_args!("{body:?} is not a scale"))),
    };
    decoded.map_err(|error| StatusError::internal(format_args!("cannot decode the scale: {error}")))
}

/// Whether a target with zero replicas may be scaled up: if an autoscaler scaled it to zero, and its minimum is not
/// zero any more or it has a metric that exists without pods.
fn may_leave_zero(spec: &Spec, status: &Status) -> bool {
    status.holds(AT_ZERO) && (spec.min() != 0 || spec.measures_without_pods())
}

#[cfg(test)]
mod tests;
