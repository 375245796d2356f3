//! `setpoint test`: a command with a cluster of its own.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};

fn setpoint(flags: &[&str], script: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_setpoint"));
    command
        .arg("test")
        .args(flags)
        .args(["--", "sh", "-c", script])
        .stdin(Stdio::null());
    command
}

fn run(flags: &[&str], script: &str) -> Output {
    setpoint(flags, script).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_owned()
}

/// kubectl, if there is one on this machine.
fn kubectl() -> Option<String> {
    let program = std::env::var("SETPOINT_KUBECTL").unwrap_or_else(|_| "kubectl".to_owned());
    let found = Command::new(&program).args(["version", "--client"]).output();
    match found.is_ok_and(|output| output.status.success()) {
        true => Some(program),
        false => {
            assert_ne!(
                std::env::var("CI").as_deref(),
                Ok("true"),
                "kubectl is required here"
            );
            None
        }
    }
}

#[track_caller]
fn check(script: &str, code: i32) {
    assert_eq!(
        run(&["--controllers", "none"], script).status.code(),
        Some(code),
        "{script}"
    );
}

#[test]
fn the_exit_code_is_that_of_the_command() {
    check("exit 0", 0);
    check("exit 7", 7);
    check("kill -TERM $$", 143);
}

#[test]
fn a_command_that_cannot_be_run_is_named() {
    let output = Command::new(env!("CARGO_BIN_EXE_setpoint"))
        .args(["test", "--", "/no/such/command"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("cannot run /no/such/command"));
}

#[test]
fn the_cluster_is_deleted_with_its_directory() {
    let output = run(
        &["--controllers", "none"],
        "echo $KUBECONFIG; test -s $KUBECONFIG",
    );
    assert!(output.status.success(), "{output:?}");
    let kubeconfig = text(&output.stdout);
    let dir = Path::new(&kubeconfig).parent().unwrap();
    assert!(dir.is_absolute() && !dir.exists(), "{kubeconfig}");
}

#[test]
fn kubectl_works_with_the_kubeconfig_of_the_environment() {
    let Some(kubectl) = kubectl() else { return };
    let script = format!(
        "{kubectl} create deployment web --image=nginx && \
        {kubectl} wait --for condition=available --timeout=60s deployment/web -o name"
    );
    let output = run(&[], &script);
    assert!(output.status.success(), "{output:?}");
    assert!(text(&output.stdout).contains("deployment.apps/web"), "{output:?}");
}

const WIDGETS: &str = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, kind: Widget}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
";

#[test]
fn custom_resource_definitions_are_established_before_the_command_starts() {
    let Some(kubectl) = kubectl() else { return };
    let dir = tempfile::tempdir().unwrap();
    // The object of the kind is in an earlier file than its CustomResourceDefinition.
    let object = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\n---\n# nothing\n";
    std::fs::write(dir.path().join("a.yaml"), object).unwrap();
    std::fs::write(dir.path().join("b.yaml"), WIDGETS).unwrap();
    std::fs::write(dir.path().join("README.md"), "not a manifest").unwrap();
    let path = dir.path().display().to_string();
    let script = format!("{kubectl} get widgets -o name");
    let output = run(&["--controllers", "none", "--crds", &path], &script);
    assert_eq!(text(&output.stdout), "widget.example.com/w", "{output:?}");
}

#[test]
fn an_invalid_manifest_is_named_and_the_command_is_not_started() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("bad.yaml");
    std::fs::write(&file, "apiVersion: v1\nkind: Nothing\nmetadata: {name: a}\n").unwrap();
    let path = file.display().to_string();
    let output = run(&["--controllers", "none", "--crds", &path], "echo started");
    assert_eq!(
        (output.status.code(), text(&output.stdout)),
        (Some(1), String::new())
    );
    let stderr = text(&output.stderr);
    let expected = "no matches for kind \"Nothing\" in version \"v1\"";
    assert!(
        stderr.contains(expected) && stderr.contains("bad.yaml"),
        "{stderr}"
    );
}

#[test]
fn a_signal_ends_the_command_and_all_that_it_started() {
    for (signal, number) in [(Signal::TERM, 15), (Signal::INT, 2)] {
        // Both hold the standard output open, so its end shows that both have ended.
        let script = "trap 'exit 3' INT TERM; (trap '' INT TERM; sleep 1000) & echo started; wait";
        let mut process = setpoint(&["--controllers", "none"], script)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        assert_eq!(line, "started\n");
        kill_process(Pid::from_child(&process), signal).unwrap();
        let mut rest = String::new();
        lines.read_to_string(&mut rest).unwrap();
        let status = process.wait().unwrap();
        assert_eq!(
            (status.code(), status.signal()),
            (Some(3), None),
            "signal {number}"
        );
    }
}

#[test]
fn processes_that_the_command_leaves_behind_are_ended() {
    let output = run(&["--controllers", "none"], "sleep 1000 & exit 0");
    assert!(output.status.success());
}
