//! `plan`: status, history, trigger and wait.

use std::time::Duration;

use anyhow::{Result, anyhow};
use clap::Subcommand;
use serde_json::json;
use setpoint_client::Patch;
use setpoint_kuttl::manifest;
use uuid::Uuid;

use super::tree::Tree;
use super::{Settings, instance, message, wait};
use crate::api::{Instance, OperatorVersion, Plan, PlanStatus};

/// The commands of `plan`.
#[derive(Debug, Subcommand)]
pub enum PlanCommand {
    /// Print all plans with their phases and steps, and the status of the last one.
    Status {
        /// The name of the instance.
        #[arg(long)]
        instance: String,
        /// Wait until the plan is complete.
        #[arg(long)]
        wait: bool,
        /// Print the status of the instance as json or yaml.
        #[arg(long, short)]
        output: Option<String>,
    },
    /// Print when each plan ran last.
    History {
        /// The name of the instance.
        #[arg(long)]
        instance: String,
    },
    /// Start a plan.
    Trigger {
        /// The name of the instance.
        #[arg(long)]
        instance: String,
        /// The name of the plan.
        #[arg(long)]
        name: String,
        #[command(flatten)]
        wait: wait::WaitArgs,
    },
    /// Wait until the last plan is complete.
    Wait {
        /// The name of the instance.
        #[arg(long)]
        instance: String,
        /// How long to wait, in seconds.
        #[arg(long, default_value_t = 300)]
        wait_time: u64,
    },
}

pub(super) async fn run(command: &PlanCommand, settings: &Settings) -> Result<()> {
    let (client, namespace) = settings.client().await?;
    match command {
        PlanCommand::Status {
            instance,
            wait,
            output,
        } => {
            if *wait {
                let timeout = Duration::from_secs(u64::from(u32::MAX));
                wait::for_instance(&client, (&namespace, instance), None, timeout).await?;
            }
            let instance = instance::find(&client, &namespace, instance).await?;
            if let Some(format) = output {
                return print_as(&json!(instance.status), format);
            }
            let version = client
                .namespaced::<OperatorVersion>(instance.operator_version_namespace())
                .get(instance.operator_version_name())
                .await
                .map_err(message)?;
            print!("{}", status_text(&instance, &version.to_owned()?));
            Ok(())
        }
        PlanCommand::History { instance } => {
            let instance = instance::find(&client, &namespace, instance).await?;
            println!("{}", history(&instance).to_text());
            Ok(())
        }
        PlanCommand::Trigger { instance, name, wait } => {
            let old = instance::find(&client, &namespace, instance).await?;
            let execution = json!({"planName": name, "uid": Uuid::new_v4().to_string()});
            let patch = Patch::merge(&json!({"spec": {"planExecution": execution}}))?;
            let instances = client.namespaced::<Instance>(&namespace);
            instances.patch(instance, &patch).await.map_err(message)?;
            if let Some(timeout) = wait.timeout() {
                wait::for_instance(&client, (&namespace, instance), Some(&old.status), timeout).await?;
            }
            println!("Triggered {name} plan for {namespace}/{instance} instance");
            Ok(())
        }
        PlanCommand::Wait { instance, wait_time } => {
            let timeout = Duration::from_secs(*wait_time);
            wait::for_instance(&client, (&namespace, instance), None, timeout).await
        }
    }
}

/// Prints a value as JSON or YAML.
pub(super) fn print_as(value: &serde_json::Value, format: &str) -> Result<()> {
    match format {
        "json" => println!("{value:#}"),
        "yaml" => print!("{}", manifest::to_yaml(value).map_err(|error| anyhow!(error))?),
        other => return Err(anyhow!("invalid output format {other:?}: expected json or yaml")),
    }
    Ok(())
}

fn status_text(instance: &Instance, version: &OperatorVersion) -> String {
    let name = instance.name();
    let Some(last) = instance.last_executed_plan() else {
        return format!("No plan ever run for instance - nothing to show for instance {name}\n");
    };
    let plans = version
        .spec
        .plans
        .iter()
        .map(|(plan_name, plan)| match *plan_name == last.name {
            true => active(plan_name, plan, last),
            false => inactive(plan_name, plan),
        });
    let label = format!(
        "{name} (Operator-Version: \"{}\" Active-Plan: \"{}\")",
        instance.operator_version_name(),
        last.name
    );
    let tree = Tree::root(vec![Tree::new(label).with(plans)]).to_text();
    format!(
        "Plan(s) for \"{name}\" in namespace \"{}\":\n{tree}\n",
        instance.namespace()
    )
}

fn active(name: &str, plan: &Plan, status: &PlanStatus) -> Tree {
    let updated = status
        .updated_at()
        .map(|at| format!(", last updated {}", at.strftime("%Y-%m-%d %H:%M:%S")));
    let label = format!(
        "Plan {name} ({} strategy) [{}]{}{}",
        plan.strategy.as_str(),
        status.status.as_str(),
        in_parentheses(&status.message),
        updated.unwrap_or_default()
    );
    let phases = status.phases.iter().map(|phase| {
        let strategy = plan.phases.iter().find(|own| own.name == phase.name);
        let strategy = strategy.map(|own| own.strategy.as_str()).unwrap_or_default();
        let label = format!(
            "Phase {} ({strategy} strategy) [{}]{}",
            phase.name,
            phase.status.as_str(),
            in_parentheses(&phase.message)
        );
        Tree::new(label).with(phase.steps.iter().map(|step| {
            let (status, message) = (step.status.as_str(), in_parentheses(&step.message));
            Tree::new(format!("Step {} [{status}]{message}", step.name))
        }))
    });
    Tree::new(label).with(phases)
}

fn inactive(name: &str, plan: &Plan) -> Tree {
    let phases = plan.phases.iter().map(|phase| {
        let label = format!(
            "Phase {} ({} strategy) [NOT ACTIVE]",
            phase.name,
            phase.strategy.as_str()
        );
        let steps = phase.steps.iter();
        Tree::new(label).with(steps.map(|step| Tree::new(format!("Step {} [NOT ACTIVE]", step.name))))
    });
    Tree::new(format!(
        "Plan {name} ({} strategy) [NOT ACTIVE]",
        plan.strategy.as_str()
    ))
    .with(phases)
}

fn history(instance: &Instance) -> Tree {
    let plans = instance.status.plan_status.values().map(|plan| {
        let text = match plan.updated_at() {
            Some(at) => {
                let at = at.strftime("%Y-%m-%dT%H:%M:%S");
                format!("last finished run at {at} ({})", plan.status.as_str())
            }
            None if plan.status.is_running() => "is running".to_owned(),
            None => plan.status.as_str().to_owned(),
        };
        Tree::new(format!("{} ({text})", plan.name))
    });
    Tree::root(plans.collect())
}

fn in_parentheses(message: &str) -> String {
    match message.is_empty() {
        true => String::new(),
        false => format!(" ({message})"),
    }
}
