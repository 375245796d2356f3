//! Flags for connections to aggregated API servers, with kube-apiserver's names.

use std::path::PathBuf;

#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct AggregationFlags {
    /// The client certificate for aggregated API servers, PEM. They trust its CA by --requestheader-client-ca-file
    /// [default: a certificate of the cluster's front-proxy CA].
    #[arg(long, value_name = "PATH", requires = "proxy_client_key_file")]
    pub proxy_client_cert_file: Option<PathBuf>,
    /// The key of the client certificate for aggregated API servers, PEM.
    #[arg(long, value_name = "PATH", requires = "proxy_client_cert_file")]
    pub proxy_client_key_file: Option<PathBuf>,
}
