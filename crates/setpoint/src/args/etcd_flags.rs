//! Flags for a store on etcd, with kube-apiserver's names.

use std::path::PathBuf;
use std::time::Duration;

use super::etcd_override::EtcdOverride;

#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "etcd")]
pub(crate) struct EtcdFlags {
    /// List of etcd servers to connect with (scheme://ip:port), comma separated. Objects are stored there instead of in
    /// the data directory, and other servers may share them.
    #[arg(long, value_name = "URLS", value_delimiter = ',', conflicts_with_all = ["memory", "unsafe_no_fsync"])]
    pub etcd_servers: Vec<String>,
    /// Per-resource etcd servers overrides, comma separated. The individual override format: group/resource#servers, where
    /// servers are URLs, semicolon separated. Note that this applies only to resources compiled into this server binary.
    #[arg(
        long,
        value_name = "OVERRIDES",
        value_delimiter = ',',
        requires = "etcd_servers"
    )]
    pub etcd_servers_overrides: Vec<EtcdOverride>,
    /// The prefix to prepend to all resource paths in etcd.
    #[arg(
        long,
        value_name = "PREFIX",
        default_value = "/registry",
        requires = "etcd_servers"
    )]
    pub etcd_prefix: String,
    /// SSL Certificate Authority file used to secure etcd communication.
    #[arg(long, value_name = "FILE", requires = "etcd_servers")]
    pub etcd_cafile: Option<PathBuf>,
    /// SSL certification file used to secure etcd communication.
    #[arg(long, value_name = "FILE", requires_all = ["etcd_servers", "etcd_keyfile"])]
    pub etcd_certfile: Option<PathBuf>,
    /// SSL key file used to secure etcd communication.
    #[arg(long, value_name = "FILE", requires_all = ["etcd_servers", "etcd_certfile"])]
    pub etcd_keyfile: Option<PathBuf>,
    /// The user of etcd, if it has authentication enabled. kube-apiserver has no such flag.
    #[arg(long, value_name = "NAME", requires_all = ["etcd_servers", "etcd_password_file"])]
    pub etcd_user: Option<String>,
    /// The file with the password of that user. A line break at its end is not part of it.
    #[arg(long, value_name = "FILE", requires_all = ["etcd_servers", "etcd_user"])]
    pub etcd_password_file: Option<PathBuf>,
    /// The interval of compaction requests. If 0, the compaction request from apiserver is disabled.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = super::duration, requires = "etcd_servers")]
    pub etcd_compaction_interval: Duration,
}

impl EtcdFlags {
    /// Whether objects are stored in etcd.
    pub(crate) fn is_enabled(&self) -> bool {
        !self.etcd_servers.is_empty()
    }
}
