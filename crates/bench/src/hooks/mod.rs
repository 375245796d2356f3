//! The benchmark of hook programs: `setpoint shell-operator` beside the real shell-operator, on one server and in turns.
//!
//! Both run the same hooks, which are small shell scripts, against the same API server with the same pods. `operator.rs`
//! starts a program with a directory of hooks; this file has the workloads. CPU time is that of the operator's process;
//! that of the hooks' processes, which is the same for both, is not included.

mod operator;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tokio::time::sleep;

use self::operator::{HooksDir, Operator};
use crate::{
    api::{
        Setting, objects,
        server::{Server, ServerComponents, new_dir},
    },
    args::HooksArgs,
    controllers::{api_client::ApiClient, create},
    report::{Goal, Measurement, Report},
    statistics::Spread,
};

/// The polling interval of waits for hooks.
const INTERVAL: Duration = Duration::from_millis(2);

/// The timeout of waits for hooks. The real program takes minutes to read many pods for each hook.
const LIMIT: Duration = Duration::from_secs(3600);

/// The hooks of the measurements with many of them.
const HOOKS: u64 = 50;

/// The bench, the server and the programs that are compared.
struct Bench<'a> {
    setting: &'a Setting,
    server: Server,
    kubeconfig: PathBuf,
    /// Ours, and the real one if its path is given.
    programs: Vec<Program>,
    pods: u64,
}

/// A program with its arguments before `start`.
#[derive(Debug, Clone)]
struct Program {
    path: PathBuf,
    arguments: Vec<&'static str>,
}

/// The results of one program: one value for each round.
type Rounds = Vec<Vec<f64>>;

/// Runs the selected measurements and prints them.
pub(crate) fn run(args: &HooksArgs) -> Result<()> {
    let setting = Setting::single_round(&args.setpoint, &args.dir, false)?;
    let mut report = Report::default();
    report.begin("hooks")?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting a runtime")?;
    runtime.block_on(measure(&setting, args, &mut report))?;
    report.finish();
    Ok(())
}

async fn measure(setting: &Setting, args: &HooksArgs, report: &mut Report) -> Result<()> {
    let dir = new_dir(setting)?;
    let server = Server::setpoint(setting, dir.path(), ServerComponents::ApiOnly).await?;
    let ours = Program {
        path: setting.setpoint.clone(),
        arguments: vec!["shell-operator"],
    };
    let real = args.shell_operator.clone().map(|path| Program {
        path,
        arguments: Vec::new(),
    });
    let bench = Bench {
        setting,
        server,
        kubeconfig: dir.path().join("kubeconfig"),
        programs: [ours].into_iter().chain(real).collect(),
        pods: args.pods,
    };
    bench.start(args.rounds, report).await?;
    let pods = objects::pod("watched");
    create(setting, &bench.server, (objects::PODS, &pods), bench.pods).await?;
    bench.many_hooks(args.rounds, args.events, report).await?;
    bench.server.stop().await
}

impl Bench<'_> {
    /// From the start of the process to the first run of a hook.
    async fn start(&self, rounds: usize, report: &mut Report) -> Result<()> {
        let mut seconds: Rounds = vec![Vec::new(); self.programs.len()];
        for _ in 0..rounds {
            for (program, seconds) in self.programs.iter().zip(&mut seconds) {
                let dir = new_dir(self.setting)?;
                let hooks = HooksDir::create(dir.path())?;
                hooks.add("start.sh", "configVersion: v1\nonStartup: 1")?;
                let started = Instant::now();
                let operator = Operator::start(program, &hooks, &self.kubeconfig)?;
                wait(&operator, || hooks.runs("start.sh") >= 1).await?;
                seconds.push(started.elapsed().as_secs_f64() * 1e3);
                operator.stop().await?;
            }
        }
        add(
            report,
            ("start_to_first_hook", "ms"),
            &seconds,
            Goal::RatioAtMost(1.0),
        );
        Ok(())
    }

    /// Fifty hooks that watch all pods: memory once they are synchronized, then the runs that changes of a pod cause.
    async fn many_hooks(&self, rounds: usize, events: u64, report: &mut Report) -> Result<()> {
        let empty = || vec![Vec::new(); self.programs.len()];
        let (mut start, mut start_cpu) = (empty(), empty());
        let (mut memory, mut peak) = (empty(), empty());
        let (mut rate, mut cpu) = (empty(), empty());
        for round in 0..rounds {
            for (index, program) in self.programs.iter().enumerate() {
                let dir = new_dir(self.setting)?;
                let hooks = HooksDir::create(dir.path())?;
                add_watchers(&hooks)?;
                let started = Instant::now();
                let operator = Operator::start(program, &hooks, &self.kubeconfig)?;
                wait(&operator, || hooks.runs("z-last.sh") >= 1).await?;
                start[index].push(started.elapsed().as_secs_f64());
                start_cpu[index].push(operator.cpu_time()?.as_secs_f64());
                eprintln!("hooks: round {round}, {}: enabled", program.path.display());
                // The server closes connections that are idle for long.
                let mut client = ApiClient::new(&self.server).await?;
                let change = |number: u64| format!("{round}-{index}-{number}");
                // The first change shows that every hook follows events.
                self.change_pod(&mut client, &change(0)).await?;
                wait(&operator, || all_ran(&hooks, 1)).await?;
                let resident = operator.memory()?;
                memory[index].push(resident.resident as f64 / 1e6);
                peak[index].push(resident.peak as f64 / 1e6);
                let (changed, before) = (Instant::now(), operator.cpu_time()?);
                for number in 1..=events {
                    self.change_pod(&mut client, &change(number)).await?;
                    wait(&operator, || all_ran(&hooks, number + 1)).await?;
                }
                let runs = (events * HOOKS) as f64;
                rate[index].push(runs / changed.elapsed().as_secs_f64());
                cpu[index].push((operator.cpu_time()? - before).as_secs_f64() * 1e6 / runs);
                operator.stop().await?;
            }
        }
        add(report, ("start_50_hooks", "s"), &start, Goal::RatioAtMost(1.0));
        add(
            report,
            ("start_50_hooks_cpu", "s"),
            &start_cpu,
            Goal::RatioAtMost(1.0),
        );
        add(report, ("memory_50_hooks", "MB"), &memory, Goal::RatioAtMost(1.0));
        add(
            report,
            ("peak_memory_50_hooks", "MB"),
            &peak,
            Goal::RatioAtMost(1.0),
        );
        add(report, ("hook_starts", "1/s"), &rate, Goal::RatioAtLeast(1.0));
        add(report, ("cpu_per_event", "us"), &cpu, Goal::RatioAtMost(1.0));
        Ok(())
    }

    /// Changes the label that the filter of the hooks selects.
    async fn change_pod(&self, client: &mut ApiClient, value: &str) -> Result<()> {
        let path = format!("{}/watched-00000000", objects::PODS);
        let body = format!(r#"{{"metadata":{{"labels":{{"change":"{value}"}}}}}}"#);
        client.patch(&path, &body).await
    }
}

/// Adds hooks that run on every change of a pod, each in a queue of its own, and one that runs once all are enabled.
fn add_watchers(hooks: &HooksDir) -> Result<()> {
    for number in 0..HOOKS {
        let config = format!(
            "configVersion: v1\nkubernetes:\n- {{name: pods, apiVersion: v1, kind: Pod, queue: q{number}, executeHookOnSynchronization: false, jqFilter: .metadata.labels}}"
        );
        hooks.add(&watcher(number), &config)?;
    }
    let last = "configVersion: v1\nkubernetes:\n- {apiVersion: v1, kind: Namespace, executeHookOnEvent: []}";
    hooks.add("z-last.sh", last)
}

fn watcher(number: u64) -> String {
    format!("hook-{number:02}.sh")
}

fn all_ran(hooks: &HooksDir, runs: u64) -> bool {
    // The last hooks are started last: most checks end with the first file.
    (0..HOOKS)
        .rev()
        .all(|number| hooks.runs(&watcher(number)) >= runs)
}

/// Waits for a condition while the operator runs.
async fn wait(operator: &Operator, condition: impl Fn() -> bool) -> Result<()> {
    let start = Instant::now();
    while !condition() {
        operator.check_running()?;
        if start.elapsed() > LIMIT {
            bail!(
                "hooks have not run after {LIMIT:?}; the log ends with:\n{}",
                operator.log_end()
            );
        }
        sleep(INTERVAL).await;
    }
    Ok(())
}

/// Reports the medians of ours, with the real program as the baseline if it ran.
fn add(report: &mut Report, (name, unit): (&'static str, &'static str), rounds: &Rounds, goal: Goal) {
    let mut spreads = rounds
        .iter()
        .filter_map(|values| Spread::of(values.iter().copied()));
    let Some(ours) = spreads.next() else { return };
    let line = Measurement::spread("hooks", name, ours, unit).operations(rounds[0].len() as u64);
    report.add(match spreads.next() {
        Some(baseline) => line.against(baseline.median).goal(goal),
        None => line,
    });
}
