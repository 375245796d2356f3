//! A cluster whose node runs real containers: `setpoint up` on a private containerd, in namespaces of its own.
//!
//! Every test runs again as process 1 of new mount, network and process namespaces, so whatever it leaves behind ends with
//! it. Only cgroups are outside; the outer process removes them. The pod network is the program itself, as CNI plugin.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use setpoint_cni::NetworkOptions;
use setpoint_cri::oci::{self, Content, File, Image};
use setpoint_cri::{Containerd, containerd};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// Set in the inner process, to the cgroup of its pods.
const INSIDE: &str = "SETPOINT_TEST_CGROUP";

const SETUP: &str =
    "mount -t tmpfs t /run && ip link set lo up && ip addr add 192.0.2.1/32 dev lo && exec \"$0\" \"$@\"";

/// How often a condition is polled, and how many times.
const POLL: Duration = Duration::from_millis(100);
const ATTEMPTS: u32 = 900;

const LOOPBACK: &str = "127.0.0.1";

/// Flags of a node that evicts no pods and removes no images, however full the disk of the machine is.
pub(crate) const UNLIMITED: [&str; 2] = ["--eviction-hard=", "--image-gc-high-threshold=100"];

pub(crate) struct Rig {
    containerd: Option<Containerd>,
    options: containerd::Options,
    server: Child,
    runtime: Runtime,
    directory: TempDir,
}

/// Runs a scenario in namespaces of its own; skips it without containerd, with the reason.
pub(crate) fn isolated(name: &str, scenario: impl FnOnce(&mut Rig)) {
    if std::env::var_os(INSIDE).is_some() {
        return scenario(&mut Rig::start());
    }
    if let Some(reason) = reason_to_skip() {
        println!("SKIPPED: {reason}");
        return;
    }
    let cgroup = format!("setpoint-{}-{}", std::process::id(), name.replace("::", "-"));
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

/// The cgroup of all pods, in the inner process.
pub(crate) fn cgroup_root() -> String {
    std::env::var(INSIDE).unwrap()
}

fn reason_to_skip() -> Option<&'static str> {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|path| !path.is_empty());
    if !is_set("SETPOINT_CONTAINERD") || !is_set("SETPOINT_KUBECTL") {
        return Some("SETPOINT_CONTAINERD and SETPOINT_KUBECTL name no programs");
    }
    let tools = [
        "/usr/bin/busybox",
        "/usr/sbin/runc",
        "/usr/sbin/ip",
        "/usr/sbin/nft",
    ];
    if !tools.iter().all(|path| Path::new(path).exists()) {
        return Some("busybox, runc, iproute2 or nftables is not installed");
    }
    (!rustix::process::geteuid().is_root()).then_some("only root can start containerd")
}

impl Rig {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut options = containerd::Options::new(directory.path().join("containerd"));
        options.cni_plugins = directory.path().join("cni-plugins");
        setpoint_cni::install_plugins(Path::new(env!("CARGO_BIN_EXE_setpoint")), &options.cni_plugins)
            .unwrap();
        let network = NetworkOptions {
            subnet: "10.244.0.0/24".to_owned(),
            data_directory: directory.path().join("cni-data"),
            node_address: Some("192.0.2.1".parse().unwrap()),
        };
        setpoint_cni::install_config(&options.directory.join("cni"), &network).unwrap();
        let runtime = Runtime::new().unwrap();
        let archive = directory.path().join("busybox.tar");
        std::fs::write(&archive, oci::archive(&[busybox()])).unwrap();
        let containerd = runtime.block_on(async {
            let containerd = Containerd::start(&options).await.unwrap();
            containerd.import_sandbox_image(&options).await.unwrap();
            containerd.import(&archive).await.unwrap();
            containerd
        });
        let server = serve(directory.path(), &containerd.socket(), (LOOPBACK, 0, &UNLIMITED));
        let rig = Self {
            containerd: Some(containerd),
            options,
            server,
            runtime,
            directory,
        };
        rig.until(
            "get node n1 -o jsonpath={.status.conditions[?(@.type=='Ready')].status}",
            "True",
        );
        rig.until("get serviceaccounts -o name", "serviceaccount/default");
        rig
    }

    /// Kills the API server and the agent, and starts them again.
    pub(crate) fn restart_server(&mut self) {
        self.restart_server_with(&UNLIMITED);
    }

    /// Kills the API server and the agent, and starts them again with these flags.
    pub(crate) fn restart_server_with(&mut self, flags: &[&str]) {
        self.restart(LOOPBACK, flags);
    }

    /// Kills the API server and the agent, and starts them again at this address.
    pub(crate) fn restart_server_at(&mut self, address: &str) {
        self.restart(address, &UNLIMITED);
    }

    fn restart(&mut self, address: &str, flags: &[&str]) {
        self.kill_server();
        let socket = self.options.directory.join("containerd.sock");
        self.server = serve(self.directory.path(), &socket, (address, 0, flags));
    }

    /// Kills the API server, and the agent if they are one process.
    pub(crate) fn kill_server(&mut self) {
        self.server.kill().unwrap();
        self.server.wait().unwrap();
    }

    /// Starts the API server again at the address that agents of their own know, without a node.
    pub(crate) fn start_server_alone(&mut self) {
        let server = self.run("config view -o jsonpath={.clusters[0].cluster.server}");
        let port = server.rsplit(':').next().unwrap().trim().parse().unwrap();
        let socket = self.options.directory.join("containerd.sock");
        let flags = ["--nodes=0"];
        self.server = serve(self.directory.path(), &socket, (LOOPBACK, port, &flags));
    }

    /// Adds an image to the runtime.
    pub(crate) fn import(&self, image: Image) {
        let archive = self.directory.path().join("image.tar");
        std::fs::write(&archive, oci::archive(&[image])).unwrap();
        let containerd = self.containerd.as_ref().unwrap();
        self.runtime.block_on(containerd.import(&archive)).unwrap();
    }

    /// The containers that the runtime has, by `ctr`.
    pub(crate) fn containers(&self) -> String {
        let socket = self.options.directory.join("containerd.sock");
        let mut ctr = Command::new("ctr");
        ctr.arg("-a")
            .arg(socket)
            .args(["-n", "k8s.io", "containers", "ls", "-q"]);
        String::from_utf8(ctr.output().unwrap().stdout).unwrap()
    }

    /// The directory of everything that the rig writes.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The kubeconfig of the administrator.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.directory.path().join("data/kubeconfig")
    }

    /// Starts an agent of its own for the node `n1`, as a client of the API server.
    pub(crate) fn start_agent(&self, flags: &[&str]) -> Child {
        Command::new(env!("CARGO_BIN_EXE_setpoint"))
            .args([
                "node",
                "--runtime=cri",
                "--node-name=n1",
                "--node-ip=192.0.2.1",
                "--kubeconfig",
            ])
            .arg(self.kubeconfig())
            .arg("--container-runtime-endpoint")
            .arg(self.options.directory.join("containerd.sock"))
            .arg("--node-dir")
            .arg(self.node_directory())
            .arg(format!("--cgroup-root=/{}", cgroup_root()))
            .args(flags)
            .stdin(Stdio::null())
            .spawn()
            .unwrap()
    }

    /// The directory of the node's volumes and logs.
    pub(crate) fn node_directory(&self) -> PathBuf {
        self.directory.path().join("node")
    }

    /// Kills containerd, and starts it again.
    pub(crate) fn restart_containerd(&mut self) {
        let mut old = self.containerd.take().unwrap();
        let options = &self.options;
        self.containerd = Some(self.runtime.block_on(async {
            old.kill().await.unwrap();
            Containerd::start(options).await.unwrap()
        }));
    }

    pub(crate) fn apply(&self, manifest: &str) {
        let mut child = self.command("apply -f -").stdin(Stdio::piped()).spawn().unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(manifest.as_bytes())
            .unwrap();
        assert!(child.wait().unwrap().success());
    }

    /// The output of kubectl, which must succeed.
    #[track_caller]
    pub(crate) fn run(&self, line: &str) -> String {
        let (success, output) = self.outcome(line);
        assert!(success, "kubectl {line}: {output}");
        output
    }

    /// Whether kubectl succeeds, and its output.
    pub(crate) fn outcome(&self, line: &str) -> (bool, String) {
        let output = self.command(line).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (
            output.status.success(),
            text(&output.stdout) + &text(&output.stderr),
        )
    }

    /// Repeats a kubectl until its output contains the text.
    #[track_caller]
    pub(crate) fn until(&self, line: &str, text: &str) {
        let mut output = String::new();
        for _ in 0..ATTEMPTS {
            output = self.outcome(line).1;
            if output.contains(text) {
                return;
            }
            self.runtime.block_on(async { tokio::time::sleep(POLL).await });
        }
        let pods = self.outcome("get pods,events -o wide").1;
        panic!("kubectl {line} never contained {text:?}, but:\n{output}\n{pods}");
    }

    /// Waits until the condition holds.
    #[track_caller]
    pub(crate) fn wait_until(&self, what: &str, condition: impl Fn() -> bool) {
        for _ in 0..ATTEMPTS {
            if condition() {
                return;
            }
            self.runtime.block_on(async { tokio::time::sleep(POLL).await });
        }
        panic!("never became true: {what}");
    }

    /// The response to a request that is sent through `kubectl port-forward`.
    pub(crate) fn forward(&self, target: &str, port: u16, request: &str) -> String {
        let mut kubectl = self.command(&format!("port-forward {target} :{port}"));
        let mut forward = kubectl.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(forward.stdout.as_mut().unwrap())
            .read_line(&mut line)
            .unwrap();
        let address = line.split(' ').nth(2).unwrap().to_owned();
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        forward.kill().unwrap();
        forward.wait().unwrap();
        response
    }

    /// A kubectl command. A word may be quoted.
    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = Command::new("sh");
        command
            .args([
                "-c",
                &format!("exec \"$SETPOINT_KUBECTL\" {}", quote_json_paths(line)),
            ])
            .env("KUBECONFIG", self.kubeconfig())
            .env("HOME", self.directory.path());
        command
    }
}

/// The output of a command that reads this input.
pub(crate) fn with_input(command: &mut Command, input: &str) -> String {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Quotes JSON paths, whose characters are those of the shell too.
fn quote_json_paths(line: &str) -> String {
    let quote = |word: &str| match word.starts_with("jsonpath=") {
        true => format!("\"{word}\""),
        false => word.to_owned(),
    };
    line.split(' ').map(quote).collect::<Vec<_>>().join(" ")
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.server.kill().ok();
        self.server.wait().ok();
    }
}

/// Starts the server with the node `n1`, and waits until it serves.
fn serve(directory: &Path, socket: &Path, (address, port, flags): (&str, u16, &[&str])) -> Child {
    let mut server = Command::new(env!("CARGO_BIN_EXE_setpoint"))
        .args(["up", "--runtime=cri", "--node-name=n1", "--node-ip=192.0.2.1"])
        .arg(format!("--listen={address}:{port}"))
        .arg("--data-dir")
        .arg(directory.join("data"))
        .arg("--container-runtime-endpoint")
        .arg(socket)
        .arg("--node-dir")
        .arg(directory.join("node"))
        .arg(format!("--cgroup-root=/{}", cgroup_root()))
        .args(flags)
        .stdout(Stdio::piped())
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert!(line.contains(&format!("serves https://{address}:")), "{line:?}");
    server
}

/// The image `busybox:test`, which is also `busybox:latest`, with all of busybox's programs.
fn busybox() -> Image {
    let directory = |path: &str, mode| File {
        path: path.to_owned(),
        mode,
        content: Content::Directory,
    };
    let mut files = vec![
        directory("bin", 0o755),
        directory("etc", 0o755),
        directory("root", 0o700),
        directory("tmp", 0o1777),
        File {
            path: "bin/busybox".to_owned(),
            mode: 0o755,
            content: Content::Bytes(std::fs::read("/usr/bin/busybox").unwrap()),
        },
    ];
    let programs = Command::new("/usr/bin/busybox").arg("--list").output().unwrap();
    let programs = String::from_utf8(programs.stdout).unwrap();
    files.extend(
        programs
            .lines()
            .filter(|name| *name != "busybox")
            .map(|name| File {
                path: format!("bin/{name}"),
                mode: 0o777,
                content: Content::Link("busybox".to_owned()),
            }),
    );
    Image {
        names: ["test", "latest"]
            .map(|tag| format!("docker.io/library/busybox:{tag}"))
            .into(),
        cmd: vec!["sh".to_owned()],
        files,
        ..Image::default()
    }
}
