//! `setpoint kuttl test`: what ends with it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

const SUITE: &str = "apiVersion: kuttl.dev/v1beta1\nkind: TestSuite\ntestDirs: [cases]\ncommands:\n\
    - script: 'sleep 1000 & echo $! > id; touch ready; wait'\n";

const KUBECONFIG: &str = "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n\
    contexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n";

/// Waits for a condition, in at most a minute.
async fn until(what: &str, condition: impl Fn() -> bool) {
    for _ in 0..6000 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never became true: {what}");
}

fn is_alive(id: &str) -> bool {
    let stat = Path::new("/proc").join(id).join("stat");
    fs::read_to_string(stat).is_ok_and(|stat| !stat.contains(") Z "))
}

/// TO7
#[tokio::test]
async fn a_runner_that_is_terminated_ends_the_processes_of_its_commands() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    fs::create_dir(path("cases")).unwrap();
    fs::write(path("kuttl-test.yaml"), SUITE).unwrap();
    fs::write(path("config"), KUBECONFIG).unwrap();
    let mut runner = Command::new(env!("CARGO_BIN_EXE_setpoint"))
        .args(["kuttl", "test", "--kubeconfig"])
        .arg(path("config"))
        .current_dir(dir.path())
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    until("the command runs", || path("ready").exists()).await;
    let id = fs::read_to_string(path("id")).unwrap();
    assert!(is_alive(id.trim()));
    kill_process(Pid::from_child(&runner), Signal::TERM).unwrap();
    assert!(!runner.wait().unwrap().success());
    until("the child of the command has ended", || !is_alive(id.trim())).await;
}
