//! Mirrors manually written Endpoints objects into EndpointSlices, for clients that read only slices.
//!
//! Only the Endpoints of a Service without a selector are mirrored: those of the others have slices by
//! [`crate::endpoint_slice`]. [`mod@plan`] builds the slices.

mod plan;

use k8s_openapi::api::core::v1::{Endpoints, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use setpoint_api::options::DeleteOptions;
use setpoint_api::{Change, Key, Status};
use setpoint_runtime::{
    Client, Context, Controller, Error, Lister, Next, Object, Reconcile, TypedObject, owner,
};
use tokio_util::sync::CancellationToken;

use crate::Config;
use crate::endpoint_slice_mirroring::plan::{
    MANAGED_BY, MANAGER, SERVICE_NAME, desired, is_equivalent, is_mirrored,
};

/// The name as kube-controller-manager has it.
pub const NAME: &str = "endpointslice-mirroring-controller";

/// Runs the controller until stopped.
pub async fn run(context: Context, config: Config, stop: CancellationToken) -> Result<(), Error> {
    let reconciler = SliceMirroring {
        services: context.lister()?,
        endpoints: context.lister()?,
        slices: context.lister()?,
    };
    Controller::new(NAME, reconciler)
        .reconciles::<Endpoints>()
        .reconciles::<Service>()
        .watches(EndpointSlice::resource().group_resource(), mirrored)
        .workers(config.workers(NAME))
        .run(&context, stop)
        .await
}

/// The reconciler. Its keys are those of Endpoints and of their Services, which are the same.
#[derive(Debug)]
struct SliceMirroring {
    services: Lister<Service>,
    endpoints: Lister<Endpoints>,
    slices: Lister<EndpointSlice>,
}

/// The Endpoints object that a mirrored slice belongs to.
fn mirrored(change: &Change) -> Vec<Key> {
    let slice = change.object();
    let name = slice
        .label(SERVICE_NAME)
        .filter(|_| slice.label(MANAGED_BY) == Some(MANAGER));
    name.map(|name| Key::new(slice.key().namespace(), name))
        .into_iter()
        .collect()
}

impl Reconcile for SliceMirroring {
    async fn reconcile(&self, key: &Key, client: &Client) -> Result<Next, Error> {
        let endpoints = self.endpoints.find(key).filter(|own| !own.header().deleting);
        let service = self
            .services
            .find(key)
            .map(|service| service.to_owned())
            .transpose()?;
        let is_ours = service
            .and_then(|service| service.spec)
            .is_some_and(|spec| spec.selector.is_none());
        let mut missing = match endpoints.as_ref().filter(|_| is_ours) {
            Some(object) => Some(object.to_owned()?)
                .filter(is_mirrored)
                .map(|own| desired(&own))
                .unwrap_or_default(),
            None => Vec::new(),
        };
        let mut outdated = Vec::new();
        for slice in self.slices_of(key)? {
            match missing.iter().position(|desired| is_equivalent(&slice, desired)) {
                Some(at) => drop(missing.remove(at)),
                None => outdated.push(slice),
            }
        }
        if let Some(owner) = &endpoints {
            write(client, owner, missing, &mut outdated).await?;
        }
        let handle = client.namespaced::<EndpointSlice>(key.namespace());
        for slice in outdated {
            let name = slice.metadata.name.unwrap_or_default();
            match handle.delete(&name, DeleteOptions::default()).await {
                Err(status) if status.is_not_found() => {}
                deleted => drop(deleted?),
            }
        }
        Ok(Next::Done)
    }
}

impl SliceMirroring {
    fn slices_of(&self, key: &Key) -> Result<Vec<EndpointSlice>, Status> {
        let slices = self.slices.in_namespace(key.namespace());
        let is_ours = |slice: &&TypedObject<EndpointSlice>| {
            slice.label(MANAGED_BY) == Some(MANAGER) && slice.label(SERVICE_NAME) == Some(key.name())
        };
        slices.iter().filter(is_ours).map(TypedObject::to_owned).collect()
    }
}

/// Writes the missing slices, updating outdated ones of the same address type where there are some.
async fn write(
    client: &Client,
    owner: &TypedObject<Endpoints>,
    missing: Vec<EndpointSlice>,
    outdated: &mut Vec<EndpointSlice>,
) -> Result<(), Error> {
    let handle = client.namespaced::<EndpointSlice>(owner.key().namespace());
    for mut slice in missing {
        let replaced = outdated
            .iter()
            .position(|own| own.address_type == slice.address_type);
        match replaced.map(|at| outdated.remove(at)) {
            Some(old) => {
                let (labels, annotations) = (slice.metadata.labels.take(), slice.metadata.annotations.take());
                slice.metadata = old.metadata;
                slice.metadata.labels = labels;
                slice.metadata.annotations = annotations;
                handle.update(&slice).await?;
            }
            None => {
                slice.metadata.owner_references = Some(vec![owner::controller_reference(owner)]);
                handle.create(&slice).await?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use setpoint_testkit::{Cluster, Component, service};

    use super::*;

    #[tokio::test]
    async fn manual_endpoints_have_slices_that_follow_them() {
        let components = ["endpointslice-mirroring", "garbage-collector"].map(Component::Controller);
        let (cluster, _components) = Cluster::with(components).await;
        let client = cluster.client("test");
        let mut web = service("web", 80).build();
        web.spec.as_mut().unwrap().selector = None;
        client.namespaced("default").create(&web).await.unwrap();
        let written = |ip: &str| -> Endpoints {
            let subset = json!({"addresses": [{"ip": ip}], "ports": [{"port": 80}]});
            serde_json::from_value(json!({"metadata": {"name": "web"}, "subsets": [subset]})).unwrap()
        };
        let seen = |cluster: &Cluster| -> Vec<String> {
            let slices: Vec<EndpointSlice> = cluster.list();
            let endpoints = slices
                .into_iter()
                .flat_map(|slice| slice.endpoints.unwrap_or_default());
            endpoints.flat_map(|endpoint| endpoint.addresses).collect()
        };
        let handle = client.namespaced::<Endpoints>("default");
        handle.create(&written("192.0.2.1")).await.unwrap();
        cluster
            .until("a slice", |cluster| seen(cluster) == ["192.0.2.1"])
            .await;
        handle.update(&written("192.0.2.2")).await.unwrap();
        cluster
            .until("the other address", |cluster| seen(cluster) == ["192.0.2.2"])
            .await;
        handle.delete("web", DeleteOptions::default()).await.unwrap();
        cluster
            .until("no slice", |cluster| seen(cluster).is_empty())
            .await;
    }
}
