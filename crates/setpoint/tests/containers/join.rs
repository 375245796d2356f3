//! Two nodes in two network namespaces: the second joins by a token over TLS, and is nothing but a node.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::rig::{Rig, cgroup_root, isolated};
use crate::{SLEEP, pod};

/// The address of the API server and of the joining node, on the link between their namespaces.
const SERVER: &str = "172.30.0.1";
const NODE: &str = "172.30.0.2";

/// Creates a network namespace with a link to this one.
const LINK: &str = "ip netns add n2 && ip link add to-n2 type veth peer name eth0 netns n2 && \
    ip addr add 172.30.0.1/24 dev to-n2 && ip link set to-n2 up && ip -n n2 link set lo up && \
    ip -n n2 addr add 172.30.0.2/24 dev eth0 && ip -n n2 link set eth0 up && ip -n n2 route add default via 172.30.0.1";

/// The route to the pods of `n2`; its own default route leads back.
const ROUTES: &str = "ip route add 10.244.1.0/24 via 172.30.0.2 && echo 1 > /proc/sys/net/ipv4/ip_forward && \
    nsenter --net=/run/netns/n2 sh -c 'echo 1 > /proc/sys/net/ipv4/ip_forward'";

fn shell(script: &str) {
    let status = Command::new("sh").args(["-c", script]).status().unwrap();
    assert!(status.success(), "{script}");
}

/// The command line that `setpoint token create` prints, without the name of the program.
fn create_token(rig: &Rig) -> Vec<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_setpoint"))
        .args(["token", "create", "--kubeconfig"])
        .arg(rig.kubeconfig())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let line = String::from_utf8(output.stdout).unwrap();
    line.split_whitespace().skip(1).map(ToOwned::to_owned).collect()
}

/// A kubeconfig with the identity of the node `n2`. Old versions of kubectl reject flags that replace a certificate.
fn node_kubeconfig(rig: &Rig) -> PathBuf {
    let identity = rig.directory().join("n2/pki/kubelet-client-current.pem");
    let cluster = rig.run("config view --raw -o jsonpath={.clusters[0].cluster}");
    let cluster: serde_json::Value = serde_json::from_str(&cluster).unwrap();
    let kubeconfig = serde_json::json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "n2", "user": {"client-certificate": identity, "client-key": identity}}],
        "contexts": [{"name": "n2", "context": {"cluster": "c", "user": "n2"}}],
        "current-context": "n2",
    });
    let path = rig.directory().join("n2.kubeconfig");
    std::fs::write(&path, kubeconfig.to_string()).unwrap();
    path
}

/// Starts the agent of the node `n2` in its namespace, with a containerd of its own.
fn join(rig: &Rig, arguments: &[String]) -> Child {
    let directory = rig.directory().join("n2");
    Command::new("nsenter")
        .args(["--net=/run/netns/n2", env!("CARGO_BIN_EXE_setpoint")])
        .args(arguments)
        .args([
            "--node-name=n2",
            "--start-containerd",
            "--pod-cidr=10.244.1.0/24",
            "--eviction-hard=",
            "--image-gc-high-threshold=100",
        ])
        .arg(format!("--node-ip={NODE}"))
        .arg(format!("--cgroup-root=/{}-n2", cgroup_root()))
        .arg("--node-dir")
        .arg(&directory)
        .stdin(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn a_second_node_joins_by_a_token_over_tls() {
    isolated(
        "join::a_second_node_joins_by_a_token_over_tls",
        |rig: &mut Rig| {
            shell(LINK);
            rig.restart_server_at(SERVER);
            let arguments = create_token(rig);
            let mut agent = join(rig, &arguments);
            rig.until(
                "get node n2 -o jsonpath={.status.conditions[?(@.type=='Ready')].status}",
                "True",
            );
            let requester = rig.run("get csr -o jsonpath={.items[*].spec.username}");
            assert!(requester.starts_with("system:bootstrap:"), "{requester}");
            shell(&format!(
                "ctr -a {}/n2/containerd/containerd.sock -n k8s.io images import {}/busybox.tar",
                rig.directory().display(),
                rig.directory().display()
            ));
            let script =
                "echo hello; mkdir /www; echo from far > /www/index.html; exec httpd -f -p 8080 -h /www";
            rig.apply(&pod("far", script, "", "nodeName: n2"));
            rig.apply(&pod("near", SLEEP, "", "nodeName: n1"));
            rig.run("wait pod --all --for=condition=Ready --timeout=60s");
            assert_eq!(rig.run("get pod far -o jsonpath={.status.hostIP}"), NODE);
            assert_eq!(rig.run("logs far"), "hello\n");
            assert_eq!(rig.run("exec far -- hostname"), "far\n");
            // With a route to the other node's pods, which is the only thing that is missing, they reach each other.
            shell(ROUTES);
            let address = rig.run("get pod far -o jsonpath={.status.podIP}");
            let fetch = format!("exec near -- wget -qO- http://{address}:8080/");
            rig.until(&fetch, "from far");
            // As a node, the agent reads the pods of its node and no others.
            let as_node = format!("--kubeconfig={}", node_kubeconfig(rig).display());
            let (may_read, output) = rig.outcome(&format!("{as_node} get pods"));
            assert!(!may_read && output.contains("forbidden"), "{output}");
            let own = rig.run(&format!(
                "{as_node} get pods --field-selector spec.nodeName=n2 -o name"
            ));
            assert_eq!(own, "pod/far\n");
            // It needs its token only once.
            agent.kill().unwrap();
            agent.wait().unwrap();
            agent = join(rig, &arguments[..2]);
            rig.run("delete pod far --timeout=60s");
            agent.kill().unwrap();
            agent.wait().unwrap();
        },
    );
}
