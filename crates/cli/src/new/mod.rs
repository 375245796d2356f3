//! `setpoint new controller`: generates a controller project that builds, passes its test and runs.
//!
//! The template is a real project, `examples/greeter-operator`, which is built and tested with the workspace; the output
//! is that project with its names replaced. So the template cannot fall behind the library.

mod libraries;
mod template_names;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Subcommand;

use libraries::Libraries;
use template_names::TemplateNames;

/// The subcommands of `setpoint new`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Generate a controller for a custom resource, in Rust.
    Controller(Controller),
}

/// The arguments of `setpoint new controller`.
#[derive(Debug, clap::Args)]
pub struct Controller {
    /// The name of the project, such as `backup-operator`.
    pub name: String,
    /// The kind that it reconciles [default: from the name, such as `Backup`].
    #[arg(long)]
    pub kind: Option<String>,
    /// The API group of the kind.
    #[arg(long, default_value = "example.com")]
    pub group: String,
    /// The directory to create [default: the project's name].
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// The source directory of Setpoint, to depend on its crates by path [default: the current directory or one above
    /// it; outside the source the project depends on the crates by version].
    #[arg(long, value_name = "DIR")]
    pub setpoint: Option<PathBuf>,
}

/// The files of the template, by their paths in the project.
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
        "tests/manifests.rs",
        include_str!("../../../../examples/greeter-operator/tests/manifests.rs"),
    ),
    (
        "manifests/sample.yaml",
        include_str!("../../../../examples/greeter-operator/manifests/sample.yaml"),
    ),
    (".gitignore", "/target\n"),
];

/// Lines of the template that only work inside the workspace: its lints, and its licence, which the author of the project
/// chooses.
const WORKSPACE_ONLY: &[&str] = &["[lints]\nworkspace = true\n\n", "license.workspace = true\n"];

/// Runs a subcommand.
pub fn run(command: &Command) -> Result<()> {
    match command {
        Command::Controller(args) => controller(args),
    }
}

/// Writes the project and prints the next commands.
fn controller(args: &Controller) -> Result<()> {
    let libraries = Libraries::find(args.setpoint.as_deref())?;
    let names = TemplateNames::new(&args.name, args.kind.as_deref(), &args.group)?;
    let dir = args.dir.clone().unwrap_or_else(|| PathBuf::from(&args.name));
    if dir.exists() {
        bail!("{} already exists", dir.display());
    }
    for (name, text) in FILES {
        let text = WORKSPACE_ONLY
            .iter()
            .fold((*text).to_owned(), |text, ours| text.replace(ours, ""));
        // The libraries come last: the path of their source may contain a name of the template.
        if let Some(text) = libraries.render(name, names.render(&text)) {
            write(&dir.join(names.render(name)), &text)?;
        }
    }
    println!("Created {}. Next, in that directory:\n", dir.display());
    println!(
        "  cargo test                                    # {}",
        libraries.tests()
    );
    println!("  cargo run -- manifests | kubectl apply -f -   # the CustomResourceDefinition and RBAC");
    println!("  cargo run                                     # runs the controller");
    println!("  kubectl apply -f manifests/sample.yaml");
    if let Some(note) = libraries.note() {
        println!("\n{note}");
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<()> {
    let parent = path.parent().context("the path has no parent directory")?;
    fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
