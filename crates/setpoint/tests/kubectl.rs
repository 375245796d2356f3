//! The real binary against the real kubectl.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster;

use cluster::{Cluster, manifest, replica_set};

/// CL1: a ReplicaSet creates running pods, and they are deleted with it.
#[test]
fn cl1_kubectl_creates_watches_and_deletes_a_replica_set() {
    let cluster = Cluster::new(&["--memory"]);
    let Some(kubectl) = cluster.kubectl() else { return };
    let names = kubectl.run("get namespaces -o name");
    assert_eq!(
        names,
        "namespace/default\nnamespace/kube-node-lease\nnamespace/kube-public\nnamespace/kube-system\n"
    );
    let file = manifest(cluster.dir.path(), "rs.json", &replica_set("web", 3));
    assert_eq!(
        kubectl.run(&format!("create -f {file}")),
        "replicaset.apps/web created\n"
    );
    kubectl.run("wait --for=jsonpath={.status.readyReplicas}=3 replicaset/web --timeout=60s");
    let pods = kubectl.run("get pods");
    assert!(pods.starts_with("NAME"), "{pods}");
    assert_eq!(pods.matches("1/1     Running").count(), 3, "{pods}");

    let mut watch = kubectl.follow("get pods -w");
    watch.until(&["web-", "Running"]);
    // A newer kubectl also names the namespace.
    let deleted = kubectl.run("delete replicaset web");
    assert!(
        deleted.starts_with("replicaset.apps \"web\" deleted"),
        "{deleted}"
    );
    watch.until(&["web-", "Terminating"]);
    kubectl.run("wait --for=delete pod -l app=web --timeout=60s");
    assert_eq!(kubectl.run("get pods -o name"), "");
}

#[test]
fn kubectl_reports_the_servers_errors() {
    let cluster = Cluster::new(&["--memory", "--nodes", "0", "--controllers", "none"]);
    let Some(kubectl) = cluster.kubectl() else { return };
    let stderr = kubectl.fail("get configmap absent");
    assert_eq!(
        stderr,
        "Error from server (NotFound): configmaps \"absent\" not found\n"
    );
    let unknown = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m"},"dta":{"a":"1"}}"#;
    let file = manifest(cluster.dir.path(), "unknown.json", unknown);
    let stderr = kubectl.fail(&format!("create -f {file}"));
    assert!(
        stderr.contains("strict decoding error: unknown field \"dta\""),
        "{stderr}"
    );
    let stderr = kubectl.fail("delete namespace default");
    assert!(
        stderr.contains("(Forbidden)") && stderr.contains("this namespace may not be deleted"),
        "{stderr}"
    );
}

#[test]
fn kubectl_discovers_and_explains() {
    let cluster = Cluster::new(&["--memory", "--nodes", "0", "--controllers", "none"]);
    let Some(kubectl) = cluster.kubectl() else { return };
    let resources = kubectl.run("api-resources --no-headers -o name");
    for resource in [
        "configmaps",
        "pods",
        "replicasets.apps",
        "leases.coordination.k8s.io",
    ] {
        assert!(resources.lines().any(|line| line == resource), "{resources}");
    }
    let explained = kubectl.run("explain replicaset.spec");
    assert!(
        explained.contains("template") && explained.contains("<PodTemplateSpec>"),
        "{explained}"
    );
}

/// TO9
#[test]
fn to9_kubectl_and_our_own_command_show_the_same_server_version() {
    let cluster = Cluster::new(&["--memory", "--nodes", "0", "--controllers", "none"]);
    let Some(kubectl) = cluster.kubectl() else { return };
    let theirs: serde_json::Value = serde_json::from_str(&kubectl.run("version -o json")).unwrap();
    let ours = std::process::Command::new(env!("CARGO_BIN_EXE_setpoint"))
        .args(["version", "-o", "json", "--kubeconfig"])
        .arg(cluster.kubeconfig())
        .output()
        .unwrap();
    let ours: serde_json::Value = serde_json::from_slice(&ours.stdout).unwrap();
    for key in [
        "major",
        "minor",
        "gitVersion",
        "gitCommit",
        "gitTreeState",
        "buildDate",
        "goVersion",
        "compiler",
        "platform",
    ] {
        assert!(ours["serverVersion"][key].is_string(), "{key}");
        assert_eq!(theirs["serverVersion"][key], ours["serverVersion"][key], "{key}");
    }
}

/// Typed clients send and accept protobuf: kubectl's `create` by name, `describe` and `events` use them.
#[test]
fn kubectl_uses_protobuf_with_the_server() {
    let cluster = Cluster::new(&["--memory", "--nodes", "1"]);
    let Some(kubectl) = cluster.kubectl() else { return };
    for (line, stderr) in [
        ("create configmap a --from-literal=k=v", "configmap/a created\n"),
        ("create namespace x", "namespace/x created\n"),
        ("create serviceaccount s -n x", "serviceaccount/s created\n"),
    ] {
        assert_eq!(kubectl.run(line), stderr);
    }
    assert_eq!(kubectl.run("get configmap a -o jsonpath={.data}"), r#"{"k":"v"}"#);
    let stderr = kubectl.fail("create configmap a --from-literal=k=w");
    assert!(stderr.contains("configmaps \"a\" already exists"), "{stderr}");
    let described = kubectl.run("describe configmap a");
    assert!(
        described.contains("k:\n----\nv\n") && described.contains("Namespace:    default"),
        "{described}"
    );
}

#[test]
fn kubectl_reads_events_and_describes_what_they_are_about() {
    let cluster = Cluster::new(&["--memory"]);
    let Some(kubectl) = cluster.kubectl() else { return };
    let file = manifest(cluster.dir.path(), "rs.json", &replica_set("web", 1));
    kubectl.run(&format!("create -f {file}"));
    kubectl.run("wait --for=jsonpath={.status.readyReplicas}=1 replicaset/web --timeout=60s");
    kubectl
        .follow("events --watch")
        .until(&["SuccessfulCreate", "ReplicaSet/web"]);
    let events = kubectl.run("get events");
    assert!(events.contains("SuccessfulCreate"), "{events}");
    let described = kubectl.run("describe replicaset web");
    assert!(
        described.contains("1 current / 1 desired") && described.contains("SuccessfulCreate"),
        "{described}"
    );
    let described = kubectl.run("describe pod -l app=web");
    assert!(
        described.contains("Controlled By:  ReplicaSet/web") && described.contains("Running"),
        "{described}"
    );
}
