//! The crates of Setpoint that a generated project depends on: by the path of their source, or by version.
//!
//! The template depends on them by path and has a test with an API server in the test process. `setpoint-testkit`, which
//! that test needs, is not published: it depends on the whole server. So a project that depends on the crates by version
//! has neither.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Where a generated project gets the crates of Setpoint from.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Libraries {
    /// The source directory of Setpoint.
    Source(PathBuf),
    /// A package registry, by version.
    Version(&'static str),
}

/// The directory of the crates in the manifest of the template.
const TEMPLATE_CRATES: &str = "../../crates";
/// The files of the template that need `setpoint-testkit`.
const IN_PROCESS_TESTS: &str = "tests/greeter_operator.rs";
/// The section of the template's manifest that is for these tests only.
const DEV_DEPENDENCIES: &str = "\n[dev-dependencies]\nsetpoint-testkit = ";
/// What the manifest of a project by version has instead.
const WITHOUT_TESTKIT: &str = "
# A test with an API server in the test process needs the crate setpoint-testkit, which comes with the source of Setpoint:
# `setpoint new controller --setpoint DIR` generates one.
";
/// The tests of a project by path and of one by version, for the README and the next commands.
const SOURCE_TESTS: &str = "against an API server in the test process";
const VERSION_TESTS: &str = "checks the generated manifests";

impl Libraries {
    /// The source as given, or at or above the current directory. Without a source, the version of this program.
    pub(super) fn find(explicit: Option<&Path>) -> Result<Self> {
        let here = std::env::current_dir().context("cannot read the current directory")?;
        let source = match explicit {
            Some(dir) if !is_source(dir) => bail!(
                "{} is not the source of Setpoint: it has no crates/runtime/Cargo.toml",
                dir.display()
            ),
            Some(dir) => Some(dir),
            None => here.ancestors().find(|dir| is_source(dir)),
        };
        let Some(source) = source else {
            return Ok(Self::Version(env!("CARGO_PKG_VERSION")));
        };
        let source = source
            .canonicalize()
            .with_context(|| format!("cannot find {}", source.display()))?;
        Ok(Self::Source(source))
    }

    /// The text of a file of the template, by the file's path there; `None` if the project does not have it.
    pub(super) fn render(&self, file: &str, text: String) -> Option<String> {
        match (self, file) {
            (Self::Source(source), "Cargo.toml") => {
                Some(text.replace(TEMPLATE_CRATES, &source.join("crates").display().to_string()))
            }
            (Self::Version(version), "Cargo.toml") => Some(depend_by_version(&text, version)),
            (Self::Version(_), "README.md") => Some(text.replace(SOURCE_TESTS, VERSION_TESTS)),
            (Self::Version(_), IN_PROCESS_TESTS) => None,
            _ => Some(text),
        }
    }

    /// What `cargo test` does in the project.
    pub(super) fn tests(&self) -> &'static str {
        match self {
            Self::Source(_) => SOURCE_TESTS,
            Self::Version(_) => VERSION_TESTS,
        }
    }

    /// What the author has to know about the dependencies.
    pub(super) fn note(&self) -> Option<String> {
        let Self::Version(version) = self else { return None };
        Some(format!(
            "The project depends on version {version} of the crates of Setpoint, which are not on crates.io yet. Until they are,\n\
             clone the source of Setpoint, and either\n  \
             * run this command again with --setpoint DIR, the path of the source: the project then also has a test against\n    \
             an API server in the test process; or\n  \
             * map each crate to its directory in the source under [patch.crates-io] in .cargo/config.toml."
        ))
    }
}

fn is_source(dir: &Path) -> bool {
    dir.join("crates/runtime/Cargo.toml").is_file()
}

/// Replaces the paths of the template's manifest by a version, and leaves out the test kit.
fn depend_by_version(manifest: &str, version: &str) -> String {
    let mut output = String::new();
    let (dependencies, has_tests) = match manifest.split_once(DEV_DEPENDENCIES) {
        Some((dependencies, _)) => (dependencies, true),
        None => (manifest, false),
    };
    for line in dependencies.lines() {
        output.push_str(&by_version(line, version).unwrap_or_else(|| line.to_owned()));
        output.push('\n');
    }
    if has_tests {
        output.push_str(WITHOUT_TESTKIT);
    }
    output
}

/// `a = { path = "../../crates/a" }` is `a = "1.0"`; features are kept. `None` for other lines.
fn by_version(line: &str, version: &str) -> Option<String> {
    let (name, rest) = line.split_once(" = { path = \"../../crates/")?;
    let (_, rest) = rest.split_once('"')?;
    Some(match rest.strip_prefix(", ") {
        Some(features) => format!("{name} = {{ version = \"{version}\", {features}"),
        None => format!("{name} = \"{version}\""),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = r#"[dependencies]
setpoint-api = { path = "../../crates/api" }
setpoint-runtime = { path = "../../crates/runtime", features = ["kube"] }
serde = { version = "1", features = ["derive"] }

[dev-dependencies]
setpoint-testkit = { path = "../../crates/testkit" }
"#;

    #[track_caller]
    fn check(libraries: &Libraries, expected: &str) {
        let rendered = libraries.render("Cargo.toml", MANIFEST.to_owned());
        assert_eq!(rendered.as_deref(), Some(expected));
    }

    #[test]
    fn with_the_source_the_crates_are_dependencies_by_path() {
        let source = Libraries::Source(PathBuf::from("/src"));
        check(&source, &MANIFEST.replace("../../crates", "/src/crates"));
        assert_eq!(source.note(), None);
    }

    #[test]
    fn without_the_source_the_crates_are_dependencies_by_version() {
        let expected = format!(
            r#"[dependencies]
setpoint-api = "1.2.3"
setpoint-runtime = {{ version = "1.2.3", features = ["kube"] }}
serde = {{ version = "1", features = ["derive"] }}
{WITHOUT_TESTKIT}"#
        );
        let version = Libraries::Version("1.2.3");
        check(&version, &expected);
        assert_eq!(
            version.render(IN_PROCESS_TESTS, "use setpoint_testkit;".to_owned()),
            None
        );
        assert!(version.note().is_some_and(|note| note.contains("--setpoint DIR")));
    }

    #[test]
    fn a_directory_that_is_not_the_source_is_an_error() {
        let error = Libraries::find(Some(Path::new("/"))).unwrap_err().to_string();
        assert!(error.contains("is not the source of Setpoint"), "{error}");
    }
}
