//! The controllers' benchmark: the real binary with its controllers and simulated nodes, asked for large things.
//!
//! One file per workload; `asking.rs` is how they ask and wait, `writes.rs` how they find out what was written for it.

mod asking;
mod collection;
mod idle;
mod namespace;
mod rollout;
mod writes;

use anyhow::{Context, Result};

use crate::{
    api::{
        Setting,
        load::{self, Load},
        request::Template,
        server::Server,
        workloads::exchange::Exchange,
    },
    args::{ApiArgs, ControllersArgs, wanted},
    report::Report,
};

/// The clients that load a server at once where one is not enough.
const CLIENTS: usize = 16;

/// Creates so many objects at a path; `########` in the body is the number of each.
async fn create(setting: &Setting, server: &Server, (path, body): (&str, &str), count: u64) -> Result<()> {
    let template = Template::with_body("POST", path, body);
    let load = Load {
        clients: setting.clients,
        operations: count,
        first: 0,
    };
    load::apply(server, &load, |_| Exchange::new(template.clone(), 201)).await?;
    Ok(())
}

/// Runs what was asked for and prints it.
pub(crate) fn run(args: &ControllersArgs) -> Result<()> {
    let setting = Setting::prepare(&ApiArgs {
        setpoint: args.setpoint.clone(),
        dir: args.dir.clone(),
        rounds: 1,
        clients: CLIENTS,
        quick: args.quick,
        only: Vec::new(),
    })?;
    let mut report = Report::default();
    report.begin("controllers")?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting a runtime")?;
    for name in ["rollout", "namespace", "collection", "idle"] {
        if !wanted(&args.only, name) {
            continue;
        }
        eprintln!("controllers: {name}");
        let measured = runtime.block_on(async {
            match name {
                "rollout" => rollout::measure(&setting, &mut report).await,
                "namespace" => namespace::measure(&setting, &mut report).await,
                "collection" => collection::measure(&setting, &mut report).await,
                _ => idle::measure(&setting, args.idle_seconds, &mut report).await,
            }
        });
        measured.with_context(|| format!("measuring {name}"))?;
    }
    report.finish();
    Ok(())
}
