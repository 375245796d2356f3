//! [`Connection`]: what a context resolves to: server address, CA, credentials (client-go's `rest.Config`).

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{Cluster, Error, ExecConfig, Kubeconfig, User};

/// Everything needed to connect to a server as a user.
#[derive(Debug, Clone, Default)]
pub struct Connection {
    /// `https://host:port`, with a path if the server is not at the root.
    pub server: String,
    /// The trusted CAs, PEM; without them the server cannot be verified.
    pub authority: Option<Vec<u8>>,
    /// Whether the certificate of the server is not verified.
    pub insecure_skip_tls_verify: bool,
    /// The name to verify, if it differs from the host.
    pub server_name: Option<String>,
    /// The credentials.
    pub identity: Identity,
    /// The user to impersonate.
    pub impersonate: Option<Impersonation>,
    /// The default namespace.
    pub namespace: Option<String>,
    /// The URL of a proxy.
    pub proxy: Option<String>,
}

/// A user to impersonate. The server authorizes it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Impersonation {
    /// The user name.
    pub user: String,
    /// The uid; empty if not set.
    pub uid: String,
    /// The groups.
    pub groups: Vec<String>,
    /// The extra fields of the user.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// The credentials of a user.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Identity {
    /// No credentials.
    #[default]
    Anonymous,
    /// Certificate chain and key, PEM.
    Certificate {
        /// The certificate and its intermediates.
        chain: Vec<u8>,
        /// Its key.
        key: Vec<u8>,
    },
    /// A bearer token.
    Token(String),
    /// A token in a file that is rotated.
    TokenFile(PathBuf),
    /// A name and a password. Kubernetes itself does not accept them any more.
    Basic {
        /// The name.
        username: String,
        /// The password.
        password: String,
    },
    /// A command that prints a token or a certificate.
    Exec(Box<ExecConfig>),
}

/// Where the service account of a pod is mounted.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

impl Connection {
    /// The connection of a pod to its own cluster, by its service account.
    pub fn in_cluster() -> Result<Self, Error> {
        let variable = |name| std::env::var(name).ok();
        let host = variable("KUBERNETES_SERVICE_HOST");
        let port = variable("KUBERNETES_SERVICE_PORT");
        Self::from_service_account(host.as_deref(), port.as_deref(), Path::new(SERVICE_ACCOUNT))
    }

    /// The current context of the kubeconfig that kubectl would use, or, without one, the in-cluster connection.
    pub fn infer() -> Result<Self, Error> {
        let kubeconfig = std::env::var_os("KUBECONFIG");
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let paths = Kubeconfig::paths(kubeconfig.as_deref(), home.as_deref());
        let config = Kubeconfig::load(&paths)?;
        match config.current_context.is_empty() {
            true => Self::in_cluster(),
            false => config.connection(None),
        }
    }

    pub(super) fn from_service_account(
        host: Option<&str>,
        port: Option<&str>,
        account: &Path,
    ) -> Result<Self, Error> {
        let (Some(host), Some(port)) = (host, port) else {
            return Err(Error::NotInCluster);
        };
        let host = match host.contains(':') {
            true => format!("[{host}]"),
            false => host.to_owned(),
        };
        let token = account.join("token");
        read(&token)?;
        let namespace = fs::read_to_string(account.join("namespace"));
        Ok(Self {
            server: format!("https://{host}:{port}"),
            authority: Some(read(&account.join("ca.crt"))?),
            identity: Identity::TokenFile(token),
            namespace: namespace.ok().map(|text| text.trim().to_owned()),
            ..Self::default()
        })
    }
}

impl Kubeconfig {
    /// The connection of this context, or of the current one.
    pub fn connection(&self, context: Option<&str>) -> Result<Connection, Error> {
        let context = self.context(context.unwrap_or(&self.current_context))?;
        let cluster = self.cluster(&context.cluster)?;
        let (identity, impersonate) = match context.user.as_str() {
            "" => (Identity::Anonymous, None),
            user => {
                let user = self.user(user)?;
                (identity(user)?, impersonate(user)?)
            }
        };
        Ok(Connection {
            server: cluster.server.trim_end_matches('/').to_owned(),
            authority: authority(cluster)?,
            insecure_skip_tls_verify: cluster.insecure_skip_tls_verify.unwrap_or(false),
            server_name: cluster.tls_server_name.clone(),
            identity,
            impersonate,
            namespace: context.namespace.clone(),
            proxy: proxy(cluster),
        })
    }
}

/// Secrets are not printed.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Anonymous => "Anonymous",
            Self::Certificate { .. } => "Certificate",
            Self::Token(_) => "Token",
            Self::TokenFile(_) => "TokenFile",
            Self::Basic { .. } => "Basic",
            Self::Exec(_) => "Exec",
        })
    }
}

fn proxy(cluster: &Cluster) -> Option<String> {
    let url = cluster.other.get("proxy-url")?.as_str()?;
    (!url.is_empty()).then(|| url.to_owned())
}

fn authority(cluster: &Cluster) -> Result<Option<Vec<u8>>, Error> {
    let data = cluster.certificate_authority_data.as_deref();
    inline_or_file(
        "certificate-authority-data",
        data,
        cluster.certificate_authority.as_deref(),
    )
}

/// The credentials of the user, by precedence: an exec plugin comes last.
fn identity(user: &User) -> Result<Identity, Error> {
    if let Some(file) = &user.token_file {
        read(file)?;
        return Ok(Identity::TokenFile(file.clone()));
    }
    if let Some(token) = user.token.clone().or_else(|| auth_provider_token(user)) {
        return Ok(Identity::Token(token));
    }
    if let Some(identity) = certificate(user)? {
        return Ok(identity);
    }
    if let (Some(username), password) = (entry(user, "username")?, entry(user, "password")?) {
        let password = password.unwrap_or_default();
        return Ok(Identity::Basic { username, password });
    }
    if let Some(exec) = entry(user, "exec")? {
        return Ok(Identity::Exec(exec));
    }
    match user.other.contains_key("auth-provider") {
        true => Err(Error::Unsupported {
            what: "an auth provider",
        }),
        false => Ok(Identity::Anonymous),
    }
}

fn certificate(user: &User) -> Result<Option<Identity>, Error> {
    let (data, file) = (
        user.client_certificate_data.as_deref(),
        user.client_certificate.as_deref(),
    );
    let chain = inline_or_file("client-certificate-data", data, file)?;
    let key = inline_or_file(
        "client-key-data",
        user.client_key_data.as_deref(),
        user.client_key.as_deref(),
    )?;
    match (chain, key) {
        (Some(chain), Some(key)) => Ok(Some(Identity::Certificate { chain, key })),
        (None, None) => Ok(None),
        _ => {
            let (what, name) = ("client certificate and key for user", String::new());
            Err(Error::Missing { what, name })
        }
    }
}

/// The token that an auth provider has left in the file. It is not refreshed.
fn auth_provider_token(user: &User) -> Option<String> {
    let provider = user.other.get("auth-provider")?;
    let config = provider.get("config")?;
    let token = config.get("id-token").or_else(|| config.get("access-token"))?;
    token.as_str().map(str::to_owned)
}

fn impersonate(user: &User) -> Result<Option<Impersonation>, Error> {
    #[derive(Deserialize, Default)]
    #[serde(transparent)]
    struct Extra(BTreeMap<String, Vec<String>>);
    let Some(name) = entry(user, "as")? else {
        return Ok(None);
    };
    Ok(Some(Impersonation {
        user: name,
        uid: entry(user, "as-uid")?.unwrap_or_default(),
        groups: entry(user, "as-groups")?.unwrap_or_default(),
        extra: entry::<Extra>(user, "as-user-extra")?.unwrap_or_default().0,
    }))
}

/// A user field that is not part of [`User`].
fn entry<T: DeserializeOwned>(user: &User, field: &str) -> Result<Option<T>, Error> {
    let Some(value) = user.other.get(field).filter(|value| !value.is_null()) else {
        return Ok(None);
    };
    let entry = serde_json::from_value(value.clone());
    entry
        .map(Some)
        .map_err(|error| Error::Parse(format!("user's {field}: {error}")))
}

fn inline_or_file(
    what: &'static str,
    inline: Option<&str>,
    file: Option<&Path>,
) -> Result<Option<Vec<u8>>, Error> {
    match (inline.filter(|text| !text.is_empty()), file) {
        (Some(text), _) => STANDARD
            .decode(text)
            .map(Some)
            .map_err(|_| Error::Base64 { what }),
        (None, Some(file)) => read(file).map(Some),
        (None, None) => Ok(None),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(|source| Error::Read {
        path: path.to_owned(),
        source,
    })
}
