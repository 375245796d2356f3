//! A private containerd in namespaces of its own, with an image of busybox.
//!
//! Every test runs again as process 1 of new mount, network and process namespaces: whatever it leaves behind ends with
//! it. Only cgroups are outside; they are removed by the outer process.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use setpoint_container_runtime::{
    ContainerConfig, ContainerId, ContainerRecord, ContainerService, ContainerState, ExitStatus, PodIdentity,
    Runtime, SandboxConfig, SandboxId, SandboxService,
};
use setpoint_cri::oci::{self, Content, File, Image};
use setpoint_cri::{Containerd, Cri, containerd};
use tempfile::TempDir;

/// Set in the inner process.
const INSIDE: &str = "SETPOINT_TEST_CGROUP";

/// How long a test waits for the runtime.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) const BUSYBOX: &str = "docker.io/library/busybox:1.35";

const SETUP: &str = "mount -t tmpfs t /run && mkdir -p /var/lib/cni && mount -t tmpfs t /var/lib/cni \
    && ip link set lo up && exec \"$0\" \"$@\"";

pub(crate) struct Rig {
    pub(crate) cri: Cri,
    pub(crate) containerd: Containerd,
    pub(crate) options: containerd::Options,
    pub(crate) directory: TempDir,
}

/// Runs a scenario in namespaces of its own; skips it without containerd, with the reason.
pub(crate) fn isolated<F: Future<Output = ()>>(name: &str, scenario: impl FnOnce(Rig) -> F) {
    if std::env::var_os(INSIDE).is_some() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        return runtime.block_on(async { scenario(Rig::start().await).await });
    }
    if let Some(reason) = reason_to_skip() {
        eprintln!("skipped: {reason}");
        return;
    }
    let cgroup = format!("setpoint-{}-{name}", std::process::id());
    let status = Command::new("unshare")
        .args([
            "-m",
            "-n",
            "-p",
            "-f",
            "--mount-proc",
            "--propagation",
            "shared",
            "sh",
            "-c",
            SETUP,
        ])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(INSIDE, &cgroup)
        .status()
        .unwrap();
    let remove = format!("find /sys/fs/cgroup -depth -type d -path '*/{cgroup}*' -exec rmdir {{}} +");
    Command::new("sh").args(["-c", &remove]).status().unwrap();
    assert!(status.success(), "the test failed inside its namespaces");
}

fn reason_to_skip() -> Option<&'static str> {
    if std::env::var_os("SETPOINT_CONTAINERD").is_none_or(|path| path.is_empty()) {
        return Some("SETPOINT_CONTAINERD names no containerd");
    }
    if !Path::new("/usr/lib/cni/bridge").exists() || !Path::new("/usr/bin/busybox").exists() {
        return Some("the CNI plugins or busybox are not installed");
    }
    (!rustix::process::geteuid().is_root()).then_some("only root can start containerd")
}

impl Rig {
    async fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let options = containerd::Options::new(directory.path().join("containerd"));
        let containerd = Containerd::start(&options).await.unwrap();
        std::fs::write(containerd.cni_directory().join("10-pods.conflist"), CONFLIST).unwrap();
        let archive = directory.path().join("images.tar");
        containerd.import_sandbox_image(&options).await.unwrap();
        std::fs::write(&archive, oci::archive(&[busybox()])).unwrap();
        containerd.import(&archive).await.unwrap();
        let cri = Cri::connect(containerd.socket()).await.unwrap();
        let rig = Self {
            cri,
            containerd,
            options,
            directory,
        };
        rig.until(async || rig.cri.status().await.unwrap().network_not_ready.is_none())
            .await;
        rig
    }

    /// Polls a condition, which the runtime reaches without an event.
    pub(crate) async fn until(&self, condition: impl AsyncFn() -> bool) {
        let reached = async {
            while !condition().await {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(PATIENCE, reached).await.unwrap();
    }

    pub(crate) fn sandbox_config(&self, name: &str) -> SandboxConfig {
        let logs = self.directory.path().join("logs").join(name);
        std::fs::create_dir_all(&logs).unwrap();
        SandboxConfig {
            pod: PodIdentity {
                node: String::new(),
                namespace: "default".to_owned(),
                name: name.to_owned(),
                uid: format!("uid-{name}"),
            },
            attempt: 0,
            hostname: name.to_owned(),
            log_directory: logs.display().to_string(),
            dns: None,
            port_mappings: Vec::new(),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            namespaces: Default::default(),
            cgroup_parent: format!("/{}", std::env::var(INSIDE).unwrap()),
            sysctls: BTreeMap::new(),
            privileged: false,
            run_as_user: None,
            run_as_group: None,
            supplemental_groups: Vec::new(),
            handler: String::new(),
        }
    }

    /// Runs a pod with one container, whose command is a shell script.
    pub(crate) async fn run(&self, name: &str, script: &str) -> (SandboxId, ContainerId) {
        self.run_config(name, Self::container_config(script)).await
    }

    pub(crate) fn container_config(script: &str) -> ContainerConfig {
        ContainerConfig {
            name: "main".to_owned(),
            image: BUSYBOX.to_owned(),
            command: ["sh", "-c", script].map(str::to_owned).to_vec(),
            log_path: "main.log".to_owned(),
            ..ContainerConfig::default()
        }
    }

    pub(crate) async fn run_config(&self, name: &str, config: ContainerConfig) -> (SandboxId, ContainerId) {
        let sandbox_config = self.sandbox_config(name);
        let sandbox = self.cri.run_sandbox(sandbox_config.clone()).await.unwrap();
        let container = self
            .cri
            .create_container(&sandbox, config, &sandbox_config)
            .await
            .unwrap();
        self.cri.start_container(&container).await.unwrap();
        (sandbox, container)
    }

    pub(crate) async fn container(&self, id: &ContainerId) -> ContainerRecord {
        self.cri.container(id).await.unwrap().unwrap()
    }

    /// Waits for the events of this pod until its container has exited.
    pub(crate) async fn exit(&self, id: &ContainerId) -> ExitStatus {
        let mut events = self.cri.subscribe();
        let ended = async {
            loop {
                if let ContainerState::Exited(exit) = self.container(id).await.state {
                    return exit;
                }
                events.recv().await.ok();
            }
        };
        tokio::time::timeout(PATIENCE, ended).await.unwrap()
    }
}

const CONFLIST: &str = r#"{ "cniVersion": "1.0.0", "name": "pods", "plugins": [
  { "type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false,
    "ipam": { "type": "host-local", "ranges": [[ { "subnet": "10.244.0.0/24" } ]] } } ] }"#;

fn busybox() -> Image {
    let directory = |path: &str, mode| File {
        path: path.to_owned(),
        mode,
        content: Content::Directory,
    };
    let mut files = vec![
        directory("bin", 0o755),
        directory("etc", 0o755),
        directory("tmp", 0o1777),
        File {
            path: "bin/busybox".to_owned(),
            mode: 0o755,
            content: Content::Bytes(std::fs::read("/usr/bin/busybox").unwrap()),
        },
    ];
    files.extend(
        ["sh", "cat", "sleep", "nc", "echo", "true", "tail"].map(|name| File {
            path: format!("bin/{name}"),
            mode: 0o777,
            content: Content::Link("busybox".to_owned()),
        }),
    );
    Image {
        names: vec![BUSYBOX.to_owned()],
        cmd: vec!["sh".to_owned()],
        files,
        ..Image::default()
    }
}
