//! `install` and `upgrade`.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use serde_json::json;
use setpoint_api::options::ListOptions;
use setpoint_client::{Client, Patch};

use super::{ParameterArgs, Settings, message, wait};
use crate::api::{Instance, Operator, OperatorVersion};
use crate::package::resolver::resolve_dependencies;
use crate::package::semver::Version;
use crate::package::{Resolver, Resources, repository};

/// The flags of `install`.
#[derive(Debug, Args)]
pub struct InstallArgs {
    /// The package: a directory, a .tgz file, its URL, or the name of an operator of the repository. With --in-cluster, the
    /// name of an installed operator.
    package: String,
    /// The name of the instance [default: the name of the operator with -instance].
    #[arg(long)]
    instance: Option<String>,
    #[command(flatten)]
    parameters: ParameterArgs,
    /// Install the operator without an instance.
    #[arg(long)]
    skip_instance: bool,
    /// Create the namespace, and fail if it exists.
    #[arg(long)]
    create_namespace: bool,
    /// Install an instance of an operator version that the cluster has.
    #[arg(long, conflicts_with = "skip_instance")]
    in_cluster: bool,
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    wait: wait::WaitArgs,
}

/// Which version of a repository, or of the cluster.
#[derive(Debug, Clone, Args)]
pub(super) struct SourceArgs {
    /// The operator version in the repository or the cluster [default: the newest].
    #[arg(long, default_value = "")]
    operator_version: String,
    /// The app version in the repository or the cluster [default: the newest].
    #[arg(long, default_value = "")]
    app_version: String,
    /// The name of the repository [default: the one of the context].
    #[arg(long)]
    repo: Option<String>,
}

/// The flags of `upgrade`.
#[derive(Debug, Args)]
pub struct UpgradeArgs {
    /// The package of the new version: a directory, a .tgz file, its URL, or the name of an operator of the repository.
    package: String,
    /// The name of the instance.
    #[arg(long)]
    instance: String,
    #[command(flatten)]
    parameters: ParameterArgs,
    #[command(flatten)]
    source: SourceArgs,
}

pub(super) async fn run(args: &InstallArgs, settings: &Settings) -> Result<()> {
    let (client, namespace) = settings.client().await?;
    let values = args.parameters.values()?;
    let (mut resources, dependencies) = match args.in_cluster {
        true => (from_cluster(&client, &namespace, args).await?, Vec::new()),
        false => read_package(&args.package, &args.source, settings).await?,
    };
    resources.set_namespace(&namespace);
    if let Some(name) = &args.instance {
        resources.instance.metadata.name = Some(name.clone());
    }
    resources.instance.spec.parameters = values;
    if !args.skip_instance {
        check_required(&resources)?;
    }
    if args.create_namespace {
        create_namespace(&client, &resources).await?;
    }
    if !args.in_cluster {
        install_versions(&client, &resources, dependencies).await?;
    }
    if args.skip_instance {
        return Ok(());
    }
    install_instance(&client, &resources.instance).await?;
    let timeout = args.wait.timeout();
    wait_if_requested(&client, &resources.instance, timeout).await
}

pub(super) async fn upgrade(args: &UpgradeArgs, settings: &Settings) -> Result<()> {
    let (client, namespace) = settings.client().await?;
    let values = args.parameters.values()?;
    let (mut resources, dependencies) = read_package(&args.package, &args.source, settings).await?;
    resources.set_namespace(&namespace);
    let instance = &args.instance;
    let found = client.namespaced::<Instance>(&namespace).get(instance).await;
    let found =
        found.map_err(|_| anyhow!("instance {namespace}/{instance} does not exist in the cluster"))?;
    let found = found.to_owned()?;
    let current = found.operator_version_name();
    let current = client
        .namespaced::<OperatorVersion>(&namespace)
        .get(current)
        .await;
    let current = current.map_err(|_| {
        anyhow!(
            "operatorversion {namespace}/{} does not exist in the cluster",
            found.operator_version_name()
        )
    })?;
    let (old, new) = (
        &current.to_owned()?.spec.version,
        &resources.operator_version.spec.version,
    );
    check_newer(old, new)?;
    install_versions(&client, &resources, dependencies).await?;
    let mut patch = json!({"spec": {"operatorVersion": {"name": resources.operator_version.name()}}});
    if !values.is_empty() {
        patch["spec"]["parameters"] = json!(values);
    }
    let patched = client
        .namespaced::<Instance>(&namespace)
        .patch(instance, &Patch::merge(&patch)?)
        .await;
    patched.map_err(|status| {
        let version = resources.operator_version.name();
        anyhow!(
            "failed to update instance for new operatorversion {namespace}/{version}: {}",
            status.message
        )
    })?;
    println!("instance {namespace}/{instance} updated");
    Ok(())
}

/// Reads a package and those that it depends on: from a path, a URL or a repository, in this order.
async fn read_package(
    name: &str,
    source: &SourceArgs,
    settings: &Settings,
) -> Result<(Resources, Vec<Resources>)> {
    let resolved = async {
        if Path::new(name).exists() || name.starts_with('.') {
            return Resolver::Dir(std::env::current_dir()?).resolve(name);
        }
        if name.contains("://") {
            return Resolver::from_tarball(&repository::download(name).await?);
        }
        let url = settings.repository_url(source.repo.as_deref())?;
        let versions = [source.app_version.as_str(), &source.operator_version];
        Resolver::from_tarball(&repository::download_package(&url, name, versions).await?)
    };
    let resolved = resolved.await;
    let (mut resources, resolver) =
        resolved.with_context(|| format!("failed to resolve operator package for: {name}"))?;
    let dependencies = resolve_dependencies(&mut resources, &resolver)?;
    Ok((resources, dependencies))
}

/// The objects of the newest matching version that the cluster has.
async fn from_cluster(client: &Client, namespace: &str, args: &InstallArgs) -> Result<Resources> {
    let versions = client
        .namespaced::<OperatorVersion>(namespace)
        .list(&ListOptions::default())
        .await?;
    let mut matching = Vec::new();
    for version in &versions.items {
        let version = version.to_owned()?;
        let matches = |wanted: &str, own: &str| wanted.is_empty() || wanted == own;
        let spec = &version.spec;
        if version.operator_name() == args.package
            && matches(&args.source.operator_version, &spec.version)
            && matches(&args.source.app_version, &spec.app_version)
        {
            matching.push(version);
        }
    }
    matching.sort_by(|left, right| {
        let compare = crate::package::semver::compare;
        let by_app = compare(&left.spec.app_version, &right.spec.app_version);
        by_app.then_with(|| compare(&left.spec.version, &right.spec.version))
    });
    let version = matching.pop();
    let version =
        version.with_context(|| format!("failed to resolve operator package for: {}", args.package))?;
    let mut resources = Resources::default();
    resources.instance.metadata.name = Some(format!("{}-instance", args.package));
    let label = (crate::api::labels::OPERATOR.to_owned(), args.package.clone());
    resources.instance.metadata.labels = Some([label].into());
    resources.instance.spec.operator_version.name = version.metadata.name.clone();
    resources.operator_version = version;
    Ok(resources)
}

fn check_required(resources: &Resources) -> Result<()> {
    let values = &resources.instance.spec.parameters;
    let parameters = resources.operator_version.spec.parameters.iter();
    let missing: Vec<&str> = parameters
        .filter(|own| own.is_required() && own.default.is_none() && !values.contains_key(&own.name))
        .map(|own| own.name.as_str())
        .collect();
    match missing.is_empty() {
        true => Ok(()),
        false => bail!(
            "missing required parameters during installation: {}",
            missing.join(",")
        ),
    }
}

fn check_newer(old: &str, new: &str) -> Result<()> {
    let parse = |text: &str| {
        Version::parse(text).map_err(|error| anyhow!("failed to parse {text} as semver: {error}"))
    };
    match parse(old)? < parse(new)? {
        true => Ok(()),
        false => {
            bail!("upgraded version {new} is the same or smaller as current version {old} -> not upgrading")
        }
    }
}

async fn create_namespace(client: &Client, resources: &Resources) -> Result<()> {
    let mut namespace = k8s_openapi::api::core::v1::Namespace::default();
    namespace.metadata.name = resources.instance.metadata.namespace.clone();
    namespace.metadata.annotations = Some([("created-by".to_owned(), "kudo-cli".to_owned())].into());
    client.all().create(&namespace).await.map_err(message)?;
    Ok(())
}

/// Installs the Operator and the OperatorVersion of a package, and before them those of its dependencies.
async fn install_versions(
    client: &Client,
    resources: &Resources,
    dependencies: Vec<Resources>,
) -> Result<()> {
    let namespace = resources.operator_version.namespace().to_owned();
    for mut dependency in dependencies {
        dependency.set_namespace(&namespace);
        install_version(client, &dependency).await?;
    }
    install_version(client, resources).await
}

async fn install_version(client: &Client, resources: &Resources) -> Result<()> {
    let (operator, version) = (&resources.operator, &resources.operator_version);
    let (namespace, name) = (operator.namespace(), operator.name());
    match client.namespaced::<Operator>(namespace).create(operator).await {
        Ok(_) => println!("operator {namespace}/{name} created"),
        Err(status) if status.is_already_exists() => {}
        Err(status) => bail!(
            "failed to install operator {namespace}/{name}: installing Operator: {}",
            status.message
        ),
    }
    let name = version.name();
    match client
        .namespaced::<OperatorVersion>(namespace)
        .create(version)
        .await
    {
        Ok(_) => println!("operatorversion {namespace}/{name} created"),
        Err(status) if status.is_already_exists() => {
            println!("operatorversion {namespace}/{name} already installed");
        }
        Err(status) => bail!(
            "failed to install operatorversion {namespace}/{name}: installing OperatorVersion: {}",
            status.message
        ),
    }
    Ok(())
}

async fn install_instance(client: &Client, instance: &Instance) -> Result<()> {
    let (namespace, name) = (instance.namespace(), instance.name());
    match client.namespaced::<Instance>(namespace).create(instance).await {
        Ok(_) => println!("instance {namespace}/{name} created"),
        Err(status) if status.is_already_exists() => bail!(
            "cannot install instance '{name}' because an instance of that name already exists in namespace {namespace}"
        ),
        Err(status) => bail!(
            "failed to install instance {namespace}/{name}: installing Instance: {}",
            status.message
        ),
    }
    Ok(())
}

async fn wait_if_requested(client: &Client, instance: &Instance, timeout: Option<Duration>) -> Result<()> {
    let Some(timeout) = timeout else { return Ok(()) };
    let (namespace, name) = (instance.namespace(), instance.name());
    let waited = wait::for_instance(client, (namespace, name), None, timeout).await;
    waited.with_context(|| format!("failed to wait on instance {namespace}/{name}"))?;
    println!("instance {namespace}/{name} ready");
    Ok(())
}
