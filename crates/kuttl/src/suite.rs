//! Suites: preparation of the cluster, and the cases of several directories in parallel.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;
use setpoint_api::Clock;
use setpoint_client::{Http, Kubeconfig, Patch};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;

use crate::case::{self, CaseContext, CaseResult};
use crate::config::TestSuite;
use crate::log::Logger;
use crate::manifest;
use crate::object_client::ObjectClient;
use crate::process::{self, CommandEnv};
use crate::process_groups::ProcessGroups;
use crate::report;
use crate::step::absolute;
use crate::test_file::FileContext;

const DEFAULT_TIMEOUT_SECONDS: u64 = 30;
const DEFAULT_PARALLEL: usize = 8;

/// A run of test cases.
#[derive(Debug)]
pub struct Suite {
    pub(crate) settings: TestSuite,
    /// Cases whose name contains this text; all if empty.
    pub(crate) filter: String,
    pub(crate) kubeconfig: Kubeconfig,
    pub(crate) files: FileContext,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Suite {
    /// Prepares the cluster and runs the cases, until SIGINT or SIGTERM. Returns whether all of them passed. The commands
    /// end with the run, and the processes that they have started.
    pub async fn run(self) -> Result<bool> {
        let mut interrupts = signal(SignalKind::interrupt())?;
        let mut terminations = signal(SignalKind::terminate())?;
        let groups = ProcessGroups::default();
        let outcome = tokio::select! {
            outcome = self.run_all(&groups) => outcome,
            _ = interrupts.recv() => Err(anyhow!("interrupted by SIGINT")),
            _ = terminations.recv() => Err(anyhow!("interrupted by SIGTERM")),
        };
        tokio::select! {
            () = groups.end_all(&*self.clock) => {}
            _ = interrupts.recv() => {}
        }
        outcome
    }

    async fn run_all(&self, groups: &ProcessGroups) -> Result<bool> {
        let started = self.clock.now();
        let logger = Logger::new(self.clock.clone());
        logger.print("=== RUN   kuttl");
        let context = self.prepare(&logger, groups).await?;
        let results = self.run_cases(Arc::new(context)).await?;
        let seconds = self.clock.now().duration_since(started).as_secs_f64();
        logger.print(report::summary(&results, seconds));
        self.write_report(&results, seconds)?;
        Ok(results.iter().all(|result| result.failure.is_none()))
    }

    /// Applies CRDs and manifests, and runs the commands of the suite.
    async fn prepare(&self, logger: &Logger, groups: &ProcessGroups) -> Result<CaseContext> {
        let settings = &self.settings;
        if settings.start_control_plane || settings.start_kind {
            bail!(
                "startControlPlane and startKIND are not supported: run `setpoint test -- setpoint kuttl test`"
            );
        }
        let working_dir = std::env::current_dir()?;
        let kubeconfig = working_dir.join("kubeconfig");
        self.kubeconfig.write(&kubeconfig)?;
        let http = Http::with_clock(&self.kubeconfig.connection(None)?, self.clock.clone())?;
        let timeout = match settings.timeout {
            0 => DEFAULT_TIMEOUT_SECONDS,
            seconds => seconds,
        };
        let context = CaseContext {
            objects: ObjectClient::new(http, self.clock.clone()),
            env: CommandEnv {
                kubeconfig,
                working_dir: working_dir.clone(),
                clock: self.clock.clone(),
                groups: groups.clone(),
            },
            namespace: settings.namespace.clone(),
            timeout,
            skip_delete: settings.skip_delete,
            logger: logger.clone(),
            files: self.files.clone(),
        };
        let crd_dir = Some(&settings.crd_dir).filter(|dir| !dir.is_empty());
        for dir in crd_dir.into_iter().chain(&settings.manifest_dirs) {
            install(&context, &absolute(dir, &working_dir)).await?;
        }
        let target = ("default", working_dir.as_path());
        let run = process::run_all(&context.env, &settings.commands, target, settings.timeout, logger);
        run.await.context("fatal error running commands")?;
        Ok(context)
    }

    async fn run_cases(&self, context: Arc<CaseContext>) -> Result<Vec<CaseResult>> {
        let mut waiting = Vec::new();
        for dir in &self.settings.test_dirs {
            waiting.extend(cases(Path::new(dir), &self.filter)?);
        }
        waiting.reverse();
        let parallel = match self.settings.parallel {
            0 => DEFAULT_PARALLEL,
            parallel => parallel,
        };
        let (mut running, mut results) = (JoinSet::new(), Vec::new());
        loop {
            while running.len() < parallel
                && let Some((name, dir)) = waiting.pop()
            {
                context.logger.print(format!("=== RUN   kuttl/harness/{name}"));
                running.spawn(case::run(context.clone(), name, dir));
            }
            match running.join_next().await {
                Some(result) => results.push(result.context("a case panicked")?),
                None => break,
            }
        }
        results.sort_by(|left, right| left.name.cmp(&right.name));
        Ok(results)
    }

    fn write_report(&self, results: &[CaseResult], seconds: f64) -> Result<()> {
        let settings = &self.settings;
        let name = match settings.report_name.as_str() {
            "" => "kuttl-report",
            name => name,
        };
        let (text, extension) = match settings.report_format.to_lowercase().as_str() {
            "" => return Ok(()),
            "json" => (report::to_json(name, results, seconds), "json"),
            "xml" => (report::to_xml(name, results, seconds), "xml"),
            format => bail!("unrecognized report format {format:?}: expected xml or json"),
        };
        let path = Path::new(&settings.artifacts_dir).join(format!("{name}.{extension}"));
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }
}

/// The cases of a directory: its directories, by name.
fn cases(dir: &Path, filter: &str) -> Result<Vec<(String, PathBuf)>> {
    let dir = std::path::absolute(dir)?;
    let mut cases = Vec::new();
    for entry in std::fs::read_dir(&dir).with_context(|| format!("cannot read {}", dir.display()))? {
        let path = entry?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if path.is_dir() && name.contains(filter) {
            cases.push((name, path));
        }
    }
    cases.sort();
    Ok(cases)
}

/// Creates the objects of a directory, or patches those that exist, and waits for CRDs to be established.
async fn install(context: &CaseContext, dir: &Path) -> Result<()> {
    for object in manifest::read_objects_at(dir)? {
        let id = crate::check::resource_id(&object);
        let outcome = match context.objects.create(&object).await {
            Err(status) if status.is_already_exists() => {
                context.objects.patch(&object, &Patch::merge(&object)?).await
            }
            outcome => outcome,
        };
        outcome.map_err(|status| anyhow!("fatal error installing manifests: {id}: {}", status.message))?;
        if object["kind"] == "CustomResourceDefinition" {
            wait_until_established(context, &object).await?;
        }
    }
    Ok(())
}

async fn wait_until_established(context: &CaseContext, crd: &Value) -> Result<()> {
    let is_established = |crd: &Value| {
        let conditions = crd["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let established =
            |condition: &Value| condition["type"] == "Established" && condition["status"] == "True";
        conditions.iter().any(established)
    };
    for _ in 0..100 {
        let found = context.objects.find(crd).await?;
        if found.is_some_and(|crd| is_established(&crd)) {
            return Ok(());
        }
        context.env.clock.sleep(Duration::from_millis(100)).await;
    }
    bail!(
        "fatal error waiting for crds: {} is not established",
        crate::check::resource_id(crd)
    )
}
