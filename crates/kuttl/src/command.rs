//! Commands of `setpoint kuttl`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use setpoint_api::SystemClock;
use setpoint_client::Kubeconfig;

use crate::config::TestSuite;
use crate::manifest;
use crate::suite::Suite;
use crate::test_file::FileContext;

/// The suite that is read if there is no `--config`.
const DEFAULT_CONFIG: &str = "kuttl-test.yaml";

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the test cases of directories against a cluster.
    Test(Box<TestArgs>),
}

/// The flags of `test`. They replace the fields of the TestSuite.
#[derive(Debug, Args)]
pub struct TestArgs {
    /// The directories of the cases.
    test_dirs: Vec<String>,
    /// The file with the TestSuite [default: kuttl-test.yaml, if it exists].
    #[arg(long)]
    config: Option<PathBuf>,
    /// The directory of CRDs to install before the tests.
    #[arg(long)]
    crd_dir: Option<String>,
    /// A directory of manifests to apply before the tests. It may be repeated.
    #[arg(long)]
    manifest_dir: Vec<String>,
    /// Run only the cases whose name contains this text.
    #[arg(long, default_value = "")]
    test: String,
    /// Do not delete the namespaces and objects of the tests.
    #[arg(long)]
    skip_delete: bool,
    /// The maximum number of cases that run at once [default: 8].
    #[arg(long)]
    parallel: Option<usize>,
    /// How long each step may take, in seconds [default: 30].
    #[arg(long)]
    timeout: Option<u64>,
    /// The namespace of all cases. Without it, each has a namespace of its own.
    #[arg(long, short)]
    namespace: Option<String>,
    /// A variable of templates, `name=value`. It may be repeated.
    #[arg(long)]
    template_var: Vec<String>,
    /// The labels of this run, which TestFiles select: `key=value,key=value`.
    #[arg(long, value_delimiter = ',')]
    test_run_labels: Vec<String>,
    /// Write a report in this format: xml or json.
    #[arg(long)]
    report: Option<String>,
    /// The name of the report, without its extension.
    #[arg(long)]
    report_name: Option<String>,
    /// The directory of the report.
    #[arg(long)]
    artifacts_dir: Option<String>,
    /// The kubeconfig. Without it, the one that kubectl would use.
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
}

/// Runs a command.
pub fn run(command: Command) -> Result<()> {
    let Command::Test(args) = command;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        match args.suite()?.run().await? {
            true => Ok(()),
            false => bail!("some test cases failed"),
        }
    })
}

impl TestArgs {
    /// The suite of the flags and the configuration file.
    pub fn suite(&self) -> Result<Suite> {
        let mut settings = self.config_file()?;
        let text = |value: &Option<String>, field: &mut String| {
            if let Some(value) = value {
                field.clone_from(value);
            }
        };
        text(&self.crd_dir, &mut settings.crd_dir);
        text(&self.namespace, &mut settings.namespace);
        text(&self.report, &mut settings.report_format);
        text(&self.report_name, &mut settings.report_name);
        text(&self.artifacts_dir, &mut settings.artifacts_dir);
        if !self.test_dirs.is_empty() {
            settings.test_dirs.clone_from(&self.test_dirs);
        }
        settings.manifest_dirs.extend(self.manifest_dir.iter().cloned());
        settings.skip_delete |= self.skip_delete;
        settings.parallel = self.parallel.unwrap_or(settings.parallel);
        settings.timeout = self.timeout.unwrap_or(settings.timeout);
        if settings.test_dirs.is_empty() {
            bail!(
                "no test directories provided, please provide either --config or test directories on the command line"
            );
        }
        Ok(Suite {
            settings,
            filter: self.test.clone(),
            kubeconfig: self.kubeconfig()?,
            files: FileContext {
                variables: pairs(&self.template_var)?,
                run_labels: pairs(&self.test_run_labels)?,
                ..FileContext::default()
            },
            clock: Arc::new(SystemClock::new()),
        })
    }

    fn config_file(&self) -> Result<TestSuite> {
        let default = Path::new(DEFAULT_CONFIG);
        let path = match &self.config {
            Some(path) => path,
            None if default.exists() && self.test_dirs.is_empty() => default,
            None => return Ok(TestSuite::default()),
        };
        let objects = manifest::read_objects(path)?;
        let suite = objects.into_iter().find(|object| object["kind"] == "TestSuite");
        let suite = suite.with_context(|| format!("{} has no TestSuite", path.display()))?;
        serde_json::from_value(suite).with_context(|| format!("invalid TestSuite in {}", path.display()))
    }

    fn kubeconfig(&self) -> Result<Kubeconfig> {
        let paths = match &self.kubeconfig {
            Some(path) => vec![path.clone()],
            None => Kubeconfig::paths(
                std::env::var_os("KUBECONFIG").as_deref(),
                std::env::var_os("HOME").as_deref().map(Path::new),
            ),
        };
        Ok(Kubeconfig::load(&paths)?)
    }
}

/// Names with their values, from texts `name=value`.
fn pairs(texts: &[String]) -> Result<BTreeMap<String, String>> {
    let pair = |text: &String| {
        let (name, value) = text
            .split_once('=')
            .with_context(|| format!("expected name=value and not {text:?}"))?;
        Ok((name.to_owned(), value.to_owned()))
    };
    texts.iter().map(pair).collect()
}
