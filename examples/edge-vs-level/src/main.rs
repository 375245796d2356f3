//! Plays the story against the cluster that kubectl would talk to, and prints who ends right.

#![allow(clippy::print_stdout, reason = "a command line speaks to its user")]

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use edge_vs_level::demo::{Act, Stage, play};
use edge_vs_level::keepers::{ALL, WANTED};
use setpoint_api::SystemClock;
use setpoint_client::kubeconfig::Connection;
use setpoint_runtime::Client;

/// Short, so that nobody has to wait long; in earnest it is minutes to hours.
const RESYNC: Duration = Duration::from_secs(5);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let connection = Connection::infer()?;
    let stage = Stage {
        client: Client::connect(&connection)?,
        clock: Arc::new(SystemClock::new()),
        namespace: connection.namespace.unwrap_or_else(|| "default".to_owned()),
        resync: RESYNC,
    };
    print(&play(&stage).await?);
    Ok(())
}

fn print(acts: &[Act]) {
    println!("{:<46}{:>8}{:>8}{:>8}", "", ALL[0], ALL[1], ALL[2]);
    let cell = |left: usize| format!("{left}/{WANTED}");
    for act in acts {
        let [edge, level, resync] = act.left.map(cell);
        println!("{:<46}{edge:>8}{level:>8}{resync:>8}", act.what);
    }
    for whose in ALL {
        let is_right = |at: usize| acts[at].left(whose) == WANTED;
        let verdict = match (is_right(1), is_right(2)) {
            (true, true) => "ends right",
            (true, false) => "ends right at the next event, whenever that comes",
            (false, _) => "ends wrong",
        };
        println!("{whose} {verdict}");
    }
}
