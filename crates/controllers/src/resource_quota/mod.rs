//! Recalculates the usage of ResourceQuotas.
//!
//! Admission charges a write as it is made; what is freed when an object is deleted, and what existed before the quota,
//! is counted here. Both count an object by [`quota::usage`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, ResourceQuota};
use serde_json::{Value, json};
use setpoint_api::{Change, GroupResource, Key, Quantity, Stored};
use setpoint_runtime::{Client, Context, Controller, Error, Lister, Next, Object, Reconcile};
use setpoint_values::quota::{self, QuotaKind, QuotaObject, Scopes};
use setpoint_values::resource_list::{self, Amounts, ResourceList};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::resources::Resources;
use crate::{Config, pods};

/// The name as kube-controller-manager has it.
pub const NAME: &str = "resourcequota-controller";

/// The interval of full recalculation, for usage that no event reports.
const RESYNC: Duration = Duration::from_secs(300);

/// Runs the controller until stopped. The counted resources follow the served ones.
pub async fn run(context: Context, config: Config, stop: CancellationToken) -> Result<(), Error> {
    let reconciler = Quotas {
        quotas: context.lister()?,
        context: context.clone(),
    };
    let quotas = reconciler.quotas.clone();
    let (counted, list) = watch::channel(counted_resources(&config.resources.now()));
    let controller = Controller::new(NAME, reconciler)
        .watches(ResourceQuota::resource().group_resource(), spec_changes)
        .watches_dynamic(list, move |resource, change| {
            quotas_to_enqueue(&quotas, resource, change)
        })
        .resync_every(RESYNC)
        .workers(config.workers(NAME));
    tokio::select! {
        ended = controller.run(&context, stop) => ended,
        () = config.resources.follow(counted, counted_resources) => Ok(()),
    }
}

/// The resources whose objects are counted: all namespaced ones that are served, except
/// bookkeeping such as events and endpoints.
fn counted_resources(served: &Resources) -> Vec<GroupResource> {
    let counts = |resource: &GroupResource| {
        !matches!(
            resource.resource.as_str(),
            "events" | "leases" | "resourcequotas" | "endpointslices" | "endpoints"
        )
    };
    let namespaced = served.iter().filter(|resource| resource.namespaced);
    let all = namespaced.map(|resource| resource.gvr.group_resource());
    all.filter(counts).collect()
}

/// The reconciler.
#[derive(Debug)]
struct Quotas {
    quotas: Lister<ResourceQuota>,
    context: Context,
}

/// A quota whose spec changed; other changes are those that admission charges.
fn spec_changes(change: &Change) -> Vec<Key> {
    let view = |quota: &Arc<Stored>| quota.view::<Value>().ok();
    match change {
        Change::Deleted { .. } => Vec::new(),
        Change::Modified { old, new }
            if view(old).map(|own| own["spec"].clone()) == view(new).map(|own| own["spec"].clone()) =>
        {
            Vec::new()
        }
        _ => vec![change.key().clone()],
    }
}

/// The quotas whose usage decreases: the object is deleted, a pod has finished, or the usage changed.
fn quotas_to_enqueue(quotas: &Lister<ResourceQuota>, resource: &GroupResource, change: &Change) -> Vec<Key> {
    let here = quotas.in_namespace(change.key().namespace());
    if here.is_empty() {
        return Vec::new();
    }
    let is_pod = *resource == Pod::resource().group_resource();
    let gives_back = match change {
        Change::Deleted { .. } => true,
        Change::Added(_) => false,
        Change::Modified { old, new } if is_pod => {
            let is_finished = |pod: &Arc<Stored>| pods::Pod::read(pod.clone()).is_finished();
            !is_finished(old) && is_finished(new) || old.header().generation != new.header().generation
        }
        Change::Modified { .. } => {
            let group_less = resource.group.is_empty();
            group_less && matches!(resource.resource.as_str(), "services" | "persistentvolumeclaims")
        }
    };
    if !gives_back {
        return Vec::new();
    }
    let name = resource.to_string();
    let counts = |quota: &Arc<Stored>| {
        let Ok(view) = quota.view::<Value>() else {
            return false;
        };
        let hard = view["spec"]["hard"].as_object();
        hard.is_some_and(|hard| hard.keys().any(|own| quota::counted_resource(own) == name))
    };
    let here = here.into_iter().filter(|quota| counts(quota.stored()));
    here.map(|quota| quota.key().clone()).collect()
}

impl Reconcile for Quotas {
    async fn reconcile(&self, key: &Key, client: &Client) -> Result<Next, Error> {
        let Some(quota) = self.quotas.find(key) else {
            return Ok(Next::Done);
        };
        let body = quota.view::<Value>()?;
        let hard = amounts(&body["spec"]["hard"]);
        let used = self.used(key.namespace(), &body, &hard);
        let same = amounts(&body["status"]["hard"]) == hard && amounts(&body["status"]["used"]) == used;
        if same && body["status"].is_object() {
            return Ok(Next::Done);
        }
        let mut updated: Value = (*body).clone();
        updated["status"] = json!({"hard": written(&hard), "used": written(&used)});
        let handle = client.namespaced::<ResourceQuota>(key.namespace());
        match handle
            .dynamic()
            .update_subresource(key.name(), "status", setpoint_api::json::to_vec(&updated)?)
            .await
        {
            Err(status) if status.is_not_found() => Ok(Next::Done),
            written => Ok(written.map(|_| Next::Done)?),
        }
    }
}

impl Quotas {
    /// The usage of everything that the quota limits.
    fn used(&self, namespace: &str, quota: &Value, hard: &ResourceList) -> ResourceList {
        let scopes: Scopes = serde_json::from_value(quota["spec"].clone()).unwrap_or_default();
        let mut by_resource: BTreeMap<&str, Vec<&String>> = BTreeMap::new();
        for name in hard.keys() {
            by_resource
                .entry(quota::counted_resource(name))
                .or_default()
                .push(name);
        }
        let mut used: ResourceList = hard.keys().map(|name| (name.clone(), Quantity::ZERO)).collect();
        for (resource, names) in by_resource {
            let (own, group) = resource.split_once('.').unwrap_or((resource, ""));
            let resource = GroupResource::new(group, own);
            let Ok(cache) = self.context.cache(&resource) else {
                continue;
            };
            let snapshot = cache.snapshot();
            for object in snapshot.in_namespace(namespace) {
                let Ok(object) = read(&resource, object) else {
                    continue;
                };
                if !scopes.match_all(QuotaKind::of(&resource), &object) {
                    continue;
                }
                let mut own = quota::usage(&resource, &object);
                own.retain(|name, _| names.contains(&name));
                used.add(&own);
            }
        }
        used
    }
}

/// The fields that quotas count. Nothing is read of other kinds.
fn read(resource: &GroupResource, object: &Stored) -> Result<QuotaObject, serde_json::Error> {
    match QuotaKind::of(resource) {
        QuotaKind::Other => Ok(QuotaObject::default()),
        _ => object.decode(),
    }
}

fn amounts(body: &Value) -> ResourceList {
    let entries = body.as_object().into_iter().flatten();
    resource_list::parse(entries.filter_map(|(name, amount)| Some((name.as_str(), amount.as_str()?))))
}

fn written(amounts: &ResourceList) -> BTreeMap<&String, String> {
    amounts
        .iter()
        .map(|(name, amount)| (name, amount.to_string()))
        .collect()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ResourceQuotaSpec;
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
    use k8s_openapi::apimachinery::pkg::api::resource;
    use setpoint_api::options::DeleteOptions;
    use setpoint_api::{Clock, Gvr};
    use setpoint_testkit::{Cluster, Component, pod};

    use super::*;

    fn used(cluster: &Cluster, name: &str) -> Option<String> {
        let quota: Option<ResourceQuota> = cluster.find("limit");
        let amount = quota?.status?.used?.remove(name)?;
        Some(amount.0)
    }

    #[tokio::test]
    async fn a_quota_counts_existing_and_deleted_objects() {
        let (cluster, _components) = Cluster::with([Component::Controller("resourcequota")]).await;
        let client = cluster.client("test");
        let pods = client.namespaced::<Pod>("default");
        for name in ["one", "two"] {
            pods.create(&pod(name).requesting("cpu", "250m").build())
                .await
                .unwrap();
        }
        let mut quota = ResourceQuota::default();
        quota.metadata.name = Some("limit".to_owned());
        let hard = [
            ("pods", "5"),
            ("requests.cpu", "2"),
            ("count/deployments.apps", "3"),
        ];
        let hard = hard.map(|(name, amount)| (name.to_owned(), resource::Quantity(amount.to_owned())));
        quota.spec = Some(ResourceQuotaSpec {
            hard: Some(hard.into()),
            ..ResourceQuotaSpec::default()
        });
        client.namespaced("default").create(&quota).await.unwrap();
        cluster
            .until("two pods", |cluster| {
                used(cluster, "pods").as_deref() == Some("2")
            })
            .await;
        assert_eq!(used(&cluster, "requests.cpu").as_deref(), Some("500m"));
        assert_eq!(used(&cluster, "count/deployments.apps").as_deref(), Some("0"));
        let options = DeleteOptions {
            grace_period_seconds: Some(0),
            ..DeleteOptions::default()
        };
        pods.delete("one", options).await.unwrap();
        cluster
            .until("one pod", |cluster| used(cluster, "pods").as_deref() == Some("1"))
            .await;
    }
    #[tokio::test]
    async fn a_quota_counts_objects_of_kinds_added_later() {
        let (cluster, _components) = Cluster::with([Component::Controller("resourcequota")]).await;
        let client = cluster.client("test");
        let quota = json!({
            "metadata": {"name": "limit"}, "spec": {"hard": {"count/widgets.example.com": "5"}},
        });
        let quota: ResourceQuota = serde_json::from_value(quota).unwrap();
        client.namespaced("default").create(&quota).await.unwrap();
        let of_widgets = |cluster: &Cluster| used(cluster, "count/widgets.example.com");
        cluster
            .until("no widgets", |cluster| {
                of_widgets(cluster).as_deref() == Some("0")
            })
            .await;
        cluster.install_crd(&widgets()).await;
        let widgets = client.dynamic(Gvr::new("example.com", "v1", "widgets"), "default");
        for name in ["one", "two"] {
            let widget =
                json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}});
            widgets.create(widget.to_string()).await.unwrap();
        }
        // Without admission new objects are not charged, so only deletions make the quota count.
        widgets.delete("one", DeleteOptions::default()).await.unwrap();
        let start = cluster.clock.now();
        cluster
            .until("one widget", |cluster| {
                of_widgets(cluster).as_deref() == Some("1")
            })
            .await;
        let waited = cluster.clock.now().duration_since(start).unsigned_abs();
        assert!(waited < RESYNC, "it was counted after {waited:?}");
    }

    fn widgets() -> CustomResourceDefinition {
        let schema = json!({"openAPIV3Schema": {"type": "object"}});
        let definition = json!({
            "metadata": {"name": "widgets.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
            },
        });
        serde_json::from_value(definition).unwrap()
    }
}
