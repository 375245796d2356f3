//! Runs the operator against the current cluster of the kubeconfig, or, in a pod, against its own cluster.
//!
//! `database-operator manifests` prints the manifests to apply first.
//! With `ENDPOINTS=0.0.0.0:8080` in its environment, the program serves probes and metrics there.

#![allow(clippy::print_stdout, reason = "a command line program prints to stdout")]

use std::error::Error;
use std::sync::Arc;

use setpoint_api::SystemClock;
use setpoint_client::kubeconfig::Connection;
use setpoint_runtime::{Client, Manager};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    match std::env::args().nth(1).as_deref() {
        None => run().await,
        Some("manifests") => {
            print!("{}", database_operator::manifests()?);
            Ok(())
        }
        Some(other) => Err(format!("unknown command {other:?}: there is only `manifests`").into()),
    }
}

async fn run() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let client = Client::connect(&Connection::infer()?)?;
    let mut manager = Manager::remote(client, Arc::new(SystemClock::new()));
    database_operator::add(&mut manager)?;
    if let Ok(address) = std::env::var("ENDPOINTS") {
        manager.serve_endpoints(TcpListener::bind(address).await?);
    }
    Ok(manager.run_until_interrupted().await?)
}
