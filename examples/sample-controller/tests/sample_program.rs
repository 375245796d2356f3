//! The program against a `setpoint` process, driven with kubectl.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::BufRead;
use std::path::Path;
use std::process::Stdio;

use setpoint_conformance::wire::{Client, Endpoint, Request};
use setpoint_testkit::{ChildProcess, SetpointProcess};

const PROGRAM: &str = env!("CARGO_BIN_EXE_sample-controller");

fn artifact(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("artifacts").join(name);
    path.display().to_string()
}

/// TO3, CL8: over HTTPS, as a service account with the role that the program prints.
#[test]
fn to3_the_crd_and_the_foo_of_the_sample_work_with_kubectl() {
    let Some(up) = SetpointProcess::start_beside(PROGRAM, &["--nodes", "2"]) else {
        return;
    };
    let Some(applied) = up.kubectl(&format!("apply -f {}", artifact("crd.yaml"))) else {
        return;
    };
    assert!(
        applied.contains("foos.samplecontroller.k8s.io created"),
        "{applied}"
    );
    up.kubectl("wait crd/foos.samplecontroller.k8s.io --for=condition=Established --timeout=30s");
    let manifests = up.command(PROGRAM).arg("manifests").output().unwrap();
    up.kubectl(&format!(
        "apply -f {}",
        up.file("manifests.yaml", &manifests.stdout)
    ));
    let account = up
        .kubeconfig_of("sample-controller", "sample-controller")
        .unwrap();
    let mut command = up.command(PROGRAM);
    command
        .env("KUBECONFIG", account)
        .env("NO_COLOR", "1")
        .env("ENDPOINTS", "127.0.0.1:0");
    let mut program = ChildProcess::start(command.stderr(Stdio::piped()));
    let mut log = program.stderr().unwrap().lines().map(Result::unwrap);
    let address = log.find_map(|line| Some(line.split_once("address=")?.1.to_owned()));
    // The rest of the log is read, so that the program never blocks on it.
    std::thread::spawn(move || log.for_each(drop));
    up.kubectl(&format!("apply -f {}", artifact("example-foo.yaml")));
    up.kubectl("wait foo/example-foo --for=jsonpath={.status.availableReplicas}=1 --timeout=60s");
    let deployments = up.kubectl("get deployment example-foo").unwrap();
    assert!(deployments.contains("1/1"), "{deployments}");
    up.kubectl("patch foo example-foo --type=merge -p {\"spec\":{\"replicas\":3}}");
    up.kubectl("wait foo/example-foo --for=jsonpath={.status.availableReplicas}=3 --timeout=60s");
    let events = up
        .kubectl("get events --field-selector involvedObject.kind=Foo")
        .unwrap();
    assert!(
        events.contains("Synced") && events.contains("Foo synced successfully"),
        "{events}"
    );
    let address = address.unwrap();
    assert_eq!(http_get(&address, "/readyz"), "ok");
    let metrics = http_get(&address, "/metrics");
    let reconciled =
        "controller_runtime_reconcile_total{controller=\"sample-controller\",result=\"success\"}";
    assert!(
        metrics.contains(reconciled) && metrics.contains("rest_client_requests_total"),
        "{metrics}"
    );
    assert!(program.terminate(), "it ends without an error on SIGTERM");
}

fn http_get(address: &str, path: &str) -> String {
    let endpoint = Endpoint::of_address(&format!("http://{address}"), None).unwrap();
    let response = Client::new(endpoint).send(&Request::new("GET", path)).unwrap();
    response.text()
}
