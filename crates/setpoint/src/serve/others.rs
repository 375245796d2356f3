//! The servers behind this one: who is told of them, how they are reached, and how parts of this process reach them.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use setpoint_api::{Clock, Serve};
use setpoint_apiserver::Aggregator;
use setpoint_apiserver::aggregate::{Backend, Remote, Routed, Trust};
use setpoint_apiserver::connect::Place;
use setpoint_apiserver::metrics::{Source, Text};
use setpoint_client::Http;
use setpoint_controllers::Resource;
use setpoint_controllers::api_service::{Aggregation, Behind, Figures, Places};
use setpoint_registry::Registry;
use tokio_util::sync::CancellationToken;

use crate::pki::Pki;

/// The other servers, as the parts of this process know them.
pub(super) struct Others {
    pub(super) aggregator: Arc<Aggregator>,
    /// What this server and the others serve together.
    pub(super) serve: Arc<dyn Serve>,
    figures: Arc<Figures>,
}

impl Others {
    pub(super) fn open(pki: &Pki, registry: &Arc<Registry>, clock: &Arc<dyn Clock>) -> Result<Self> {
        let places = Places::new(&**registry).context("services are not served")?;
        let resolve = move |service: &Backend| {
            let found = places.find(&service.namespace, &service.name, service.port);
            found.map(|(host, port)| Place {
                secure: true,
                host,
                port,
                node: None,
            })
        };
        let identity = Some(pki.proxy_identity()?);
        let aggregator = Aggregator::new(identity, clock.clone(), Box::new(resolve));
        let others = Http::carried(aggregator.carrier(), clock.clone());
        let serve = Routed {
            aggregator: aggregator.clone(),
            local: registry.clone(),
            others: Arc::new(others.context("cannot reach other servers")?),
        };
        Ok(Self {
            aggregator,
            serve: Arc::new(serve),
            figures: Arc::default(),
        })
    }

    /// What the controllers are told: whom to tell, and whom to ask.
    pub(super) fn aggregation(&self) -> Aggregation {
        let (told, asked) = (self.aggregator.clone(), self.aggregator.clone());
        Aggregation::new(
            self.figures.clone(),
            move |all| told.register(all.into_iter().map(remote).collect()),
            move |one| {
                let asked = asked.clone();
                Box::pin(async move { asked.probe(&remote(one)).await })
            },
        )
    }

    /// The figures of the others.
    pub(super) fn source(&self) -> Box<dyn Source> {
        Box::new(Availability(self.figures.clone()))
    }
}

/// Keeps in touch with the others until stopped.
pub(super) async fn run(aggregator: Arc<Aggregator>, stop: CancellationToken) -> Result<()> {
    aggregator.run(stop).await;
    Ok(())
}

/// What can be listed and deleted at other servers.
pub(super) fn resources(aggregator: &Aggregator) -> impl Iterator<Item = Resource> {
    let has = |verbs: &[String], verb: &str| verbs.iter().any(|one| one == verb);
    let listed = aggregator.resources().into_iter();
    let kept = listed.filter(move |one| has(&one.verbs, "list") && has(&one.verbs, "delete"));
    kept.map(|one| Resource {
        gvk: one.gvk,
        gvr: one.gvr,
        namespaced: one.namespaced,
    })
}

/// The same server in the words of both rooms.
fn remote(behind: Behind) -> Remote {
    Remote {
        name: behind.name,
        group: behind.group.into(),
        version: behind.version.into(),
        service: Backend {
            namespace: behind.namespace,
            name: behind.service,
            port: behind.port,
        },
        trust: match behind.insecure {
            true => Trust::Anyone,
            false => Trust::Authorities(behind.authorities),
        },
        available: behind.available,
        group_priority: behind.group_priority,
        version_priority: behind.version_priority,
    }
}

struct Availability(Arc<Figures>);

impl Source for Availability {
    fn write(&self, text: &mut Text) {
        text.append(&self.0.to_text());
    }
}
