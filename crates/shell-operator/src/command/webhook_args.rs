//! Flags of the webhook servers. Names, environment variables and defaults are upstream's.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::Args;

use crate::webhook::{ServerOptions, WebhookOptions};

/// The flags of the webhook servers.
#[derive(Debug, Args)]
pub(super) struct WebhookArgs {
    /// The beginning of the names of the webhook configurations.
    #[arg(
        long,
        env = "VALIDATING_WEBHOOK_CONFIGURATION_NAME",
        default_value = "shell-operator-hooks"
    )]
    validating_webhook_configuration_name: String,
    /// The service of the server of admission reviews.
    #[arg(
        long,
        env = "VALIDATING_WEBHOOK_SERVICE_NAME",
        default_value = "shell-operator-validating-svc"
    )]
    validating_webhook_service_name: String,
    /// Its certificate. If neither it nor its key and CA exist, a certificate is issued.
    #[arg(
        long,
        env = "VALIDATING_WEBHOOK_SERVER_CERT",
        default_value = "/validating-certs/tls.crt"
    )]
    validating_webhook_server_cert: PathBuf,
    /// The key of its certificate.
    #[arg(
        long,
        env = "VALIDATING_WEBHOOK_SERVER_KEY",
        default_value = "/validating-certs/tls.key"
    )]
    validating_webhook_server_key: PathBuf,
    /// The CA of its certificate.
    #[arg(
        long,
        env = "VALIDATING_WEBHOOK_CA",
        default_value = "/validating-certs/ca.crt"
    )]
    validating_webhook_ca: PathBuf,
    /// A CA of client certificates. May be repeated. Without one, clients need no certificate.
    #[arg(long, env = "VALIDATING_WEBHOOK_CLIENT_CA", value_delimiter = ',')]
    validating_webhook_client_ca: Vec<PathBuf>,
    /// The failure policy of webhooks whose hooks set none.
    #[arg(long, env = "VALIDATING_WEBHOOK_FAILURE_POLICY", default_value = "Fail", value_parser = ["Fail", "Ignore"])]
    validating_webhook_failure_policy: String,
    /// The port of the server of admission reviews.
    #[arg(long, env = "VALIDATING_WEBHOOK_LISTEN_PORT", default_value_t = 9680)]
    validating_webhook_listen_port: u16,
    /// The address of the server of admission reviews.
    #[arg(long, env = "VALIDATING_WEBHOOK_LISTEN_ADDRESS", default_value = "0.0.0.0")]
    validating_webhook_listen_address: IpAddr,
    /// The service of the server of conversion reviews.
    #[arg(
        long,
        env = "CONVERSION_WEBHOOK_SERVICE_NAME",
        default_value = "shell-operator-conversion-svc"
    )]
    conversion_webhook_service_name: String,
    /// Its certificate. If neither it nor its key and CA exist, a certificate is issued.
    #[arg(
        long,
        env = "CONVERSION_WEBHOOK_SERVER_CERT",
        default_value = "/conversion-certs/tls.crt"
    )]
    conversion_webhook_server_cert: PathBuf,
    /// The key of its certificate.
    #[arg(
        long,
        env = "CONVERSION_WEBHOOK_SERVER_KEY",
        default_value = "/conversion-certs/tls.key"
    )]
    conversion_webhook_server_key: PathBuf,
    /// The CA of its certificate.
    #[arg(
        long,
        env = "CONVERSION_WEBHOOK_CA",
        default_value = "/conversion-certs/ca.crt"
    )]
    conversion_webhook_ca: PathBuf,
    /// A CA of client certificates. May be repeated. Without one, clients need no certificate.
    #[arg(long, env = "CONVERSION_WEBHOOK_CLIENT_CA", value_delimiter = ',')]
    conversion_webhook_client_ca: Vec<PathBuf>,
    /// The port of the server of conversion reviews.
    #[arg(long, env = "CONVERSION_WEBHOOK_LISTEN_PORT", default_value_t = 9681)]
    conversion_webhook_listen_port: u16,
    /// The address of the server of conversion reviews.
    #[arg(long, env = "CONVERSION_WEBHOOK_LISTEN_ADDRESS", default_value = "0.0.0.0")]
    conversion_webhook_listen_address: IpAddr,
}

impl WebhookArgs {
    pub(super) fn into_options(self, namespace: String) -> WebhookOptions {
        WebhookOptions {
            namespace,
            configuration_name: self.validating_webhook_configuration_name,
            failure_policy: self.validating_webhook_failure_policy,
            admission: ServerOptions {
                service: self.validating_webhook_service_name,
                certificate: self.validating_webhook_server_cert,
                key: self.validating_webhook_server_key,
                authority: self.validating_webhook_ca,
                client_authorities: self.validating_webhook_client_ca,
                listen: SocketAddr::new(
                    self.validating_webhook_listen_address,
                    self.validating_webhook_listen_port,
                ),
            },
            conversion: ServerOptions {
                service: self.conversion_webhook_service_name,
                certificate: self.conversion_webhook_server_cert,
                key: self.conversion_webhook_server_key,
                authority: self.conversion_webhook_ca,
                client_authorities: self.conversion_webhook_client_ca,
                listen: SocketAddr::new(
                    self.conversion_webhook_listen_address,
                    self.conversion_webhook_listen_port,
                ),
            },
        }
    }
}
