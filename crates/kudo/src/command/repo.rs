//! `repo` and `search`: configured repositories, their indexes, and what they have.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, Subcommand};
use serde::{Deserialize, Serialize};
use setpoint_api::{Clock, SystemClock};
use setpoint_kuttl::manifest;

use super::Settings;
use super::package::table;
use crate::package::repository::{self, Index};

/// The commands of `repo`.
#[derive(Debug, Subcommand)]
pub enum RepoCommand {
    /// Print the configured repositories. An asterisk marks the one that is used.
    List,
    /// Add a repository.
    Add {
        /// Its name.
        name: String,
        /// Its URL.
        url: String,
    },
    /// Remove a repository.
    Remove {
        /// Its name.
        name: String,
    },
    /// Use a repository from now on.
    Context {
        /// Its name.
        name: String,
    },
    /// Write the index of a directory of tarballs.
    Index {
        /// The directory.
        path: PathBuf,
        /// The URL under which the directory is served.
        #[arg(long, default_value = "http://localhost/")]
        url: String,
        /// Replace an existing index.
        #[arg(long, short = 'w')]
        overwrite: bool,
    },
}

/// The arguments of `search`.
#[derive(Debug, Args)]
pub struct SearchArgs {
    /// A part of the names of operators.
    criteria: String,
    /// The name of the repository [default: the one of the context].
    #[arg(long)]
    repo: Option<String>,
    /// Print all versions.
    #[arg(long, short)]
    all_versions: bool,
}

/// `repository/repositories.yaml` in the home directory of KUDO.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Repositories {
    repo_version: String,
    context: String,
    repositories: Vec<Configuration>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Configuration {
    url: String,
    name: String,
}

pub(super) fn run(command: &RepoCommand, settings: &Settings) -> Result<()> {
    let path = settings.repositories_file()?;
    let mut own = Repositories::read(&path)?;
    match command {
        RepoCommand::List => {
            let mut lines = vec![["NAME", "URL"].map(str::to_owned)];
            for own_repo in &own.repositories {
                let mark = if own_repo.name == own.context { "*" } else { " " };
                lines.push([format!("{mark}{}", own_repo.name), own_repo.url.clone()]);
            }
            print!("{}", table(&lines));
            return Ok(());
        }
        RepoCommand::Index { path, url, overwrite } => return write_index(path, url, *overwrite),
        RepoCommand::Add { name, url } => {
            if own.find(name).is_ok() {
                bail!("repository name {name:?} already exists; please specify a different name");
            }
            let (name, url) = (name.clone(), url.clone());
            own.repositories.push(Configuration { url, name });
        }
        RepoCommand::Remove { name } => {
            own.find(name)?;
            own.repositories.retain(|repo| repo.name != *name);
        }
        RepoCommand::Context { name } => {
            own.find(name)?;
            own.context.clone_from(name);
        }
    }
    own.write(&path)
}

pub(super) async fn search(args: &SearchArgs, settings: &Settings) -> Result<()> {
    let index = repository::download_index(&settings.repository_url(args.repo.as_deref())?).await?;
    let found = index.search(&args.criteria, args.all_versions);
    if found.is_empty() {
        println!("no operators found");
        return Ok(());
    }
    let mut lines = vec![["Name", "Operator Version", "App Version"].map(str::to_owned)];
    let mut last = "";
    for own in found {
        let name = if own.name == last { "" } else { &own.name };
        lines.push([
            name.to_owned(),
            own.operator_version.clone(),
            own.app_version.clone(),
        ]);
        last = &own.name;
    }
    print!("{}", table(&lines));
    Ok(())
}

fn write_index(dir: &Path, url: &str, overwrite: bool) -> Result<()> {
    let target = dir.join("index.yaml");
    if target.exists() && !overwrite {
        bail!("target file exists: {}", target.display());
    }
    let index = Index::of_directory(dir, url, SystemClock::new().now())?;
    let text = manifest::to_yaml(&serde_json::to_value(&index)?).map_err(|error| anyhow!(error))?;
    std::fs::write(&target, text)?;
    println!("index {} created.", target.display());
    Ok(())
}

impl Settings {
    /// The URL of a repository: of this name, else of the context.
    pub(super) fn repository_url(&self, name: Option<&str>) -> Result<String> {
        let own = Repositories::read(&self.repositories_file()?)?;
        let found = own.find(name.unwrap_or(&own.context))?;
        Ok(found.url.clone())
    }

    pub(super) fn repositories_file(&self) -> Result<PathBuf> {
        let home = match (&self.home, std::env::var_os("HOME")) {
            (Some(home), _) => home.clone(),
            (None, Some(home)) => Path::new(&home).join(".kudo"),
            (None, None) => bail!("neither --home nor HOME is set"),
        };
        Ok(home.join("repository").join("repositories.yaml"))
    }
}

impl Repositories {
    /// The configured repositories; without a file, upstream's community repository.
    pub(super) fn read(path: &Path) -> Result<Self> {
        if !path.exists() {
            let community = Configuration {
                name: "community".to_owned(),
                url: "https://kudo-repository.storage.googleapis.com/v1".to_owned(),
            };
            return Ok(Self {
                repo_version: "v1".to_owned(),
                context: community.name.clone(),
                repositories: vec![community],
            });
        }
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let value = manifest::parse_value(&text).map_err(|error| anyhow!("{}: {error}", path.display()))?;
        serde_json::from_value(value).with_context(|| format!("invalid {}", path.display()))
    }

    pub(super) fn write(&self, path: &Path) -> Result<()> {
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir)?;
        }
        let text = manifest::to_yaml(&serde_json::to_value(self)?).map_err(|error| anyhow!(error))?;
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    fn find(&self, name: &str) -> Result<&Configuration> {
        let found = self.repositories.iter().find(|own| own.name == name);
        found.with_context(|| format!("unable to find repository for {name}"))
    }
}
