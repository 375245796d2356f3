//! `diagnostics collect`: the state of an instance as files, for a reader who cannot reach the cluster.
//!
//! Directories and names are upstream's: `operator_<name>/instance_<name>/...`, one file for each kind, the pods with their
//! logs in directories of their own. A kind that cannot be read is a file `<kind>.err`; the others are still collected.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::{Args, Subcommand};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use setpoint_api::selector::LabelSelector;
use setpoint_api::{Gvk, go_duration};
use setpoint_client::Http;
use setpoint_kuttl::{ObjectClient, manifest};

use super::{Settings, version};
use crate::api::{API_VERSION, labels};

/// The kinds with the labels of the operator that are collected, each in a file. Pods come before them, one by one.
const KINDS: &[(&str, &str, &str)] = &[
    ("", "v1", "Service"),
    ("apps", "v1", "Deployment"),
    ("apps", "v1", "StatefulSet"),
    ("apps", "v1", "ReplicaSet"),
    ("", "v1", "ServiceAccount"),
    ("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding"),
    ("rbac.authorization.k8s.io", "v1", "RoleBinding"),
    ("rbac.authorization.k8s.io", "v1", "ClusterRole"),
    ("rbac.authorization.k8s.io", "v1", "Role"),
];

/// The commands of `diagnostics`.
#[derive(Debug, Subcommand)]
pub enum DiagnosticsCommand {
    /// Write the state of an instance to files.
    Collect(CollectArgs),
}

/// The flags of `diagnostics collect`.
#[derive(Debug, Args)]
pub struct CollectArgs {
    /// The name of the instance.
    #[arg(long)]
    instance: String,
    /// The directory of the files. It must not exist.
    #[arg(long, short = 'O', default_value = "diag")]
    output_directory: PathBuf,
    /// Collect only the logs that are newer than this, such as 5m.
    #[arg(long, value_parser = go_duration::parse)]
    log_since: Option<std::time::Duration>,
}

/// What one collection reads and writes.
struct Collector<'a> {
    objects: &'a ObjectClient,
    http: &'a Http,
    namespace: &'a str,
    log_query: String,
    errors: Vec<String>,
}

pub(super) async fn collect(args: &CollectArgs, settings: &Settings) -> Result<()> {
    let root = &args.output_directory;
    ensure!(
        !root.exists(),
        "target directory {} already exists",
        root.display()
    );
    let (objects, http, namespace) = settings.object_client().await?;
    let since = args
        .log_since
        .map(|since| format!("&sinceSeconds={}", since.as_secs()));
    let mut collector = Collector {
        objects: &objects,
        http: &http,
        namespace: &namespace,
        log_query: since.unwrap_or_default(),
        errors: Vec::new(),
    };
    write_yaml(root, "version", &version::version())?;
    write_yaml(root, "settings", &json!({"namespace": namespace}))?;
    let instance = collector.object("Instance", &args.instance).await?;
    let directory = collector.instance(root, &instance).await?;
    for child in collector.children(&instance).await? {
        collector.instance(&directory, &child).await?;
    }
    match collector.errors.is_empty() {
        true => Ok(()),
        false => bail!("{}", collector.errors.join("\n")),
    }
}

impl Collector<'_> {
    /// Collects an instance below a directory. Returns the directory of its operator.
    async fn instance(&mut self, root: &Path, instance: &Value) -> Result<PathBuf> {
        let version = &instance["spec"]["operatorVersion"]["name"];
        let version = self
            .object("OperatorVersion", version.as_str().unwrap_or_default())
            .await?;
        let operator = version["spec"]["operator"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let operator_object = self.object("Operator", &operator).await?;
        let of_operator = root.join(format!("operator_{operator}"));
        write_object(root, &operator_object)?;
        write_object(&of_operator, &version)?;
        write_object(&of_operator, instance)?;
        let name = instance["metadata"]["name"].as_str().unwrap_or_default();
        let directory = of_operator.join(format!("instance_{name}"));
        self.pods(&directory, &operator).await?;
        for (group, api_version, kind) in KINDS {
            self.kind(&directory, &Gvk::new(group, api_version, kind), &operator)
                .await?;
        }
        Ok(of_operator)
    }

    async fn object(&self, kind: &str, name: &str) -> Result<Value> {
        let reference = json!({
            "apiVersion": API_VERSION,
            "kind": kind,
            "metadata": {"name": name, "namespace": self.namespace},
        });
        let found = self.objects.find(&reference).await;
        let found = found.map_err(|status| anyhow!("failed to get {kind} {name}: {}", status.message))?;
        found.with_context(|| format!("{} {}/{name} not found", kind.to_lowercase(), self.namespace))
    }

    /// The instances that this one owns.
    async fn children(&self, instance: &Value) -> Result<Vec<Value>> {
        let gvk = Gvk::new("kudo.dev", "v1beta1", "Instance");
        let all = self
            .objects
            .list(&gvk, self.namespace, LabelSelector::default())
            .await
            .map_err(super::message)?;
        let uid = &instance["metadata"]["uid"];
        let is_owned = |child: &Value| {
            let owners = child["metadata"]["ownerReferences"].as_array();
            owners.into_iter().flatten().any(|owner| owner["uid"] == *uid)
        };
        Ok(all.into_iter().filter(is_owned).collect())
    }

    /// The objects of a kind with the label of the operator. An error is written instead of them.
    async fn list(&mut self, directory: &Path, gvk: &Gvk, operator: &str) -> Result<Vec<Value>> {
        let selector: LabelSelector = format!("{}={operator}", labels::OPERATOR)
            .parse()
            .map_err(|error| anyhow!("{error}"))?;
        match self.objects.list(gvk, self.namespace, selector).await {
            Ok(found) => Ok(found),
            Err(status) => {
                let kind = gvk.kind.to_lowercase();
                let text = format!("failed to retrieve object(s) of kind {kind}: {}", status.message);
                write(directory, &format!("{kind}.err"), text.as_bytes())?;
                Ok(Vec::new())
            }
        }
    }

    async fn kind(&mut self, directory: &Path, gvk: &Gvk, operator: &str) -> Result<()> {
        let items = self.list(directory, gvk, operator).await?;
        if items.is_empty() {
            return Ok(());
        }
        let list = json!({
            "apiVersion": gvk.api_version(),
            "kind": format!("{}List", gvk.kind),
            "items": items,
        });
        write_yaml(directory, &format!("{}list", gvk.kind.to_lowercase()), &list)
    }

    async fn pods(&mut self, directory: &Path, operator: &str) -> Result<()> {
        let gvk = Gvk::new("", "v1", "Pod");
        for pod in self.list(directory, &gvk, operator).await? {
            write_object(directory, &pod)?;
            let name = pod["metadata"]["name"].as_str().unwrap_or_default();
            let of_pod = directory.join(format!("pod_{name}"));
            let containers = pod["spec"]["containers"].as_array();
            for container in containers.into_iter().flatten() {
                let container = container["name"].as_str().unwrap_or_default();
                self.log(&of_pod, name, container).await?;
            }
        }
        Ok(())
    }

    async fn log(&mut self, directory: &Path, pod: &str, container: &str) -> Result<()> {
        let path = format!(
            "/api/v1/namespaces/{}/pods/{pod}/log?container={container}{}",
            self.namespace, self.log_query
        );
        match self.http.get(&path).await {
            Ok(log) => write(directory, &format!("{container}.log.gz"), &gzip(&log)?),
            Err(status) => {
                let message = status.message;
                self.errors.push(format!("log of {pod}/{container}: {message}"));
                write(directory, &format!("{container}.log.err"), message.as_bytes())
            }
        }
    }
}

fn gzip(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes)?;
    encoder.finish()
}

/// Writes an object to `<kind>_<name>/<name>.yaml`.
fn write_object(directory: &Path, object: &Value) -> Result<()> {
    let kind = object["kind"].as_str().unwrap_or_default().to_lowercase();
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    write_yaml(&directory.join(format!("{kind}_{name}")), name, object)
}

fn write_yaml(directory: &Path, name: &str, value: &Value) -> Result<()> {
    let text = manifest::to_yaml(value).map_err(|error| anyhow!(error))?;
    write(directory, &format!("{name}.yaml"), text.as_bytes())
}

fn write(directory: &Path, name: &str, bytes: &[u8]) -> Result<()> {
    std::fs::create_dir_all(directory)
        .with_context(|| format!("failed to create directory {}", directory.display()))?;
    let path = directory.join(name);
    std::fs::write(&path, bytes).with_context(|| format!("failed to create {}", path.display()))
}
