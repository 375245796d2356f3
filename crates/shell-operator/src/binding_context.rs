//! Binding contexts: the JSON with the reasons why a hook runs.
//!
//! Keys, omissions and empty values are those of shell-operator. Objects are written as the API server has sent them.

use std::collections::BTreeMap;
use std::sync::Arc;

use setpoint_api::Stored;

use crate::config::{BindingOptions, ConfigVersion, WatchEvent};

/// One reason for a run.
#[derive(Debug, Clone)]
pub struct BindingContext {
    /// The name of the binding.
    pub binding: String,
    /// The group of the binding.
    pub group: Option<String>,
    /// The bindings whose objects are included.
    pub include_snapshots_from: Vec<String>,
    /// What has happened.
    pub cause: Cause,
}

/// What has happened.
#[derive(Debug, Clone)]
pub enum Cause {
    /// The program has started.
    OnStartup,
    /// A schedule fires.
    Schedule,
    /// The objects that exist when a monitor starts. They are those at the time of the run.
    Synchronization,
    /// An object has changed.
    Event {
        /// How it has changed.
        event: WatchEvent,
        /// The object at that time.
        object: ObjectAndFilterResult,
    },
    /// A request is to be admitted.
    Admission {
        /// The type of the binding.
        admission_type: AdmissionType,
        /// The request of the AdmissionReview, in JSON.
        request: Arc<str>,
    },
    /// Custom resources are to be converted.
    Conversion {
        /// The version of the hook's rule that the objects have.
        from_version: String,
        /// The version of the hook's rule that they are to have.
        to_version: String,
        /// The request of the ConversionReview, in JSON.
        request: Arc<str>,
    },
}

/// The type of an admission binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdmissionType {
    /// `kubernetesValidating`.
    Validating,
    /// `kubernetesMutating`.
    Mutating,
}

impl AdmissionType {
    /// The name in binding contexts.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Validating => "Validating",
            Self::Mutating => "Mutating",
        }
    }

    /// The field of the bindings in a configuration.
    pub fn binding_type(self) -> &'static str {
        match self {
            Self::Validating => "kubernetesValidating",
            Self::Mutating => "kubernetesMutating",
        }
    }

    /// The kind that registers such webhooks.
    pub(crate) fn configuration_kind(self) -> &'static str {
        match self {
            Self::Validating => "ValidatingWebhookConfiguration",
            Self::Mutating => "MutatingWebhookConfiguration",
        }
    }

    /// The resource of that kind.
    pub(crate) fn configuration_resource(self) -> &'static str {
        match self {
            Self::Validating => "validatingwebhookconfigurations",
            Self::Mutating => "mutatingwebhookconfigurations",
        }
    }
}

/// An object of a monitor.
#[derive(Debug, Clone)]
pub struct ObjectAndFilterResult {
    /// The object, unless the binding keeps no full objects.
    pub object: Option<Arc<Stored>>,
    /// The JSON that the binding's jq program returns for the object, if it has one.
    pub filter_result: Option<Arc<str>>,
    /// Namespace, kind and name.
    pub id: ObjectId,
}

/// Identifies an object among those of one monitor. The order is that of snapshots.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectId {
    /// The namespace; empty for cluster-wide objects.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The kind.
    pub kind: String,
}

/// The objects of bindings at the time of a run.
pub type Snapshots = BTreeMap<String, Vec<ObjectAndFilterResult>>;

impl BindingContext {
    /// The context of a binding with these options.
    pub fn new(options: &BindingOptions, cause: Cause) -> Self {
        Self {
            binding: options.name.clone(),
            group: options.group.clone(),
            include_snapshots_from: options.include_snapshots_from.clone(),
            cause,
        }
    }

    /// The context of a hook that runs at start.
    pub fn on_startup() -> Self {
        Self {
            binding: "onStartup".to_owned(),
            group: None,
            include_snapshots_from: Vec::new(),
            cause: Cause::OnStartup,
        }
    }

    /// Whether this is the first run of a kubernetes binding.
    pub fn is_synchronization(&self) -> bool {
        matches!(self.cause, Cause::Synchronization)
    }
}

/// The content of the file that a hook reads. `snapshots` has the objects of every binding that a context needs.
pub fn to_json(contexts: &[BindingContext], version: ConfigVersion, snapshots: &Snapshots) -> Vec<u8> {
    let mut json = Json::default();
    json.list(contexts, |json, context| match version {
        ConfigVersion::V0 => write_v0(json, context),
        ConfigVersion::V1 => write_v1(json, context, snapshots),
    });
    json.0.push(b'\n');
    json.0
}

fn write_v1(json: &mut Json, context: &BindingContext, snapshots: &Snapshots) {
    json.open();
    json.key("binding").text(&context.binding);
    match &context.cause {
        Cause::OnStartup => return json.close(),
        Cause::Admission { .. } | Cause::Conversion { .. } => return write_review(json, context, snapshots),
        Cause::Schedule | Cause::Synchronization | Cause::Event { .. } => {}
    }
    let group = context.group.as_deref();
    match &context.cause {
        Cause::Event { object, .. } if group.is_none() => write_object_fields(json, object),
        _ => {}
    }
    if let Some(group) = group {
        json.key("groupName").text(group);
    }
    if matches!(context.cause, Cause::Synchronization) && group.is_none() {
        let none = Vec::new();
        let objects = snapshots.get(&context.binding).unwrap_or(&none);
        json.key("objects").list(objects, write_object);
    }
    if !context.include_snapshots_from.is_empty() {
        write_snapshots(json.key("snapshots"), &context.include_snapshots_from, snapshots);
    }
    let kind = match &context.cause {
        _ if group.is_some() => "Group",
        Cause::Synchronization => "Synchronization",
        Cause::Event { .. } => "Event",
        _ => "Schedule",
    };
    json.key("type").text(kind);
    match &context.cause {
        Cause::Event { event, .. } if group.is_none() => json.key("watchEvent").text(event.as_str()),
        _ => {}
    }
    json.close();
}

/// The rest of the context of a review. A group only adds snapshots.
fn write_review(json: &mut Json, context: &BindingContext, snapshots: &Snapshots) {
    let (kind, versions, request) = match &context.cause {
        Cause::Admission {
            admission_type,
            request,
        } => (admission_type.as_str(), None, request),
        Cause::Conversion {
            from_version,
            to_version,
            request,
        } => ("Conversion", Some((from_version, to_version)), request),
        _ => return json.close(),
    };
    if let Some((from_version, _)) = versions {
        json.key("fromVersion").text(from_version);
    }
    json.key("review").open();
    json.key("request").raw(request.as_bytes());
    json.close();
    if !context.include_snapshots_from.is_empty() {
        write_snapshots(json.key("snapshots"), &context.include_snapshots_from, snapshots);
    }
    if let Some((_, to_version)) = versions {
        json.key("toVersion").text(to_version);
    }
    json.key("type").text(kind);
    json.close();
}

fn write_v0(json: &mut Json, context: &BindingContext) {
    json.open();
    json.key("binding").text(&context.binding);
    if let Cause::Event { event, object } = &context.cause {
        json.key("resourceEvent").text(match event {
            WatchEvent::Added => "add",
            WatchEvent::Modified => "update",
            WatchEvent::Deleted => "delete",
        });
        json.key("resourceKind").text(&object.id.kind);
        json.key("resourceName").text(&object.id.name);
        json.key("resourceNamespace").text(&object.id.namespace);
    }
    json.close();
}

fn write_snapshots(json: &mut Json, names: &[String], snapshots: &Snapshots) {
    let mut names: Vec<&String> = names.iter().collect();
    names.sort();
    names.dedup();
    let none = Vec::new();
    json.open();
    for name in names {
        let objects = snapshots.get(name).unwrap_or(&none);
        json.key(name).list(objects, write_object);
    }
    json.close();
}

/// Appends an object of a snapshot.
fn write_object(json: &mut Json, object: &ObjectAndFilterResult) {
    json.open();
    write_object_fields(json, object);
    json.close();
}

fn write_object_fields(json: &mut Json, object: &ObjectAndFilterResult) {
    if let Some(result) = &object.filter_result {
        json.key("filterResult").raw(result.as_bytes());
    }
    if let Some(object) = &object.object {
        json.key("object").raw(object.json());
    }
}

/// The objects of a snapshot as JSON.
pub(crate) fn objects_to_json(objects: &[ObjectAndFilterResult]) -> Vec<u8> {
    let mut json = Json::default();
    json.list(objects, write_object);
    json.0
}

/// JSON text that grows at its end. Objects are copied into it as they are.
#[derive(Default)]
struct Json(Vec<u8>);

impl Json {
    fn open(&mut self) {
        self.0.push(b'{');
    }

    fn close(&mut self) {
        self.0.push(b'}');
    }

    fn key(&mut self, key: &str) -> &mut Self {
        if self.0.last() != Some(&b'{') {
            self.0.push(b',');
        }
        self.text(key);
        self.0.push(b':');
        self
    }

    fn text(&mut self, text: &str) {
        self.0
            .extend_from_slice(serde_json::Value::from(text).to_string().as_bytes());
    }

    fn raw(&mut self, json: &[u8]) {
        self.0.extend_from_slice(json);
    }

    fn list<T>(&mut self, items: &[T], mut write: impl FnMut(&mut Self, &T)) {
        self.0.push(b'[');
        for (at, item) in items.iter().enumerate() {
            if at > 0 {
                self.0.push(b',');
            }
            write(self, item);
        }
        self.0.push(b']');
    }
}

#[cfg(test)]
mod tests;
