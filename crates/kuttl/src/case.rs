//! Cases: a namespace, and the steps of one directory in it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use rand::Rng;
use serde_json::json;
use setpoint_api::options::DeleteOptions;
use setpoint_client::{Http, Kubeconfig};

use crate::log::Logger;
use crate::object_client::ObjectClient;
use crate::process::CommandEnv;
use crate::step::{Step, StepContext};
use crate::step_file;
use crate::test_file::FileContext;

/// What the cases of a suite share.
#[derive(Debug)]
pub(crate) struct CaseContext {
    pub(crate) objects: ObjectClient,
    pub(crate) env: CommandEnv,
    /// The namespace of all cases; empty: each has a new one.
    pub(crate) namespace: String,
    /// In seconds.
    pub(crate) timeout: u64,
    pub(crate) skip_delete: bool,
    pub(crate) logger: Logger,
    /// What templates and TestFiles refer to; the namespace is that of the case.
    pub(crate) files: FileContext,
}

/// The cluster of a step: that of the suite, or that of the step's own kubeconfig.
#[derive(Debug, Clone)]
struct Cluster {
    objects: ObjectClient,
    env: CommandEnv,
}

/// The result of a case.
#[derive(Debug)]
pub(crate) struct CaseResult {
    pub(crate) name: String,
    pub(crate) assertions: usize,
    pub(crate) duration: Duration,
    /// The step that failed, and its errors.
    pub(crate) failure: Option<(String, Vec<String>)>,
}

/// Runs the steps of a directory in their order, until one fails.
pub(crate) async fn run(context: Arc<CaseContext>, name: String, dir: PathBuf) -> CaseResult {
    let started = context.env.clock.now();
    let logger = context.logger.with_prefix(&name);
    let mut result = CaseResult {
        name,
        assertions: 0,
        duration: Duration::ZERO,
        failure: None,
    };
    let namespace = match context.namespace.as_str() {
        "" => random_namespace(),
        namespace => namespace.to_owned(),
    };
    let mut clusters = BTreeMap::from([(PathBuf::new(), context.cluster())]);
    let outcome = match load(&dir, &context.file_context(&namespace)) {
        Ok(steps) => {
            let case = (namespace.as_str(), dir.as_path());
            run_steps(&context, &steps, case, &mut clusters, &logger).await
        }
        Err(error) => Err(("loading".to_owned(), vec![error])),
    };
    match outcome {
        Ok(assertions) => result.assertions = assertions,
        Err((step, errors)) => {
            let errors: Vec<String> = errors.iter().map(|error| format!("{error:#}")).collect();
            logger.log(format!("failed in step {step}\n{}", errors.join("\n")));
            result.failure = Some((step, errors));
        }
    }
    if !context.skip_delete && context.namespace.is_empty() {
        for cluster in clusters.values() {
            delete_namespace(&context, cluster, &namespace, &logger).await;
        }
    }
    result.duration = context.env.clock.now().duration_since(started).unsigned_abs();
    result
}

type StepFailure = (String, Vec<anyhow::Error>);

async fn run_steps(
    context: &CaseContext,
    steps: &[Step],
    (namespace, dir): (&str, &Path),
    clusters: &mut BTreeMap<PathBuf, Cluster>,
    logger: &Logger,
) -> Result<usize, StepFailure> {
    create_namespace(&context.objects, namespace, logger)
        .await
        .map_err(|error| ("setup".to_owned(), vec![error]))?;
    let mut assertions = 0;
    for step in steps {
        let kubeconfig = step.kubeconfig(dir).unwrap_or_default();
        if !clusters.contains_key(&kubeconfig) {
            let cluster = context.other_cluster(&kubeconfig, namespace, logger).await;
            let cluster = cluster.map_err(|error| (step.title(), vec![error]))?;
            clusters.insert(kubeconfig.clone(), cluster);
        }
        let cluster = &clusters[&kubeconfig];
        let step_context = StepContext {
            objects: &cluster.objects,
            env: &cluster.env,
            namespace,
            dir,
            timeout: context.timeout,
            logger: logger.with_prefix(&step.title()),
        };
        let errors = step.run(&step_context).await;
        if !errors.is_empty() {
            return Err((step.title(), errors));
        }
        assertions += step.asserts.len() + step.errors.len();
    }
    Ok(assertions)
}

impl CaseContext {
    fn cluster(&self) -> Cluster {
        Cluster {
            objects: self.objects.clone(),
            env: self.env.clone(),
        }
    }

    /// The cluster of a step's kubeconfig, with the namespace of the case in it.
    async fn other_cluster(&self, kubeconfig: &Path, namespace: &str, logger: &Logger) -> Result<Cluster> {
        let path = kubeconfig.to_owned();
        let loaded = Kubeconfig::load(std::slice::from_ref(&path))
            .and_then(|loaded| loaded.connection(None))
            .with_context(|| format!("cannot use the kubeconfig {}", path.display()))?;
        let http = Http::with_clock(&loaded, self.env.clock.clone())?;
        let objects = ObjectClient::new(http, self.env.clock.clone());
        create_namespace(&objects, namespace, logger).await?;
        let env = CommandEnv {
            kubeconfig: path,
            ..self.env.clone()
        };
        Ok(Cluster { objects, env })
    }

    fn file_context(&self, namespace: &str) -> FileContext {
        FileContext {
            namespace: namespace.to_owned(),
            now: Some(self.env.clock.now()),
            ..self.files.clone()
        }
    }
}

fn load(dir: &Path, file_context: &FileContext) -> Result<Vec<Step>> {
    let files = step_file::collect(dir)?;
    files
        .iter()
        .map(|(index, files)| Step::load(*index, files, dir, file_context))
        .collect()
}

async fn create_namespace(objects: &ObjectClient, namespace: &str, logger: &Logger) -> Result<()> {
    logger.log(format!("Creating namespace {namespace:?}"));
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    match objects.create(&object).await {
        Err(status) if !status.is_already_exists() => Err(anyhow!(
            "failed to create test namespace {namespace:?}: {}",
            status.message
        )),
        _ => Ok(()),
    }
}

/// Deletes the namespace and waits for its end.
async fn delete_namespace(context: &CaseContext, cluster: &Cluster, namespace: &str, logger: &Logger) {
    logger.log(format!("Deleting namespace {namespace:?}"));
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    if let Err(status) = cluster.objects.delete(&object, DeleteOptions::default()).await {
        return logger.log(format!(
            "failed to delete namespace {namespace:?}: {}",
            status.message
        ));
    }
    for _ in 0..context.timeout {
        match cluster.objects.find(&object).await {
            Ok(None) => return,
            Ok(Some(_)) => context.env.clock.sleep(Duration::from_secs(1)).await,
            Err(status) => return logger.log(status.message),
        }
    }
    logger.log(format!(
        "waiting for namespace {namespace:?} to be deleted timed out"
    ));
}

fn random_namespace() -> String {
    let mut random = rand::rng();
    let suffix: String = (0..8)
        .map(|_| char::from(b"bcdfghjklmnpqrstvwxz2456789"[random.random_range(0..27)]))
        .collect();
    format!("kuttl-test-{suffix}")
}
