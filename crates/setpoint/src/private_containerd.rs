//! A private containerd for `--start-containerd`, with this program as its CNI plugin.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use setpoint_cni::NetworkOptions;
use setpoint_cri::{Containerd, containerd};
use setpoint_runtime::Error;
use tokio_util::sync::CancellationToken;

use crate::args::NodeFlags;

/// How long to wait before a containerd that ended is started again.
const RESTART_DELAY: Duration = Duration::from_secs(1);

/// The socket of the private containerd.
pub(crate) fn socket(flags: &NodeFlags) -> PathBuf {
    directory(flags).join("containerd.sock")
}

/// Runs containerd until stopped, and starts it again whenever it ends. Its containers go on without it.
pub(crate) async fn run(flags: NodeFlags, stop: CancellationToken) -> Result<(), Error> {
    loop {
        match start(&flags).await {
            Ok(mut containerd) => tokio::select! {
                () = stop.cancelled() => return Ok(()),
                ended = containerd.wait() => tracing::warn!(?ended, "containerd ended"),
            },
            Err(error) => tracing::warn!(%error, "cannot start containerd"),
        }
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = tokio::time::sleep(RESTART_DELAY) => {}
        }
    }
}

async fn start(flags: &NodeFlags) -> io::Result<Containerd> {
    let mut options = containerd::Options::new(directory(flags));
    options.cni_plugins = flags.node_dir.join("cni-plugins");
    setpoint_cni::install_plugins(&std::env::current_exe()?, &options.cni_plugins)?;
    let network = NetworkOptions {
        subnet: flags.pod_cidr.clone(),
        data_directory: flags.node_dir.join("cni"),
        node_address: flags.node_ip,
    };
    setpoint_cni::install_config(&options.directory.join("cni"), &network)?;
    let containerd = Containerd::start(&options).await?;
    containerd.import_sandbox_image(&options).await?;
    Ok(containerd)
}

fn directory(flags: &NodeFlags) -> PathBuf {
    flags.node_dir.join("containerd")
}
