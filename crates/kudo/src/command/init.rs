//! `init`: the CRDs of KUDO.

use anyhow::Result;
use clap::Args;
use setpoint_client::Patch;
use setpoint_kuttl::manifest;

use super::Settings;
use crate::crds;
use crate::engine::manager::object_client;

/// The flags of `init`.
#[derive(Debug, Args)]
pub struct InitArgs {
    /// Print the objects as yaml or json, and install them unless --dry-run is set.
    #[arg(long, short)]
    output: Option<String>,
    /// Install nothing.
    #[arg(long)]
    dry_run: bool,
    /// Install the CRDs only. It has no effect: the engine runs outside of the cluster.
    #[arg(long)]
    crd_only: bool,
}

pub(super) async fn run(args: &InitArgs, settings: &Settings) -> Result<()> {
    for crd in &crds::all() {
        match args.output.as_deref() {
            None => {}
            Some("json") => println!("{crd:#}"),
            Some(_) => print!(
                "---\n{}",
                manifest::to_yaml(crd).map_err(|error| anyhow::anyhow!(error))?
            ),
        }
    }
    if args.dry_run {
        return Ok(());
    }
    let objects = object_client(&settings.connection()?)?;
    for crd in &crds::all() {
        let outcome = match objects.create(crd).await {
            Err(status) if status.is_already_exists() => objects.patch(crd, &Patch::merge(crd)?).await,
            outcome => outcome,
        };
        outcome?;
    }
    if args.output.is_none() {
        println!("CRDs installed. The engine runs outside of the cluster: setpoint kudo manager");
    }
    Ok(())
}
