//! The node agent's benchmark: `setpoint node` on a private containerd, beside bare calls of the same container runtime.
//!
//! The program runs again as process 1 of new mount, network and process namespaces, so that whatever a run leaves behind
//! ends with it. It needs root, containerd, runc, busybox and iproute2. Start reading at [`run`]; `machine.rs` starts the
//! processes.

mod machine;

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use jiff::{SignedDuration, Timestamp};
use machine::NodeMachine;

use crate::args::NodeArgs;
use crate::processes;
use crate::report::{Goal, Measurement, Report};
use crate::statistics::Spread;

/// Set in the inner process, to the cgroup of its pods.
const INSIDE: &str = "SETPOINT_BENCH_CGROUP";

const SETUP: &str =
    "mount -t tmpfs t /run && ip link set lo up && ip addr add 192.0.2.1/32 dev lo && exec \"$0\" \"$@\"";

/// How long the agent is idle before its memory is read.
const IDLE: Duration = Duration::from_secs(30);

/// The kubelet's default limit of pods on a node.
const PODS: usize = 110;

/// Runs the measurements and prints them.
pub(crate) fn run(args: &NodeArgs) -> Result<()> {
    match std::env::var(INSIDE) {
        Ok(cgroup) => measure_all(args, &cgroup),
        Err(_) => run_isolated(),
    }
}

/// Runs this program again in namespaces of its own, then removes what is outside of them: the cgroups.
fn run_isolated() -> Result<()> {
    let cgroup = format!("setpoint-bench-{}", std::process::id());
    let status = Command::new("unshare")
        .args(["-m", "-n", "-p", "-f", "--mount-proc", "--propagation", "shared"])
        .args(["sh", "-c", SETUP])
        .arg(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .env(INSIDE, &cgroup)
        .status()
        .context("cannot start unshare")?;
    let remove = format!("find /sys/fs/cgroup -depth -type d -path '*/{cgroup}*' -exec rmdir {{}} +");
    Command::new("sh").args(["-c", &remove]).status()?;
    ensure!(status.success(), "the benchmark failed in its namespaces");
    Ok(())
}

fn measure_all(args: &NodeArgs, cgroup: &str) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting a runtime")?;
    let mut report = Report::default();
    report.begin("node")?;
    runtime.block_on(async {
        let machine = NodeMachine::start(args, cgroup).await?;
        measure_idle(&machine, &mut report).await?;
        measure_starts(&machine, args.rounds, &mut report).await?;
        measure_many(&machine, &mut report).await
    })?;
    report.finish();
    Ok(())
}

/// The memory of an agent without pods.
async fn measure_idle(machine: &NodeMachine, report: &mut Report) -> Result<()> {
    tokio::time::sleep(IDLE).await;
    let memory = processes::memory(machine.agent_id())?;
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    let resident = Measurement::new("node", "agent_idle_memory", megabytes(memory.resident), "MB");
    report.add(resident.goal(Goal::AtMost(15.0)));
    report.add(Measurement::new(
        "node",
        "agent_idle_anonymous_memory",
        megabytes(memory.anonymous),
        "MB",
    ));
    Ok(())
}

/// From the creation of a pod that is bound to the node to the start of its container, and the same by bare calls of the
/// runtime, in turns. The times of the starts are the runtime's own.
async fn measure_starts(machine: &NodeMachine, rounds: usize, report: &mut Report) -> Result<()> {
    let (mut bare, mut pods, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    // The first round warms the caches.
    for round in 0..=rounds {
        let before = Timestamp::now();
        let started = machine.start_bare(&format!("bare-{round}")).await?;
        let bare_time = milliseconds(started.duration_since(before));
        let (created, started) = machine.start_pod(&format!("pod-{round}")).await?;
        let pod_time = milliseconds(started.duration_since(created));
        if round > 0 {
            bare.push(bare_time);
            pods.push(pod_time);
            ratios.push(pod_time / bare_time);
        }
    }
    let spread = |values: Vec<f64>| Spread::of(values).context("there is a round");
    let measurement = Measurement::spread("node", "pod_start", spread(pods)?, "ms");
    let measurement = measurement.paired(spread(bare)?, spread(ratios)?);
    let measurement = measurement.operations(rounds as u64);
    report.add(measurement.goal(Goal::RatioAtMost(1.2)));
    Ok(())
}

/// A full node: the time until all pods run, and the memory of the agent then.
async fn measure_many(machine: &NodeMachine, report: &mut Report) -> Result<()> {
    let before = Timestamp::now();
    for number in 0..PODS {
        machine.create_pod(&format!("many-{number}")).await?;
    }
    machine.wait_until_running(PODS).await?;
    let seconds = milliseconds(Timestamp::now().duration_since(before)) / 1e3;
    report.add(Measurement::new("node", "110_pods_running", seconds, "s").operations(PODS as u64));
    let memory = processes::memory(machine.agent_id())?;
    let resident = memory.resident as f64 / 1e6;
    report.add(Measurement::new("node", "110_pods_agent_memory", resident, "MB"));
    Ok(())
}

fn milliseconds(duration: SignedDuration) -> f64 {
    duration.as_secs_f64() * 1e3
}
