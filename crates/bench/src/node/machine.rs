//! [`NodeMachine`]: a containerd, an API server without nodes, and an agent of its own process.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use jiff::Timestamp;
use serde_json::json;
use setpoint_api::Gvr;
use setpoint_api::options::{DeleteOptions, ListOptions};
use setpoint_client::{Client, Kubeconfig};
use setpoint_cni::NetworkOptions;
use setpoint_container_runtime::{
    ContainerConfig, ContainerService, ContainerState, PodIdentity, SandboxConfig, SandboxService,
};
use setpoint_cri::oci::{self, Content, File, Image};
use setpoint_cri::{Containerd, Cri, containerd};
use tempfile::TempDir;

use crate::api::Setting;
use crate::args::NodeArgs;

const IMAGE: &str = "docker.io/library/busybox:bench";
const SCRIPT: [&str; 3] = ["sh", "-c", "trap 'exit 0' TERM; while true; do sleep 1; done"];

/// How often a state is polled, and how many times.
const POLL: Duration = Duration::from_millis(10);
const ATTEMPTS: u32 = 60_000;

/// A machine with a container runtime and an agent.
#[derive(Debug)]
pub(super) struct NodeMachine {
    cri: Cri,
    client: Client,
    server: Child,
    agent: Child,
    cgroup: String,
    _containerd: Containerd,
    directory: TempDir,
}

impl NodeMachine {
    /// Starts everything, and waits until the node is ready.
    pub(super) async fn start(args: &NodeArgs, cgroup: &str) -> Result<Self> {
        let Setting { dir, setpoint, .. } = Setting::single_round(&args.setpoint, &args.dir, false)?;
        let (root, setpoint) = (dir.path().canonicalize()?, setpoint.canonicalize()?);
        let containerd = start_containerd(&setpoint, &root).await?;
        let (server, kubeconfig) = start_server(&setpoint, &root)?;
        let connection = Kubeconfig::load(std::slice::from_ref(&kubeconfig))?.connection(None)?;
        let agent = Command::new(&setpoint)
            .args(["node", "--runtime=cri", "--node-name=n1", "--node-ip=192.0.2.1"])
            .args([
                "--eviction-hard=",
                "--image-gc-high-threshold=100",
                "--kubeconfig",
            ])
            .arg(&kubeconfig)
            .arg("--container-runtime-endpoint")
            .arg(containerd.socket())
            .arg("--node-dir")
            .arg(root.join("node"))
            .arg(format!("--cgroup-root=/{cgroup}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()?;
        let machine = Self {
            cri: Cri::connect(containerd.socket()).await?,
            client: Client::connect(&connection)?,
            server,
            agent,
            cgroup: cgroup.to_owned(),
            _containerd: containerd,
            directory: dir,
        };
        machine
            .wait("the node is ready", async || machine.is_ready().await)
            .await?;
        Ok(machine)
    }

    pub(super) fn agent_id(&self) -> u32 {
        self.agent.id()
    }

    /// Starts a sandbox and its container by calls of the runtime, and removes them. Returns when the container started.
    pub(super) async fn start_bare(&self, name: &str) -> Result<Timestamp> {
        let config = self.sandbox_config(name)?;
        let sandbox = self.cri.run_sandbox(config.clone()).await?;
        let container = ContainerConfig {
            name: "main".to_owned(),
            image: IMAGE.to_owned(),
            command: SCRIPT.map(str::to_owned).to_vec(),
            log_path: "main.log".to_owned(),
            ..ContainerConfig::default()
        };
        let container = self.cri.create_container(&sandbox, container, &config).await?;
        self.cri.start_container(&container).await?;
        let record = self.cri.container(&container).await?;
        let state = record.context("the container exists")?.state;
        self.cri.stop_sandbox(&sandbox).await?;
        self.cri.remove_sandbox(&sandbox).await?;
        match state {
            ContainerState::Running { started_at } => Ok(started_at),
            other => bail!("the container does not run: {other:?}"),
        }
    }

    /// Creates a pod, waits for its container, and deletes it. Returns when the pod was created and when its container
    /// started.
    pub(super) async fn start_pod(&self, name: &str) -> Result<(Timestamp, Timestamp)> {
        let uid = self.create_pod(name).await?;
        let created = Timestamp::now();
        let mut started = None;
        for _ in 0..ATTEMPTS {
            started = self.start_time(&uid).await?;
            if started.is_some() {
                break;
            }
            tokio::time::sleep(POLL).await;
        }
        self.pods().delete(name, DeleteOptions::default()).await?;
        let is_gone = async || Ok(self.pods().get(name).await.is_err());
        self.wait("the pod is deleted", is_gone).await?;
        Ok((created, started.context("the container never started")?))
    }

    /// When the container of a pod was started, by the runtime.
    async fn start_time(&self, uid: &str) -> Result<Option<Timestamp>> {
        let sandboxes = self.cri.list_sandboxes().await?;
        let Some(sandbox) = sandboxes.iter().find(|one| one.pod.uid == uid) else {
            return Ok(None);
        };
        let containers = self.cri.list_containers().await?;
        let Some(container) = containers.iter().find(|one| one.sandbox == sandbox.id) else {
            return Ok(None);
        };
        let record = self.cri.container(&container.id).await?;
        Ok(record.and_then(|record| match record.state {
            ContainerState::Running { started_at } => Some(started_at),
            _ => None,
        }))
    }

    /// Creates a pod that is bound to the node. Returns its uid.
    pub(super) async fn create_pod(&self, name: &str) -> Result<String> {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {
                "nodeName": "n1", "terminationGracePeriodSeconds": 1,
                "containers": [{"name": "main", "image": IMAGE, "command": SCRIPT}],
            },
        });
        let created = self.pods().create(pod.to_string()).await?;
        Ok(created.uid().to_owned())
    }

    /// Waits until so many pods run.
    pub(super) async fn wait_until_running(&self, count: usize) -> Result<()> {
        let is_running = async || {
            let pods = self.pods().list(&ListOptions::default()).await?;
            let running = pods
                .items
                .iter()
                .filter(|pod| pod.field("status.phase") == Some("Running"));
            Ok(running.count() >= count)
        };
        self.wait("all pods run", is_running).await
    }

    fn pods(&self) -> setpoint_client::DynamicApi {
        self.client.dynamic(Gvr::new("", "v1", "pods"), "default")
    }

    /// Whether the node is ready, and the service account of pods exists.
    async fn is_ready(&self) -> Result<bool> {
        let accounts = self
            .client
            .dynamic(Gvr::new("", "v1", "serviceaccounts"), "default");
        let nodes = self.client.dynamic(Gvr::new("", "v1", "nodes"), "");
        let (Ok(_), Ok(node)) = (accounts.get("default").await, nodes.get("n1").await) else {
            return Ok(false);
        };
        let node: serde_json::Value = serde_json::from_slice(node.json())?;
        let mut conditions = node["status"]["conditions"].as_array().into_iter().flatten();
        Ok(conditions.any(|one| one["type"] == "Ready" && one["status"] == "True"))
    }

    async fn wait(&self, what: &str, condition: impl AsyncFn() -> Result<bool>) -> Result<()> {
        for _ in 0..ATTEMPTS {
            if condition().await? {
                return Ok(());
            }
            tokio::time::sleep(POLL).await;
        }
        bail!("never became true: {what}")
    }

    fn sandbox_config(&self, name: &str) -> Result<SandboxConfig> {
        let logs = self.directory.path().canonicalize()?.join("logs").join(name);
        std::fs::create_dir_all(&logs)?;
        Ok(SandboxConfig {
            pod: PodIdentity {
                node: String::new(),
                namespace: "bench".to_owned(),
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
            cgroup_parent: format!("/{}-bare", self.cgroup),
            sysctls: BTreeMap::new(),
            privileged: false,
            run_as_user: None,
            run_as_group: None,
            supplemental_groups: Vec::new(),
            handler: String::new(),
        })
    }
}

impl Drop for NodeMachine {
    fn drop(&mut self) {
        for child in [&mut self.agent, &mut self.server] {
            child.kill().ok();
            child.wait().ok();
        }
    }
}

/// A containerd whose pod network is the program itself.
async fn start_containerd(setpoint: &Path, root: &Path) -> Result<Containerd> {
    let mut options = containerd::Options::new(root.join("containerd"));
    options.cni_plugins = root.join("cni-plugins");
    setpoint_cni::install_plugins(setpoint, &options.cni_plugins)?;
    let network = NetworkOptions {
        subnet: "10.244.0.0/24".to_owned(),
        data_directory: root.join("cni-data"),
        node_address: Some([192, 0, 2, 1].into()),
    };
    setpoint_cni::install_config(&options.directory.join("cni"), &network)?;
    let archive = root.join("busybox.tar");
    std::fs::write(&archive, oci::archive(&[busybox()?]))?;
    let containerd = Containerd::start(&options).await?;
    containerd.import_sandbox_image(&options).await?;
    containerd.import(&archive).await?;
    Ok(containerd)
}

/// An API server without nodes, and its kubeconfig.
fn start_server(setpoint: &Path, root: &Path) -> Result<(Child, PathBuf)> {
    let mut server = Command::new(setpoint)
        .args([
            "up",
            "--memory",
            "--nodes=0",
            "--listen=127.0.0.1:0",
            "--data-dir",
        ])
        .arg(root.join("data"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    BufReader::new(server.stdout.as_mut().context("the output is piped")?).read_line(&mut line)?;
    Ok((server, root.join("data/kubeconfig")))
}

/// An image with a shell.
fn busybox() -> Result<Image> {
    let link = |name: &str| File {
        path: format!("bin/{name}"),
        mode: 0o777,
        content: Content::Link("busybox".to_owned()),
    };
    let program = File {
        path: "bin/busybox".to_owned(),
        mode: 0o755,
        content: Content::Bytes(std::fs::read("/usr/bin/busybox").context("busybox is not installed")?),
    };
    Ok(Image {
        names: vec![IMAGE.to_owned()],
        cmd: vec!["sh".to_owned()],
        files: vec![program, link("sh"), link("sleep")],
        ..Image::default()
    })
}
