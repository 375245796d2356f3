//! Flags for connections to kubelets, with kube-apiserver's names.

use std::path::PathBuf;

#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct KubeletFlags {
    /// The CA bundle that verifies the serving certificates of kubelets, PEM. Without it they are not verified.
    #[arg(long, value_name = "PATH")]
    pub kubelet_certificate_authority: Option<PathBuf>,
    /// The client certificate for kubelets, PEM. Without it none is presented.
    #[arg(long, value_name = "PATH", requires = "kubelet_client_key")]
    pub kubelet_client_certificate: Option<PathBuf>,
    /// The key of the client certificate for kubelets, PEM.
    #[arg(long, value_name = "PATH", requires = "kubelet_client_certificate")]
    pub kubelet_client_key: Option<PathBuf>,
    /// The types of addresses by which kubelets are reached, the preferred first.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        value_parser = ["Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP"],
        default_value = "InternalIP,ExternalIP,InternalDNS,ExternalDNS,Hostname"
    )]
    pub kubelet_preferred_address_types: Vec<String>,
}
