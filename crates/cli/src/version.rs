//! `setpoint version`: the versions of this program and of the server, in kubectl's output format.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use serde::Serialize;
use serde_json::Value;

use crate::remote;

/// The arguments of `setpoint version`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The output format [default: plain text].
    #[arg(long, short, value_enum)]
    pub output: Option<Output>,
    /// If true, print the client version only; no server is contacted.
    #[arg(long)]
    pub client: bool,
    /// Path to the kubeconfig file to use for requests [default: $KUBECONFIG or ~/.kube/config].
    #[arg(long, value_name = "PATH")]
    pub kubeconfig: Option<PathBuf>,
}

/// An output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    Json,
}

/// The output, with kubectl's field names. A version is Kubernetes' `version.Info`, printed with all its fields.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Versions {
    client_version: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    server_version: Option<Value>,
}

/// Prints the client's version, and the server's unless `--client` is set.
pub fn run(args: &Args, client: &impl Serialize) -> Result<()> {
    let fetched = if args.client {
        Ok(None)
    } else {
        fetch_server_version(args).map(Some)
    };
    let (server_version, problem) = match fetched {
        Ok(version) => (version, None),
        Err(error) => (None, Some(error)),
    };
    let versions = Versions {
        client_version: serde_json::to_value(client)?,
        server_version,
    };
    match args.output {
        Some(Output::Json) => println!("{}", serde_json::to_string_pretty(&versions)?),
        None => print(&versions),
    }
    match problem {
        Some(problem) => Err(problem),
        None => Ok(()),
    }
}

fn fetch_server_version(args: &Args) -> Result<Value> {
    let connection = remote::connection(args.kubeconfig.as_deref())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot start the runtime")?;
    let Ok(json) = runtime.block_on(remote::get(&connection, "/version")) else {
        let server = connection.server.trim_start_matches("https://");
        bail!("The connection to the server {server} was refused - did you specify the right host or port?");
    };
    setpoint_api::json::from_slice(&json).context("cannot parse the server's version")
}

fn print(versions: &Versions) {
    println!(
        "Client Version: {}",
        field(&versions.client_version, "gitVersion")
    );
    if let Some(server) = &versions.server_version {
        println!("Server Version: {}", field(server, "gitVersion"));
        if let Some(warning) = skew(&versions.client_version, server) {
            eprintln!("{warning}");
        }
    }
}

/// A string field of a version, empty if it has none.
fn field<'a>(version: &'a Value, name: &str) -> &'a str {
    version[name].as_str().unwrap_or_default()
}

/// kubectl's warning when client and server are more than one minor version apart.
fn skew(client: &Value, server: &Value) -> Option<String> {
    let release = |version| (field(version, "major"), field(version, "minor"));
    let (client, server) = (release(client), release(server));
    let minor = |minor: &str| minor.trim_end_matches('+').parse::<i64>().ok();
    let apart = minor(client.1)?.abs_diff(minor(server.1)?);
    let far = client.0 != server.0 || apart > 1;
    far.then(|| {
        format!(
            "WARNING: version difference between client ({}.{}) and server ({}.{}) exceeds the supported minor version skew of +/-1",
            client.0, client.1, server.0, server.1
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn version(minor: &str) -> Value {
        json!({"major": "1", "minor": minor, "gitVersion": format!("v1.{minor}.0")})
    }

    /// TO9
    #[test]
    fn to9_only_more_than_one_minor_version_apart_is_warned_of() {
        for near in ["36", "37", "38+"] {
            assert_eq!(skew(&version("37"), &version(near)), None, "{near}");
        }
        let warning = skew(&version("37"), &version("35")).unwrap();
        assert_eq!(
            warning,
            "WARNING: version difference between client (1.37) and server (1.35) exceeds the supported minor version skew of +/-1"
        );
    }

    /// TO9
    #[test]
    fn to9_both_versions_are_under_the_keys_kubectl_uses() {
        let versions = Versions {
            client_version: version("37"),
            server_version: Some(version("36")),
        };
        let output = serde_json::to_value(&versions).unwrap();
        assert_eq!(output["clientVersion"]["minor"], "37");
        assert_eq!(output["serverVersion"]["minor"], "36");
    }
}
