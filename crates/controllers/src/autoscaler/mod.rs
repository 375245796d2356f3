//! HorizontalPodAutoscaler: keeps the number of replicas of something in step with what is measured of its pods.
//!
//! Every fifteen seconds, or as often as is said, each autoscaler reads the scale of its target and the figures that its metrics name, from
//! wherever they are served ([`mod@metrics`]). [`mod@plan`] says how many replicas they ask for, [`pace`] how fast to
//! follow, and what was decided is written through the target's `scale`, whatever kind the target is.

mod metrics;
mod pace;
mod plan;
mod rating;
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
use setpoint_api::{Body, Change, Clock, Gvr, Key, Payload, Status as Refusal, Target, Verb};
use setpoint_runtime::{
    Client, Context, Controller, Error, Lister, Next, Object, Patch, Predicate, Reconcile, Recorder, Typed,
};
use tokio_util::sync::CancellationToken;

use crate::autoscaler::pace::History;
use crate::autoscaler::rating::Rated;
use crate::autoscaler::status::{ABLE, ACTIVE, AT_ZERO, LIMITED, Status};
use crate::autoscaler::views::{Autoscaler, Scale, Spec};
use crate::resources::Served;
use crate::{Config, moments};

pub use plan::Settings;

/// The name as kube-controller-manager has it.
pub const NAME: &str = "horizontal-pod-autoscaler-controller";

/// How often a scale that somebody else has changed is written again.
const TRIES: usize = 5;

/// Runs the controller until stopped.
pub async fn run(context: Context, config: Config, stop: CancellationToken) -> Result<(), Error> {
    let reconciler = Autoscalers {
        all: context.lister()?,
        pods: context.lister()?,
        client: context.client.clone(),
        clock: context.clock.clone(),
        events: context.events.of("horizontal-pod-autoscaler"),
        resources: config.resources.clone(),
        settings: config.autoscaler,
        memory: Mutex::default(),
    };
    let changed = Predicate::generation_changed();
    let asked = move |change: &Change| match changed.passes(change) {
        true => vec![change.key().clone()],
        false => Vec::new(),
    };
    Controller::new(NAME, reconciler)
        .watches(HorizontalPodAutoscaler::resource().group_resource(), asked)
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
    client: Client,
    clock: Arc<dyn Clock>,
    events: Recorder,
    resources: Served,
    settings: Settings,
    memory: Mutex<HashMap<Key, Memory>>,
}

/// What is kept in mind of an autoscaler between two looks.
#[derive(Debug, Default)]
struct Memory {
    history: History,
    /// Which pods it counts as its own.
    selector: Option<LabelSelector>,
}

/// The scale of a target: how to read it, and how to write it.
struct Found {
    scale: Scale,
    document: Value,
    target: Target,
}

/// What was decided: how many replicas, and why.
struct Decision {
    replicas: i32,
    why: String,
}

/// Nothing can be decided; the status says why.
struct Stuck(String);

impl Reconcile for Autoscalers {
    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let Some(object) = self.all.find(key) else {
            self.memory.lock().remove(key);
            return Ok(Next::Done);
        };
        let view = object.view::<Autoscaler>()?;
        let mut status = view.status.clone();
        if let Err(Stuck(why)) = self.scale(&object, &view.spec, &mut status).await {
            tracing::debug!(autoscaler = ?key, %why, "cannot scale");
        }
        self.report(&object, &view.status, status).await;
        Ok(Next::After(self.settings.period))
    }
}

impl Autoscalers {
    /// One look at one autoscaler, from the scale of its target to the new one.
    async fn scale(
        &self,
        object: &Typed<HorizontalPodAutoscaler>,
        spec: &Spec,
        status: &mut Status,
    ) -> Result<(), Stuck> {
        let now = self.clock.now();
        let found = self.find_scale(object.key(), spec).await;
        let found = found.map_err(|why| self.no_scale(object, status, &why))?;
        status.say(
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
        let decided = self.decide(object, spec, &found.scale, status).await;
        status.observed_generation = Some(object.header().generation);
        status.current_replicas = current;
        let Some(decision) = decided? else {
            status.desired_replicas = current;
            return Ok(());
        };
        self.rescale(object, spec, (found, &decision), status).await
    }

    /// How many replicas there should be; nothing if the number is right, or none of this autoscaler's business.
    async fn decide(
        &self,
        object: &Typed<HorizontalPodAutoscaler>,
        spec: &Spec,
        scale: &Scale,
        status: &mut Status,
    ) -> Result<Option<Decision>, Stuck> {
        let (now, current) = (self.clock.now(), scale.spec.replicas);
        status.current_metrics = None;
        let decision = |replicas, why: &str| {
            let why = why.to_owned();
            Ok(Some(Decision { replicas, why }))
        };
        if current == 0 && !may_leave_zero(spec, status) {
            let off = "scaling is disabled since the replica count of the target is zero";
            status.say(ACTIVE, false, ("ScalingDisabled", off), now);
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
        let Rated { replicas, metric } = self.rate(object, spec, scale, status).await?;
        let mut why = String::new();
        if replicas > current {
            why = format!("{metric} above target");
        } else if replicas < current {
            "All metrics below target".clone_into(&mut why);
        }
        let paced = self.remember(object.key(), |memory| {
            let window = SignedDuration::try_from(self.settings.down_window).unwrap_or(SignedDuration::MAX);
            memory.history.pace(spec, (current, replicas), window, now)
        });
        status.say(ABLE, true, paced.able, now);
        status.say(LIMITED, paced.limited, paced.limit, now);
        if current == 0 && paced.replicas < spec.min() {
            let few = "Current number of replicas below Spec.MinReplicas";
            return decision(spec.min(), if why.is_empty() { few } else { &why });
        }
        match paced.replicas == current {
            true => Ok(None),
            false => decision(paced.replicas, &why),
        }
    }

    /// Writes the new number, and says so.
    async fn rescale(
        &self,
        object: &Typed<HorizontalPodAutoscaler>,
        spec: &Spec,
        (found, Decision { replicas, why }): (Found, &Decision),
        status: &mut Status,
    ) -> Result<(), Stuck> {
        let (now, current) = (self.clock.now(), found.scale.spec.replicas);
        if let Err(refusal) = self.write(found, *replicas).await {
            let message = format!("New size: {replicas}; reason: {why}; error: {refusal}");
            self.events.warning(object, "FailedRescale", message);
            let message = format!("the HPA controller was unable to update the target scale: {refusal}");
            status.say(ABLE, false, ("FailedUpdateScale", &message), now);
            return Err(Stuck(message));
        }
        let message = format!("the HPA controller was able to update the target scale to {replicas}");
        status.say(ABLE, true, ("SucceededRescale", &message), now);
        let message = format!("New size: {replicas}; reason: {why}");
        self.events.normal(object, "SuccessfulRescale", message);
        self.remember(object.key(), |memory| {
            let behavior = spec.behavior.as_ref();
            memory.history.note(behavior, (current, *replicas), now);
        });
        let to_zero = current > 0 && *replicas == 0 && spec.min() == 0 && spec.measures_without_pods();
        let said = match to_zero {
            true => ("ScaledToZero", "the HPA controller scaled the workload to zero"),
            false => (
                "NotScaledToZero",
                "the HPA controller did not scale the workload to zero",
            ),
        };
        status.say(AT_ZERO, to_zero, said, now);
        status.desired_replicas = *replicas;
        status.last_scale_time = Some(moments::whole_seconds(now));
        Ok(())
    }

    /// Writes the number into the newest scale.
    async fn write(&self, found: Found, replicas: i32) -> Result<(), Refusal> {
        let mut document = found.document;
        for _ in 1..TRIES {
            match self.put(&found.target, &mut document, replicas).await {
                Err(refusal) if refusal.is_conflict() => document = self.get(&found.target).await?,
                written => return written,
            }
        }
        self.put(&found.target, &mut document, replicas).await
    }

    async fn put(&self, target: &Target, document: &mut Value, replicas: i32) -> Result<(), Refusal> {
        document["spec"]["replicas"] = json!(replicas);
        let verb = Verb::Update(Payload::json(document.to_string()), WriteOptions::default());
        self.client.call(target.clone(), verb).await.map(drop)
    }

    /// The scale of the target, of whatever kind it is.
    async fn find_scale(&self, key: &Key, spec: &Spec) -> Result<Found, String> {
        let wanted = &spec.scale_target_ref;
        let (version, kind) = (&wanted.api_version, &wanted.kind);
        let gvr = self.resource(version, kind).ok_or_else(|| {
            let (group, version) = version.split_once('/').unwrap_or(("", version));
            match group {
                "" => format!("no matches for kind {kind:?} in version {version:?}"),
                group => format!("no matches for kind {kind:?} in group {group:?}"),
            }
        })?;
        let target = Target::object(gvr, &Key::new(key.namespace(), &wanted.name)).subresource("scale");
        let document = self.get(&target).await.map_err(|refusal| refusal.to_string())?;
        let scale = serde_json::from_value(document.clone()).map_err(|error| error.to_string())?;
        Ok(Found {
            scale,
            document,
            target,
        })
    }

    async fn get(&self, target: &Target) -> Result<Value, Refusal> {
        let verb = Verb::Get(GetOptions::default());
        let response = self.client.call(target.clone(), verb).await?;
        let decoded = match &response.body {
            Body::Document(bytes) => serde_json::from_slice(bytes),
            Body::Object(object) => object.decode(),
            body => return Err(Refusal::internal(format_args!("{body:?} is no scale"))),
        };
        decoded.map_err(|error| Refusal::internal(format_args!("cannot decode the scale: {error}")))
    }

    /// The resource of a kind, in the version in which it is kept.
    fn resource(&self, api_version: &str, kind: &str) -> Option<Gvr> {
        let served = self.resources.now();
        let place = served.find_kind(api_version, kind)?;
        Some(served.at(place).gvr.clone())
    }

    fn no_scale(&self, object: &Typed<HorizontalPodAutoscaler>, status: &mut Status, why: &str) -> Stuck {
        self.events.warning(object, "FailedGetScale", why);
        let message = format!("the HPA controller was unable to get the target's current scale: {why}");
        status.say(ABLE, false, ("FailedGetScale", &message), self.clock.now());
        Stuck(message)
    }

    fn remember<T>(&self, key: &Key, act: impl FnOnce(&mut Memory) -> T) -> T {
        act(self.memory.lock().entry(key.clone()).or_default())
    }

    /// Writes the status if it says something new. If that fails, the next look says it again.
    async fn report(&self, object: &Typed<HorizontalPodAutoscaler>, old: &Status, new: Status) {
        if *old == new {
            return;
        }
        let handle = self
            .client
            .dynamic(HorizontalPodAutoscaler::resource(), object.key().namespace());
        let patch = json!({"metadata": {"uid": object.uid()}, "status": new});
        let written = match Patch::merge(&patch) {
            Ok(patch) => handle.patch_sub(object.key().name(), "status", &patch).await,
            Err(refusal) => Err(refusal),
        };
        if let Err(refusal) = written
            && !refusal.is_not_found()
        {
            self.events
                .warning(object, "FailedUpdateStatus", refusal.to_string());
        }
    }
}

/// Whether a target without replicas may get some: if an autoscaler put it there, and either must not have, or measures
/// something that goes on without pods.
fn may_leave_zero(spec: &Spec, status: &Status) -> bool {
    status.holds(AT_ZERO) && (spec.min() != 0 || spec.measures_without_pods())
}

#[cfg(test)]
mod tests;
