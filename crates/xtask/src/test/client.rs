//! Suites written with other people's clients, in `e2e/`: how each is made ready to run.
//!
//! What is fetched or built goes below `target/e2e`. A suite whose packages cannot be had is skipped with the reason.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Makes a suite ready; gives the command line that runs it, or why there is none.
pub(super) type Prepare = fn(&Place<'_>) -> Result<Vec<OsString>, String>;

/// Where things are.
#[derive(Debug)]
pub(super) struct Place<'a> {
    pub(super) root: &'a Path,
    pub(super) target: &'a Path,
    /// The program of the first component that the suite needs.
    pub(super) program: Option<&'a Path>,
}

/// A virtual environment with the client in it.
pub(super) fn python(place: &Place<'_>) -> Result<Vec<OsString>, String> {
    let (suite, venv) = (place.suite("python"), place.made("python"));
    let python = venv.join("bin/python");
    if !python.is_file() {
        run(Command::new(place.program()?).args(["-m", "venv"]).arg(&venv))?;
    }
    let wanted = suite.join("requirements.txt");
    run(Command::new(&python)
        .args(["-m", "pip", "install", "--quiet", "-r"])
        .arg(wanted))?;
    Ok(vec![python.into(), suite.join("suite.py").into()])
}

/// The suite is copied, so that its packages lie beside it and not in the source tree.
pub(super) fn node(place: &Place<'_>) -> Result<Vec<OsString>, String> {
    let (suite, made) = (place.suite("node"), place.made("node"));
    fs::create_dir_all(&made).map_err(|error| error.to_string())?;
    for file in ["package.json", "package-lock.json", "suite.mjs"] {
        fs::copy(suite.join(file), made.join(file)).map_err(|error| format!("copy {file}: {error}"))?;
    }
    run(Command::new("npm")
        .args(["ci", "--silent", "--no-audit", "--no-fund"])
        .current_dir(&made))?;
    Ok(vec![place.program()?.into(), made.join("suite.mjs").into()])
}

pub(super) fn client_go(place: &Place<'_>) -> Result<Vec<OsString>, String> {
    let program = place.made("client-go").join("suite");
    run(Command::new(place.program()?)
        .args(["build", "-o"])
        .arg(&program)
        .arg(".")
        .current_dir(place.suite("client-go")))?;
    Ok(vec![program.into()])
}

/// The definitions themselves are fetched too, where modules can be had.
pub(super) fn crds(place: &Place<'_>) -> Result<Vec<OsString>, String> {
    let go = place.program()?;
    let (program, corpus) = (
        place.made("crds").join("suite"),
        place.made("crds").join("corpus.json"),
    );
    run(Command::new(go)
        .args(["build", "-o"])
        .arg(&program)
        .arg(".")
        .current_dir(place.suite("crds")))?;
    run(Command::new(&program)
        .arg("fetch")
        .arg(&corpus)
        .env("SETPOINT_GO", go))?;
    Ok(vec![program.into(), corpus.into()])
}

/// A workspace of its own, so that the house's lock file stays clean.
pub(super) fn kube_rs(place: &Place<'_>) -> Result<Vec<OsString>, String> {
    let made = place.made("kube-rs");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    run(Command::new(cargo)
        .args(["build", "--quiet", "--locked", "--target-dir"])
        .arg(&made)
        .current_dir(place.suite("kube-rs")))?;
    Ok(vec![made.join("debug/suite").into()])
}

impl Place<'_> {
    fn suite(&self, name: &str) -> PathBuf {
        self.root.join("e2e").join(name)
    }

    fn made(&self, name: &str) -> PathBuf {
        self.target.join("e2e").join(name)
    }

    fn program(&self) -> Result<&Path, String> {
        self.program
            .ok_or_else(|| "no program is named for it".to_owned())
    }
}

fn run(command: &mut Command) -> Result<(), String> {
    let line = format!("{command:?}");
    match command.stdin(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{line} ended with {status}")),
        Err(error) => Err(format!("{line} does not start: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suite_that_cannot_be_made_ready_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place {
            root: folder.path(),
            target: folder.path(),
            program: Some(Path::new("a-program-nobody-has")),
        };
        let why = python(&place).unwrap_err();
        assert!(why.contains("does not start"), "{why}");
        assert!(node(&place).unwrap_err().starts_with("copy package.json"));
    }
}
