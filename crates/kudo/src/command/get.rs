//! `get`: installed operators, versions and instances.

use anyhow::{Result, bail};
use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};
use setpoint_api::options::ListOptions;
use setpoint_client::{Client, Object};

use super::tree::Tree;
use super::{Settings, message, plan};
use crate::api::{Instance, Operator, OperatorVersion};

/// The arguments of `get`.
#[derive(Debug, Args)]
pub struct GetArgs {
    /// What to print: instances, operators, operatorversions or all.
    resource: String,
    /// Print the objects as json or yaml.
    #[arg(long, short)]
    output: Option<String>,
}

pub(super) async fn run(args: &GetArgs, settings: &Settings) -> Result<()> {
    let (client, namespace) = settings.client().await?;
    let what = args.resource.as_str();
    if !["instances", "operators", "operatorversions", "all"].contains(&what) {
        bail!("expecting one of \"instances, operators, operatorversions or all\" and not {what:?}");
    }
    let wanted = |name: &str| what == name || what == "all";
    let (mut operators, mut versions, mut instances) = (Vec::new(), Vec::new(), Vec::new());
    if wanted("operators") {
        operators = list::<Operator>(&client, &namespace).await?;
    }
    if wanted("operatorversions") {
        versions = list::<OperatorVersion>(&client, &namespace).await?;
    }
    if wanted("instances") {
        instances = list::<Instance>(&client, &namespace).await?;
    }
    if let Some(format) = &args.output {
        let mut objects = values(&operators)?;
        objects.extend(values(&versions)?);
        objects.extend(values(&instances)?);
        return plan::print_as(&json!(objects), format);
    }
    if what == "all" {
        println!(
            "List of current installed operators including versions and instances in namespace {namespace:?}:"
        );
        println!("{}", all(&operators, &versions, &instances).to_text());
        return Ok(());
    }
    let names = operators.iter().map(Operator::name);
    let names = names
        .chain(versions.iter().map(OperatorVersion::name))
        .chain(instances.iter().map(Instance::name));
    println!("List of current installed {what} in namespace {namespace:?}:");
    println!("{}", Tree::root(names.map(Tree::new).collect()).to_text());
    Ok(())
}

async fn list<T: Object>(client: &Client, namespace: &str) -> Result<Vec<T>> {
    let list = client
        .namespaced::<T>(namespace)
        .list(&ListOptions::default())
        .await
        .map_err(message)?;
    let mut objects = Vec::new();
    for object in &list.items {
        objects.push(object.to_owned()?);
    }
    Ok(objects)
}

fn values(objects: &[impl Serialize]) -> Result<Vec<Value>> {
    Ok(objects
        .iter()
        .map(serde_json::to_value)
        .collect::<Result<_, _>>()?)
}

fn all(operators: &[Operator], versions: &[OperatorVersion], instances: &[Instance]) -> Tree {
    let of_version = |version: &OperatorVersion| {
        let own = instances
            .iter()
            .filter(|instance| instance.operator_version_name() == version.name());
        Tree::new(version.name()).with(own.map(|instance| Tree::new(instance.name())))
    };
    let of_operator = |operator: &Operator| {
        let own = versions
            .iter()
            .filter(|version| version.operator_name() == operator.name());
        Tree::new(operator.name()).with(own.map(of_version))
    };
    Tree::root(operators.iter().map(of_operator).collect())
}
