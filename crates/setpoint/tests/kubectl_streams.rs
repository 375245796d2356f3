//! kubectl's streams into pods of simulated nodes: logs, exec, attach, cp, port-forward and debug, each over WebSockets and
//! over SPDY.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster;

use std::io::{Read, Write};
use std::net::TcpStream;

use cluster::{Cluster, Kubectl, manifest};

const POD: &str = "\
apiVersion: v1
kind: Pod
metadata:
  name: web
  annotations: {simulated.setpoint.dev/log: \"first line\\nsecond line\\n\"}
spec:
  containers:
  - {name: main, image: nginx, env: [{name: COLOR, value: blue}], stdin: true, tty: true}
";

/// A cluster of one simulated node with one running pod.
fn start() -> (Cluster, Option<Kubectl>) {
    let cluster = Cluster::new(&["--memory", "--nodes", "1"]);
    let kubectl = cluster.kubectl();
    if let Some(kubectl) = &kubectl {
        let pod = manifest(cluster.dir.path(), "pod.yaml", POD);
        kubectl.run("wait --for=create serviceaccount/default --timeout=60s");
        kubectl.run(&format!("apply -f {pod}"));
        kubectl.run("wait --for=condition=Ready pod/web --timeout=60s");
    }
    (cluster, kubectl)
}

/// The kubectl that uses SPDY for its streams, as before WebSockets.
fn over_spdy(kubectl: Kubectl) -> Kubectl {
    let kubectl = kubectl.with("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "false");
    kubectl.with("KUBECTL_PORT_FORWARD_WEBSOCKETS", "false")
}

#[track_caller]
fn check(kubectl: &Kubectl, line: &str, expected: (i32, &str)) {
    let (code, output) = kubectl.outcome(line);
    assert!(
        code == expected.0 && output.contains(expected.1),
        "kubectl {line}: code {code}:\n{output}"
    );
}

/// FL6
#[test]
fn logs_of_a_simulated_pod_are_its_configured_text() {
    let (_cluster, Some(kubectl)) = start() else {
        return;
    };
    assert_eq!(kubectl.run("logs web"), "first line\nsecond line\n");
    assert_eq!(kubectl.run("logs web --tail=1"), "second line\n");
    assert_eq!(kubectl.run("logs web --limit-bytes=5"), "first");
    assert_eq!(
        kubectl.run("logs web --since=1h -c main"),
        "first line\nsecond line\n"
    );
    assert!(
        kubectl
            .run("logs web --timestamps --tail=1")
            .ends_with("Z second line\n")
    );
    let mut follow = kubectl.follow("logs web -f");
    follow.until(&["second line"]);
    let previous = "previous terminated container \"main\" in pod \"web\" not found";
    assert!(kubectl.fail("logs web --previous").contains(previous));
}

#[track_caller]
fn check_commands(kubectl: &Kubectl) {
    check(kubectl, "exec web -- echo hello world", (0, "hello world\n"));
    check(kubectl, "exec web -- env", (0, "COLOR=blue"));
    check(kubectl, "exec web -- true", (0, ""));
    check(
        kubectl,
        "exec web -- false",
        (1, "command terminated with exit code 1"),
    );
    check(
        kubectl,
        "exec web -- no-such-program",
        (127, "command terminated with exit code 127"),
    );
    check(
        kubectl,
        "exec web -c other -- true",
        (1, "container other is not valid for pod web"),
    );
    let cat = kubectl.pipe("exec -i web -- cat", b"from standard input");
    assert_eq!(cat, "from standard input");
    assert!(kubectl.pipe("attach -i web", b"").contains("first line"));
    check(
        kubectl,
        "cp /etc/hostname web:/tmp/hostname",
        (127, "tar: not found on a simulated node"),
    );
}

/// FL6
#[test]
fn commands_run_in_a_simulated_pod_over_websockets() {
    let (_cluster, Some(kubectl)) = start() else {
        return;
    };
    check_commands(&kubectl);
}

/// FL6
#[test]
fn commands_run_in_a_simulated_pod_over_spdy() {
    let (_cluster, Some(kubectl)) = start() else {
        return;
    };
    check_commands(&over_spdy(kubectl));
}

/// Forwards a port and sends a text through it, several times the size of every buffer.
fn check_forward(kubectl: &Kubectl) {
    let mut forward = kubectl.follow("port-forward pod/web :80");
    let line = forward.next_line();
    let port = line
        .split("127.0.0.1:")
        .nth(1)
        .and_then(|rest| rest.split(' ').next());
    let port: u16 = port
        .and_then(|port| port.parse().ok())
        .unwrap_or_else(|| panic!("{line}"));
    for text in [b"hello".to_vec(), vec![b'x'; 1 << 20]] {
        let mut connection = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let mut writer = connection.try_clone().unwrap();
        let sent = text.clone();
        let sender = std::thread::spawn(move || {
            writer.write_all(&sent).unwrap();
            writer.shutdown(std::net::Shutdown::Write).unwrap();
        });
        let mut echo = vec![0; text.len()];
        connection.read_exact(&mut echo).unwrap();
        sender.join().unwrap();
        assert!(echo == text, "the node sends back what it gets");
    }
}

/// FL6
#[test]
fn a_port_of_a_simulated_pod_is_forwarded_over_websockets_and_over_spdy() {
    let (_cluster, Some(kubectl)) = start() else {
        return;
    };
    check_forward(&kubectl);
    check_forward(&over_spdy(kubectl));
}

#[test]
fn a_stream_needs_an_upgrade_and_a_node() {
    let (_cluster, Some(kubectl)) = start() else {
        return;
    };
    let raw = "create --raw /api/v1/namespaces/default/pods/web/exec?command=ls&stdout=true -f /dev/null";
    assert!(kubectl.fail(raw).contains("Upgrade request required"));
    let healthz = kubectl.run("get --raw /api/v1/nodes/node-0/proxy/healthz");
    assert_eq!(healthz, "ok");
    let pods = kubectl.run("get --raw /api/v1/nodes/node-0/proxy/pods");
    assert!(pods.starts_with("{\"kind\":\"PodList\""), "{pods}");
}
