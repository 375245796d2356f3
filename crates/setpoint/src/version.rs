//! `setpoint version`: the versions of this program and of the server, in kubectl's output format.

use anyhow::{Context, Result, bail};
use serde::Serialize;
use setpoint_apiserver::version::Version;

use crate::args;
use crate::remote;

/// The output, with kubectl's field names.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Versions {
    client_version: Version,
    #[serde(skip_serializing_if = "Option::is_none")]
    server_version: Option<Version>,
}

/// Prints the client's version, and the server's unless `--client` is set.
pub(crate) fn run(args: &args::Version) -> Result<()> {
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
        client_version: Version::client(),
        server_version,
    };
    match args.output {
        Some(args::Output::Json) => println!("{}", serde_json::to_string_pretty(&versions)?),
        None => print(&versions),
    }
    match problem {
        Some(problem) => Err(problem),
        None => Ok(()),
    }
}

fn fetch_server_version(args: &args::Version) -> Result<Version> {
    let connection = remote::connection(args.kubeconfig.as_deref())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot start the runtime")?;
    let Ok(json) = runtime.block_on(remote::get(&connection, "/version")) else {
        let server = connection.server.trim_start_matches("https://");
        bail!("The connection to the server {server} was refused - did you specify the right host or port?");
    };
    serde_json::from_slice(&json).context("cannot parse the server's version")
}

fn print(versions: &Versions) {
    println!("Client Version: {}", versions.client_version.git_version);
    if let Some(server) = &versions.server_version {
        println!("Server Version: {}", server.git_version);
        if let Some(warning) = skew(&versions.client_version, server) {
            eprintln!("{warning}");
        }
    }
}

/// kubectl's warning when client and server are more than one minor version apart.
fn skew(client: &Version, server: &Version) -> Option<String> {
    let minor = |version: &Version| version.minor.trim_end_matches('+').parse::<i64>().ok();
    let apart = minor(client)?.abs_diff(minor(server)?);
    let far = client.major != server.major || apart > 1;
    far.then(|| {
        format!(
            "WARNING: version difference between client ({}.{}) and server ({}.{}) exceeds the supported minor version skew of +/-1",
            client.major, client.minor, server.major, server.minor
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(minor: &str) -> Version {
        Version {
            minor: minor.to_owned(),
            ..Version::server()
        }
    }

    /// TO9
    #[test]
    fn to9_only_more_than_one_minor_version_apart_is_warned_of() {
        for near in ["36", "37", "38+"] {
            assert_eq!(skew(&Version::client(), &server(near)), None, "{near}");
        }
        let warning = skew(&Version::client(), &server("35")).unwrap();
        assert_eq!(
            warning,
            "WARNING: version difference between client (1.37) and server (1.35) exceeds the supported minor version skew of +/-1"
        );
    }

    /// TO9
    #[test]
    fn to9_both_versions_are_under_the_keys_kubectl_uses() {
        let versions = Versions {
            client_version: Version::client(),
            server_version: Some(Version::server()),
        };
        let output = serde_json::to_value(&versions).unwrap();
        assert_eq!(output["clientVersion"]["minor"], "37");
        assert_eq!(output["serverVersion"]["emulationMinor"], "37");
        assert!(output["clientVersion"]["emulationMinor"].is_null());
    }
}
