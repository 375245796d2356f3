//! The controller: it compares a Foo with its Deployment, makes the changes and reports the status.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use setpoint_api::Key;
use setpoint_runtime::queue::{Rate, RateLimits};
use setpoint_runtime::reconcile::{Error, Next, Reconcile};
use setpoint_runtime::{Client, Lister, Manager, Recorder, TypedObject, for_, owner};

use crate::foo::{Foo, FooStatus};

/// The component name in events and the field manager.
pub const NAME: &str = "sample-controller";

/// Every Foo is reconciled again after this, even without an event.
const RESYNC: Duration = Duration::from_secs(30);
/// After a failure: 5 ms, 10 ms, 20 ms and so on, and never more than 50 in a second.
const RATE_LIMITS: RateLimits = RateLimits {
    base_delay: Duration::from_millis(5),
    max_delay: Duration::from_secs(1000),
    overall: Some(Rate {
        per_second: 50.0,
        burst: 300.0,
    }),
};

/// Adds the controller to a manager.
pub fn add(manager: &mut Manager) -> Result<(), Error> {
    let context = manager.context();
    let reconciler = FooReconciler {
        foos: context.lister()?,
        deployments: context.lister()?,
        events: context.events.for_component(NAME),
    };
    let controller = for_::<Foo>()
        .named(NAME)
        .owns::<Deployment>()
        .workers(2)
        .rate_limits(RATE_LIMITS)
        .resync_every(RESYNC)
        .reconciles_with(reconciler);
    manager.add_controller(controller);
    Ok(())
}

struct FooReconciler {
    foos: Lister<Foo>,
    deployments: Lister<Deployment>,
    events: Recorder,
}

impl Reconcile for FooReconciler {
    async fn reconcile(&self, key: &Key, client: &Client) -> Result<Next, Error> {
        // Deleted: the garbage collector deletes its Deployment.
        let Some(foo) = self.foos.find(key) else {
            return Ok(Next::Done);
        };
        let spec = &foo.shared()?.spec;
        if spec.deployment_name.is_empty() {
            // A retry would not help; the next change of the Foo enqueues this key again.
            tracing::warn!(%key, "the foo has no deployment name");
            return Ok(Next::Done);
        }
        let deployment = self.deployment(client, &foo, &spec.deployment_name).await?;
        let deployment = resize(client, deployment, spec.replicas).await?;
        update_status(client, &foo, &deployment).await?;
        self.events.normal(&foo, "Synced", "Foo synced successfully");
        Ok(Next::Done)
    }
}

impl FooReconciler {
    /// The Deployment of a Foo, created if it does not exist. One with another owner is left alone.
    async fn deployment(
        &self,
        client: &Client,
        foo: &TypedObject<Foo>,
        name: &str,
    ) -> Result<TypedObject<Deployment>, Error> {
        let namespace = foo.key().namespace();
        let deployment = match self.deployments.find(&Key::new(namespace, name)) {
            Some(deployment) => deployment,
            None => {
                let deployments = client.namespaced::<Deployment>(namespace);
                deployments.create(&new_deployment(foo, name)?).await?
            }
        };
        if owner::controls(foo, &deployment) {
            return Ok(deployment);
        }
        let message = format!("Resource {name:?} already exists and is not managed by Foo");
        self.events.warning(foo, "ErrResourceExists", message.clone());
        Err(Error::failed(message))
    }
}

/// The Deployment with the replicas of the Foo, if it has them set.
async fn resize(
    client: &Client,
    deployment: TypedObject<Deployment>,
    replicas: Option<i32>,
) -> Result<TypedObject<Deployment>, Error> {
    // Objects from the lister are shared by all readers; a copy can be changed.
    let mut desired = deployment.to_owned()?;
    if replicas.is_none() || desired.spec.replicas == replicas {
        return Ok(deployment);
    }
    desired.spec.replicas = replicas;
    let deployments = client.namespaced(deployment.key().namespace());
    // It has the resource version it was read at: after a concurrent write this fails with a conflict and is retried.
    Ok(deployments.update(&desired).await?)
}

/// Updates the status, if it has changed.
async fn update_status(
    client: &Client,
    foo: &TypedObject<Foo>,
    deployment: &TypedObject<Deployment>,
) -> Result<(), Error> {
    let available = deployment
        .shared()?
        .status
        .as_ref()
        .and_then(|status| status.available_replicas);
    let status = FooStatus {
        available_replicas: available.unwrap_or(0),
    };
    let mut updated = foo.to_owned()?;
    if updated.status.as_ref() == Some(&status) {
        return Ok(());
    }
    updated.status = Some(status);
    let foos = client.namespaced::<Foo>(foo.key().namespace());
    foos.update_status(&updated).await?;
    Ok(())
}

fn new_deployment(foo: &TypedObject<Foo>, name: &str) -> Result<Deployment, Error> {
    let labels = BTreeMap::from([
        ("app".to_owned(), "nginx".to_owned()),
        ("controller".to_owned(), foo.key().name().to_owned()),
    ]);
    let container = Container {
        name: "nginx".to_owned(),
        image: Some("nginx:latest".to_owned()),
        ..Container::default()
    };
    let template = PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(labels.clone()),
            ..ObjectMeta::default()
        }),
        spec: Some(PodSpec {
            containers: vec![container],
            ..PodSpec::default()
        }),
    };
    Ok(Deployment {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(foo.key().namespace().to_owned()),
            // Changes of the Deployment enqueue the Foo, and it is garbage-collected with the Foo.
            owner_references: Some(vec![owner::controller_reference(foo)]),
            ..ObjectMeta::default()
        },
        spec: DeploymentSpec {
            replicas: foo.shared()?.spec.replicas,
            selector: LabelSelector {
                match_labels: Some(labels),
                ..LabelSelector::default()
            },
            template,
            ..DeploymentSpec::default()
        },
        status: None,
    })
}
