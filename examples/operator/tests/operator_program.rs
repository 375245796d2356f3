//! The program against a `setpoint` process, as a service account with the role of its manifests, driven with kubectl.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use setpoint_testkit::{ChildProcess, SetpointProcess};

const PROGRAM: &str = env!("CARGO_BIN_EXE_database-operator");
const SUCCEEDED: &str = r#"{"status":{"phase":"Succeeded"}}"#;

/// TO2: install, failover, upgrade and deletion, as a user drives them.
#[test]
fn to2_a_database_is_driven_with_kubectl() {
    let Some(up) = SetpointProcess::start_beside(PROGRAM, &["--nodes", "2"]) else {
        return;
    };
    let manifests = up.command(PROGRAM).arg("manifests").output().unwrap();
    let manifests = up.file("manifests.yaml", &manifests.stdout);
    if up.kubectl(&format!("apply -f {manifests}")).is_none() {
        return;
    }
    up.kubectl("wait crd/databases.db.example.com --for=condition=Established --timeout=30s");
    let account = up
        .kubeconfig_of("database-operator", "database-operator")
        .unwrap();
    let program = ChildProcess::start(up.command(PROGRAM).env("KUBECONFIG", account));
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests/shop.yaml");
    up.kubectl(&format!("apply -f {}", manifest.display()));
    finish(&up, "shop-after-0");
    up.kubectl("wait db/shop --for=jsonpath={.status.readyMembers}=3 --timeout=60s");
    up.kubectl("wait db/shop --for=condition=Ready --timeout=60s");

    let old = up.kubectl("get db shop -o jsonpath={.status.primary}").unwrap();
    let failed = r#"{"status":{"conditions":[{"type":"Ready","status":"False"}]}}"#;
    up.kubectl(&format!("patch pod {old} --subresource=status -p {failed}"));
    let other = ["shop-0", "shop-1"]
        .into_iter()
        .find(|name| *name != old)
        .unwrap();
    up.kubectl(&format!(
        "wait db/shop --for=jsonpath={{.status.primary}}={other} --timeout=60s"
    ));
    // kubectl waits for ever if a new pod of that name exists before it looks.
    up.kubectl(&format!("delete pod {old} --wait=false"));
    up.kubectl("wait db/shop --for=jsonpath={.status.readyMembers}=3 --timeout=60s");

    up.kubectl(r#"patch db shop --type=merge -p {"spec":{"version":"2.0"}}"#);
    finish(&up, "shop-before-2-0");
    up.kubectl("wait db/shop --for=jsonpath={.status.version}=2.0 --timeout=60s");
    let shown = up.kubectl("get databases").unwrap();
    assert!(shown.contains("VERSION") && shown.contains("2.0"), "{shown}");

    let uid = up.kubectl("get db shop -o jsonpath={.metadata.uid}").unwrap();
    up.kubectl("delete db shop --wait=false");
    finish(&up, &format!("shop-last-{}", &uid[..8]));
    up.kubectl("wait db/shop --for=delete --timeout=60s");
    assert!(program.terminate(), "it ends without an error on SIGTERM");
}

/// Completes the pod of a backup: on simulated nodes it does not end by itself.
fn finish(up: &SetpointProcess, job: &str) {
    up.kubectl(&format!("wait job/{job} --for=create --timeout=60s"));
    up.kubectl(&format!(
        "wait job/{job} --for=jsonpath={{.status.active}}=1 --timeout=60s"
    ));
    let pod = format!("get pods -l job-name={job} -o jsonpath={{.items[0].metadata.name}}");
    let pod = up.kubectl(&pod).unwrap();
    up.kubectl(&format!(
        "wait pod/{pod} --for=jsonpath={{.status.phase}}=Running --timeout=60s"
    ));
    up.kubectl(&format!(
        "patch pod {pod} --subresource=status --type=merge -p {SUCCEEDED}"
    ));
}
