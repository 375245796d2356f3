//! Keeps the EndpointSlices of each Service with a selector: the addresses and ports of its pods.
//!
//! Start reading at [`mod@plan`], which decides; the rest carries it out. The slices of a Service without a selector
//! are the user's.

mod plan;

use k8s_openapi::api::core::v1::{Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use setpoint_api::options::DeleteOptions;
use setpoint_api::{Change, Key, Status};
use setpoint_runtime::{
    Client, Context, Controller, Error, Lister, Next, Object, Reconcile, TypedObject, owner,
};
use tokio_util::sync::CancellationToken;

use crate::endpoint_slice::plan::{MANAGED_BY, MANAGER, Plan, SERVICE_NAME, plan};
use crate::{Config, endpoint_pods};

/// The name as kube-controller-manager has it.
pub const NAME: &str = "endpointslice-controller";

const ZONE: &str = "topology.kubernetes.io/zone";

/// Runs the controller until stopped.
pub async fn run(context: Context, config: Config, stop: CancellationToken) -> Result<(), Error> {
    let reconciler = Slices::new(&context)?;
    let services = reconciler.services.clone();
    let by_pod = services.clone();
    Controller::new(NAME, reconciler)
        .reconciles::<Service>()
        .watches(Pod::resource().group_resource(), move |change| {
            endpoint_pods::services_of(&by_pod, change)
        })
        .watches(EndpointSlice::resource().group_resource(), service_of)
        .watches(Node::resource().group_resource(), move |change| {
            services_to_enqueue(&services, change)
        })
        .workers(config.workers(NAME))
        .run(&context, stop)
        .await
}

/// The reconciler. Its keys are those of Services.
#[derive(Debug)]
pub(crate) struct Slices {
    services: Lister<Service>,
    slices: Lister<EndpointSlice>,
    pods: Lister<Pod>,
    nodes: Lister<Node>,
}

/// The Service of a slice that this controller manages.
fn service_of(change: &Change) -> Vec<Key> {
    let slice = change.object();
    let name = slice
        .label(SERVICE_NAME)
        .filter(|_| slice.label(MANAGED_BY) == Some(MANAGER));
    let key = name.map(|name| Key::new(slice.key().namespace(), name));
    key.into_iter().collect()
}

/// All Services, when a node has moved to another zone.
fn services_to_enqueue(services: &Lister<Service>, change: &Change) -> Vec<Key> {
    let has_moved = match change {
        Change::Modified { old, new } => old.label(ZONE) != new.label(ZONE),
        Change::Added(node) => node.label(ZONE).is_some(),
        Change::Deleted { .. } => false,
    };
    match has_moved {
        true => services
            .list()
            .iter()
            .map(|service| service.key().clone())
            .collect(),
        false => Vec::new(),
    }
}

impl Reconcile for Slices {
    async fn reconcile(&self, key: &Key, client: &Client) -> Result<Next, Error> {
        let Some(object) = self.services.find(key) else {
            return Ok(Next::Done);
        };
        let service = object.to_owned()?;
        if object.header().deleting || !is_ours(&service) {
            return Ok(Next::Done);
        }
        let slices = self.slices_of(key)?;
        let pods = endpoint_pods::selected_by(&self.pods, key.namespace(), &service);
        let plan = plan(&service, &pods, &slices, |node| self.zone(node));
        carry_out(client, &object, plan).await?;
        Ok(Next::Done)
    }
}

impl Slices {
    pub(crate) fn new(context: &Context) -> Result<Self, Error> {
        Ok(Self {
            services: context.lister()?,
            slices: context.lister()?,
            pods: context.lister()?,
            nodes: context.lister()?,
        })
    }

    fn slices_of(&self, key: &Key) -> Result<Vec<EndpointSlice>, Status> {
        let slices = self.slices.in_namespace(key.namespace());
        let ours = slices.iter().filter(|slice| {
            slice.label(SERVICE_NAME) == Some(key.name())
                && slice.label(MANAGED_BY) == Some(MANAGER)
                && !slice.header().deleting
        });
        ours.map(TypedObject::to_owned).collect()
    }

    fn zone(&self, node: &str) -> Option<String> {
        let node = self.nodes.find(&Key::new("", node))?;
        node.label(ZONE).map(ToOwned::to_owned)
    }
}

async fn carry_out(client: &Client, service: &TypedObject<Service>, plan: Plan) -> Result<(), Error> {
    let handle = client.namespaced::<EndpointSlice>(service.key().namespace());
    for mut slice in plan.create {
        slice.metadata.owner_references = Some(vec![owner::controller_reference(service)]);
        handle.create(&slice).await?;
    }
    for slice in plan.update {
        handle.update(&slice).await?;
    }
    for slice in plan.delete {
        let name = slice.metadata.name.as_deref().unwrap_or_default();
        match handle.delete(name, DeleteOptions::default()).await {
            Err(status) if status.is_not_found() => {}
            deleted => drop(deleted?),
        }
    }
    Ok(())
}

/// Whether the Service has a selector, so that this controller manages its slices.
fn is_ours(service: &Service) -> bool {
    let spec = service.spec.as_ref();
    spec.is_some_and(|spec| spec.selector.is_some() && spec.type_.as_deref() != Some("ExternalName"))
}

#[cfg(test)]
mod tests;
