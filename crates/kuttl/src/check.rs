//! Checks of a step: its asserts, its errors and the commands of its TestAssert.

use std::time::Duration;

use anyhow::{Result, anyhow};
use serde_json::Value;

use crate::object_client::gvk_of;
use crate::step::{Step, StepContext, label_selector};
use crate::subset::check_subset;

/// Checks a step every second until it passes or its timeout is over. Returns the last errors.
pub(crate) async fn until_passed(step: &Step, context: &StepContext<'_>) -> Vec<anyhow::Error> {
    let timeout = match step.assert.timeout {
        0 => context.timeout,
        seconds => seconds,
    };
    let started = context.env.clock.now();
    loop {
        let elapsed = context
            .env
            .clock
            .now()
            .duration_since(started)
            .unsigned_abs()
            .as_secs();
        let errors = check(step, context, timeout.saturating_sub(elapsed).max(1)).await;
        if errors.is_empty() || elapsed >= timeout {
            return errors;
        }
        context.env.clock.sleep(Duration::from_secs(1)).await;
    }
}

/// The kind, namespace and name of an object, for messages.
pub(crate) fn resource_id(object: &Value) -> String {
    let (metadata, kind) = (&object["metadata"], object["kind"].as_str().unwrap_or_default());
    let name = metadata["name"].as_str().unwrap_or_default();
    match metadata["namespace"].as_str().unwrap_or_default() {
        "" => format!("{kind}:/{name}"),
        namespace => format!("{kind}:{namespace}/{name}"),
    }
}

async fn check(step: &Step, context: &StepContext<'_>, seconds: u64) -> Vec<anyhow::Error> {
    let mut errors = Vec::new();
    for expected in &step.asserts {
        errors.extend(check_present(context, expected).await);
    }
    let commands = context.run_commands(&step.assert.commands, seconds).await;
    errors.extend(commands.err());
    errors.extend(step.expressions.check(context).await.err());
    for unexpected in &step.errors {
        errors.extend(check_absent(context, unexpected).await.err());
    }
    errors
}

/// One of the objects that the expected one names must contain it.
async fn check_present(context: &StepContext<'_>, expected: &Value) -> Vec<anyhow::Error> {
    let (expected, actuals) = match candidates(context, expected).await {
        Ok(found) => found,
        Err(error) => return vec![error],
    };
    if actuals.is_empty() {
        let missing = match expected["metadata"]["name"].as_str() {
            Some(_) => format!("{} not found", resource_id(&expected)),
            None => format!("no resources matched of kind: {}", kind_text(&expected)),
        };
        return vec![anyhow!(missing)];
    }
    let mut errors = Vec::new();
    for actual in &actuals {
        match check_subset(&expected, actual) {
            Ok(()) => return Vec::new(),
            Err(error) => errors.push(anyhow!("resource {}: {error}", resource_id(&expected))),
        }
    }
    errors
}

/// None of the objects that the unexpected one names may contain it.
async fn check_absent(context: &StepContext<'_>, unexpected: &Value) -> Result<()> {
    let (unexpected, actuals) = candidates(context, unexpected).await?;
    let matching: Vec<&Value> = actuals
        .iter()
        .filter(|actual| check_subset(&unexpected, actual).is_ok())
        .collect();
    let Some(first) = matching.first() else {
        return Ok(());
    };
    let (kind, name) = (
        kind_text(first),
        first["metadata"]["name"].as_str().unwrap_or_default(),
    );
    match matching.len() - 1 {
        0 => Err(anyhow!("resource {kind} {name} matched error assertion")),
        more => Err(anyhow!(
            "resource {kind} {name} (and {more} other resources) matched error assertion"
        )),
    }
}

/// The object as it is looked for, and the objects of that name, or with its labels if it has no name.
async fn candidates(context: &StepContext<'_>, object: &Value) -> Result<(Value, Vec<Value>)> {
    let found = async {
        let object = context.with_namespace(object).await?;
        let metadata = &object["metadata"];
        if metadata["name"].as_str().is_some_and(|name| !name.is_empty()) {
            let found = context.objects.find(&object).await?;
            return Ok((object, found.into_iter().collect()));
        }
        let labels: Vec<(String, String)> = metadata["labels"]
            .as_object()
            .into_iter()
            .flatten()
            .filter_map(|(label, value)| Some((label.clone(), value.as_str()?.to_owned())))
            .collect();
        let selector = label_selector(labels.iter().map(|(label, value)| (label, value)));
        let namespace = metadata["namespace"].as_str().unwrap_or_default();
        let objects = context
            .objects
            .list(&gvk_of(&object), namespace, selector)
            .await?;
        Ok((object, objects))
    };
    found
        .await
        .map_err(|status: setpoint_api::Status| anyhow!("{}", status.message))
}

fn kind_text(object: &Value) -> String {
    let gvk = gvk_of(object);
    format!("{}, Kind={}", gvk.api_version(), gvk.kind)
}
