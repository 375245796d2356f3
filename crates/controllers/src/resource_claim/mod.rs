//! ResourceClaims of pods: generates those that pods reference by template, records consumers, and deletes what was
//! generated for finished pods.
//!
//! [`mod@plan`] decodes both kinds; [`pods`] and [`claims`] sync one of each. Devices are allocated by the scheduler
//! and by drivers, not here.

mod claims;
pub(crate) mod plan;
mod pods;

use compact_str::CompactString;
use k8s_openapi::api::core::v1;
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceClaimTemplate};
use setpoint_api::{Change, Key, Stored};
use setpoint_runtime::{Client, Context, Controller, Error, Lister, Next, Object, Reconcile, Recorder};
use tokio_util::sync::CancellationToken;

use crate::Config;
use crate::resource_claim::plan::{Pod, is_done};

/// The name as kube-controller-manager has it.
pub const NAME: &str = "resourceclaim-controller";

/// Indexes of pods: by the claims that they use, and by the templates of claims to generate.
const CLAIM: &str = "resource claim";
const TEMPLATE: &str = "resource claim template";

/// Runs the controller until stopped.
pub async fn run(context: Context, config: Config, stop: CancellationToken) -> Result<(), Error> {
    let reconciler = Claims {
        pods: context.lister()?,
        claims: context.lister()?,
        templates: context.lister()?,
        events: context.events.for_component("resource_claim"),
    };
    let pods = reconciler.pods.clone();
    pods.cache().add_index(CLAIM, claims_of);
    pods.cache().add_index(TEMPLATE, templates_of);
    let by_template = pods.clone();
    Controller::<WorkItem>::new(NAME, reconciler)
        .watches(v1::Pod::resource().group_resource(), items_of_pod)
        .watches(ResourceClaim::resource().group_resource(), move |change| {
            let own = (!change.is_deletion()).then(|| WorkItem::Claim(change.key().clone()));
            own.into_iter()
                .chain(items_of_index(&pods, CLAIM, change.key()))
                .collect()
        })
        .watches(
            ResourceClaimTemplate::resource().group_resource(),
            move |change| items_of_index(&by_template, TEMPLATE, change.key()).collect(),
        )
        .workers(config.workers(NAME))
        .run(&context, stop)
        .await
}

/// The keys of the work queue.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum WorkItem {
    Pod(Key),
    Claim(Key),
}

/// The reconciler.
#[derive(Debug)]
struct Claims {
    pods: Lister<v1::Pod>,
    claims: Lister<ResourceClaim>,
    templates: Lister<ResourceClaimTemplate>,
    events: Recorder,
}

fn claims_of(object: &Stored) -> Vec<CompactString> {
    Pod::read(object).map_or_else(Vec::new, |pod| within(object, pod.claims()))
}

fn templates_of(object: &Stored) -> Vec<CompactString> {
    Pod::read(object).map_or_else(Vec::new, |pod| within(object, pod.templates()))
}

/// Names in the namespace of an object.
fn within<'a>(object: &Stored, names: impl Iterator<Item = &'a str>) -> Vec<CompactString> {
    let namespace = object.key().namespace();
    names
        .map(|name| compact_str::format_compact!("{namespace}/{name}"))
        .collect()
}

/// The pods that an index has under a key.
fn items_of_index(pods: &Lister<v1::Pod>, index: &str, key: &Key) -> impl Iterator<Item = WorkItem> + use<> {
    let name = format!("{}/{}", key.namespace(), key.name());
    let found = pods.indexed(index, &name);
    found.into_iter().map(|pod| WorkItem::Pod(pod.key().clone()))
}

/// A pod with claims, and its claims if it is done with them.
fn items_of_pod(change: &Change) -> Vec<WorkItem> {
    let object = change.object();
    let Some(pod) = Pod::read(object) else {
        return Vec::new();
    };
    let mut works = Vec::new();
    if !change.is_deletion() {
        works.push(WorkItem::Pod(change.key().clone()));
    }
    if change.is_deletion() || is_done(object) {
        let namespace = change.key().namespace();
        works.extend(
            pod.claims()
                .map(|name| WorkItem::Claim(Key::new(namespace, name))),
        );
    }
    works
}

impl Reconcile<WorkItem> for Claims {
    async fn reconcile(&self, item: &WorkItem, client: &Client) -> Result<Next, Error> {
        match item {
            WorkItem::Pod(key) => self.sync_pod(client, key).await?,
            WorkItem::Claim(key) => self.sync_claim(client, key).await?,
        }
        Ok(Next::Done)
    }
}

#[cfg(test)]
mod tests;
