//! The controller: it reads a Foo and its Deployment, does what is missing and says what there is.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use setpoint_api::Key;
use setpoint_runtime::queue::{Limits, Rate};
use setpoint_runtime::reconcile::{Error, Next, Reconcile};
use setpoint_runtime::{Context, Lister, Manager, Recorder, Typed, for_, owner};

use crate::foo::{Foo, FooStatus};

/// The name in events and in the fields it manages.
pub const NAME: &str = "sample-controller";

/// Every Foo is looked at again so often, even if nothing was heard of it.
const RESYNC: Duration = Duration::from_secs(30);
/// After a failure: 5 ms, 10 ms, 20 ms and so on, and never more than 50 in a second.
const LIMITS: Limits = Limits {
    base: Duration::from_millis(5),
    cap: Duration::from_secs(1000),
    overall: Some(Rate {
        per_second: 50.0,
        burst: 300.0,
    }),
};

/// Adds the controller to a manager.
pub fn add(manager: &mut Manager) -> Result<(), Error> {
    let context = manager.context().clone();
    let reconciler = Foos {
        foos: context.lister()?,
        deployments: context.lister()?,
        events: context.events.of(NAME),
        context,
    };
    let controller = for_::<Foo>()
        .named(NAME)
        .owns::<Deployment>()
        .workers(2)
        .limits(LIMITS)
        .resync_every(RESYNC)
        .reconciles_with(reconciler);
    manager.control(controller);
    Ok(())
}

struct Foos {
    foos: Lister<Foo>,
    deployments: Lister<Deployment>,
    events: Recorder,
    context: Context,
}

impl Reconcile for Foos {
    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        // One that is gone needs nothing: its Deployment goes with it.
        let Some(foo) = self.foos.find(key) else {
            return Ok(Next::Done);
        };
        let spec = &foo.shared()?.spec;
        if spec.deployment_name.is_empty() {
            // Trying again would not help; the next edit of the Foo wakes this key.
            tracing::warn!(%key, "the foo names no deployment");
            return Ok(Next::Done);
        }
        let deployment = self.deployment(&foo, &spec.deployment_name).await?;
        let deployment = self.resize(deployment, spec.replicas).await?;
        self.report(&foo, &deployment).await?;
        self.events.normal(&foo, "Synced", "Foo synced successfully");
        Ok(Next::Done)
    }
}

impl Foos {
    /// The Deployment of a Foo, made if it is not there. Somebody else's is left alone.
    async fn deployment(&self, foo: &Typed<Foo>, name: &str) -> Result<Typed<Deployment>, Error> {
        let namespace = foo.key().namespace();
        let deployment = match self.deployments.find(&Key::new(namespace, name)) {
            Some(deployment) => deployment,
            None => {
                let deployments = self.context.client.namespaced::<Deployment>(namespace);
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

    /// The Deployment with as many pods as the Foo asks for, if it does.
    async fn resize(
        &self,
        deployment: Typed<Deployment>,
        replicas: Option<i32>,
    ) -> Result<Typed<Deployment>, Error> {
        // What the lister gives is shared by all readers; a copy can be changed.
        let mut wanted = deployment.to_owned()?;
        if replicas.is_none() || wanted.spec.replicas == replicas {
            return Ok(deployment);
        }
        wanted.spec.replicas = replicas;
        let deployments = self.context.client.namespaced(deployment.key().namespace());
        // It carries the version it was read at: if somebody was faster, this fails and is tried anew.
        Ok(deployments.update(&wanted).await?)
    }

    /// Writes the status, if it says something new.
    async fn report(&self, foo: &Typed<Foo>, deployment: &Typed<Deployment>) -> Result<(), Error> {
        let counted = deployment
            .shared()?
            .status
            .as_ref()
            .and_then(|status| status.available_replicas);
        let status = FooStatus {
            available_replicas: counted.unwrap_or(0),
        };
        let mut told = foo.to_owned()?;
        if told.status.as_ref() == Some(&status) {
            return Ok(());
        }
        told.status = Some(status);
        let foos = self.context.client.namespaced::<Foo>(foo.key().namespace());
        foos.update_status(&told).await?;
        Ok(())
    }
}

fn new_deployment(foo: &Typed<Foo>, name: &str) -> Result<Deployment, Error> {
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
            // The Deployment's changes wake the Foo, and it goes when the Foo goes.
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
