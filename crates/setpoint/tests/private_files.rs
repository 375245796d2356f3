//! Private files: no other user may read or change what a cluster stores.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster;

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use cluster::Cluster;

/// The mode of every file and directory below `dir`, and of `dir` itself.
fn modes(dir: &Path) -> Vec<(PathBuf, u32)> {
    let mut modes = vec![(dir.to_owned(), mode(dir))];
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => modes.extend(self::modes(&path)),
            false => modes.push((path.clone(), mode(&path))),
        }
    }
    modes
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Checks the modes of a data directory. Certificates are public.
#[track_caller]
fn check_private(dir: &Path) {
    for (path, mode) in modes(dir) {
        let expected = match path.extension().and_then(|extension| extension.to_str()) {
            _ if path.is_dir() => 0o700,
            Some("crt") => continue,
            _ => 0o600,
        };
        assert_eq!(mode, expected, "{} has mode {mode:o}", path.display());
    }
}

/// Runs a command with a umask that takes nothing away.
fn run_without_umask(line: &str) -> Output {
    let command = format!("umask 000; exec {} {line}", env!("CARGO_BIN_EXE_setpoint"));
    Command::new("sh").args(["-c", &command]).output().unwrap()
}

#[track_caller]
fn check_fails(line: &str, message: &str) {
    let output = run_without_umask(line);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && stderr.contains(message), "{stderr}");
}

#[test]
fn a_data_directory_is_private() {
    let dir = Arc::new(tempfile::tempdir().unwrap());
    chmod(dir.path(), 0o777);
    let cluster = Cluster::start(&dir, &[]);
    check_private(dir.path());
    drop(cluster);
    for (path, mode) in modes(dir.path()) {
        chmod(&path, mode | 0o044);
    }
    let cluster = Cluster::start(&dir, &[]);
    chmod(dir.path(), 0o700);
    check_private(dir.path());
    drop(cluster);
}

#[test]
fn backups_and_restored_stores_are_private_whatever_the_umask_is() {
    let cluster = Cluster::new(&[]);
    let elsewhere = tempfile::tempdir().unwrap();
    chmod(elsewhere.path(), 0o700);
    let kubeconfig = cluster.kubeconfig().display().to_string();
    let from_server = elsewhere.path().join("from-server");
    let line = format!("store backup --kubeconfig {kubeconfig} {}", from_server.display());
    assert!(run_without_umask(&line).status.success());
    let restored = elsewhere.path().join("restored");
    let line = format!("store restore {} {}", from_server.display(), restored.display());
    assert!(run_without_umask(&line).status.success());
    let from_dir = elsewhere.path().join("from-dir");
    let line = format!(
        "store backup --data-dir {} {}",
        restored.display(),
        from_dir.display()
    );
    assert!(run_without_umask(&line).status.success());
    check_private(elsewhere.path());
}

#[test]
fn a_directory_that_others_can_write_to_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let line = format!("up --listen 127.0.0.1:0 --data-dir {}", dir.path().display());
    fs::write(dir.path().join("planted"), "").unwrap();
    chmod(dir.path(), 0o777);
    check_fails(&line, "other users may write to it (mode 0777)");
    chmod(dir.path(), 0o700);
    for inner in ["pki", "store"] {
        let inner = dir.path().join(inner);
        fs::create_dir_all(&inner).unwrap();
        fs::write(inner.join("planted"), "").unwrap();
        chmod(&inner, 0o770);
        check_fails(&line, &format!("{} is not private", inner.display()));
        chmod(&inner, 0o700);
    }
    let key = dir.path().join("pki/ca.key");
    fs::write(&key, "").unwrap();
    chmod(&key, 0o620);
    check_fails(&line, "ca.key is not private");
}

#[test]
fn a_directory_of_another_user_is_rejected() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let line = format!("up --listen 127.0.0.1:0 --data-dir {}", dir.path().display());
    let pki = dir.path().join("pki");
    fs::create_dir(&pki).unwrap();
    for theirs in [&pki, dir.path()] {
        chown(theirs, Some(1234), None).unwrap();
        check_fails(
            &line,
            &format!("{} is not private: it belongs to user 1234", theirs.display()),
        );
        chown(theirs, Some(0), None).unwrap();
    }
}

#[test]
fn a_cluster_in_memory_creates_a_private_directory_with_an_unforeseeable_name() {
    let shared = tempfile::tempdir().unwrap();
    chmod(shared.path(), 0o1777);
    let mut server = Command::new(env!("CARGO_BIN_EXE_setpoint"))
        .args(["up", "--memory", "--listen", "127.0.0.1:0"])
        .env("TMPDIR", shared.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut output = BufReader::new(server.stdout.take().unwrap());
    output.read_line(&mut line).unwrap();
    let made = fs::read_dir(shared.path())
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let pid = server.id().to_string();
    assert!(!made.display().to_string().contains(&pid), "{}", made.display());
    check_private(&made);
    let pid = rustix::process::Pid::from_child(&server);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(server.wait().unwrap().success());
    assert!(!made.exists(), "it is removed at the end");
}
