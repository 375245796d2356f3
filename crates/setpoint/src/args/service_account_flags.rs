//! Flags for service account tokens, with kube-apiserver's names.

use std::path::PathBuf;
use std::time::Duration;

use clap::ArgAction;

#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct ServiceAccountFlags {
    /// The issuer of service account tokens. May be repeated: the first issues tokens, those of all are accepted
    /// [default: `https://kubernetes.default.svc`].
    #[arg(long, value_name = "URL", action = ArgAction::Append)]
    pub service_account_issuer: Vec<String>,
    /// A file with keys that verify service account tokens besides the signing key, PEM. May be repeated.
    #[arg(long, value_name = "PATH", action = ArgAction::Append)]
    pub service_account_key_file: Vec<PathBuf>,
    /// The file with the private key that signs service account tokens, PEM [default: a key in the data directory].
    #[arg(long, value_name = "PATH")]
    pub service_account_signing_key_file: Option<PathBuf>,
    /// Whether legacy tokens are valid only while their Secret and service account exist.
    #[arg(
        long,
        value_name = "BOOL",
        action = ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_value_t = true,
        default_missing_value = "true"
    )]
    pub service_account_lookup: bool,
    /// Whether projected tokens of pods are valid for a year, so that programs that read them once keep working.
    #[arg(
        long,
        value_name = "BOOL",
        action = ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_value_t = true,
        default_missing_value = "true"
    )]
    pub service_account_extend_token_expiration: bool,
    /// The longest validity of a token that a TokenRequest may set, at least 1h [default: none].
    #[arg(long, value_name = "DURATION", value_parser = super::duration)]
    pub service_account_max_token_expiration: Option<Duration>,
    /// The URL of the keys in the discovery document at /.well-known/openid-configuration [default: this server's].
    #[arg(long, value_name = "URL")]
    pub service_account_jwks_uri: Option<String>,
    /// Identifiers of the API, one of which must be among a token's audiences [default: the issuers].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub api_audiences: Vec<String>,
}
