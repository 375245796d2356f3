//! A controller built with the library: every ConfigMap with the label `copied` has a copy.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::core::v1::ConfigMap;
use setpoint_api::{Key, SystemClock};
use setpoint_client::Kubeconfig;
use setpoint_client::kubeconfig::Identity;
use setpoint_runtime::reconcile::{Error, Next, Reconcile};
use setpoint_runtime::{Client, Lister, Manager, create_or_update, for_, owner};
use tokio_util::sync::CancellationToken;

use crate::objects::{COPIED, COPY_PREFIX};
use crate::soak::{ADMIN, Soak};

const NAME: &str = "soak-copies";
const RETRY: Duration = Duration::from_millis(200);

/// The reconciler.
struct Copies {
    maps: Lister<ConfigMap>,
}

impl Reconcile for Copies {
    async fn reconcile(&self, key: &Key, client: &Client) -> Result<Next, Error> {
        let Some(map) = self.maps.find(key) else {
            return Ok(Next::Done);
        };
        if map.label(COPIED).is_none() || map.header().deleting {
            return Ok(Next::Done);
        }
        let data = map.to_owned()?.data;
        let maps = client.namespaced::<ConfigMap>(key.namespace());
        let mut owned = Ok(());
        let name = format!("{COPY_PREFIX}{}", key.name());
        create_or_update(&maps, &name, ConfigMap::default(), |copy| {
            copy.metadata.namespace = Some(key.namespace().to_owned());
            copy.metadata.labels = Some([("soak".to_owned(), "copy".to_owned())].into());
            copy.data.clone_from(&data);
            owned = owner::set_controller_reference(&map, copy);
        })
        .await?;
        // The copy belongs to a deleted ConfigMap of the same name: the garbage collector deletes it first.
        Ok(owned.map_or(Next::After(RETRY), |()| Next::Done))
    }
}

/// Runs the controller until the token is cancelled.
pub(crate) fn run(soak: &Soak<'_>, stop: CancellationToken) -> Result<()> {
    let kubeconfig = soak.process.lock().kubeconfig();
    let mut connection = Kubeconfig::read(&kubeconfig)?.connection(None)?;
    connection.identity = Identity::Token(ADMIN.to_owned());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut manager = Manager::remote(Client::connect(&connection)?, Arc::new(SystemClock::new()));
        let reconciler = Copies {
            maps: manager.context().lister()?,
        };
        let controller = for_::<ConfigMap>()
            .named(NAME)
            .owns::<ConfigMap>()
            .workers(2)
            .reconciles_with(reconciler);
        manager.add_controller(controller);
        Ok(manager.run(stop).await?)
    })
}
