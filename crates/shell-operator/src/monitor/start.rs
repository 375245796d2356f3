//! Start of monitors: resolves the resource of a binding and adds handlers to its informers.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use setpoint_api::options::ListOptions;
use setpoint_api::selector::FieldSelector;
use setpoint_api::{Gvr, Status};
use setpoint_client::{ApiResource, Client};
use setpoint_runtime::reflector::ReflectorOptions;
use setpoint_runtime::{HandlerOptions, Registration, SharedInformerFactory};

use super::caches::{MonitorCaches, Namespaces};
use super::namespaces::NamespaceFilter;
use super::{BindingConfig, EventSink, Monitor, Shared, State};
use crate::config::KubernetesBinding;
use crate::metrics::{LabelSet, MetricStorage};
use crate::resource::ResourceFinder;

/// Starts monitors, which share informers: one watch for each resource, namespace and selector.
#[derive(Debug, Clone)]
pub(crate) struct MonitorFactory {
    client: Client,
    informers: SharedInformerFactory,
    resources: ResourceFinder,
    metrics: Arc<MetricStorage>,
}

/// Why a monitor cannot be started.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages document them")]
pub enum MonitorError {
    #[error(
        "kubernetes[{at}]{{{binding}}}: Cannot get GroupVersionResource info for apiVersion '{api_version}' kind '{kind}' from api-server. Possibly CRD is not created before informers are started. Error was: {status}"
    )]
    Resource {
        at: usize,
        binding: String,
        api_version: String,
        kind: String,
        status: Box<Status>,
    },
    #[error("kubernetes{{{binding}}}: load existing objects: {status}")]
    List { binding: String, status: Box<Status> },
    #[error("kubernetes{{{binding}}}: {reason}")]
    Selector { binding: String, reason: String },
    #[error("the operator is stopping")]
    Stopped,
}

/// A monitor to be started, with the name of its hook and its position among the bindings.
pub(crate) struct MonitorSpec<'a> {
    pub(crate) hook: &'a str,
    pub(crate) at: usize,
    pub(crate) binding: &'a KubernetesBinding,
    pub(crate) sink: EventSink,
}

impl MonitorFactory {
    pub(crate) fn new(
        client: Client,
        informers: SharedInformerFactory,
        resources: ResourceFinder,
        metrics: Arc<MetricStorage>,
    ) -> Self {
        Self {
            client,
            informers,
            resources,
            metrics,
        }
    }

    /// Starts a monitor and waits until it has all existing objects.
    pub(crate) async fn start(&self, spec: MonitorSpec<'_>) -> Result<Monitor, MonitorError> {
        let resource = self.find_resource(&spec).await?;
        let (at, hook, binding) = (spec.at, spec.hook, spec.binding);
        let shared = Arc::new(Shared {
            hook: hook.to_owned(),
            binding: at,
            config: Arc::new(BindingConfig::new(binding)),
            kind: resource.gvk.kind.to_string(),
            caches: MonitorCaches::default(),
            state: Mutex::new(State::new()),
            sink: spec.sink,
            metrics: self.metrics.clone(),
            labels: LabelSet::of_binding(hook, &binding.options.name, &binding.options.queue),
        });
        let mut registrations = Vec::new();
        for scope in self.scopes(binding)? {
            self.check_list(&resource.gvr, &scope, binding).await?;
            registrations.push(self.add_handler(&shared, &resource.gvr, scope)?);
        }
        if let Some(labels) = binding
            .selector
            .namespaces
            .as_ref()
            .and_then(|own| own.labels.as_ref())
        {
            let filter = NamespaceFilter::new(shared.clone(), static_namespaces(binding));
            let options = ReflectorOptions {
                labels: labels.clone(),
                ..ReflectorOptions::default()
            };
            for scope in self.scopes_in(binding, "")? {
                self.check_list(&resource.gvr, &scope, binding).await?;
                let informer = self.informers.informer(resource.gvr.clone(), scope);
                registrations.push(filter.add_object_handler(&informer)?);
            }
            let namespaces = self.informers.informer(Gvr::new("", "v1", "namespaces"), options);
            let namespaces = filter.add_namespace_handler(&namespaces)?;
            namespaces.synced().await;
            registrations.push(namespaces);
        }
        for registration in &registrations {
            registration.synced().await;
        }
        shared.state.lock().end_initial();
        Ok(Monitor {
            shared,
            registrations,
        })
    }

    async fn find_resource(&self, spec: &MonitorSpec<'_>) -> Result<ApiResource, MonitorError> {
        let selector = &spec.binding.selector;
        let found = self.resources.find(&selector.api_version, &selector.kind).await;
        found.map_err(|status| MonitorError::Resource {
            at: spec.at,
            binding: spec.binding.options.name.clone(),
            api_version: selector.api_version.clone(),
            kind: selector.kind.clone(),
            status: Box::new(status),
        })
    }

    fn add_handler(
        &self,
        shared: &Arc<Shared>,
        resource: &Gvr,
        scope: ReflectorOptions,
    ) -> Result<Registration, MonitorError> {
        let namespaces = Namespaces::of_scope(&scope.namespace);
        let informer = self.informers.informer(resource.clone(), scope);
        shared.caches.add(namespaces, informer.cache().clone());
        let shared = shared.clone();
        informer
            .add_handler(HandlerOptions::default(), move |event| shared.handle(event))
            .map_err(|_| MonitorError::Stopped)
    }

    /// A list of one object, so that a missing permission is an error of the task. An informer would retry for ever.
    async fn check_list(
        &self,
        resource: &Gvr,
        scope: &ReflectorOptions,
        binding: &KubernetesBinding,
    ) -> Result<(), MonitorError> {
        let options = ListOptions {
            labels: scope.labels.clone(),
            fields: scope.fields.clone(),
            limit: Some(1),
            ..ListOptions::default()
        };
        let api = self.client.dynamic(resource.clone(), &scope.namespace);
        let list = api.list(&options).await;
        list.map(drop).map_err(|status| MonitorError::List {
            binding: binding.options.name.clone(),
            status: Box::new(status),
        })
    }

    /// The scopes of the informers with static namespaces.
    fn scopes(&self, binding: &KubernetesBinding) -> Result<Vec<ReflectorOptions>, MonitorError> {
        let namespaces: Vec<String> = match &binding.selector.namespaces {
            None => vec![String::new()],
            Some(own) if own.names.is_empty() && own.labels.is_none() => vec![String::new()],
            Some(_) => static_namespaces(binding).into_iter().collect(),
        };
        let mut scopes = Vec::new();
        for namespace in namespaces {
            scopes.extend(self.scopes_in(binding, &namespace)?);
        }
        Ok(scopes)
    }

    fn scopes_in(
        &self,
        binding: &KubernetesBinding,
        namespace: &str,
    ) -> Result<Vec<ReflectorOptions>, MonitorError> {
        let selector = &binding.selector;
        let fields_for = |name: Option<&str>| -> Result<FieldSelector, MonitorError> {
            let fields = selector.fields_for(name);
            fields.map_err(|reason| MonitorError::Selector {
                binding: binding.options.name.clone(),
                reason,
            })
        };
        let scope = |fields: FieldSelector| ReflectorOptions {
            namespace: namespace.to_owned(),
            labels: selector.labels.clone(),
            fields,
            relist: binding.resynchronization_period,
            ..ReflectorOptions::default()
        };
        if selector.names.is_empty() {
            return Ok(vec![scope(fields_for(None)?)]);
        }
        let names = selector
            .names
            .iter()
            .map(|name| fields_for(Some(name)).map(scope));
        names.collect()
    }
}

fn static_namespaces(binding: &KubernetesBinding) -> BTreeSet<String> {
    let namespaces = binding.selector.namespaces.as_ref();
    namespaces
        .map(|own| own.names.iter().cloned().collect())
        .unwrap_or_default()
}
