//! A private containerd: for machines that have the program but no service, and for tests.
//!
//! Everything that two instances could share is in one directory: state, images, socket, runc's state, CNI
//! configuration. Containers survive the daemon; a new one adopts them.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::{Child, Command};

use crate::oci;

/// How often the socket is tried while containerd starts.
const START_POLL: Duration = Duration::from_millis(20);

/// How long containerd may take to start.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// A containerd process of our own. It is killed when this is dropped; its containers go on.
#[derive(Debug)]
pub struct Containerd {
    directory: PathBuf,
    child: Child,
}

/// The settings of a private containerd.
#[derive(Debug, Clone)]
pub struct Options {
    /// The directory of everything.
    pub directory: PathBuf,
    /// The image of sandboxes.
    pub sandbox_image: String,
    /// The directory of CNI plugins.
    pub cni_plugins: PathBuf,
    /// The path of runc.
    pub runc: PathBuf,
}

impl Options {
    /// The settings for a directory, with the paths of Debian's packages.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            sandbox_image: "registry.k8s.io/pause:3.10.2".to_owned(),
            cni_plugins: "/usr/lib/cni".into(),
            runc: "/usr/sbin/runc".into(),
        }
    }

    fn path(&self, name: &str) -> String {
        self.directory.join(name).display().to_string()
    }

    /// `config.toml` of containerd 1.6 and later.
    fn config(&self) -> String {
        let path = |name| self.path(name);
        let cri = r#"plugins."io.containerd.grpc.v1.cri""#;
        format!(
            r#"version = 2
root = "{root}"
state = "{state}"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper"]
[grpc]
  address = "{socket}"
[plugins."io.containerd.internal.v1.opt"]
  path = "{opt}"
[{cri}]
  sandbox_image = "{image}"
  netns_mounts_under_state_dir = true
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
  disable_apparmor = true
  enable_unprivileged_ports = true
  enable_unprivileged_icmp = true
  restrict_oom_score_adj = true
  [{cri}.containerd]
    default_runtime_name = "runc"
    [{cri}.containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [{cri}.containerd.runtimes.runc.options]
        BinaryName = "{runc}"
        Root = "{runc_root}"
        SystemdCgroup = false
  [{cri}.cni]
    bin_dir = "{plugins}"
    conf_dir = "{cni}"
  [{cri}.registry]
    config_path = "{certs}"
"#,
            root = path("root"),
            state = path("state"),
            socket = path("containerd.sock"),
            opt = path("opt"),
            image = self.sandbox_image,
            runc = self.runc.display(),
            runc_root = path("runc"),
            plugins = self.cni_plugins.display(),
            cni = path("cni"),
            certs = path("certs.d"),
        )
    }
}

impl Containerd {
    /// Writes the configuration, starts containerd and waits until its socket accepts connections.
    pub async fn start(options: &Options) -> io::Result<Self> {
        for name in ["cni", "certs.d"] {
            tokio::fs::create_dir_all(options.directory.join(name)).await?;
        }
        let config = options.directory.join("config.toml");
        tokio::fs::write(&config, options.config()).await?;
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(options.directory.join("containerd.log"))?;
        let child = Command::new("containerd")
            .arg("--config")
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true)
            .spawn()?;
        let mut started = Self {
            directory: options.directory.clone(),
            child,
        };
        match tokio::time::timeout(START_TIMEOUT, started.wait_for_socket()).await {
            Ok(ready) => ready.map(|()| started),
            Err(_) => Err(io::Error::other("containerd did not open its socket in time")),
        }
    }

    /// Its socket.
    pub fn socket(&self) -> PathBuf {
        self.directory.join("containerd.sock")
    }

    /// The directory whose CNI configuration it reads.
    pub fn cni_directory(&self) -> PathBuf {
        self.directory.join("cni")
    }

    /// Imports an image from an OCI archive into the images that pods use.
    pub async fn import(&self, archive: &Path) -> io::Result<()> {
        let output = Command::new("ctr")
            .args(["--address", &self.socket().display().to_string()])
            .args(["--namespace", "k8s.io", "images", "import"])
            .arg(archive)
            .output()
            .await?;
        match output.status.success() {
            true => Ok(()),
            false => Err(io::Error::other(
                String::from_utf8_lossy(&output.stderr).into_owned(),
            )),
        }
    }

    /// Imports the sandbox image that this crate writes, so that no registry is needed. On machines that it has no program
    /// for, the image comes from its registry.
    pub async fn import_sandbox_image(&self, options: &Options) -> io::Result<()> {
        let Some(image) = oci::pause_image(&options.sandbox_image) else {
            return Ok(());
        };
        let archive = self.directory.join("pause.tar");
        tokio::fs::write(&archive, oci::archive(&[image])).await?;
        self.import(&archive).await
    }

    /// Kills the daemon. Containers go on; [`Containerd::start`] with the same directory adopts them.
    pub async fn kill(&mut self) -> io::Result<()> {
        self.child.kill().await
    }

    /// Waits until it exits by itself.
    pub async fn wait(&mut self) -> io::Result<std::process::ExitStatus> {
        self.child.wait().await
    }

    async fn wait_for_socket(&mut self) -> io::Result<()> {
        let socket = self.socket();
        while tokio::net::UnixStream::connect(&socket).await.is_err() {
            if let Some(status) = self.child.try_wait()? {
                return Err(io::Error::other(format!("containerd ended with {status}")));
            }
            tokio::time::sleep(START_POLL).await;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_instances_could_share_is_in_the_directory() {
        let config = Options::new("/node").config();
        for name in [
            "root",
            "state",
            "containerd.sock",
            "opt",
            "runc",
            "cni",
            "certs.d",
        ] {
            assert!(config.contains(&format!("\"/node/{name}\"")), "{name}");
        }
    }
}
