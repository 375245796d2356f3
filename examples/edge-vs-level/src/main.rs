//! Runs the demo against the current cluster of the kubeconfig, and prints which controllers converge.

#![allow(clippy::print_stdout, reason = "a command line program prints to stdout")]

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use edge_vs_level::controllers::{ALL, DESIRED};
use edge_vs_level::demo::{Demo, StepResult, run_demo};
use setpoint_api::SystemClock;
use setpoint_client::kubeconfig::Connection;
use setpoint_runtime::Client;

/// Short, for the demo; in production it is minutes to hours.
const RESYNC: Duration = Duration::from_secs(5);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let connection = Connection::infer()?;
    let demo_config = Demo {
        client: Client::connect(&connection)?,
        clock: Arc::new(SystemClock::new()),
        namespace: connection.namespace.unwrap_or_else(|| "default".to_owned()),
        resync: RESYNC,
    };
    print(&run_demo(&demo_config).await?);
    Ok(())
}

fn print(results: &[StepResult]) {
    println!("{:<46}{:>8}{:>8}{:>8}", "", ALL[0], ALL[1], ALL[2]);
    let cell = |remaining: usize| format!("{remaining}/{DESIRED}");
    for measure in results {
        let [edge, level, resync] = measure.remaining.map(cell);
        println!("{:<46}{edge:>8}{level:>8}{resync:>8}", measure.what);
    }
    for trigger in ALL {
        let is_right = |at: usize| results[at].remaining(trigger) == DESIRED;
        let outcome = match (is_right(1), is_right(2)) {
            (true, true) => "converges",
            (true, false) => "converges at the next event only",
            (false, _) => "does not converge",
        };
        println!("{trigger} {outcome}");
    }
}
