//! `manager`: runs the engine.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use super::Settings;
use crate::engine::manager::{self, Config};

/// The flags of `manager`.
#[derive(Debug, Args)]
pub struct ManagerArgs {
    /// The address of the admission webhook, at which the API server must reach this process. Port 0 selects a free port.
    #[arg(long, default_value = "127.0.0.1:0")]
    webhook_listen: SocketAddr,
    /// The directory of the webhook's certificate, tls.crt and tls.key. The webhook is then not registered with the API
    /// server. Without the flag a certificate is issued, and the webhook is registered.
    #[arg(long, env = "KUDO_CERT_DIR")]
    cert_dir: Option<PathBuf>,
}

pub(super) async fn run(args: ManagerArgs, settings: &Settings) -> Result<()> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let config = Config {
        listen: args.webhook_listen,
        cert_dir: args.cert_dir,
    };
    let connection = settings.connection()?;
    println!("running the plan engine of KUDO against {}", connection.server);
    manager::run(&connection, config).await
}
