//! The program as it is run: against a server of its own process, with kubectl beside it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use setpoint_testkit::{Program, Up};

const PROGRAM: &str = env!("CARGO_BIN_EXE_sample-controller");

fn artifact(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("artifacts").join(name);
    path.display().to_string()
}

/// TO3, CL8: over HTTPS, as a service account with the role that the program prints.
#[test]
fn to3_the_samples_definition_and_foo_work_with_kubectl() {
    let Some(up) = Up::beside(PROGRAM, &["--nodes", "2"]) else {
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
    let program = Program::start(up.command(PROGRAM).env("KUBECONFIG", account));
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
    assert!(program.terminate(), "it ends well when it is asked to");
}
