//! Writes the Ready condition of each ServiceCIDR, and keeps it while its addresses are in use.

mod plan;

use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::networking::v1::{IPAddress, ServiceCIDR};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::json;
use setpoint_api::{Change, Clock, Key, Status};
use setpoint_runtime::{
    Client, Context, Controller, Error, Lister, Next, Object, Patch, Reconcile, TypedObject, conditions,
};
use setpoint_values::Cidr;
use tokio_util::sync::CancellationToken;

use crate::service_cidr::plan::can_delete;
use crate::{Config, api_time};

/// The name as kube-controller-manager has it.
pub const NAME: &str = "service-cidr-controller";

const FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";
const READY: &str = "Ready";
/// How long an unused range is kept, for a Service that is being created with one of its addresses.
const GRACE_SECONDS: i64 = 10;

/// Runs the controller until stopped.
pub async fn run(context: Context, config: Config, stop: CancellationToken) -> Result<(), Error> {
    let reconciler = ServiceCidrs {
        ranges: context.lister()?,
        addresses: context.lister()?,
        clock: context.clock.clone(),
    };
    let (all, gone) = (reconciler.ranges.clone(), reconciler.ranges.clone());
    Controller::new(NAME, reconciler)
        .watches(ServiceCIDR::resource().group_resource(), move |_| keys(&all))
        .watches(IPAddress::resource().group_resource(), move |change| {
            terminating_ranges(&gone, change)
        })
        .workers(config.workers(NAME))
        .run(&context, stop)
        .await
}

/// The reconciler.
#[derive(Debug)]
struct ServiceCidrs {
    ranges: Lister<ServiceCIDR>,
    addresses: Lister<IPAddress>,
    clock: Arc<dyn Clock>,
}

fn keys(ranges: &Lister<ServiceCIDR>) -> Vec<Key> {
    ranges.list().iter().map(|range| range.key().clone()).collect()
}

/// The terminating ranges, when an address is freed.
fn terminating_ranges(ranges: &Lister<ServiceCIDR>, change: &Change) -> Vec<Key> {
    if !change.is_deletion() {
        return Vec::new();
    }
    let terminating = ranges.list().into_iter().filter(|range| range.header().deleting);
    terminating.map(|range| range.key().clone()).collect()
}

fn ranges_of(range: &ServiceCIDR) -> Vec<Cidr> {
    let texts = range.spec.iter().flat_map(|spec| spec.cidrs.iter().flatten());
    texts.filter_map(|text| text.parse().ok()).collect()
}

impl Reconcile for ServiceCidrs {
    async fn reconcile(&self, key: &Key, client: &Client) -> Result<Next, Error> {
        let Some(object) = self.ranges.find(key) else {
            return Ok(Next::Done);
        };
        let mut range = object.to_owned()?;
        let finalizers = range.metadata.finalizers.get_or_insert_default();
        let is_held = finalizers.iter().any(|own| own == FINALIZER);
        if !object.header().deleting {
            if !is_held {
                finalizers.push(FINALIZER.to_owned());
                range = client.all::<ServiceCIDR>().update(&range).await?.to_owned()?;
            }
            let ready = conditions::condition(READY, true, "", "Kubernetes Service CIDR is ready");
            self.write_condition(client, range, ready).await?;
            return Ok(Next::Done);
        }
        if !self.can_delete(&object, &range)? {
            let message = "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR";
            let terminating = conditions::condition(READY, false, "Terminating", message);
            self.write_condition(client, range, terminating).await?;
            return Ok(Next::Done);
        }
        let since = range.metadata.deletion_timestamp.as_ref().map(|time| time.0);
        let due = since.map(|since| api_time::add_seconds(since, GRACE_SECONDS));
        if let Some(left) = due.and_then(|due| api_time::duration_until(self.clock.now(), due)) {
            return Ok(Next::After(left));
        }
        range
            .metadata
            .finalizers
            .iter_mut()
            .for_each(|own| own.retain(|one| one != FINALIZER));
        match client.all::<ServiceCIDR>().update(&range).await {
            Err(status) if status.is_not_found() => Ok(Next::Done),
            written => Ok(written.map(|_| Next::Done)?),
        }
    }
}

impl ServiceCidrs {
    fn can_delete(&self, object: &TypedObject<ServiceCIDR>, range: &ServiceCIDR) -> Result<bool, Status> {
        let others = self.ranges.list();
        let others = others
            .iter()
            .filter(|other| other.key() != object.key() && !other.header().deleting);
        let others: Result<Vec<ServiceCIDR>, Status> = others.map(TypedObject::to_owned).collect();
        let others: Vec<Cidr> = others?.iter().flat_map(ranges_of).collect();
        let in_use = self.addresses.list();
        let in_use: Vec<IpAddr> = in_use
            .iter()
            .filter_map(|address| address.key().name().parse().ok())
            .collect();
        Ok(can_delete(&ranges_of(range), &others, &in_use))
    }

    /// Applies the condition if it changed.
    async fn write_condition(
        &self,
        client: &Client,
        mut range: ServiceCIDR,
        condition: Condition,
    ) -> Result<(), Error> {
        let own = range.status.get_or_insert_default();
        let own = own.conditions.get_or_insert_default();
        let type_ = condition.type_.clone();
        if !conditions::set(own, condition, api_time::whole_seconds(self.clock.now())) {
            return Ok(());
        }
        let condition = own.iter().find(|condition| condition.type_ == type_);
        let name = range.metadata.name.as_deref().unwrap_or_default();
        let applied = json!({
            "apiVersion": "networking.k8s.io/v1",
            "kind": "ServiceCIDR",
            "metadata": {"name": name},
            "status": {"conditions": [condition]},
        });
        let patch = Patch::apply(&applied, NAME)?.force();
        client.all::<ServiceCIDR>().patch_status(name, &patch).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use setpoint_api::options::DeleteOptions;
    use setpoint_testkit::{Cluster, Component};

    use super::*;

    #[tokio::test]
    async fn a_range_is_ready_and_is_deleted_when_no_address_needs_it() {
        let (cluster, _components) = Cluster::with([Component::Controller("service-cidr")]).await;
        let ranges = cluster.client("test").all::<ServiceCIDR>();
        let body = serde_json::json!({"metadata": {"name": "more"}, "spec": {"cidrs": ["10.9.0.0/24"]}});
        let range: ServiceCIDR = serde_json::from_value(body).unwrap();
        ranges.create(&range).await.unwrap();
        cluster
            .until("a ready range", |cluster| {
                let range: Option<ServiceCIDR> = cluster.find("more");
                let conditions = range
                    .and_then(|range| range.status?.conditions)
                    .unwrap_or_default();
                conditions::is_true(&conditions, READY)
            })
            .await;
        ranges.delete("more", DeleteOptions::default()).await.unwrap();
        cluster
            .until("no range", |cluster| {
                cluster.find::<ServiceCIDR>("more").is_none()
            })
            .await;
    }
}
