//! Flags for authentication, with kube-apiserver's names.

use std::path::PathBuf;
use std::time::Duration;

use clap::ArgAction;

#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct AuthenticationFlags {
    /// Whether requests without credentials are made by the user `system:anonymous`. Always false if AlwaysAllow is in
    /// --authorization-mode [default: true].
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub anonymous_auth: Option<bool>,
    /// The file that configures JWT authenticators and anonymous requests, an AuthenticationConfiguration. Its JWT
    /// authenticators are read again when it changes.
    #[arg(long, value_name = "PATH")]
    pub authentication_config: Option<PathBuf>,
    /// The CA bundle that verifies client certificates besides the cluster's own CA, PEM.
    #[arg(long, value_name = "PATH")]
    pub client_ca_file: Option<PathBuf>,
    /// The kubeconfig file of the webhook that authenticates bearer tokens.
    #[arg(long, value_name = "PATH")]
    pub authentication_token_webhook_config_file: Option<PathBuf>,
    /// The API version of the TokenReviews that are sent to the webhook: v1 or v1beta1.
    #[arg(long, value_name = "VERSION", default_value = "v1beta1")]
    pub authentication_token_webhook_version: String,
    /// How long to cache responses of the webhook.
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = super::duration)]
    pub authentication_token_webhook_cache_ttl: Duration,
    #[command(flatten)]
    pub oidc: OidcFlags,
    #[command(flatten)]
    pub request_header: RequestHeaderFlags,
}

/// Flags of the OpenID provider.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct OidcFlags {
    /// The URL of the OpenID issuer, of the scheme https.
    #[arg(
        long,
        value_name = "URL",
        requires = "oidc_client_id",
        conflicts_with = "authentication_config"
    )]
    pub oidc_issuer_url: Option<String>,
    /// The client ID, which tokens must have as an audience.
    #[arg(long, value_name = "ID", requires = "oidc_issuer_url")]
    pub oidc_client_id: Option<String>,
    /// The CA bundle that verifies the OpenID provider, PEM [default: the CAs of the machine].
    #[arg(long, value_name = "PATH", requires = "oidc_issuer_url")]
    pub oidc_ca_file: Option<PathBuf>,
    /// The claim with the user name.
    #[arg(long, value_name = "CLAIM", default_value = "sub")]
    pub oidc_username_claim: String,
    /// The prefix of user names; `-` for none [default: the issuer URL and `#`, none for the claim email].
    #[arg(
        long,
        value_name = "PREFIX",
        requires = "oidc_issuer_url",
        allow_hyphen_values = true
    )]
    pub oidc_username_prefix: Option<String>,
    /// The claim with the user's groups, a string or a list of strings.
    #[arg(long, value_name = "CLAIM", requires = "oidc_issuer_url")]
    pub oidc_groups_claim: Option<String>,
    /// The prefix of groups.
    #[arg(
        long,
        value_name = "PREFIX",
        requires = "oidc_issuer_url",
        allow_hyphen_values = true
    )]
    pub oidc_groups_prefix: Option<String>,
    /// The signature algorithms that are accepted: RS256, RS384, RS512, ES256, ES384, PS256, PS384, PS512.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "RS256")]
    pub oidc_signing_algs: Vec<String>,
    /// A claim that tokens must have, and its value. May be repeated.
    #[arg(
        long,
        value_name = "KEY=VALUE",
        requires = "oidc_issuer_url",
        value_parser = key_value,
        action = ArgAction::Append
    )]
    pub oidc_required_claim: Vec<(String, String)>,
}

/// Flags of the authenticating proxy, whose requests name the user in headers.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct RequestHeaderFlags {
    /// The CA bundle that verifies the client certificate of an authenticating proxy, PEM. Its requests name the user in
    /// headers.
    #[arg(long, value_name = "PATH")]
    pub requestheader_client_ca_file: Option<PathBuf>,
    /// The common names of the proxy's client certificate that are accepted; all if there are none.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub requestheader_allowed_names: Vec<String>,
    /// The headers with the user name, such as X-Remote-User.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub requestheader_username_headers: Vec<String>,
    /// The headers with the user's UID, such as X-Remote-Uid.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub requestheader_uid_headers: Vec<String>,
    /// The headers with the user's groups, such as X-Remote-Group.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub requestheader_group_headers: Vec<String>,
    /// The prefixes of the headers with the user's extra fields, such as X-Remote-Extra-.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub requestheader_extra_headers_prefix: Vec<String>,
}

/// Parses `key=value`.
fn key_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text
        .split_once('=')
        .ok_or_else(|| format!("invalid claim {text:?}: expected KEY=VALUE"))?;
    Ok((key.to_owned(), value.to_owned()))
}
