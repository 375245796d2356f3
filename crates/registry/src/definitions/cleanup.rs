//! What is left of a definition that goes: its objects are deleted, and then it is let go.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;

use setpoint_api::call::Encoding;
use setpoint_api::options::{DeleteOptions, PatchType, WriteOptions};
use setpoint_api::{GroupResource, Gvr, Payload, Request, Serve, Stored, Target, User, Verb};
use setpoint_cache::Snapshot;
use setpoint_kinds::apiextensions::custom_resource_definition::{self, CLEANUP};
use setpoint_schema::Tree;

use super::view::Definition;
use crate::registry::Registry;

/// How soon to look again at objects that finalizers hold.
pub(super) const AGAIN: Duration = Duration::from_secs(1);

/// Empties the definitions that are going and lets go of those that are empty. Whether some are left.
pub(super) async fn empty(registry: &Registry, snapshot: &Snapshot) -> bool {
    let mut left = false;
    for object in snapshot.iter().filter(|object| object.header().deleting) {
        let Ok(definition) = object.view::<Definition>() else {
            continue;
        };
        if !finalizers(object).iter().any(|name| name == CLEANUP) {
            continue;
        }
        left |= !remove_objects(registry, &definition).await;
        if !left {
            let_go(registry, object).await;
        }
    }
    left
}

/// Deletes the objects of a definition. Whether none is left.
async fn remove_objects(registry: &Registry, definition: &Definition) -> bool {
    let names = &definition.status.accepted_names;
    let resource = GroupResource::new(&definition.spec.group, &names.plural);
    let Some(resource) = registry.find_resource(&resource) else {
        return true;
    };
    let gvr = resource.kind.about().gvr.clone();
    for object in resource.cache.snapshot().iter() {
        if object.header().deleting && object.header().has_finalizers {
            continue;
        }
        let verb = Verb::Delete(DeleteOptions::default());
        let _ = registry.call(request(gvr.clone(), object, verb)).await;
    }
    let prefix = resource.prefix.as_bytes();
    registry.store.snapshot().prefix(prefix).next().is_none()
}

fn finalizers(object: &Stored) -> Vec<String> {
    let tree = setpoint_codec::json::parse(object.json()).unwrap_or_default();
    let metadata = tree.get("metadata");
    let names = metadata.map_or(&[][..], |metadata| metadata.items("finalizers"));
    names.iter().filter_map(Tree::as_str).map(str::to_owned).collect()
}

async fn let_go(registry: &Registry, object: &Stored) {
    let mut rest = finalizers(object);
    rest.retain(|name| name != CLEANUP);
    let patch = json!({"metadata": {"finalizers": rest}});
    let payload = Payload {
        encoding: Encoding::Json,
        bytes: Bytes::from(patch.to_string()),
    };
    let gvr = custom_resource_definition::resource();
    let verb = Verb::Patch(PatchType::Merge, payload, WriteOptions::default());
    if let Err(status) = registry.call(request(gvr, object, verb)).await {
        tracing::debug!(definition = %object.key(), %status.message, "a definition is not let go");
    }
}

fn request(gvr: Gvr, object: &Stored, verb: Verb) -> Request {
    Request {
        user: Arc::new(User::component("system:apiserver")),
        target: Target::object(gvr, object.key()),
        verb,
    }
}
