//! `package`: new, add, create, verify and list.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::{Subcommand, ValueEnum};

use super::package_edit::{self, AddCommand, NewArgs};
use super::tree::Tree;
use crate::package::files::{OperatorFile, read_dir};
use crate::package::resolver::resolve_dependencies;
use crate::package::{PackageFiles, Resolver, Resources, tarball, verify};

/// The commands of `package`.
#[derive(Debug, Subcommand)]
pub enum PackageCommand {
    /// Create the files of a new operator.
    New(NewArgs),
    /// Add a maintainer, parameter, task or plan to the files of an operator.
    Add {
        /// What to add.
        #[command(subcommand)]
        command: AddCommand,
    },
    /// Pack a directory into a tarball.
    Create {
        /// The directory of the operator.
        path: PathBuf,
        /// The directory of the tarball.
        #[arg(long, short, default_value = ".")]
        destination: PathBuf,
        /// Replace an existing tarball.
        #[arg(long, short = 'w')]
        overwrite: bool,
    },
    /// Report mistakes of a package.
    Verify {
        /// The directory of the operator.
        path: PathBuf,
    },
    /// Print the parameters, plans or tasks of a package.
    List {
        /// What to print.
        what: ListedPart,
        /// The package: a directory or a .tgz file.
        package: String,
    },
}

/// What `list` prints.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum ListedPart {
    /// The parameters with their defaults.
    Parameters,
    /// The plans with their phases, steps and tasks.
    Plans,
    /// The tasks with their kinds and resources.
    Tasks,
}

pub(super) fn run(command: &PackageCommand) -> Result<()> {
    match command {
        PackageCommand::New(args) => package_edit::new(args),
        PackageCommand::Add { command } => package_edit::add(command),
        PackageCommand::Create {
            path,
            destination,
            overwrite,
        } => create(path, destination, *overwrite),
        PackageCommand::Verify { path } => verify_files(&PackageFiles::parse(&read_dir(path)?)?),
        PackageCommand::List { what, package } => {
            let resolver = Resolver::Dir(std::env::current_dir()?);
            let (resources, _) = resolver.resolve(package)?;
            print!("{}", listing(*what, &resources));
            Ok(())
        }
    }
}

fn create(path: &Path, destination: &Path, overwrite: bool) -> Result<()> {
    let contents = read_dir(path)?;
    let files = PackageFiles::parse(&contents)?;
    verify_files(&files)?;
    let mut resources = Resources::from_files(&files)?;
    // Relative dependencies must exist, even though the tarball does not include them.
    resolve_dependencies(&mut resources, &Resolver::Dir(path.to_owned()))?;
    let name = versioned_name(&files.operator);
    if name.contains('/') {
        bail!("the name or a version of the operator is no part of a file name: {name}");
    }
    let target = destination.join(format!("{name}.tgz"));
    if target.exists() && !overwrite {
        bail!("target file exists: {}", target.display());
    }
    std::fs::write(&target, tarball::pack(&contents)?)?;
    println!("Package created: {}", target.display());
    Ok(())
}

fn verify_files(files: &PackageFiles) -> Result<()> {
    let found = verify::verify(files);
    for (title, messages) in [("Warnings", &found.warnings), ("Errors", &found.errors)] {
        if !messages.is_empty() {
            println!("{title:<20}");
        }
        for message in messages {
            println!("{message}");
        }
    }
    match found.errors.len() {
        0 => println!("package is valid"),
        errors => bail!("found {errors} package verification errors"),
    }
    Ok(())
}

/// `name-operatorVersion`, or `name-appVersion_operatorVersion`.
fn versioned_name(operator: &OperatorFile) -> String {
    let (name, version) = (&operator.name, &operator.operator_version);
    match operator.app_version.as_str() {
        "" => format!("{name}-{version}"),
        app_version => format!("{name}-{app_version}_{version}"),
    }
}

fn listing(what: ListedPart, resources: &Resources) -> String {
    let spec = &resources.operator_version.spec;
    match what {
        ListedPart::Parameters => {
            let mut lines = vec![["Name", "Default", "Required", "Immutable"].map(str::to_owned)];
            for own in &spec.parameters {
                let default = own
                    .default
                    .as_deref()
                    .unwrap_or_default()
                    .trim_end()
                    .replace('\n', "\\n");
                let (required, immutable) = (own.is_required().to_string(), own.is_immutable().to_string());
                lines.push([own.name.clone(), default, required, immutable]);
            }
            table(&lines)
        }
        ListedPart::Tasks => {
            let mut lines = vec![["Name", "Kind", "Resources"].map(str::to_owned)];
            for task in &spec.tasks {
                let resources = format!("[{}]", task.spec.resources.join(" "));
                lines.push([task.name.clone(), task.kind.clone(), resources]);
            }
            table(&lines)
        }
        ListedPart::Plans => {
            let plans = spec.plans.iter().map(|(name, plan)| {
                let phases = plan.phases.iter().map(|phase| {
                    let steps = phase.steps.iter().map(|step| {
                        let tasks = step.tasks.iter().map(|task| Tree::new(task.as_str()));
                        Tree::new(format!("step: {}", step.name)).with(tasks)
                    });
                    let label = format!("phase: {} ({})", phase.name, phase.strategy.as_str());
                    Tree::new(label).with(steps)
                });
                Tree::new(format!("{name} ({})", plan.strategy.as_str())).with(phases)
            });
            Tree::new("plans").with(plans).to_text()
        }
    }
}

/// Columns that are as wide as their widest cell.
pub(super) fn table<const N: usize>(lines: &[[String; N]]) -> String {
    let width = |column: usize| lines.iter().map(|line| line[column].len()).max().unwrap_or(0);
    let mut text = String::new();
    for line in lines {
        let cells = line
            .iter()
            .enumerate()
            .map(|(i, cell)| format!("{cell:<0$}", width(i)));
        text.push_str(cells.collect::<Vec<_>>().join("\t").trim_end());
        text.push('\n');
    }
    text
}
