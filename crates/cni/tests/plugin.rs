//! The plugin executed as a container runtime does it, in network namespaces of its own.
//!
//! The program has three roles: it starts itself again in new namespaces, runs the scenario there, and is the plugin that
//! the scenario executes. Without root or the tools it is skipped, with the reason.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "there is no test harness that reports")]

use std::io::Write;
use std::path::Path;
use std::process::{Command, ExitCode, Output, Stdio};

use serde_json::{Value, json};

const INSIDE: &str = "SETPOINT_TEST_INSIDE";

fn main() -> ExitCode {
    if setpoint_cni::is_plugin_call() {
        return setpoint_cni::run();
    }
    if std::env::var_os(INSIDE).is_some() {
        pods_reach_each_other_and_the_node();
        a_port_of_the_node_reaches_the_pod();
        what_is_deleted_is_gone_and_can_be_deleted_again();
        a_pod_does_not_take_over_the_address_or_the_ports_of_another();
        what_the_runtime_does_not_have_is_collected();
        return ExitCode::SUCCESS;
    }
    let has_tools = ["/usr/bin/busybox", "/usr/sbin/ip", "/usr/sbin/nft"]
        .iter()
        .all(|path| Path::new(path).exists());
    if !rustix::process::geteuid().is_root() || !has_tools {
        println!("skipped: root, busybox, iproute2 and nftables are needed");
        return ExitCode::SUCCESS;
    }
    let setup = "mount -t tmpfs t /run && ip link set lo up && exec \"$0\" inside";
    let status = Command::new("unshare")
        .args(["-m", "-n", "--propagation", "private", "sh", "-c", setup])
        .arg(std::env::current_exe().unwrap())
        .env(INSIDE, "1")
        .status();
    match status.unwrap().success() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

fn pods_reach_each_other_and_the_node() {
    let directory = tempfile::tempdir().unwrap();
    let (a, b) = (Pod::new("a"), Pod::new("b"));
    let first = a.add(directory.path(), json!({}));
    let second = b.add(directory.path(), json!({}));
    assert_eq!(address(&first), "10.244.7.2/32");
    assert_eq!(address(&second), "10.244.7.3/32");
    assert_eq!(first["interfaces"][1]["sandbox"], "/run/netns/a");
    assert_eq!(first["routes"][0]["gw"], "169.254.1.1");
    ping(&["ip", "netns", "exec", "a"], "10.244.7.3");
    ping(&["ip", "netns", "exec", "b"], "10.244.7.2");
    ping(&["ip", "netns", "exec", "a"], "127.0.0.1");
    ping(&[], "10.244.7.2");
    let check = a.execute("CHECK", directory.path(), json!({}));
    assert!(check.status.success() && check.stdout.is_empty());
    let again = a.add(directory.path(), json!({}));
    assert_eq!(
        address(&again),
        "10.244.7.2/32",
        "a repeated command has the same result"
    );
    for pod in [a, b] {
        assert!(pod.execute("DEL", directory.path(), json!({})).status.success());
    }
}

fn a_port_of_the_node_reaches_the_pod() {
    let directory = tempfile::tempdir().unwrap();
    let pod = Pod::new("c");
    run(&["ip", "addr", "add", "192.0.2.1/24", "dev", "lo"]);
    let ports = json!([{ "hostPort": 8080, "containerPort": 80, "protocol": "tcp" }]);
    let runtime = json!({ "portMappings": ports });
    pod.add(
        directory.path(),
        json!({ "runtimeConfig": runtime, "nodeAddress": "192.0.2.1" }),
    );
    let mut server = Command::new("ip")
        .args([
            "netns", "exec", "c", "busybox", "nc", "-ll", "-p", "80", "-e", "echo", "hello",
        ])
        .spawn()
        .unwrap();
    let script = "for i in $(seq 100); do busybox nc -w 2 192.0.2.1 8080 </dev/null && exit 0; sleep 0.05; done; exit 1";
    let output = Command::new("sh").args(["-c", script]).output().unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "hello\n");
    let deleted = pod.execute("DEL", directory.path(), json!({ "runtimeConfig": runtime }));
    assert!(deleted.status.success());
    let listed = run(&["nft", "list", "table", "ip", "setpoint-host-ports"]);
    assert!(
        !String::from_utf8_lossy(&listed.stdout).contains("8080"),
        "{listed:?}"
    );
}

fn what_is_deleted_is_gone_and_can_be_deleted_again() {
    let directory = tempfile::tempdir().unwrap();
    let pod = Pod::new("d");
    let added = pod.add(directory.path(), json!({}));
    let host = added["interfaces"][0]["name"].as_str().unwrap().to_owned();
    for _ in 0..2 {
        assert!(pod.execute("DEL", directory.path(), json!({})).status.success());
    }
    assert!(!Path::new("/proc/sys/net/ipv4/conf").join(host).exists());
    let check = pod.execute("CHECK", directory.path(), json!({}));
    let error: Value = serde_json::from_slice(&check.stdout).unwrap();
    assert_eq!(
        (check.status.code(), error["msg"].as_str()),
        (Some(1), Some("container id-d has no address"))
    );
    let version = pod.execute("VERSION", directory.path(), json!({}));
    let version: Value = serde_json::from_slice(&version.stdout).unwrap();
    assert!(
        version["supportedVersions"]
            .as_array()
            .unwrap()
            .contains(&json!("1.0.0"))
    );
}

fn a_pod_does_not_take_over_the_address_or_the_ports_of_another() {
    let directory = tempfile::tempdir().unwrap();
    let (first, second) = (Pod::new("e"), Pod::new("f"));
    let ports = json!([{ "hostPort": 8081, "containerPort": 80, "protocol": "tcp" }]);
    let config = json!({ "runtimeConfig": { "portMappings": ports } });
    let added = first.add(directory.path(), config.clone());
    let taken = second.execute("ADD", directory.path(), config);
    assert!(!taken.status.success(), "{taken:?}");
    let listed = run(&["nft", "list", "table", "ip", "setpoint-host-ports"]);
    assert!(
        String::from_utf8_lossy(&listed.stdout).contains("8081"),
        "{listed:?}"
    );
    std::fs::remove_file(directory.path().join("leases.json")).unwrap();
    let taken = second.execute("ADD", directory.path(), json!({}));
    assert!(!taken.status.success(), "{taken:?}");
    let next = second.add(directory.path(), json!({}));
    assert_ne!(address(&next), address(&added));
}

fn what_the_runtime_does_not_have_is_collected() {
    let directory = tempfile::tempdir().unwrap();
    let (kept, gone) = (Pod::new("g"), Pod::new("h"));
    // Earlier scenarios have left routes to the addresses of theirs.
    let subnet = "10.244.8.0/24";
    let ports = json!([{ "hostPort": 8082, "containerPort": 80, "protocol": "tcp" }]);
    let first = kept.add(directory.path(), json!({ "subnet": subnet }));
    let second = gone.add(
        directory.path(),
        json!({ "subnet": subnet, "runtimeConfig": { "portMappings": ports } }),
    );
    let exists = |result: &Value| {
        let host = result["interfaces"][0]["name"].as_str().unwrap();
        Path::new("/proc/sys/net/ipv4/conf").join(host).exists()
    };
    let collect = |attachments: Value| {
        let config =
            json!({ "cniVersion": "1.1.0", "subnet": subnet, "cni.dev/valid-attachments": attachments });
        kept.execute("GC", directory.path(), config).status.success()
    };
    assert!(!collect(Value::Null), "without a list nothing is collected");
    assert!(exists(&first) && exists(&second));
    assert!(collect(json!([{ "containerID": "id-g", "ifname": "eth0" }])));
    assert!(exists(&first) && !exists(&second));
    let listed = run(&["nft", "list", "table", "ip", "setpoint-host-ports"]);
    assert!(!String::from_utf8_lossy(&listed.stdout).contains("8082"));
    let next = gone.add(directory.path(), json!({ "subnet": subnet }));
    assert_ne!(address(&next), address(&first));
}

struct Pod {
    name: &'static str,
}

impl Pod {
    fn new(name: &'static str) -> Self {
        run(&["ip", "netns", "add", name]);
        Self { name }
    }

    fn add(&self, directory: &Path, further: Value) -> Value {
        let output = self.execute("ADD", directory, further);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{text}");
        serde_json::from_str(&text).unwrap()
    }

    fn execute(&self, command: &str, directory: &Path, further: Value) -> Output {
        let mut config = json!({ "cniVersion": "1.0.0", "name": "n", "type": "setpoint", "subnet": "10.244.7.0/24", "dataDir": directory });
        config
            .as_object_mut()
            .unwrap()
            .extend(further.as_object().unwrap().clone());
        let mut child = Command::new(std::env::current_exe().unwrap())
            .env("CNI_COMMAND", command)
            .env("CNI_CONTAINERID", format!("id-{}", self.name))
            .env("CNI_NETNS", format!("/run/netns/{}", self.name))
            .env("CNI_IFNAME", "eth0")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(config.to_string().as_bytes())
            .unwrap();
        child.wait_with_output().unwrap()
    }
}

fn address(result: &Value) -> &str {
    result["ips"][0]["address"].as_str().unwrap()
}

fn ping(prefix: &[&str], target: &str) {
    let ping = ["busybox", "ping", "-c", "1", "-W", "5", target];
    run(&[prefix, &ping].concat());
}

#[track_caller]
fn run(command: &[&str]) -> Output {
    let output = Command::new(command[0]).args(&command[1..]).output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    output
}
