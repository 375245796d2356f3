//! Three servers on three etcd members, each pair in a network namespace: `--etcd`.
//!
//! `histories` lets 16 clients and six watchers record what they see while servers and members are killed, paused, cut off from
//! each other and given other times; the checker in `crate::linearizability` judges each round of it. `rollout` counts pods
//! while the leader of the controllers is killed and terminated.
//!
//! The run has namespaces of its own, for the network and for processes: nothing of it remains when it ends. Start reading at
//! `histories.rs`.

mod client;
mod cluster;
mod faults;
mod histories;
mod member;
mod network;
mod pods;
mod recorder;
mod rollout;
mod stream;
mod watcher;

use anyhow::Result;

use crate::args::{Args, Scenario};

/// Runs a scenario. Returns whether everything held; also if nothing can be run here, which is printed.
pub(crate) fn run(args: &Args, scenario: Scenario) -> Result<bool> {
    if !args.isolated {
        if let Err(error) = network::check_isolation() {
            println!("SKIPPED: no namespaces can be made here (root can): {error:#}");
            return Ok(true);
        }
        network::isolate("--isolated")?;
    }
    match scenario {
        Scenario::Histories => histories::run(args),
        Scenario::Rollout => rollout::run(args),
    }
}
