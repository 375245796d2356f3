//! Dynamic provisioner of local volumes: a claim of its StorageClass gets a directory of the node that its pod runs on.
//!
//! The class is the default one, so that StatefulSets with claims work without further software. It waits for the first
//! consumer: the scheduler selects the node, and that node's agent creates the directory and the PersistentVolume. A
//! released volume is deleted with its data by the agent that created it.
//!
//! The decisions are in [`plan`].

mod plan;

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use serde_json::json;
use setpoint_api::Key;
use setpoint_api::options::DeleteOptions;
use setpoint_runtime::{Client, Context, Controller, Error, Lister, Next, Object, Reconcile};
use tokio_util::sync::CancellationToken;

use plan::{ClaimView, ClassView, VolumeView};

/// The name of the controller.
const NAME: &str = "local-path-provisioner";

/// The name of the provisioner in StorageClasses.
pub const PROVISIONER: &str = "setpoint.dev/local-path";

/// The name of the class that the agent creates.
const CLASS: &str = "local-path";

/// Provisions volumes on this node, in this directory, until stopped.
pub async fn run(
    context: Context,
    node: String,
    directory: PathBuf,
    stop: CancellationToken,
) -> Result<(), Error> {
    if let Err(status) = create_class(&context.client).await {
        tracing::warn!(%status, "cannot create the StorageClass {CLASS}");
    }
    let reconciler = Provisioner {
        claims: context.lister()?,
        volumes: context.lister()?,
        node,
        directory,
    };
    Controller::new(NAME, reconciler)
        .reconciles::<PersistentVolumeClaim>()
        .watches(PersistentVolume::resource().group_resource(), |change| {
            vec![change.key().clone()]
        })
        .run(&context, stop)
        .await
}

/// Creates the default class, unless it is there.
async fn create_class(client: &Client) -> Result<(), setpoint_api::Status> {
    let class = json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": CLASS,
            "annotations": { "storageclass.kubernetes.io/is-default-class": "true" },
        },
        "provisioner": PROVISIONER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "WaitForFirstConsumer",
    });
    let classes = client.all::<StorageClass>();
    match classes.dynamic().create(class.to_string().into_bytes()).await {
        Err(status) if !status.is_already_exists() => Err(status),
        _ => Ok(()),
    }
}

/// The reconciler. Its keys are those of claims, which have a namespace, and of volumes, which have none.
#[derive(Debug)]
struct Provisioner {
    claims: Lister<PersistentVolumeClaim>,
    volumes: Lister<PersistentVolume>,
    node: String,
    directory: PathBuf,
}

impl Reconcile for Provisioner {
    async fn reconcile(&self, key: &Key, client: &Client) -> Result<Next, Error> {
        match key.namespace() {
            "" => self.reconcile_volume(key, client).await,
            _ => self.reconcile_claim(key, client).await,
        }
    }
}

impl Provisioner {
    /// Creates the directory and the volume of a claim that waits for this node.
    async fn reconcile_claim(&self, key: &Key, client: &Client) -> Result<Next, Error> {
        let Some(claim) = self.claims.find(key) else {
            return Ok(Next::Done);
        };
        let claim: ClaimView = claim.decode().map_err(Error::terminal)?;
        if !plan::waits_for(&claim, &self.node) {
            return Ok(Next::Done);
        }
        let class = client.all::<StorageClass>();
        let class: ClassView = match class.dynamic().get(&claim.spec.storage_class_name).await {
            Err(status) if status.is_not_found() => return Ok(Next::Done),
            found => found?.decode().map_err(Error::terminal)?,
        };
        if !plan::is_provisioned_here(&class) {
            return Ok(Next::Done);
        }
        let name = plan::volume_name(&claim);
        let path = self.directory.join(&name);
        tokio::fs::create_dir_all(&path).await.map_err(Error::failed)?;
        // Pods run as any user; the parent directory is the agent's.
        let permissions = std::fs::Permissions::from_mode(0o777);
        tokio::fs::set_permissions(&path, permissions)
            .await
            .map_err(Error::failed)?;
        let volume = plan::volume(&claim, &class, &self.node, &path);
        let volumes = client.all::<PersistentVolume>();
        match volumes.dynamic().create(volume.to_string().into_bytes()).await {
            Err(status) if !status.is_already_exists() => Err(status.into()),
            _ => Ok(Next::Done),
        }
    }

    /// Deletes a volume of this node whose claim is gone, with its data.
    async fn reconcile_volume(&self, key: &Key, client: &Client) -> Result<Next, Error> {
        let Some(volume) = self.volumes.find(key) else {
            return Ok(Next::Done);
        };
        let view: VolumeView = volume.decode().map_err(Error::terminal)?;
        if !plan::is_deletable(&view, &self.node, &self.directory) {
            return Ok(Next::Done);
        }
        match tokio::fs::remove_dir_all(&view.spec.local.path).await {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(Error::failed(error)),
            _ => {}
        }
        let options = DeleteOptions {
            uid: Some(volume.uid().to_owned()),
            ..DeleteOptions::default()
        };
        match client.all::<PersistentVolume>().delete(key.name(), options).await {
            Err(status) if status.is_not_found() || status.is_conflict() => Ok(Next::Done),
            deleted => Ok(deleted.map(|_| Next::Done)?),
        }
    }
}
