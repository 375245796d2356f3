//! Real programs that tests use: where they are found, and what may be installed.

use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A program of somebody else. A test reads its path from the variable, and by that needs it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Component {
    pub(super) name: &'static str,
    /// The environment variable that carries the program's path to the tests; set by hand, it wins.
    pub(super) variable: &'static str,
    /// Looked for on the PATH.
    pub(super) program: &'static str,
    /// The Debian package that may be installed for it.
    pub(super) package: Option<&'static str>,
    /// Whether CI fails without it.
    pub(super) required: bool,
}

pub(super) const PYTHON: &Component = &Component {
    name: "Python",
    variable: "SETPOINT_PYTHON",
    program: "python3",
    package: Some("python3-venv"),
    required: true,
};

pub(super) const NODE: &Component = &Component {
    name: "Node",
    variable: "SETPOINT_NODE",
    program: "node",
    package: None,
    required: false,
};

pub(super) const GO: &Component = &Component {
    name: "Go",
    variable: "SETPOINT_GO",
    program: "go",
    package: Some("golang-go"),
    required: false,
};

pub(super) const ALL: &[&Component] = &[
    &Component {
        name: "kubectl",
        variable: "SETPOINT_KUBECTL",
        program: "kubectl",
        package: Some("kubernetes-client"),
        required: true,
    },
    &Component {
        name: "etcd",
        variable: "SETPOINT_ETCD",
        program: "etcd",
        package: Some("etcd-server"),
        required: true,
    },
    &Component {
        name: "containerd",
        variable: "SETPOINT_CONTAINERD",
        program: "containerd",
        package: Some("containerd"),
        required: false,
    },
    PYTHON,
    NODE,
    GO,
];

impl Component {
    /// The program's path, installing its package where that is allowed; or why there is none.
    pub(super) fn find_or_install(&self) -> Result<PathBuf, String> {
        if let Some(path) = self.find() {
            return Ok(path);
        }
        let package = self
            .package
            .ok_or_else(|| format!("`{}` is not there, and there is no package for it", self.program))?;
        install(package)?;
        self.find().ok_or_else(|| {
            format!(
                "package {package} is installed, but `{}` is not there",
                self.program
            )
        })
    }

    fn find(&self) -> Option<PathBuf> {
        let given = std::env::var_os(self.variable)
            .filter(|path| !path.is_empty())
            .map(PathBuf::from);
        given.or_else(|| on_path(self.program))
    }
}

fn on_path(program: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders)
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}

/// Installs a Debian package, as root on Debian only: nobody's desk is changed behind their back.
fn install(package: &str) -> Result<(), String> {
    if !is_root() || on_path("apt-get").is_none() {
        return Err(format!(
            "not on the PATH; as root on Debian, package {package} would be installed"
        ));
    }
    println!("installing package {package}");
    let fetched = apt_get(&["update", "-qq"]);
    fetched.and_then(|()| apt_get(&["install", "-y", "-qq", "--no-install-recommends", package]))
}

fn is_root() -> bool {
    let output = Command::new("id").arg("-u").output();
    output.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

fn apt_get(args: &[&str]) -> Result<(), String> {
    let mut command = Command::new("apt-get");
    command
        .args(args)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`apt-get {}` ended with {status}", args.join(" "))),
        Err(error) => Err(format!("`apt-get` does not start: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_on_the_path() {
        assert!(on_path("sh").is_some_and(|path| path.is_absolute()));
        assert_eq!(on_path("a-program-nobody-has"), None);
    }

    #[test]
    fn a_program_without_a_package_says_why_it_is_missing() {
        let missing = Component {
            name: "a",
            variable: "SETPOINT_NOT_SET",
            program: "a-program-nobody-has",
            package: None,
            required: false,
        };
        assert_eq!(
            missing.find_or_install().unwrap_err(),
            "`a-program-nobody-has` is not there, and there is no package for it"
        );
    }
}
