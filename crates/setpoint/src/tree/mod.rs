//! `setpoint tree`: an object, what it owns, what that owns, and how ready each of them is.
//!
//! Any kind will do: what there is comes from discovery, who owns whom from the metadata of all objects, and only what
//! is in the tree is read in full. Nothing here knows a kind, and nothing is written.
//!
//! Start reading here, then [`grow`], which is pure; [`server`] asks, [`show`] draws.

mod cluster_reader;
mod owner_tree;
mod readiness;
mod render;
mod watch;

use anyhow::{Context, Result, bail};

use crate::args;
use crate::remote;
use cluster_reader::{ClusterReader, TreeRoot};

/// Prints the tree; with `--watch` again whenever it changes, until interrupted.
pub(crate) fn run(args: &args::Tree) -> Result<()> {
    let connection = remote::connection_of(args.kubeconfig.as_deref(), args.context.as_deref())?;
    let (word, name) = root(&args.object)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("cannot start the runtime")?.block_on(async {
        let server = ClusterReader::new(&connection)?;
        let namespace = args.namespace.as_deref().or(connection.namespace.as_deref());
        let wanted = server.find(&word, &name, namespace.unwrap_or("default")).await?;
        match args.watch {
            true => watch::watch(&server, &wanted).await,
            false => once(&server, &wanted).await,
        }
    })
}

async fn once(server: &ClusterReader, wanted: &TreeRoot) -> Result<()> {
    let found = server.list(wanted).await?;
    for problem in found.problems() {
        eprintln!("warning: {problem}");
    }
    let branches = owner_tree::owner_tree(&wanted.uid, &found.items);
    let objects = server
        .read(wanted, branches.iter().map(|branch| branch.item))
        .await?;
    let rows = render::rows(&branches, &objects);
    print!("{}", render::table(&rows, server.now()));
    Ok(())
}

/// `deployment/web` or `deployment web`: the word for the resource, and the name.
fn root(what: &[String]) -> Result<(String, String)> {
    let words: Vec<&str> = what.iter().flat_map(|word| word.split('/')).collect();
    match words[..] {
        [word, name] if !word.is_empty() && !name.is_empty() => Ok((word.to_owned(), name.to_owned())),
        _ => bail!("{:?} is no object such as deployment/web", what.join(" ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: Option<(&str, &str)>) {
        let words: Vec<String> = line.split(' ').map(ToOwned::to_owned).collect();
        let expected = expected.map(|(word, name)| (word.to_owned(), name.to_owned()));
        assert_eq!(root(&words).ok(), expected, "{line}");
    }

    #[test]
    fn an_object_is_named_in_one_word_or_in_two() {
        check("deployment/web", Some(("deployment", "web")));
        check("deployments.apps web", Some(("deployments.apps", "web")));
        for bad in ["deployment", "deployment/", "/web", "a/b/c", "a/b c"] {
            check(bad, None);
        }
    }
}
