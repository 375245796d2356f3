//! Third-party programs that tests use: where they are found, and which packages may be installed.

use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A third-party program. A test that reads its path from the variable needs it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Component {
    pub(super) name: &'static str,
    /// The environment variable that carries the program's path to the tests. If the user sets it, it takes
    /// precedence.
    pub(super) variable: &'static str,
    /// The name of the program on the PATH.
    pub(super) program: &'static str,
    /// The Debian package that may be installed for it.
    pub(super) package: Option<&'static str>,
    /// Programs that its tests start, too, each with its Debian package.
    pub(super) also_needs: &'static [(&'static str, &'static str)],
    /// Whether CI fails without it.
    pub(super) required: bool,
}

pub(super) const PYTHON: &Component = &Component {
    name: "Python",
    variable: "SETPOINT_PYTHON",
    program: "python3",
    package: Some("python3-venv"),
    also_needs: &[],
    required: true,
};

pub(super) const NODE: &Component = &Component {
    name: "Node",
    variable: "SETPOINT_NODE",
    program: "node",
    package: None,
    also_needs: &[],
    required: false,
};

pub(super) const GO: &Component = &Component {
    name: "Go",
    variable: "SETPOINT_GO",
    program: "go",
    package: Some("golang-go"),
    also_needs: &[],
    required: false,
};

pub(super) const ETCD: &Component = &Component {
    name: "etcd",
    variable: "SETPOINT_ETCD",
    program: "etcd",
    package: Some("etcd-server"),
    also_needs: &[],
    required: true,
};

pub(super) const ALL: &[&Component] = &[
    &Component {
        name: "kubectl",
        variable: "SETPOINT_KUBECTL",
        program: "kubectl",
        package: Some("kubernetes-client"),
        also_needs: &[],
        required: true,
    },
    ETCD,
    &Component {
        name: "containerd",
        variable: "SETPOINT_CONTAINERD",
        program: "containerd",
        package: Some("containerd"),
        also_needs: &[
            ("runc", "runc"),
            ("busybox", "busybox-static"),
            ("ip", "iproute2"),
            ("nft", "nftables"),
            ("/usr/lib/cni/bridge", "containernetworking-plugins"),
        ],
        required: false,
    },
    PYTHON,
    NODE,
    GO,
];

impl Component {
    /// The program's path, after installing its package and those of what it also needs if allowed; or why there is none.
    pub(super) fn find_or_install(&self) -> Result<PathBuf, String> {
        let path = self.find_or_install_program()?;
        for (program, package) in self.also_needs {
            if on_path(program).is_none() {
                install(package)?;
            }
        }
        Ok(path)
    }

    fn find_or_install_program(&self) -> Result<PathBuf, String> {
        if let Some(path) = self.find() {
            return Ok(path);
        }
        let package = self
            .package
            .ok_or_else(|| format!("`{}` was not found, and there is no package for it", self.program))?;
        install(package)?;
        self.find().ok_or_else(|| {
            format!(
                "package {package} is installed, but `{}` was not found",
                self.program
            )
        })
    }

    fn find(&self) -> Option<PathBuf> {
        let configured = std::env::var_os(self.variable)
            .filter(|path| !path.is_empty())
            .map(PathBuf::from);
        configured.or_else(|| on_path(self.program))
    }
}

fn on_path(program: &str) -> Option<PathBuf> {
    let directories = std::env::var_os("PATH")?;
    std::env::split_paths(&directories)
        .map(|directory| directory.join(program))
        .find(|path| path.is_file())
}

/// Installs a Debian package, only as root on Debian: a developer's machine is not changed.
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
        Ok(status) => Err(format!("`apt-get {}` failed: {status}", args.join(" "))),
        Err(error) => Err(format!("cannot start `apt-get`: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_on_the_path() {
        assert!(on_path("sh").is_some_and(|path| path.is_absolute()));
        assert_eq!(on_path("a-missing-program"), None);
    }

    #[test]
    fn a_missing_program_without_a_package_is_an_error() {
        let missing = Component {
            name: "a",
            variable: "SETPOINT_NOT_SET",
            program: "a-missing-program",
            package: None,
            also_needs: &[],
            required: false,
        };
        assert_eq!(
            missing.find_or_install().unwrap_err(),
            "`a-missing-program` was not found, and there is no package for it"
        );
    }
}
