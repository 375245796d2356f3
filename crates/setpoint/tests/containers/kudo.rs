//! The engine of KUDO in a pod, with an image of this program, and the files that a Pipe task copies out of a container.

use std::path::Path;
use std::process::Command;

use setpoint_cri::oci::{Content, File, Image};

use crate::rig::{Rig, isolated};

/// The address of the API server for pods.
const SERVER: &str = "192.0.2.1";
const IMAGE: &str = "docker.io/library/setpoint:test";

/// What a service proxy would set for the `kubernetes` Service: packets to its address go to the API server.
const SERVICE_RULES: &str = "nft 'table ip api-service { chain prerouting { type nat hook prerouting priority dstnat; \
    ip daddr SERVICE tcp dport 443 dnat to SERVER; }; }'";

const OPERATOR: [(&str, &str); 4] = [
    (
        "operator.yaml",
        "apiVersion: kudo.dev/v1beta1
name: pipes
operatorVersion: 0.1.0
kubernetesVersion: 1.17.0
tasks:
- name: make
  kind: Pipe
  spec:
    pod: make.yaml
    pipe:
    - { file: /tmp/made/greeting.txt, kind: ConfigMap, key: Greeting }
    - { envFile: /tmp/made/keys.env, kind: Secret, key: Keys }
- name: use
  kind: Apply
  spec: { resources: [use.yaml] }
plans:
  deploy:
    strategy: serial
    phases:
    - name: main
      strategy: serial
      steps:
      - { name: make, tasks: [make] }
      - { name: use, tasks: [use] }
",
    ),
    (
        "params.yaml",
        "apiVersion: kudo.dev/v1beta1
parameters: []
",
    ),
    (
        "templates/make.yaml",
        "apiVersion: v1
kind: Pod
spec:
  volumes: [{ name: made, emptyDir: {} }]
  initContainers:
  - name: make
    image: busybox:test
    command: [sh, -c, 'printf hello > /tmp/made/greeting.txt; echo PASSWORD=x1 > /tmp/made/keys.env']
    volumeMounts: [{ name: made, mountPath: /tmp/made }]
",
    ),
    (
        "templates/use.yaml",
        "apiVersion: v1
kind: Pod
metadata: { name: user }
spec:
  restartPolicy: Never
  containers:
  - name: main
    image: busybox:test
    command: [sh, -c, 'grep hello /made/greeting.txt && [ $PASSWORD = x1 ] && exec sleep 1000']
    envFrom: [{ secretRef: { name: '{{ .Pipes.Keys }}' } }]
    volumeMounts: [{ name: made, mountPath: /made }]
  volumes: [{ name: made, configMap: { name: '{{ .Pipes.Greeting }}' } }]
",
    ),
];

/// TO7
#[test]
fn an_engine_in_a_pod_runs_a_plan_with_a_pipe() {
    isolated(
        "kudo::an_engine_in_a_pod_runs_a_plan_with_a_pipe",
        |rig: &mut Rig| {
            rig.restart_server_at(SERVER);
            let server = rig.run("config view -o jsonpath={.clusters[0].cluster.server}");
            let service = rig.run("get service kubernetes -o jsonpath={.spec.clusterIP}");
            let rules = SERVICE_RULES.replace("SERVER", server.trim_start_matches("https://"));
            shell(&rules.replace("SERVICE", &service));
            rig.import(image());
            let flags =
                "--kudo-image=setpoint:test --kudo-image-pull-policy=Never --unsafe-self-signed-webhook-ca";
            kudo(rig, &format!("init {flags} --wait"));
            let package = rig.directory().join("operator");
            write_package(&package);
            kudo(
                rig,
                &format!("install {} --instance pipes --wait", package.display()),
            );
            let status = rig.run("get instance pipes -o jsonpath={.status.planStatus.deploy.status}");
            assert_eq!(status, "COMPLETE");
            let greeting =
                rig.run("get configmap pipes.deploy.main.make.make.greeting -o jsonpath={.binaryData}");
            assert!(greeting.contains("aGVsbG8="), "{greeting}");
            // The pod that made the files is deleted; the one that uses them has found what it expects.
            rig.wait_until("the pod of the pipe is gone", || {
                rig.run("get pods -o name") == "pod/user\n"
            });
            assert_eq!(rig.run("get pod user -o jsonpath={.status.phase}"), "Running");
            let manager = "-n kudo-system get pod kudo-controller-manager-0 -o";
            let restarts = rig.run(&format!(
                "{manager} jsonpath={{.status.containerStatuses[0].restartCount}}"
            ));
            assert_eq!(restarts, "0");
        },
    );
}

fn write_package(directory: &Path) {
    std::fs::create_dir_all(directory.join("templates")).unwrap();
    for (path, text) in OPERATOR {
        std::fs::write(directory.join(path), text).unwrap();
    }
}

fn shell(script: &str) {
    let status = Command::new("sh").args(["-c", script]).status().unwrap();
    assert!(status.success(), "{script}");
}

/// Runs a command of `setpoint kudo`, which must succeed.
fn kudo(rig: &Rig, line: &str) {
    let status = Command::new(env!("CARGO_BIN_EXE_setpoint"))
        .args(["kudo", "--kubeconfig"])
        .arg(rig.kubeconfig())
        .arg("--home")
        .arg(rig.directory().join("kudo"))
        .args(line.split(' '))
        .status()
        .unwrap();
    assert!(status.success(), "kudo {line}");
}

/// An image with this program and the libraries that it loads. Its user is not root.
fn image() -> Image {
    let program = env!("CARGO_BIN_EXE_setpoint");
    let output = Command::new("ldd").arg(program).output().unwrap();
    let libraries = String::from_utf8(output.stdout).unwrap();
    let libraries = libraries.split_whitespace().filter(|word| word.starts_with('/'));
    let file = |path: &str, source: &str| File {
        path: path.trim_start_matches('/').to_owned(),
        mode: 0o755,
        content: Content::Bytes(std::fs::read(source).unwrap()),
    };
    let files = libraries.map(|path| file(path, path));
    Image {
        names: vec![IMAGE.to_owned()],
        user: "65534".to_owned(),
        files: files.chain([file("bin/setpoint", program)]).collect(),
        ..Image::default()
    }
}
