//! Flags for encryption at rest, with kube-apiserver's names.

use std::path::PathBuf;

#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Encryption at rest")]
pub(crate) struct EncryptionFlags {
    /// The file with the providers that encrypt stored objects, an EncryptionConfiguration.
    #[arg(long, value_name = "PATH")]
    pub encryption_provider_config: Option<PathBuf>,
    /// Whether to read --encryption-provider-config again when it changes.
    #[arg(
        long,
        value_name = "BOOL",
        default_value_t = false,
        default_missing_value = "true",
        num_args = 0..=1,
        require_equals = true,
        action = clap::ArgAction::Set,
        requires = "encryption_provider_config"
    )]
    pub encryption_provider_config_automatic_reload: bool,
}
