//! Follows the stored FlowSchemas and PriorityLevelConfigurations, as a watch of the API that this server serves.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::StreamExt;
use serde::de::DeserializeOwned;
use setpoint_api::options::{ResourceVersionMatch, WatchOptions};
use setpoint_api::{Body, Event, Gvr, Request, Serve, Status, Stored, Target, User, Verb, Watch};

use super::PriorityAndFairness;
use super::objects::{FlowSchemaObject, Object, PriorityLevelObject};

const GROUP: &str = "flowcontrol.apiserver.k8s.io";
const VERSION: &str = "v1";
/// Delay before a watch that ended is opened again.
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// The stored objects; `None` until they have been read for the first time.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    pub(super) flow_schemas: Option<Vec<FlowSchemaObject>>,
    pub(super) levels: Option<Vec<PriorityLevelObject>>,
}

/// Follows both kinds of objects forever.
pub(super) async fn follow(filter: &PriorityAndFairness, serve: &dyn Serve) {
    let flow_schemas = follow_resource(filter, serve, "flowschemas", |objects, all| {
        replace(&mut objects.flow_schemas, all)
    });
    let levels = follow_resource(filter, serve, "prioritylevelconfigurations", |objects, all| {
        replace(&mut objects.levels, all)
    });
    tokio::join!(flow_schemas, levels);
}

/// Replaces the objects; returns whether they differ.
fn replace<S: PartialEq>(current: &mut Option<Vec<Object<S>>>, all: Vec<Object<S>>) -> bool {
    let differs = current.as_ref() != Some(&all);
    *current = Some(all);
    differs
}

async fn follow_resource<S: DeserializeOwned + Clone + Send + Sync + 'static>(
    filter: &PriorityAndFairness,
    serve: &dyn Serve,
    resource: &str,
    update: impl Fn(&mut Objects, Vec<Object<S>>) -> bool,
) {
    let publish = |all: &BTreeMap<String, Object<S>>| {
        if update(&mut filter.objects.lock(), all.values().cloned().collect()) {
            filter.changed.notify_one();
        }
    };
    loop {
        match open(serve, resource).await {
            Ok(watch) => deliver(watch, publish).await,
            Err(status) => tracing::debug!(resource, error = %status.message, "cannot watch"),
        }
        filter.factory.clock.sleep(RETRY_DELAY).await;
    }
}

/// Opens a watch that begins with all objects and a bookmark after them.
async fn open(serve: &dyn Serve, resource: &str) -> Result<Watch, Status> {
    let options = WatchOptions {
        send_initial_events: Some(true),
        resource_version_match: Some(ResourceVersionMatch::NotOlderThan),
        allow_watch_bookmarks: true,
        ..WatchOptions::default()
    };
    let request = Request {
        user: User::component("system:apiserver").into(),
        target: Target::all(Gvr::new(GROUP, VERSION, resource)),
        verb: Verb::Watch(options),
    };
    match serve.call(request).await?.body {
        Body::Watch(watch) => Ok(watch),
        _ => Err(Status::internal("the response to a watch is no watch")),
    }
}

/// Publishes all objects after the initial ones, and again after each change, until the watch ends.
async fn deliver<S: DeserializeOwned + Clone + Send + Sync + 'static>(
    mut watch: Watch,
    publish: impl Fn(&BTreeMap<String, Object<S>>),
) {
    let mut all = BTreeMap::new();
    let mut is_complete = false;
    while let Some(event) = watch.next().await {
        match event {
            Event::Added(object) | Event::Modified(object) => insert(&mut all, &object),
            Event::Deleted(object) => drop(all.remove(object.key().name())),
            Event::Bookmark(bookmark) => is_complete |= bookmark.initial_events_end,
            Event::Error(status) => {
                return tracing::debug!(error = %status.message, "the watch ended");
            }
        }
        if is_complete {
            publish(&all);
        }
    }
}

/// Inserts an object. A malformed one counts as absent.
fn insert<S: DeserializeOwned + Clone + Send + Sync + 'static>(
    all: &mut BTreeMap<String, Object<S>>,
    object: &Stored,
) {
    let name = object.key().name();
    match Object::decode(object) {
        Some(decoded) => drop(all.insert(name.to_owned(), decoded)),
        None => drop(all.remove(name)),
    }
}
