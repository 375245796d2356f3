//! Flags for authorization, with kube-apiserver's names.

use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct AuthorizationFlags {
    /// Ordered list of authorizers: AlwaysAllow, AlwaysDeny, Node, RBAC, Webhook [default: Node,RBAC].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub authorization_mode: Vec<String>,
    /// The kubeconfig file of the webhook, with --authorization-mode=Webhook.
    #[arg(long, value_name = "PATH")]
    pub authorization_webhook_config_file: Option<PathBuf>,
    /// The API version of the SubjectAccessReviews that are sent to the webhook: v1 or v1beta1 [default: v1beta1].
    #[arg(long, value_name = "VERSION")]
    pub authorization_webhook_version: Option<String>,
    /// How long to cache responses of the webhook that allow a request [default: 5m].
    #[arg(long, value_name = "DURATION", value_parser = super::duration)]
    pub authorization_webhook_cache_authorized_ttl: Option<Duration>,
    /// How long to cache responses of the webhook that do not allow a request [default: 30s].
    #[arg(long, value_name = "DURATION", value_parser = super::duration)]
    pub authorization_webhook_cache_unauthorized_ttl: Option<Duration>,
    /// The file with the ordered list of authorizers, an AuthorizationConfiguration. It is read again when it changes.
    #[arg(
        long,
        value_name = "PATH",
        conflicts_with_all = [
            "authorization_mode",
            "authorization_webhook_config_file",
            "authorization_webhook_version",
            "authorization_webhook_cache_authorized_ttl",
            "authorization_webhook_cache_unauthorized_ttl",
        ]
    )]
    pub authorization_config: Option<PathBuf>,
}
