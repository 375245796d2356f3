//! Evicts pods whose devices have NoExecute taints that their claims do not tolerate, or no longer do.
//!
//! A taint is published with a device or added by a DeviceTaintRule; [`mod@plan`] decides when a pod is evicted. The
//! progress of a rule is written to its status.

mod plan;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1;
use k8s_openapi::api::resource::v1::{DeviceTaintRule, ResourceClaim, ResourceSlice};
use parking_lot::Mutex;
use serde_json::json;
use setpoint_api::{Change, Clock, Key, Stored};
use setpoint_runtime::{
    Client, Context, Controller, Error, Lister, Next, Object, Patch, Reconcile, Recorder, TypedObject,
};
use tokio_util::sync::CancellationToken;

use crate::device_taint_eviction::plan::{
    AllocatedDevice, Claim, Condition, Counts, Eviction, NO_EXECUTE, Rule, Slice, devices_of,
};
use crate::eviction::{self, Cause};
use crate::resource_claim::plan::{ClaimRef, Pod};
use crate::{Config, api_time, pods};

/// The name as kube-controller-manager has it.
pub const NAME: &str = "device-taint-eviction-controller";

const IN_PROGRESS: &str = "EvictionInProgress";
/// The shortest interval between two status writes of a rule.
const STATUS_INTERVAL_SECONDS: i64 = 10;
/// The index of slices by driver and pool.
const POOL: &str = "pool of devices";

/// Runs the controller until stopped.
pub async fn run(context: Context, config: Config, stop: CancellationToken) -> Result<(), Error> {
    let reconciler = DeviceTaintEviction::new(&context)?;
    let (rules, by_rule, by_slice) = (
        reconciler.rules.clone(),
        reconciler.claims.clone(),
        reconciler.claims.clone(),
    );
    Controller::new(NAME, reconciler)
        .watches(v1::Pod::resource().group_resource(), move |change| {
            items_of_pod(&rules, change)
        })
        .watches(ResourceClaim::resource().group_resource(), |change: &Change| {
            pods_of_claim(change.object())
        })
        .watches(ResourceSlice::resource().group_resource(), move |change| {
            items_of_slice(&by_slice, change)
        })
        .watches(DeviceTaintRule::resource().group_resource(), move |change| {
            let own = (!change.is_deletion()).then(|| WorkItem::Rule(change.key().clone()));
            let used = by_rule.list();
            own.into_iter()
                .chain(used.iter().flat_map(|claim| pods_of_claim(claim)))
                .collect()
        })
        .workers(config.workers(NAME))
        .run(&context, stop)
        .await
}

/// The keys of the work queue.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum WorkItem {
    Pod(Key),
    Rule(Key),
}

/// The reconciler.
#[derive(Debug)]
struct DeviceTaintEviction {
    pods: Lister<v1::Pod>,
    claims: Lister<ResourceClaim>,
    slices: Lister<ResourceSlice>,
    rules: Lister<DeviceTaintRule>,
    clock: Arc<dyn Clock>,
    events: Recorder,
    /// The pods (by uid) whose eviction is scheduled.
    pending: Mutex<HashSet<String>>,
    /// How many pods each rule (by uid) has evicted since this process started.
    evicted: Mutex<HashMap<String, u64>>,
}

/// A pod with claims, and the rules that may affect it.
fn items_of_pod(rules: &Lister<DeviceTaintRule>, change: &Change) -> Vec<WorkItem> {
    if Pod::read(change.object()).is_none() {
        return Vec::new();
    }
    let drives_out = |rule: &TypedObject<DeviceTaintRule>| {
        rule.view::<Rule>()
            .is_ok_and(|rule| rule.spec.taint.effect == NO_EXECUTE)
    };
    let rules = rules.list().into_iter().filter(drives_out);
    let rules = rules.map(|rule| WorkItem::Rule(rule.key().clone()));
    rules.chain([WorkItem::Pod(change.key().clone())]).collect()
}

/// The pods that may use a claim.
fn pods_of_claim(claim: &Stored) -> Vec<WorkItem> {
    let Ok(view) = claim.view::<Claim>() else {
        return Vec::new();
    };
    let namespace = claim.key().namespace();
    view.pods()
        .map(|pod| WorkItem::Pod(Key::new(namespace, &pod.name)))
        .collect()
}

/// The pods that may use claims with devices of the pool.
fn items_of_slice(claims: &Lister<ResourceClaim>, change: &Change) -> Vec<WorkItem> {
    let Ok(slice) = change.object().view::<Slice>() else {
        return Vec::new();
    };
    let is_of_pool =
        |one: &AllocatedDevice| one.driver == slice.spec.driver && one.pool == slice.spec.pool.name;
    let uses = |claim: &TypedObject<ResourceClaim>| {
        claim
            .view::<Claim>()
            .is_ok_and(|claim| claim.devices().iter().any(is_of_pool))
    };
    let claims = claims.list().into_iter().filter(uses);
    claims.flat_map(|claim| pods_of_claim(&claim)).collect()
}

impl Reconcile<WorkItem> for DeviceTaintEviction {
    async fn reconcile(&self, item: &WorkItem, client: &Client) -> Result<Next, Error> {
        match item {
            WorkItem::Pod(key) => self.sync_pod(client, key).await,
            WorkItem::Rule(key) => self.sync_rule(client, key).await,
        }
    }
}

impl DeviceTaintEviction {
    fn new(context: &Context) -> Result<Self, Error> {
        let slices: Lister<ResourceSlice> = context.lister()?;
        slices.cache().add_index(POOL, |slice| {
            let spec = slice.view::<Slice>().map(|slice| slice.spec.clone());
            spec.map_or_else(
                |_| Vec::new(),
                |spec| vec![pool(&spec.driver, &spec.pool.name).into()],
            )
        });
        Ok(Self {
            pods: context.lister()?,
            claims: context.lister()?,
            slices,
            rules: context.lister()?,
            clock: context.clock.clone(),
            events: context.events.for_component(NAME),
            pending: Mutex::default(),
            evicted: Mutex::default(),
        })
    }

    async fn sync_pod(&self, client: &Client, key: &Key) -> Result<Next, Error> {
        let Some(pod) = self.pods.find(key).filter(|pod| !pod.header().deleting) else {
            return Ok(Next::Done);
        };
        let Some(eviction) = self.eviction(&pod, &self.no_execute_rules()) else {
            if self.pending.lock().remove(pod.uid()) {
                self.events
                    .normal(&pod, "DeviceTaintManagerEviction", "Cancelling deletion");
            }
            return Ok(Next::Done);
        };
        if let Some(left) = api_time::duration_until(self.clock.now(), eviction.when) {
            self.pending.lock().insert(pod.uid().to_owned());
            return Ok(Next::After(left));
        }
        self.evict(client, &pod, &eviction).await?;
        Ok(Next::Done)
    }

    async fn evict(
        &self,
        client: &Client,
        pod: &TypedObject<v1::Pod>,
        eviction: &Eviction,
    ) -> Result<(), Error> {
        self.events
            .normal(pod, "DeviceTaintManagerEviction", "Marking for deletion");
        let cause = Cause {
            reason: "DeletionByDeviceTaintManager",
            message: "Device Taint manager: deleting due to NoExecute taint",
        };
        eviction::evict(client, self.clock.now(), pod, cause).await?;
        self.pending.lock().remove(pod.uid());
        let mut evicted = self.evicted.lock();
        for rule in &eviction.rules {
            *evicted.entry(rule.clone()).or_default() += 1;
        }
        Ok(())
    }

    /// When the pod is evicted, by the published taints and these rules; `None` if it may stay or is not bound yet.
    fn eviction(&self, object: &TypedObject<v1::Pod>, rules: &[Arc<Rule>]) -> Option<Eviction> {
        let is_bound = !pods::Pod::read(object.stored().clone()).view().node.is_empty();
        let pod = Pod::read(object).filter(|_| is_bound)?;
        let claims = pod.spec.resource_claims.iter().filter_map(|claim| {
            let (name, is_own) = match pod.claim_ref(claim) {
                ClaimRef::Existing(name) => (name, false),
                ClaimRef::Generated(name) => (name, true),
                ClaimRef::FromTemplate(_) | ClaimRef::Nothing => return None,
            };
            let found = self.claims.find(&Key::new(object.key().namespace(), name))?;
            let is_it = !is_own || setpoint_runtime::owner::controls(object, &found);
            let view = is_it.then(|| found.view::<Claim>().ok())??;
            view.is_reserved_for(object.uid()).then_some(view)
        });
        let evictions = claims.filter_map(|claim| claim.eviction(|device| self.slices_of(device), rules));
        evictions.reduce(Eviction::and)
    }

    fn slices_of(&self, device: &AllocatedDevice) -> Vec<Arc<Slice>> {
        let found = self.slices.indexed(POOL, &pool(&device.driver, &device.pool));
        found
            .iter()
            .filter_map(|slice| slice.view::<Slice>().ok())
            .collect()
    }

    /// The rules with the NoExecute effect.
    fn no_execute_rules(&self) -> Vec<Arc<Rule>> {
        let rules = self.rules.list().into_iter();
        let rules = rules.filter_map(|rule| rule.view::<Rule>().ok());
        rules
            .filter(|rule| rule.spec.taint.effect == NO_EXECUTE)
            .collect()
    }

    /// Writes the progress of a rule, not too often. A rule with effect None reports once what it would evict.
    async fn sync_rule(&self, client: &Client, key: &Key) -> Result<Next, Error> {
        let Some(object) = self.rules.find(key) else {
            return Ok(Next::Done);
        };
        let (rule, now) = (object.view::<Rule>()?, self.clock.now());
        let old = rule.status.conditions.iter().find(|own| own.type_ == IN_PROGRESS);
        let old = old.cloned().unwrap_or_default();
        let is_reported =
            old.observed_generation == rule.metadata.generation && old.last_transition_time.is_some();
        if is_reported && rule.spec.taint.effect != NO_EXECUTE {
            return Ok(Next::Done);
        }
        let due = old
            .last_transition_time
            .map(|reported| api_time::add_seconds(reported, STATUS_INTERVAL_SECONDS));
        if let Some(left) = due
            .filter(|_| is_reported)
            .and_then(|due| api_time::duration_until(now, due))
        {
            return Ok(Next::After(left + Duration::from_millis(1)));
        }
        let (status, reason, message) = rule.progress(self.counts(&rule));
        let new = Condition {
            type_: IN_PROGRESS.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message,
            observed_generation: rule.metadata.generation,
            last_transition_time: old.last_transition_time,
        };
        if new != old {
            self.apply_condition(client, &object, &new).await?;
        }
        Ok(Next::Done)
    }

    fn counts(&self, rule: &Arc<Rule>) -> Counts {
        let evicted = self.evicted.lock().get(&rule.metadata.uid).copied();
        let mut counts = Counts {
            evicted: evicted.unwrap_or(0),
            ..Counts::default()
        };
        let rules = match rule.spec.taint.effect.as_str() {
            NO_EXECUTE => self.no_execute_rules(),
            "None" => vec![Arc::new(rule.with_no_execute_effect())],
            _ => return counts,
        };
        let mut namespaces = BTreeSet::new();
        for pod in self.pods.list().iter().filter(|pod| !pod.header().deleting) {
            let eviction = self.eviction(pod, &rules);
            if eviction.is_some_and(|eviction| eviction.rules.contains(&rule.metadata.uid)) {
                counts.pods += 1;
                namespaces.insert(pod.key().namespace().to_owned());
            }
        }
        counts.namespaces = namespaces.len();
        (counts.published, counts.allocated) = self.devices(rule);
        counts
    }

    /// How many devices the rule selects: published ones, and allocated ones.
    fn devices(&self, rule: &Rule) -> (usize, usize) {
        let mut pools: HashMap<String, Vec<Arc<Slice>>> = HashMap::new();
        for slice in self
            .slices
            .list()
            .iter()
            .filter_map(|slice| slice.view::<Slice>().ok())
        {
            let pool = pool(&slice.spec.driver, &slice.spec.pool.name);
            pools.entry(pool).or_default().push(slice);
        }
        let published = pools.values().map(|slices| devices_of(rule, slices)).sum();
        let claims = self.claims.list().into_iter();
        let claims = claims.filter_map(|claim| claim.view::<Claim>().ok());
        let of_claim = |claim: Arc<Claim>| {
            claim
                .devices()
                .iter()
                .filter(|device| rule.applies_to(device))
                .count()
        };
        (published, claims.map(of_claim).sum())
    }

    async fn apply_condition(
        &self,
        client: &Client,
        object: &TypedObject<DeviceTaintRule>,
        condition: &Condition,
    ) -> Result<(), Error> {
        let body = json!({
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceTaintRule",
            "metadata": {"name": object.key().name(), "uid": object.uid()},
            "status": {"conditions": [{
                "type": condition.type_,
                "status": condition.status,
                "reason": condition.reason,
                "message": condition.message,
                "observedGeneration": condition.observed_generation,
                "lastTransitionTime": api_time::from_timestamp(self.clock.now()),
            }]},
        });
        let rules = client.all::<DeviceTaintRule>();
        let patch = Patch::apply(&body, NAME)?.force();
        match rules.patch_status(object.key().name(), &patch).await {
            Err(status) if status.is_not_found() || status.is_conflict() => Ok(()),
            written => Ok(written.map(drop)?),
        }
    }
}

fn pool(driver: &str, name: &str) -> String {
    format!("{driver}/{name}")
}
