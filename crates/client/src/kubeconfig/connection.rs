//! What a context comes down to: where to connect, whom to trust, what to show.

use std::fmt;
use std::fs;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::{Cluster, Error, Kubeconfig, User};

/// All that is needed to reach a server as somebody.
#[derive(Debug, Clone, Default)]
pub struct Connection {
    /// `https://host:port`, with a path if the server is not at the root.
    pub server: String,
    /// The authorities to trust, PEM; without them the server cannot be verified.
    pub authority: Option<Vec<u8>>,
    pub insecure_skip_tls_verify: bool,
    /// The name to verify, where it is not the host's.
    pub server_name: Option<String>,
    pub identity: Identity,
    pub namespace: Option<String>,
}

/// What proves who one is.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Identity {
    #[default]
    Anonymous,
    /// Certificate chain and key, PEM.
    Certificate {
        chain: Vec<u8>,
        key: Vec<u8>,
    },
    Token(String),
}

impl Kubeconfig {
    /// The connection of a context, or of the current one.
    pub fn connection(&self, context: Option<&str>) -> Result<Connection, Error> {
        let context = self.context(context.unwrap_or(&self.current_context))?;
        let cluster = self.cluster(&context.cluster)?;
        let identity = match context.user.as_str() {
            "" => Identity::Anonymous,
            user => identity(self.user(user)?)?,
        };
        Ok(Connection {
            server: cluster.server.trim_end_matches('/').to_owned(),
            authority: authority(cluster)?,
            insecure_skip_tls_verify: cluster.insecure_skip_tls_verify.unwrap_or(false),
            server_name: cluster.tls_server_name.clone(),
            identity,
            namespace: context.namespace.clone(),
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
        })
    }
}

fn authority(cluster: &Cluster) -> Result<Option<Vec<u8>>, Error> {
    let data = cluster.certificate_authority_data.as_deref();
    inline_or_file(
        "certificate-authority-data",
        data,
        cluster.certificate_authority.as_deref(),
    )
}

fn identity(user: &User) -> Result<Identity, Error> {
    if let Some(what) = unsupported(user) {
        return Err(Error::Unsupported { what });
    }
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
    let token = match (&user.token, &user.token_file) {
        (Some(token), _) => Some(token.clone()),
        (None, Some(file)) => Some(String::from_utf8_lossy(&read(file)?).trim().to_owned()),
        (None, None) => None,
    };
    Ok(match (token, chain, key) {
        (Some(token), ..) => Identity::Token(token),
        (None, Some(chain), Some(key)) => Identity::Certificate { chain, key },
        (None, None, None) => Identity::Anonymous,
        _ => {
            let (what, name) = ("client certificate and key for user", String::new());
            return Err(Error::Missing { what, name });
        }
    })
}

/// A way to prove oneself that we cannot follow; going on as nobody would only give a riddle later.
fn unsupported(user: &User) -> Option<&'static str> {
    let ways = [
        ("exec", "an exec plugin"),
        ("auth-provider", "an auth provider"),
        ("username", "a password"),
    ];
    ways.into_iter()
        .find(|(field, _)| user.other.contains_key(*field))
        .map(|(_, what)| what)
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
