//! `setpoint new controller`: a project that builds, passes its test and runs, to be made into one's own.
//!
//! The template is a real project, `examples/greeter-operator`, which is built and tested with everything else here; what
//! is written is that project under other names. So the template cannot fall behind the library.

mod template_names;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::args;
use template_names::TemplateNames;

/// The files of the template, each with the name it has in the project.
const FILES: &[(&str, &str)] = &[
    (
        "Cargo.toml",
        include_str!("../../../../examples/greeter-operator/Cargo.toml"),
    ),
    (
        "README.md",
        include_str!("../../../../examples/greeter-operator/README.md"),
    ),
    (
        "src/lib.rs",
        include_str!("../../../../examples/greeter-operator/src/lib.rs"),
    ),
    (
        "src/main.rs",
        include_str!("../../../../examples/greeter-operator/src/main.rs"),
    ),
    (
        "src/greeter.rs",
        include_str!("../../../../examples/greeter-operator/src/greeter.rs"),
    ),
    (
        "src/controller.rs",
        include_str!("../../../../examples/greeter-operator/src/controller.rs"),
    ),
    (
        "tests/greeter_operator.rs",
        include_str!("../../../../examples/greeter-operator/tests/greeter_operator.rs"),
    ),
    (
        "manifests/sample.yaml",
        include_str!("../../../../examples/greeter-operator/manifests/sample.yaml"),
    ),
    (".gitignore", "/target\n"),
];

/// What the template takes from the workspace, and a project of its own cannot: the lints, and the licence, which is its
/// author's to choose.
const WORKSPACE_ONLY: &[&str] = &["[lints]\nworkspace = true\n\n", "license.workspace = true\n"];

/// Writes the project and says what to do with it.
pub(crate) fn controller(args: &args::NewController) -> Result<()> {
    let source = source(args.setpoint.as_deref())?;
    let words = TemplateNames::new(&args.name, args.kind.as_deref(), &args.group, &source)?;
    let dir = args.dir.clone().unwrap_or_else(|| PathBuf::from(&args.name));
    if dir.exists() {
        bail!("{} is there already", dir.display());
    }
    for (name, text) in FILES {
        let text = WORKSPACE_ONLY
            .iter()
            .fold((*text).to_owned(), |text, ours| text.replace(ours, ""));
        write(&dir.join(words.render(name)), &words.render(&text))?;
    }
    println!("{} is written. Go there, and then:\n", dir.display());
    println!("  cargo test                                    # against a server in the test's own process");
    println!("  cargo run -- manifests | kubectl apply -f -   # the kind, and what the program may do");
    println!("  cargo run                                     # runs it");
    println!("  kubectl apply -f manifests/sample.yaml");
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<()> {
    let folder = path.parent().context("a file lies in a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Where the crates are that the project is built with: as told, or around the current folder.
fn source(explicit: Option<&Path>) -> Result<PathBuf> {
    let is_it = |dir: &Path| dir.join("crates/runtime/Cargo.toml").is_file();
    let here = std::env::current_dir().context("there is no current folder")?;
    let found = match explicit {
        Some(told) => Some(told).filter(|told| is_it(told)),
        None => here.ancestors().find(|dir| is_it(dir)),
    };
    let found = found
        .context("say with --setpoint where the source of Setpoint is: its crates are built from there")?;
    found
        .canonicalize()
        .with_context(|| format!("cannot find {}", found.display()))
}
