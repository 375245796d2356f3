//! `setpoint tree`: an object with all its dependents, and the readiness of each.
//!
//! It works for any kind: the resources come from discovery, the ownerReferences from the metadata of all objects, and only
//! the objects in the tree are read in full. No code here is specific to a kind, and nothing is written.
//!
//! Start reading here, then [`owner_tree`], which is pure; [`cluster_reader`] sends the requests, [`render`] prints.

mod cluster_reader;
mod owner_tree;
mod readiness;
mod render;
mod watch;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::remote;
use cluster_reader::{ClusterReader, TreeRoot};

/// The arguments of `setpoint tree`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The root object: `deployment/web`, `deploy web`, `foos.example.com/a`.
    #[arg(value_name = "TYPE/NAME", num_args = 1..=2, required = true)]
    pub object: Vec<String>,
    /// The namespace of the object [default: the namespace of the context].
    #[arg(long, short)]
    pub namespace: Option<String>,
    /// Watch for changes, and print the tree again after each.
    #[arg(long, short)]
    pub watch: bool,
    /// Path to the kubeconfig file to use for requests [default: $KUBECONFIG or ~/.kube/config].
    #[arg(long, value_name = "PATH")]
    pub kubeconfig: Option<PathBuf>,
    /// The name of the kubeconfig context to use [default: the current context].
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
}

/// Prints the tree; with `--watch` again whenever it changes, until interrupted.
pub fn run(args: &Args) -> Result<()> {
    let connection = remote::connection_of(args.kubeconfig.as_deref(), args.context.as_deref())?;
    let (resource, name) = parse_object(&args.object)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("cannot start the runtime")?.block_on(async {
        let server = ClusterReader::new(&connection)?;
        let namespace = args.namespace.as_deref().or(connection.namespace.as_deref());
        let root = server
            .find(&resource, &name, namespace.unwrap_or("default"))
            .await?;
        match args.watch {
            true => watch::watch(&server, &root).await,
            false => once(&server, &root).await,
        }
    })
}

async fn once(server: &ClusterReader, root: &TreeRoot) -> Result<()> {
    let listed = server.list(root).await?;
    for problem in listed.problems() {
        eprintln!("warning: {problem}");
    }
    let nodes = owner_tree::owner_tree(&root.uid, &listed.items);
    let objects = server.read(root, nodes.iter().map(|node| node.item)).await?;
    let rows = render::rows(&nodes, &objects);
    print!("{}", render::table(&rows, server.now()));
    Ok(())
}

/// Parses `deployment/web` or `deployment web` into the resource and the name.
fn parse_object(arguments: &[String]) -> Result<(String, String)> {
    let pieces: Vec<&str> = arguments
        .iter()
        .flat_map(|argument| argument.split('/'))
        .collect();
    match pieces[..] {
        [resource, name] if !resource.is_empty() && !name.is_empty() => {
            Ok((resource.to_owned(), name.to_owned()))
        }
        _ => bail!(
            "invalid object {:?}: expected TYPE/NAME or TYPE NAME, such as deployment/web",
            arguments.join(" ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: Option<(&str, &str)>) {
        let arguments: Vec<String> = line.split(' ').map(ToOwned::to_owned).collect();
        let expected = expected.map(|(resource, name)| (resource.to_owned(), name.to_owned()));
        assert_eq!(parse_object(&arguments).ok(), expected, "{line}");
    }

    #[test]
    fn an_object_is_one_argument_or_two() {
        check("deployment/web", Some(("deployment", "web")));
        check("deployments.apps web", Some(("deployments.apps", "web")));
        for bad in ["deployment", "deployment/", "/web", "a/b/c", "a/b c"] {
            check(bad, None);
        }
    }
}
