//! The steps, in order: the fastest to fail come first.
//!
//! All cargo steps select the whole workspace and differ only in their targets: cargo then resolves the same features
//! each time and builds every dependency once.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::client::{self, Prepare};
use super::component::{self, Component};
use super::conformance;
use super::outcome::Outcome;
use super::package;
use super::time_limit;

/// A step of the test run.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) name: &'static str,
    pub(super) needs: Vec<&'static Component>,
    action: Action,
}

#[derive(Debug)]
enum Action {
    /// `cargo test --workspace` with these arguments.
    Cargo(Vec<String>),
    /// `setpoint-conformance` with these arguments, in the workspace root.
    Conformance(&'static [&'static str]),
    /// `setpoint-soak` with these arguments.
    Soak(&'static [&'static str]),
    /// `setpoint-soak` with these arguments and the program of etcd, in namespaces of its own.
    SoakEtcd(&'static [&'static str]),
    /// A suite of a third-party client, against a server started for it.
    Client(Prepare),
    /// The same on etcd instead of in memory.
    ClientOnEtcd(Prepare),
    /// The tests with kubectl, on etcd instead of in memory.
    KubectlOnEtcd(Vec<String>),
    /// The tests of the store on etcd, with the newest etcd instead of the installed one.
    NewestEtcd,
    /// All recorded cases, on etcd instead of in memory.
    ReplayOnEtcd,
    /// Packages of the published crates.
    Package,
    /// Nothing to run, with the reason.
    Nothing(String),
}

/// Fuzzed requests, with a fixed seed.
const FUZZ: &[&str] = &["fuzz", "--requests", "2000", "--seed", "1"];

/// All recorded cases. Retries are limited, since a missing feature would use up their whole time.
const REPLAY: &[&str] = &[
    "replay",
    "--transcripts",
    "reference/transcripts",
    "--floors",
    "crates/conformance/floors.toml",
    "--max-retry-ms",
    "2000",
    "--show",
    "0",
];

/// The decisions of the scheduler, compared with those of kube-scheduler.
const SCHEDULING: &[&str] = &[
    "scheduling",
    "check",
    "--known",
    "crates/conformance/scheduling/known-differences.toml",
    "--floors",
    "crates/conformance/floors.toml",
];

/// A short run of all faults. The server is a debug build on a busy machine, so only the order of magnitude of the latency
/// is checked.
const SOAK: &[&str] = &["--minutes", "1", "--seed", "1"];

/// A short run of servers that share an etcd: one or two rounds under a few faults. Hours of it are for the command.
const SOAK_ETCD: &[&str] = &["--etcd", "histories", "--minutes", "1", "--seed", "1"];

/// How the names of tests with kubectl begin.
const KUBECTL_TESTS: &str = "kubectl";

/// The variable by which the tests that start servers have them store their objects on etcd.
const STORE_ETCD: &str = "SETPOINT_STORE_ETCD";

/// The root of a test that has a directory of its own.
const MAIN: &str = "main.rs";

/// The directories of tests that need the `setpoint` binary.
const E2E_DIRS: &[&str] = &["crates/setpoint", "examples"];

/// Every step. A new one is one more row.
pub(super) fn all(root: &Path) -> Result<Vec<Step>> {
    let (e2e, integration): (Vec<PathBuf>, Vec<PathBuf>) = test_files(root)?
        .into_iter()
        .partition(|path| E2E_DIRS.iter().any(|dir| path.starts_with(root.join(dir))));
    check_names(&integration, &e2e)?;
    Ok(vec![
        Step::cargo("unit", &["--lib", "--bins", "--examples"]),
        Step::files("integration", root, &integration)?,
        Step::cargo("doc", &["--doc"]),
        Step::package("package"),
        Step::files("e2e", root, &e2e)?,
        Step::conformance("fuzz", FUZZ),
        Step::conformance("replay", REPLAY),
        Step::conformance("scheduling", SCHEDULING),
        Step::soak("soak", SOAK),
        Step::soak_etcd("soak-etcd", SOAK_ETCD),
        Step::newest_etcd("newest-etcd"),
        Step::replay_on_etcd("replay-etcd"),
        Step::client("python", &[component::PYTHON], client::python),
        Step::client("shell-operator", &[component::PYTHON], client::shell_operator),
        Step::client("node", &[component::NODE], client::node),
        Step::client("client-go", &[component::GO], client::client_go),
        Step::client("envtest", &[component::GO], client::envtest),
        Step::client("crds", &[component::GO], client::crds),
        Step::client("kube-rs", &[], client::kube_rs),
        Step::kubectl_on_etcd("kubectl-etcd", root, &e2e)?,
        Step::client_on_etcd(
            "python-etcd",
            &[component::PYTHON, component::ETCD],
            client::python,
        ),
        Step::client_on_etcd("node-etcd", &[component::NODE, component::ETCD], client::node),
        Step::client_on_etcd(
            "client-go-etcd",
            &[component::GO, component::ETCD],
            client::client_go,
        ),
        Step::client_on_etcd("kube-rs-etcd", &[component::ETCD], client::kube_rs),
    ])
}

impl Step {
    fn cargo(name: &'static str, args: &[&str]) -> Self {
        let args = args.iter().map(ToString::to_string).collect();
        Self {
            name,
            needs: Vec::new(),
            action: Action::Cargo(args),
        }
    }

    fn conformance(name: &'static str, args: &'static [&'static str]) -> Self {
        Self {
            name,
            needs: Vec::new(),
            action: Action::Conformance(args),
        }
    }

    fn soak(name: &'static str, args: &'static [&'static str]) -> Self {
        Self {
            name,
            needs: Vec::new(),
            action: Action::Soak(args),
        }
    }

    fn soak_etcd(name: &'static str, args: &'static [&'static str]) -> Self {
        Self {
            name,
            needs: vec![component::ETCD],
            action: Action::SoakEtcd(args),
        }
    }

    fn package(name: &'static str) -> Self {
        Self {
            name,
            needs: Vec::new(),
            action: Action::Package,
        }
    }

    fn newest_etcd(name: &'static str) -> Self {
        Self {
            name,
            needs: vec![component::GO],
            action: Action::NewestEtcd,
        }
    }

    fn replay_on_etcd(name: &'static str) -> Self {
        Self {
            name,
            needs: vec![component::ETCD],
            action: Action::ReplayOnEtcd,
        }
    }

    fn client(name: &'static str, needs: &[&'static Component], prepare: Prepare) -> Self {
        Self {
            name,
            needs: needs.to_vec(),
            action: Action::Client(prepare),
        }
    }

    fn client_on_etcd(name: &'static str, needs: &[&'static Component], prepare: Prepare) -> Self {
        Self {
            name,
            needs: needs.to_vec(),
            action: Action::ClientOnEtcd(prepare),
        }
    }

    /// The tests whose files are named after kubectl.
    fn kubectl_on_etcd(name: &'static str, root: &Path, files: &[PathBuf]) -> Result<Self> {
        let is_kubectl =
            |path: &&PathBuf| target_name(path).is_some_and(|name| name.starts_with(KUBECTL_TESTS));
        let files: Vec<PathBuf> = files.iter().filter(is_kubectl).cloned().collect();
        let step = Self::files(name, root, &files)?;
        let mut needs = step.needs;
        if !needs.contains(&component::ETCD) {
            needs.push(component::ETCD);
        }
        Ok(Self {
            name,
            needs,
            action: match step.action {
                Action::Cargo(args) => Action::KubectlOnEtcd(args),
                action => action,
            },
        })
    }

    /// Runs the given integration tests with the components that their sources name.
    fn files(name: &'static str, root: &Path, files: &[PathBuf]) -> Result<Self> {
        if files.is_empty() {
            return Ok(Self {
                name,
                needs: Vec::new(),
                action: Action::Nothing("there are no such tests".to_owned()),
            });
        }
        let names = files.iter().filter_map(|path| target_name(path));
        let args = names
            .flat_map(|target| ["--test".to_owned(), target.to_owned()])
            .collect();
        Ok(Self {
            name,
            needs: needs(root, files)?,
            action: Action::Cargo(args),
        })
    }

    /// Runs the step with the paths of its components in the environment.
    pub(super) fn run(&self, root: &Path, variables: &[(&str, PathBuf)]) -> Outcome {
        match &self.action {
            Action::Nothing(why) => Outcome::Skipped(why.clone()),
            Action::Cargo(args) => cargo_test(root, args, variables),
            Action::NewestEtcd => test_newest_etcd(root, variables),
            Action::ReplayOnEtcd => replay_on_etcd(root, variables),
            Action::Package => package::run(root),
            Action::Conformance(args) => conformance::run_command(root, args),
            Action::Soak(args) => conformance::run_soak(root, args),
            Action::SoakEtcd(args) => conformance::run_soak_etcd(root, args, variables),
            Action::Client(prepare) => conformance::run_client_suite(root, *prepare, variables, None),
            Action::ClientOnEtcd(prepare) => match etcd_program(variables) {
                Ok(etcd) => conformance::run_client_suite(root, *prepare, variables, Some(etcd)),
                Err(outcome) => outcome,
            },
            Action::KubectlOnEtcd(args) => match etcd_program(variables) {
                Ok(etcd) => {
                    let store = (STORE_ETCD, etcd.to_owned());
                    cargo_test(root, args, &[variables, &[store]].concat())
                }
                Err(outcome) => outcome,
            },
        }
    }

    #[cfg(test)]
    pub(super) fn empty(name: &'static str) -> Self {
        Self::cargo(name, &[])
    }
}

/// Builds the newest etcd and runs the tests that start an etcd. If it cannot be built, the step is skipped.
fn test_newest_etcd(root: &Path, variables: &[(&str, PathBuf)]) -> Outcome {
    let built = conformance::with_suite_context(root, variables, client::newest_etcd);
    let etcd = match built {
        Ok(program) => program,
        Err(why) => return Outcome::Skipped(why),
    };
    let tests = ["--test", "etcd", "--test", "etcd_servers"].map(str::to_owned);
    cargo_test(root, &tests, &[("SETPOINT_ETCD", etcd)])
}

/// Replays all recorded cases, each area on a server with an etcd of its own.
fn replay_on_etcd(root: &Path, variables: &[(&str, PathBuf)]) -> Outcome {
    let program = match etcd_program(variables) {
        Ok(program) => program,
        Err(outcome) => return outcome,
    };
    let replay = REPLAY.iter().map(OsStr::new);
    let args: Vec<&OsStr> = replay
        .chain([OsStr::new("--etcd"), program.as_os_str()])
        .collect();
    conformance::run_command(root, &args)
}

/// The program of the component etcd.
fn etcd_program<'a>(variables: &'a [(&str, PathBuf)]) -> Result<&'a Path, Outcome> {
    let mut variables = variables.iter();
    let etcd = variables.find(|(name, _)| *name == component::ETCD.variable);
    etcd.map(|(_, program)| program.as_path())
        .ok_or_else(|| Outcome::Failed("the step needs etcd".to_owned()))
}

/// Continues after a failed target, so that one run shows all failures.
fn cargo_test(root: &Path, args: &[String], variables: &[(&str, PathBuf)]) -> Outcome {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let limit = match time_limit::cargo_arguments() {
        Ok(arguments) => arguments,
        Err(error) => return Outcome::Failed(format!("{error:#}")),
    };
    let mut command = Command::new(cargo);
    command
        .current_dir(root)
        .args(["test", "--workspace", "--locked", "--no-fail-fast"])
        .args(limit)
        .args(args);
    command
        .envs(variables.iter().map(|(name, path)| (name, path)))
        .stdin(Stdio::null());
    match command.status() {
        Ok(status) if status.success() => Outcome::Passed,
        Ok(status) => Outcome::Failed(format!("cargo test: {status}")),
        Err(error) => Outcome::Failed(format!("cannot start cargo: {error}")),
    }
}

/// The integration tests of all crates: the files directly in `crates/*/tests` and `examples/*/tests`, and `main.rs` of the
/// directories there.
fn test_files(root: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut crates = entries(&root.join("crates"))?;
    if root.join("examples").is_dir() {
        crates.extend(entries(&root.join("examples"))?);
    }
    for krate in crates {
        let directory = krate.join("tests");
        if directory.is_dir() {
            let tests = entries(&directory)?.into_iter().map(|path| match path.is_dir() {
                true => path.join(MAIN),
                false => path,
            });
            files.extend(tests.filter(|path| is_rust(path) && path.is_file()));
        }
    }
    Ok(files)
}

/// Cargo selects tests by the names of their files. A name in both steps would run both tests twice, in one of the steps
/// without their components.
fn check_names(integration: &[PathBuf], e2e: &[PathBuf]) -> Result<()> {
    let names: Vec<&str> = e2e.iter().filter_map(|path| target_name(path)).collect();
    for path in integration {
        if target_name(path).is_some_and(|name| names.contains(&name)) {
            bail!(
                "{}: a test that needs the binary has the same name",
                path.display()
            );
        }
    }
    Ok(())
}

/// The name that cargo gives to the target of a test file: that of the file, or of the directory if it is `main.rs`.
fn target_name(path: &Path) -> Option<&str> {
    let named = match path.ends_with(MAIN) {
        true => path.parent()?,
        false => path,
    };
    named.file_stem()?.to_str()
}

/// The components whose variable occurs in these files or in the modules beside them.
fn needs(root: &Path, files: &[PathBuf]) -> Result<Vec<&'static Component>> {
    let mut text = String::new();
    let mut directories: Vec<&Path> = files.iter().filter_map(|path| path.parent()).collect();
    directories.dedup();
    for directory in directories {
        read_all(directory, &mut text).with_context(|| format!("read the tests below {}", root.display()))?;
    }
    Ok(component::ALL
        .iter()
        .filter(|component| text.contains(component.variable))
        .copied()
        .collect())
}

fn read_all(directory: &Path, text: &mut String) -> Result<()> {
    for path in entries(directory)? {
        if path.is_dir() {
            read_all(&path, text)?;
        } else if is_rust(&path) {
            text.push_str(&fs::read_to_string(&path)?);
        }
    }
    Ok(())
}

fn is_rust(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "rs")
}

/// The entries of a directory, sorted.
fn entries(directory: &Path) -> Result<Vec<PathBuf>> {
    let listing =
        fs::read_dir(directory).with_context(|| format!("read directory {}", directory.display()))?;
    let mut paths = listing
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace(files: &[(&str, &str)]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let full = directory.path().join(path);
            fs::create_dir_all(full.parent().unwrap()).unwrap();
            fs::write(full, text).unwrap();
        }
        directory
    }

    fn step<'a>(steps: &'a [Step], name: &str) -> &'a Step {
        steps.iter().find(|step| step.name == name).unwrap()
    }

    #[test]
    fn a_test_that_reads_a_components_variable_needs_it() {
        let directory = workspace(&[
            ("crates/setpoint/tests/apply.rs", "mod cluster;"),
            (
                "crates/setpoint/tests/cluster/mod.rs",
                "env::var(\"SETPOINT_KUBECTL\")",
            ),
            ("crates/store/tests/crash.rs", "fn a() {}"),
        ]);
        let steps = all(directory.path()).unwrap();
        let names: Vec<&str> = step(&steps, "e2e")
            .needs
            .iter()
            .map(|component| component.name)
            .collect();
        assert_eq!(names, ["kubectl"]);
        assert!(step(&steps, "integration").needs.is_empty());
    }

    #[test]
    fn a_step_selects_its_own_test_files() {
        let directory = workspace(&[
            ("crates/setpoint/tests/apply.rs", ""),
            ("crates/store/tests/crash.rs", ""),
            ("crates/store/tests/proof/main.rs", ""),
            ("crates/store/tests/helpers/mod.rs", ""),
            ("examples/operator/tests/operator.rs", ""),
        ]);
        let steps = all(directory.path()).unwrap();
        let args = |name| match &step(&steps, name).action {
            Action::Cargo(args) => args.join(" "),
            Action::Nothing(why) => why.clone(),
            _ => String::new(),
        };
        assert_eq!(
            (args("e2e"), args("integration")),
            (
                "--test apply --test operator".into(),
                "--test crash --test proof".into()
            )
        );
    }

    #[test]
    fn a_name_belongs_to_one_step() {
        let directory = workspace(&[
            ("crates/setpoint/tests/crash.rs", ""),
            ("crates/store/tests/crash.rs", ""),
        ]);
        let error = all(directory.path()).unwrap_err().to_string();
        assert!(
            error.ends_with("tests/crash.rs: a test that needs the binary has the same name"),
            "{error}"
        );
    }

    #[test]
    fn a_step_without_tests_is_skipped() {
        let directory = workspace(&[("crates/store/src/lib.rs", "")]);
        let steps = all(directory.path()).unwrap();
        assert_eq!(
            step(&steps, "e2e").run(directory.path(), &[]),
            Outcome::Skipped("there are no such tests".to_owned())
        );
    }
}
