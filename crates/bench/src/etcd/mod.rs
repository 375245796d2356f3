//! The benchmark of a server on etcd: Setpoint beside a kube-apiserver, on the same etcd, in alternating rounds.
//!
//! All three are child processes: etcd requires client certificates, both servers have the same CA and serve the same client
//! certificate. The baseline of each measurement is kube-apiserver, so that a ratio of 0.125 is an eighth of its CPU time.
//! `rig.rs` starts the processes, `paired.rs` runs the rounds; `requests.rs`, `watch.rs` and `start.rs` are the
//! measurements.

mod paired;
mod requests;
mod rig;
mod start;
mod watch;

use anyhow::{Context, Result, ensure};

use self::{
    paired::Pair,
    rig::{Rig, Subject},
};
use crate::{
    api::Setting,
    args::{ApiArgs, EtcdArgs, is_selected},
    report::{Goal, Report},
};

/// At most an eighth of the CPU time of kube-apiserver.
const EIGHTH: Goal = Goal::RatioAtMost(0.125);

/// Runs the selected measurements and prints them.
pub(crate) fn run(args: &EtcdArgs) -> Result<()> {
    ensure!(
        args.kube_apiserver.is_file(),
        "no kube-apiserver at {}",
        args.kube_apiserver.display()
    );
    let setting = Setting::prepare(&ApiArgs {
        setpoint: args.setpoint.clone(),
        dir: args.dir.clone(),
        rounds: args.rounds,
        clients: args.clients,
        quick: args.quick,
        only: Vec::new(),
    })?;
    let mut report = Report::default();
    report.begin("etcd")?;
    // One thread: the generator's tasks then never wake each other across cores, which keeps it cheap and steady.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting a runtime")?;
    runtime.block_on(measure(&setting, args, &mut report))?;
    report.finish();
    Ok(())
}

async fn measure(setting: &Setting, args: &EtcdArgs, report: &mut Report) -> Result<()> {
    let is_selected = |name| is_selected(&args.only, name);
    if is_selected("requests") || is_selected("watch") {
        let rig = Rig::start(setting, args).await?;
        let setpoint = rig.start_server(Subject::Setpoint).await?;
        let kube_apiserver = rig.start_server(Subject::KubeApiserver).await?;
        let pair = Pair::new(setting, &rig, (kube_apiserver, setpoint), report).await?;
        if is_selected("requests") {
            requests::measure(setting, &pair, report)
                .await
                .context("measuring requests")?;
        }
        if is_selected("watch") {
            watch::measure(setting, &pair, report)
                .await
                .context("measuring watches")?;
        }
    }
    if is_selected("start") {
        start::measure(setting, args, report)
            .await
            .context("measuring starts")?;
    }
    Ok(())
}
