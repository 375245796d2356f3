//! The controllers' benchmark: the real binary with its controllers and simulated nodes under large workloads.
//!
//! One file per workload; `api_client.rs` sends requests and waits, `writes.rs` counts the resulting writes.

pub(crate) mod api_client;
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
    args::{ControllersArgs, is_selected},
    report::Report,
};

/// Creates so many objects at a path; `########` in the body is the number of each.
pub(crate) async fn create(
    setting: &Setting,
    server: &Server,
    (path, body): (&str, &str),
    count: u64,
) -> Result<()> {
    let template = Template::with_body("POST", path, body);
    let load = Load {
        clients: setting.clients,
        operations: count,
        first: 0,
    };
    load::apply(server, &load, |_| Exchange::new(template.clone(), 201)).await?;
    Ok(())
}

/// Runs the selected measurements and prints them.
pub(crate) fn run(args: &ControllersArgs) -> Result<()> {
    let setting = Setting::single_round(&args.setpoint, &args.dir, args.quick)?;
    let mut report = Report::default();
    report.begin("controllers")?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting a runtime")?;
    for name in ["rollout", "namespace", "collection", "idle"] {
        if !is_selected(&args.only, name) {
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
