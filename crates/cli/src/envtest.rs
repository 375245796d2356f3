//! `setpoint envtest`: installs this program under the names that envtest starts, `kube-apiserver` and `etcd`.

use std::env;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// The names under which this program is a control plane.
const PROGRAMS: [&str; 2] = ["kube-apiserver", "etcd"];
const KUBECTL: &str = "kubectl";

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Link this program as `kube-apiserver` and `etcd` in a directory, and print the environment variable by which
    /// envtest finds it.
    Install(InstallArgs),
}

#[derive(Debug, clap::Args)]
pub struct InstallArgs {
    /// The directory. It is created if it does not exist.
    pub dir: PathBuf,
    /// Replace programs that are already in the directory. Links are always replaced.
    #[arg(long)]
    pub force: bool,
}

pub fn run(command: &Command) -> Result<()> {
    match command {
        Command::Install(args) => {
            let program = env::current_exe().context("cannot find this program's path")?;
            let dir = install(args, &program)?;
            link_kubectl(&dir)?;
            println!("export KUBEBUILDER_ASSETS={}", quote(&dir.display().to_string()));
            Ok(())
        }
    }
}

/// Links the program under each name. Returns the absolute path of the directory.
fn install(args: &InstallArgs, program: &Path) -> Result<PathBuf> {
    fs::create_dir_all(&args.dir).with_context(|| format!("cannot create {}", args.dir.display()))?;
    let dir = args.dir.canonicalize();
    let dir = dir.with_context(|| format!("cannot use {}", args.dir.display()))?;
    for name in PROGRAMS {
        let path = dir.join(name);
        if !args.force && is_program(&path) {
            bail!("{} exists; use --force to replace it", path.display());
        }
        link_or_copy(program, &path).with_context(|| format!("cannot install {}", path.display()))?;
    }
    Ok(dir)
}

/// Links kubectl, which some suites need, unless the directory has one.
fn link_kubectl(dir: &Path) -> Result<()> {
    let path = dir.join(KUBECTL);
    if path.exists() {
        return Ok(());
    }
    match find_in_path(KUBECTL) {
        Some(kubectl) => {
            link_or_copy(&kubectl, &path).with_context(|| format!("cannot install {}", path.display()))
        }
        None => {
            eprintln!(
                "note: there is no kubectl in the PATH; suites that run kubectl need one in {}",
                dir.display()
            );
            Ok(())
        }
    }
}

/// Whether there is a file that is no link, such as a program that another tool installed.
fn is_program(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| !metadata.is_symlink())
}

/// Replaces `path` by a link, or by a copy where the file system has no links.
fn link_or_copy(program: &Path, path: &Path) -> io::Result<()> {
    let new = path.with_extension("new");
    let _ = fs::remove_file(&new);
    if symlink(program, &new).is_err() {
        fs::copy(program, &new)?;
    }
    fs::rename(&new, path)
}

fn find_in_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .map(|dir| dir.join(name))
        .find(|program| program.is_file())
}

/// A word of a POSIX shell.
fn quote(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+:@".contains(&byte);
    match text.bytes().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(dir: &Path, force: bool) -> InstallArgs {
        InstallArgs {
            dir: dir.to_owned(),
            force,
        }
    }

    #[test]
    fn links_are_replaced_and_programs_only_by_force() {
        let dir = tempfile::tempdir().unwrap();
        let assets = dir.path().join("assets");
        let program = dir.path().join("setpoint");
        fs::write(&program, "program").unwrap();
        for _ in 0..2 {
            install(&args(&assets, false), &program).unwrap();
        }
        assert_eq!(fs::read_link(assets.join("etcd")).unwrap(), program);
        fs::remove_file(assets.join("kube-apiserver")).unwrap();
        fs::write(assets.join("kube-apiserver"), "of another tool").unwrap();
        let error = install(&args(&assets, false), &program).unwrap_err().to_string();
        assert!(
            error.ends_with("kube-apiserver exists; use --force to replace it"),
            "{error}"
        );
        install(&args(&assets, true), &program).unwrap();
        assert_eq!(
            fs::read_to_string(assets.join("kube-apiserver")).unwrap(),
            "program"
        );
    }

    #[test]
    fn the_printed_path_is_one_word_of_a_shell() {
        assert_eq!(quote("/a/b-1.0"), "/a/b-1.0");
        assert_eq!(quote("/a b/it's"), r"'/a b/it'\''s'");
    }
}
