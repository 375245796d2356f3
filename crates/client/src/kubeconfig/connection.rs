//! What a context comes down to: where to connect, whom to trust, what to show.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{Cluster, Error, Exec, Kubeconfig, User};

/// All that is needed to reach a server as somebody.
#[derive(Debug, Clone, Default)]
pub struct Connection {
    /// `https://host:port`, with a path if the server is not at the root.
    pub server: String,
    /// The authorities to trust, PEM; without them the server cannot be verified.
    pub authority: Option<Vec<u8>>,
    /// Whether anyone may answer for the server.
    pub insecure_skip_tls_verify: bool,
    /// The name to verify, where it is not the host's.
    pub server_name: Option<String>,
    /// What to show.
    pub identity: Identity,
    /// On whose behalf to ask, if not on one's own.
    pub impersonate: Option<Impersonate>,
    /// The namespace to work in where none is named.
    pub namespace: Option<String>,
    /// The URL of the proxy to go through.
    pub proxy: Option<String>,
}

/// Somebody else to ask as. The server decides whether one may.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Impersonate {
    /// Their name.
    pub user: String,
    /// Their uid, if it matters.
    pub uid: String,
    /// The groups to be taken for a member of.
    pub groups: Vec<String>,
    /// What else is to be believed of them.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// What proves who one is.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Identity {
    /// Nothing.
    #[default]
    Anonymous,
    /// Certificate chain and key, PEM.
    Certificate {
        /// The certificate, and those who vouch for it.
        chain: Vec<u8>,
        /// Its key.
        key: Vec<u8>,
    },
    /// A bearer token.
    Token(String),
    /// A token in a file that somebody keeps current.
    TokenFile(PathBuf),
    /// A name and a password. Kubernetes itself takes none any more.
    Basic {
        /// The name.
        username: String,
        /// The password.
        password: String,
    },
    /// A command that prints a token or a certificate.
    Exec(Box<Exec>),
}

/// Where a pod finds what proves who it is.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

impl Connection {
    /// The connection of a pod to the server of its own cluster.
    pub fn in_cluster() -> Result<Self, Error> {
        let variable = |name| std::env::var(name).ok();
        let host = variable("KUBERNETES_SERVICE_HOST");
        let port = variable("KUBERNETES_SERVICE_PORT");
        Self::of_pod(host.as_deref(), port.as_deref(), Path::new(SERVICE_ACCOUNT))
    }

    /// The current context of the kubeconfig that kubectl would use, or, where there is none, that of a pod.
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

    pub(super) fn of_pod(host: Option<&str>, port: Option<&str>, account: &Path) -> Result<Self, Error> {
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
    /// The connection of a context, or of the current one.
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

/// Secrets do not show.
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

/// What the user shows. Of several ways the first here counts: a plugin is for those who have no other.
fn identity(user: &User) -> Result<Identity, Error> {
    if let Some(file) = &user.token_file {
        read(file)?;
        return Ok(Identity::TokenFile(file.clone()));
    }
    if let Some(token) = user.token.clone().or_else(|| provided_token(user)) {
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

/// The token that a former way of signing in has left in the file. Nobody renews it here.
fn provided_token(user: &User) -> Option<String> {
    let provider = user.other.get("auth-provider")?;
    let config = provider.get("config")?;
    let token = config.get("id-token").or_else(|| config.get("access-token"))?;
    token.as_str().map(str::to_owned)
}

fn impersonate(user: &User) -> Result<Option<Impersonate>, Error> {
    #[derive(Deserialize, Default)]
    #[serde(transparent)]
    struct Extra(BTreeMap<String, Vec<String>>);
    let Some(name) = entry(user, "as")? else {
        return Ok(None);
    };
    Ok(Some(Impersonate {
        user: name,
        uid: entry(user, "as-uid")?.unwrap_or_default(),
        groups: entry(user, "as-groups")?.unwrap_or_default(),
        extra: entry::<Extra>(user, "as-user-extra")?.unwrap_or_default().0,
    }))
}

/// A field of the user that this program does not write itself.
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
