//! [`Kubeconfig`]: the file with clusters, users and contexts.
//!
//! Unknown fields are kept when a file is written again: entries of other tools must not get lost.
//! Format: <https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/>.

mod connection;
mod exec;
mod file;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use connection::{Connection, Identity, Impersonation};
pub use exec::{ClusterInfo, EnvVar, ExecConfig, ExecCredential, ExecError};

/// A kubeconfig file, or several files merged.
///
/// ```
/// use setpoint_client::Kubeconfig;
/// use setpoint_client::kubeconfig::Identity;
///
/// let file = Kubeconfig::parse("
/// current-context: work
/// contexts: [{name: work, context: {cluster: office, user: me, namespace: web}}]
/// clusters: [{name: office, cluster: {server: 'https://10.0.0.1:6443', insecure-skip-tls-verify: true}}]
/// users: [{name: me, user: {token: secret}}]
/// ").unwrap();
/// let connection = file.connection(None).unwrap();
/// assert_eq!(connection.server, "https://10.0.0.1:6443");
/// assert_eq!(connection.namespace.as_deref(), Some("web"));
/// assert!(matches!(connection.identity, Identity::Token(token) if token == "secret"));
/// ```
#[allow(missing_docs, reason = "the fields are those of the file")]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Kubeconfig {
    #[serde(rename = "apiVersion")]
    pub api_version: String,
    pub kind: String,
    #[serde(deserialize_with = "nullable")]
    pub clusters: Vec<NamedCluster>,
    #[serde(deserialize_with = "nullable")]
    pub contexts: Vec<NamedContext>,
    #[serde(deserialize_with = "nullable")]
    pub users: Vec<NamedUser>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub current_context: String,
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// A cluster and its name.
#[allow(missing_docs, reason = "the fields are those of the file")]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NamedCluster {
    pub name: String,
    pub cluster: Cluster,
}

/// A context and its name.
#[allow(missing_docs, reason = "the fields are those of the file")]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NamedContext {
    pub name: String,
    pub context: Context,
}

/// A user and their name.
#[allow(missing_docs, reason = "the fields are those of the file")]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NamedUser {
    pub name: String,
    pub user: User,
}

/// The address of a server and how to verify it.
#[allow(missing_docs, reason = "the fields are those of the file")]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Cluster {
    pub server: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate_authority: Option<PathBuf>,
    /// Base64 of PEM; takes precedence over the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate_authority_data: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub insecure_skip_tls_verify: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_server_name: Option<String>,
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// A cluster and a user.
#[allow(missing_docs, reason = "the fields are those of the file")]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Context {
    pub cluster: String,
    pub user: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// The credentials of a user.
#[allow(missing_docs, reason = "the fields are those of the file")]
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct User {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_certificate: Option<PathBuf>,
    /// Base64 of PEM; takes precedence over the file. So does that of the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_certificate_data: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_key: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_key_data: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    #[serde(rename = "tokenFile", skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// Why a kubeconfig cannot be used.
#[allow(missing_docs, reason = "the messages document them")]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read {path}: {source}")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("cannot write {path}: {source}")]
    Write { path: PathBuf, source: std::io::Error },
    #[error("cannot parse the kubeconfig: {0}")]
    Parse(String),
    #[error("the kubeconfig has no {what} {name:?}")]
    Missing { what: &'static str, name: String },
    #[error("{what} is not base64")]
    Base64 { what: &'static str },
    #[error("the kubeconfig's user needs {what}, which is not supported")]
    Unsupported { what: &'static str },
    #[error(
        "there is no kubeconfig, and this is not a pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set"
    )]
    NotInCluster,
}

// === impl Kubeconfig ===

impl Kubeconfig {
    /// A config with one cluster, one user and one context, which is the current one, all of this name.
    pub fn single_context(name: &str, cluster: Cluster, user: User) -> Self {
        let name = name.to_owned();
        let context = Context {
            cluster: name.clone(),
            user: name.clone(),
            ..Context::default()
        };
        Self {
            api_version: "v1".to_owned(),
            kind: "Config".to_owned(),
            clusters: vec![NamedCluster {
                name: name.clone(),
                cluster,
            }],
            contexts: vec![NamedContext {
                name: name.clone(),
                context,
            }],
            users: vec![NamedUser {
                name: name.clone(),
                user,
            }],
            current_context: name,
            other: BTreeMap::new(),
        }
    }

    /// Merges another config into this one: entries of the same name are replaced, and its current context becomes the
    /// current one.
    #[must_use]
    pub fn merge(mut self, newer: Self) -> Self {
        replace(&mut self.clusters, newer.clusters, |entry| &entry.name);
        replace(&mut self.contexts, newer.contexts, |entry| &entry.name);
        replace(&mut self.users, newer.users, |entry| &entry.name);
        if !newer.current_context.is_empty() {
            self.current_context = newer.current_context;
        }
        self.other.extend(newer.other);
        if self.kind.is_empty() {
            (self.api_version, self.kind) = (newer.api_version, newer.kind);
        }
        self
    }

    /// The context of this name.
    pub fn context(&self, name: &str) -> Result<&Context, Error> {
        let found = self.contexts.iter().find(|entry| entry.name == name);
        found
            .map(|entry| &entry.context)
            .ok_or_else(|| missing("context", name))
    }

    /// The cluster of this name.
    pub fn cluster(&self, name: &str) -> Result<&Cluster, Error> {
        let found = self.clusters.iter().find(|entry| entry.name == name);
        found
            .map(|entry| &entry.cluster)
            .ok_or_else(|| missing("cluster", name))
    }

    /// The user of this name.
    pub fn user(&self, name: &str) -> Result<&User, Error> {
        let found = self.users.iter().find(|entry| entry.name == name);
        found
            .map(|entry| &entry.user)
            .ok_or_else(|| missing("user", name))
    }
}

// === impl User ===

/// Secrets are not printed.
impl std::fmt::Debug for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("User").finish_non_exhaustive()
    }
}

fn missing(what: &'static str, name: &str) -> Error {
    let name = name.to_owned();
    Error::Missing { what, name }
}

fn replace<T>(entries: &mut Vec<T>, newer: Vec<T>, name: fn(&T) -> &String) {
    for entry in newer {
        match entries.iter_mut().find(|own| name(own) == name(&entry)) {
            Some(own) => *own = entry,
            None => entries.push(entry),
        }
    }
}

/// Some tools write `null` for an empty list.
fn nullable<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::<Vec<T>>::deserialize(deserializer).map(Option::unwrap_or_default)
}

#[cfg(test)]
mod tests;
