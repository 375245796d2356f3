//! `init`: the CRDs of KUDO, and the engine in the cluster.

use std::path::PathBuf;

use anyhow::{Result, anyhow, bail};
use clap::Args;
use setpoint_api::{Clock, SystemClock};
use setpoint_kuttl::{ObjectClient, manifest};

use super::Settings;
use super::repo::Repositories;
use crate::engine::manager::object_client;
use crate::installation::{self, CertificateSource, Findings, Options, Step};

/// The flags of `init`.
#[derive(Debug, Args)]
pub struct InitArgs {
    /// The image of the engine, with the program setpoint in its path. There is no published one: without this flag, only
    /// the CRDs are installed.
    #[arg(long, short = 'i')]
    kudo_image: Option<String>,
    /// When the image is pulled.
    #[arg(long, default_value = "Always", value_parser = ["Always", "Never", "IfNotPresent"])]
    kudo_image_pull_policy: String,
    /// The version of upstream's image. Not supported: that image has another program. Use --kudo-image.
    #[arg(long)]
    version: Option<String>,
    /// Print the objects as yaml or json, and install them unless --dry-run is set.
    #[arg(long, short, value_parser = ["yaml", "json"])]
    output: Option<String>,
    /// Install nothing, neither in the cluster nor in the home directory.
    #[arg(long)]
    dry_run: bool,
    /// Create the configuration in the home directory only.
    #[arg(long, short)]
    client_only: bool,
    /// Install the CRDs only, for an engine outside of the cluster.
    #[arg(long)]
    crd_only: bool,
    /// Replace the engine that is installed.
    #[arg(long, conflicts_with_all = ["verify", "crd_only"])]
    upgrade: bool,
    /// Check what is installed.
    #[arg(long, conflicts_with = "dry_run")]
    verify: bool,
    /// Wait until the engine runs.
    #[arg(long, short, conflicts_with = "crd_only")]
    wait: bool,
    /// How long to wait, in seconds.
    #[arg(long, default_value_t = 300, requires = "wait")]
    wait_timeout: u64,
    /// The ServiceAccount of the engine. One besides the default must exist and have the role cluster-admin.
    #[arg(long, default_value = installation::DEFAULT_SERVICE_ACCOUNT)]
    service_account: String,
    /// Issue the certificate of the webhook, instead of requesting it from cert-manager.
    #[arg(long)]
    unsafe_self_signed_webhook_ca: bool,
}

pub(super) async fn run(args: &InitArgs, settings: &Settings) -> Result<()> {
    args.check()?;
    if !args.dry_run && !args.verify {
        let path = create_home(settings)?;
        if args.output.is_none() {
            println!("$KUDO_HOME has been configured at {}", path.display());
        }
    }
    if args.client_only {
        return Ok(());
    }
    let (clock, options) = (SystemClock::new(), args.options(settings));
    let steps = installation::steps(&options, clock.now())?;
    if args.dry_run {
        return print(&steps, args.output.as_deref());
    }
    let client = object_client(&settings.connection()?)?;
    if args.verify {
        let findings = installation::of_installation(&client, &options).await?;
        return report(&findings, "KUDO installation is not valid");
    }
    install(args, (&client, &clock), (&options, &steps)).await?;
    if !args.deploys_engine() && args.output.is_none() {
        println!("The engine runs outside of the cluster: `setpoint kudo manager`");
    }
    if args.wait {
        println!("Waiting for KUDO controller to be ready in your cluster...");
        installation::wait(&client, &options, args.wait_timeout, &clock).await?;
        println!("KUDO is ready!");
    }
    Ok(())
}

async fn install(
    args: &InitArgs,
    (client, clock): (&ObjectClient, &dyn Clock),
    (options, steps): (&Options, &[Step]),
) -> Result<()> {
    let findings = match args.upgrade {
        true => installation::before_upgrade(client, options).await?,
        false => installation::before_install(client, options).await?,
    };
    report(&findings, "failed to verify installation requirements")?;
    print(steps, args.output.as_deref())?;
    let done = |step: &str| {
        if args.output.is_none() {
            println!("installed {step}");
        }
    };
    match args.upgrade {
        true => installation::upgrade(client, (options, steps), clock, done).await,
        false => installation::install(client, steps, done).await,
    }
}

impl InitArgs {
    /// Rules between flags that clap does not know.
    fn check(&self) -> Result<()> {
        if self.version.is_some() {
            bail!(
                "there is no image of the engine whose version could be selected: specify it with --kudo-image"
            );
        }
        let is_set = self.kudo_image.is_some() || self.output.is_some() || self.crd_only || self.wait;
        if self.client_only && is_set {
            bail!("you cannot use image, version, output, crd-only and wait flags with client-only option");
        }
        if (self.wait || self.upgrade) && !self.deploys_engine() {
            bail!(
                "cannot infer the image of the engine: none is published; specify one that contains setpoint with --kudo-image"
            );
        }
        Ok(())
    }

    /// Whether the engine is installed in the cluster, and not the CRDs alone.
    fn deploys_engine(&self) -> bool {
        self.kudo_image.is_some() && !self.crd_only
    }

    fn options(&self, settings: &Settings) -> Options {
        let namespace = settings.namespace.clone();
        Options {
            namespace: namespace.unwrap_or_else(|| installation::DEFAULT_NAMESPACE.to_owned()),
            service_account: self.service_account.clone(),
            image: self.kudo_image.clone().filter(|_| !self.crd_only),
            image_pull_policy: self.kudo_image_pull_policy.clone(),
            certificate: match self.unsafe_self_signed_webhook_ca {
                true => CertificateSource::SelfSigned,
                false => CertificateSource::CertManager,
            },
        }
    }
}

/// Creates the configuration of repositories, unless it exists. Returns the home directory.
fn create_home(settings: &Settings) -> Result<PathBuf> {
    let path = settings.repositories_file()?;
    if !path.exists() {
        Repositories::read(&path)?.write(&path)?;
    }
    let home = path.ancestors().nth(2).unwrap_or(&path);
    Ok(home.to_owned())
}

fn print(steps: &[Step], output: Option<&str>) -> Result<()> {
    let Some(output) = output else { return Ok(()) };
    for object in steps.iter().flat_map(|step| &step.objects) {
        match output {
            "json" => println!("{object:#}"),
            _ => print!(
                "---\n{}",
                manifest::to_yaml(object).map_err(|error| anyhow!(error))?
            ),
        }
    }
    Ok(())
}

/// Prints the findings. Errors among them fail with this message.
fn report(findings: &Findings, message: &str) -> Result<()> {
    for (title, texts) in [("Warnings", &findings.warnings), ("Errors", &findings.errors)] {
        if !texts.is_empty() {
            eprintln!("{title}\n{}", texts.join("\n"));
        }
    }
    match findings.errors.is_empty() {
        true => Ok(()),
        false => bail!("{message}"),
    }
}
