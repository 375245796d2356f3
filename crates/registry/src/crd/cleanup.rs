//! Finalization of terminating CRDs: their objects are deleted, then the cleanup finalizer is removed.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;

use setpoint_api::call::Encoding;
use setpoint_api::options::{DeleteOptions, PatchType, WriteOptions};
use setpoint_api::{GroupResource, Gvr, Payload, Request, Serve, Stored, Target, User, Verb};
use setpoint_cache::Snapshot;
use setpoint_schema::{Tree, fields};
use setpoint_store::{Compare, Op, Put, Txn};
use setpoint_strategy::WebhookConversion;
use setpoint_strategy::custom::{self, crd::CLEANUP};

use super::status;
use super::view::Crd;
use crate::deletion::{self, Step};
use crate::key;
use crate::registry::Registry;
use crate::served_resources::Resource;

/// The delay before objects with finalizers are checked again.
pub(super) const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Deletes the objects of terminating CRDs, and removes the finalizer of CRDs without objects. Returns whether objects
/// are left.
pub(super) async fn finalize_all(registry: &Registry, snapshot: &Snapshot) -> bool {
    let mut has_objects = false;
    for object in snapshot.iter().filter(|object| object.header().deleting) {
        let Ok(crd) = object.view::<Crd>() else {
            continue;
        };
        if !finalizers(object).iter().any(|name| name == CLEANUP) {
            continue;
        }
        match remove_objects(registry, &crd).await {
            true => remove_finalizer(registry, object).await,
            false => {
                has_objects = true;
                status::report_deletion(registry, object, &crd).await;
            }
        }
    }
    has_objects
}

/// Deletes the objects of a CRD. Returns whether none is left.
async fn remove_objects(registry: &Registry, crd: &Crd) -> bool {
    let names = &crd.status.accepted_names;
    let resource = GroupResource::new(&crd.spec.group, &names.plural);
    let Some(resource) = registry.find_resource(&resource) else {
        return true;
    };
    let gvr = resource.kind.info().storage.clone();
    let conversion = resource.kind.webhook_conversion();
    for object in resource.cache.snapshot().iter() {
        if object.header().deleting && object.header().has_finalizers {
            continue;
        }
        match conversion.filter(|conversion| conversion.is_other_version(object)) {
            None => {
                let verb = Verb::Delete(DeleteOptions::default());
                let _ = registry.call(request(gvr.clone(), object, verb)).await;
            }
            Some(conversion) => remove_unconverted(registry, &resource, conversion, object).await,
        }
    }
    let prefix = resource.prefix.as_bytes();
    let store = &resource.backend.store;
    store.snapshot().prefix(prefix).next().is_none()
}

/// Deletes an object that is stored in an old storage version. It is not converted, so that a CRD can be deleted when
/// its webhook is gone.
async fn remove_unconverted(
    registry: &Registry,
    resource: &Resource,
    conversion: &dyn WebhookConversion,
    object: &Stored,
) {
    let Ok(mut tree) = conversion.decode_unconverted(object) else {
        return;
    };
    let now = registry.clock.now();
    let step = deletion::begin(&*resource.kind, &mut tree, &DeleteOptions::default(), now);
    let key = key::storage_key(&resource.prefix, object.key());
    let op = match step {
        Step::Pending => return,
        Step::Remove => Op::Delete { key: key.clone() },
        Step::Mark => {
            let written = conversion.write_unconverted(&tree);
            Op::Put(Put {
                key: key.clone(),
                value: Bytes::from(written.bytes),
                stamp: written.resource_version_offset,
                ..Put::default()
            })
        }
    };
    let revision = key::revision(object.resource_version());
    let txn = Txn {
        compares: vec![Compare::Modified { key, revision }],
        ops: vec![op],
    };
    // After a conflict the object is found again.
    if let Err(failed) = resource.backend.store.commit(txn).await {
        tracing::debug!(object = %object.key(), %failed, "cannot delete an object of a terminating CustomResourceDefinition");
    }
}

fn finalizers(object: &Stored) -> Vec<String> {
    let tree = setpoint_codec::json::parse(object.json()).unwrap_or_default();
    let metadata = tree.get("metadata");
    let names = metadata.map_or(&[][..], |metadata| metadata.items(fields::FINALIZERS));
    names.iter().filter_map(Tree::as_str).map(str::to_owned).collect()
}

async fn remove_finalizer(registry: &Registry, object: &Stored) {
    let mut rest = finalizers(object);
    rest.retain(|name| name != CLEANUP);
    let patch = json!({"metadata": {"finalizers": rest}});
    let payload = Payload {
        encoding: Encoding::Json,
        bytes: Bytes::from(patch.to_string()),
    };
    let gvr = custom::crd::resource();
    let verb = Verb::Patch(PatchType::Merge, payload, WriteOptions::default());
    if let Err(status) = registry.call(request(gvr, object, verb)).await {
        tracing::debug!(crd = %object.key(), %status.message, "cannot remove the finalizer of a CustomResourceDefinition");
    }
}

fn request(gvr: Gvr, object: &Stored, verb: Verb) -> Request {
    Request {
        user: Arc::new(User::component("system:apiserver")),
        target: Target::object(gvr, object.key()),
        verb,
    }
}
