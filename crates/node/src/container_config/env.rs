//! Environment variables of a container.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1;

use super::expansion::{expand, unresolved};
use super::service_env::{ServiceView, service_variables};
use super::{ConfigError, ContainerRequest, downward, spec};
use crate::static_pods::is_static;

/// The objects that the environment of a container refers to, as they were read.
#[derive(Debug, Clone, Default)]
pub struct EnvSources {
    /// The data of ConfigMaps, by name; an error has the text of the API server.
    pub config_maps: BTreeMap<String, Result<BTreeMap<String, String>, SourceError>>,
    /// The data of Secrets, by name.
    pub secrets: BTreeMap<String, Result<BTreeMap<String, String>, SourceError>>,
    /// The Services of the pod's namespace, and `kubernetes` of the namespace `default`; `None` if they were never read.
    pub services: Option<Vec<ServiceView>>,
}

/// Why an object could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceError {
    /// Whether it does not exist, which is no error for an optional reference.
    pub is_absent: bool,
    /// The text of the API server.
    pub message: String,
}

/// A kind of object with keys and values.
#[derive(Debug, Clone, Copy)]
enum Source {
    ConfigMap,
    Secret,
}

/// The environment, by name. Variables of Services are there unless the container sets them itself.
pub(super) fn environment(request: &ContainerRequest<'_>) -> Result<BTreeMap<String, String>, ConfigError> {
    let links = spec(request.pod).enable_service_links.unwrap_or(true);
    let namespace = request.pod.metadata.namespace.as_deref().unwrap_or_default();
    let services = service_variables(services(request)?, namespace, links);
    let mut env = BTreeMap::new();
    for from in request.container.env_from.iter().flatten() {
        add_all(request, from, &mut env)?;
    }
    for variable in request.container.env.iter().flatten() {
        if let Some(value) = value(request, variable, &env, &services)? {
            env.insert(variable.name.clone(), value);
        }
    }
    for (name, value) in services {
        env.entry(name).or_insert(value);
    }
    Ok(env)
}

/// The Services that the pod sees. Without them only a static pod starts, which may be the API server itself.
fn services<'a>(request: &ContainerRequest<'a>) -> Result<&'a [ServiceView], ConfigError> {
    match &request.sources.services {
        Some(services) => Ok(services),
        None if is_static(request.pod) => Ok(&[]),
        None => {
            let message = "services have not yet been read at least once, cannot construct envvars";
            Err(ConfigError(message.to_owned()))
        }
    }
}

/// Adds all keys of a ConfigMap or Secret.
fn add_all(
    request: &ContainerRequest<'_>,
    from: &v1::EnvFromSource,
    env: &mut BTreeMap<String, String>,
) -> Result<(), ConfigError> {
    let found = match (&from.config_map_ref, &from.secret_ref) {
        (Some(reference), _) => find(request, Source::ConfigMap, &reference.name, reference.optional)?,
        (_, Some(reference)) => find(request, Source::Secret, &reference.name, reference.optional)?,
        _ => None,
    };
    let prefix = from.prefix.as_deref().unwrap_or_default();
    for (key, value) in found.into_iter().flatten() {
        env.insert(format!("{prefix}{key}"), value.clone());
    }
    Ok(())
}

/// The value of a variable; `None` where an optional source is absent, which leaves the variable out.
fn value(
    request: &ContainerRequest<'_>,
    variable: &v1::EnvVar,
    env: &BTreeMap<String, String>,
    services: &BTreeMap<String, String>,
) -> Result<Option<String>, ConfigError> {
    let text = variable.value.as_deref().unwrap_or_default();
    if !text.is_empty() {
        let value = |name: &str| {
            let found = env.get(name).or_else(|| services.get(name));
            found.cloned().unwrap_or_else(|| unresolved(name))
        };
        return Ok(Some(expand(text, value)));
    }
    let Some(from) = &variable.value_from else {
        return Ok(Some(String::new()));
    };
    if let Some(field) = &from.field_ref {
        return downward::field_of_request(request, &field.field_path).map(Some);
    }
    if let Some(resource) = &from.resource_field_ref {
        return downward::resource_value(request.container, resource, request.node).map(Some);
    }
    if let Some(key) = &from.config_map_key_ref {
        return find_key(request, Source::ConfigMap, (&key.name, &key.key), key.optional);
    }
    if let Some(key) = &from.secret_key_ref {
        return find_key(request, Source::Secret, (&key.name, &key.key), key.optional);
    }
    Ok(Some(String::new()))
}

/// The data of a ConfigMap or Secret; `None` if it is absent and optional.
fn find<'a>(
    request: &ContainerRequest<'a>,
    source: Source,
    name: &str,
    optional: Option<bool>,
) -> Result<Option<&'a BTreeMap<String, String>>, ConfigError> {
    let found = match source {
        Source::ConfigMap => request.sources.config_maps.get(name),
        Source::Secret => request.sources.secrets.get(name),
    };
    match found {
        Some(Ok(data)) => Ok(Some(data)),
        Some(Err(error)) if error.is_absent && optional == Some(true) => Ok(None),
        Some(Err(error)) => Err(ConfigError(error.message.clone())),
        None => Err(ConfigError(format!(
            "{} \"{name}\" not registered",
            source.resource()
        ))),
    }
}

fn find_key(
    request: &ContainerRequest<'_>,
    source: Source,
    (name, key): (&str, &str),
    optional: Option<bool>,
) -> Result<Option<String>, ConfigError> {
    let Some(data) = find(request, source, name, optional)? else {
        return Ok(None);
    };
    match data.get(key) {
        Some(value) => Ok(Some(value.clone())),
        None if optional == Some(true) => Ok(None),
        None => {
            let namespace = request.pod.metadata.namespace.as_deref().unwrap_or_default();
            let kind = source.kind();
            let message = format!("couldn't find key {key} in {kind} {namespace}/{name}");
            Err(ConfigError(message))
        }
    }
}

impl Source {
    fn kind(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
        }
    }

    fn resource(self) -> &'static str {
        match self {
            Self::ConfigMap => "configmap",
            Self::Secret => "secret",
        }
    }
}
