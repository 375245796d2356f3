//! Health of applied objects: whether a step may be complete.

use serde_json::Value;
use setpoint_kuttl::gvk_of;

/// The health of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Health {
    /// It is as it should be. Kinds without a rule are healthy once they exist.
    Healthy,
    /// It is not there yet, for this reason.
    Waiting(String),
    /// It will never be healthy.
    Failed(String),
}

/// The health of an object by the rule of its kind.
pub(crate) fn health(object: &Value) -> Health {
    let gvk = gvk_of(object);
    match (gvk.group.as_str(), gvk.kind.as_str()) {
        ("apiextensions.k8s.io", "CustomResourceDefinition") => crd(object),
        ("apps", "StatefulSet") => rollout("statefulset", object, stateful_set(object)),
        ("apps", "Deployment") => rollout("deployment", object, deployment(object)),
        ("batch", "Job") => job(object),
        ("kudo.dev", "Instance") => instance(object),
        ("", "Pod") => pod(object),
        ("", "Namespace") => match object["status"]["phase"].as_str() {
            Some("Active") => Health::Healthy,
            phase => waiting(format!(
                "namespace {} is not active: {}",
                name(object),
                phase.unwrap_or_default()
            )),
        },
        ("", "Service") => service(object),
        _ => Health::Healthy,
    }
}

fn crd(object: &Value) -> Health {
    match has_condition(object, "Established") {
        true => Health::Healthy,
        false => waiting(format!("CRD {} is not healthy", name(object))),
    }
}

/// The health by the status of a rollout: `None` if it is complete.
fn rollout(kind: &str, object: &Value, message: Option<String>) -> Health {
    match message {
        None => Health::Healthy,
        Some(message) => waiting(format!("{kind} {:?} is not healthy: {message}", name(object))),
    }
}

/// What kubectl's `rollout status` waits for.
fn deployment(object: &Value) -> Option<String> {
    let (spec, status, name) = (&object["spec"], &object["status"], name(object));
    if number(&object["metadata"]["generation"]) > number(&status["observedGeneration"]) {
        return Some("Waiting for deployment spec update to be observed...".to_owned());
    }
    let progressing = find_condition(object, "Progressing");
    if progressing.is_some_and(|condition| condition["reason"] == "ProgressDeadlineExceeded") {
        return Some(format!("deployment {name:?} exceeded its progress deadline"));
    }
    let [replicas, updated, available] =
        ["replicas", "updatedReplicas", "availableReplicas"].map(|field| number(&status[field]));
    let desired = spec["replicas"].as_i64().unwrap_or(1);
    if updated < desired {
        return Some(format!(
            "Waiting for deployment {name:?} rollout to finish: {updated} out of {desired} new replicas have been updated..."
        ));
    }
    if replicas > updated {
        let old = replicas - updated;
        return Some(format!(
            "Waiting for deployment {name:?} rollout to finish: {old} old replicas are pending termination..."
        ));
    }
    (available < updated).then(|| {
        format!(
            "Waiting for deployment {name:?} rollout to finish: {available} of {updated} updated replicas are available..."
        )
    })
}

/// What kubectl's `rollout status` waits for.
fn stateful_set(object: &Value) -> Option<String> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let strategy = &spec["updateStrategy"];
    if strategy["type"]
        .as_str()
        .is_some_and(|strategy| strategy != "RollingUpdate")
    {
        return Some("rollout status is only available for RollingUpdate strategy type".to_owned());
    }
    let observed = number(&status["observedGeneration"]);
    if observed == 0 || number(&object["metadata"]["generation"]) > observed {
        return Some("Waiting for statefulset spec update to be observed...".to_owned());
    }
    let desired = spec["replicas"].as_i64().unwrap_or(1);
    let ready = number(&status["readyReplicas"]);
    if ready < desired {
        return Some(format!("Waiting for {} pods to be ready...", desired - ready));
    }
    if let Some(partition) = strategy["rollingUpdate"]["partition"].as_i64() {
        let (updated, expected) = (number(&status["updatedReplicas"]), desired - partition);
        return (updated < expected).then(|| {
            format!("Waiting for partitioned roll out to finish: {updated} out of {expected} new pods have been updated...")
        });
    }
    (status["updateRevision"] != status["currentRevision"]).then(|| {
        let updated = number(&status["updatedReplicas"]);
        format!("waiting for statefulset rolling update to complete {updated} pods at revision...")
    })
}

/// A job is complete with all its completions; one without a number needs a pod that has succeeded. Upstream waits for
/// exactly one, which a job of several never has at its end.
fn job(object: &Value) -> Health {
    let name = name(object);
    let completions = object["spec"]["completions"].as_i64().unwrap_or(1);
    let has_succeeded = number(&object["status"]["succeeded"]) >= completions;
    if has_succeeded || has_condition(object, "Complete") {
        return Health::Healthy;
    }
    match find_condition(object, "Failed").filter(|condition| condition["status"] == "True") {
        Some(condition) => {
            let message = condition["message"].as_str().unwrap_or_default();
            Health::Failed(format!("job {name:?} has failed terminally: {message}"))
        }
        None => waiting(format!("job {name:?} still running or failed")),
    }
}

fn instance(object: &Value) -> Health {
    let execution = &object["spec"]["planExecution"];
    if execution["planName"].as_str().unwrap_or_default().is_empty() {
        return Health::Healthy;
    }
    let status = execution["status"].as_str().unwrap_or_default();
    waiting(format!(
        "instance {} active plan is in state {status}",
        key(object)
    ))
}

fn pod(object: &Value) -> Health {
    let phase = object["status"]["phase"].as_str().unwrap_or_default();
    match phase == "Running" && has_condition(object, "Ready") {
        true => Health::Healthy,
        false => waiting(format!("pod {} is not running yet: {phase}", key(object))),
    }
}

fn service(object: &Value) -> Health {
    let (spec, key) = (&object["spec"], key(object));
    if spec["type"] == "ExternalName" {
        return Health::Healthy;
    }
    if spec["clusterIP"].as_str().unwrap_or_default().is_empty() {
        return waiting(format!("service {key} does not have cluster IP address"));
    }
    let has = |value: &Value| value.as_array().is_some_and(|items| !items.is_empty());
    let is_balanced = spec["type"] == "LoadBalancer" && !has(&spec["externalIPs"]);
    match is_balanced && !has(&object["status"]["loadBalancer"]["ingress"]) {
        true => waiting(format!(
            "service {key} does not have load balancer ingress IP address"
        )),
        false => Health::Healthy,
    }
}

fn waiting(message: String) -> Health {
    Health::Waiting(message)
}

fn has_condition(object: &Value, kind: &str) -> bool {
    find_condition(object, kind).is_some_and(|condition| condition["status"] == "True")
}

fn find_condition<'o>(object: &'o Value, kind: &str) -> Option<&'o Value> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == kind)
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or(0)
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn key(object: &Value) -> String {
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
    format!("{namespace}/{}", name(object))
}

#[cfg(test)]
mod tests {
    use setpoint_kuttl::manifest;

    use super::*;

    #[track_caller]
    fn check(object: &str, expected: Result<(), &str>) {
        let outcome = match health(&manifest::parse_value(object).unwrap()) {
            Health::Healthy => Ok(()),
            Health::Waiting(message) => Err(message),
            Health::Failed(message) => Err(format!("failed: {message}")),
        };
        assert_eq!(outcome.as_ref().copied().map_err(String::as_str), expected);
    }

    /// TO7
    #[test]
    fn a_deployment_is_healthy_when_its_rollout_is_complete() {
        let deployment = |status: &str| {
            format!(
                "{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: a, generation: 2}}, spec: {{replicas: 2}}, status: {status}}}"
            )
        };
        check(
            &deployment("{observedGeneration: 1}"),
            Err("deployment \"a\" is not healthy: Waiting for deployment spec update to be observed..."),
        );
        check(
            &deployment("{observedGeneration: 2, replicas: 2, updatedReplicas: 2, availableReplicas: 1}"),
            Err(
                "deployment \"a\" is not healthy: Waiting for deployment \"a\" rollout to finish: 1 of 2 updated replicas are available...",
            ),
        );
        check(
            &deployment("{observedGeneration: 2, replicas: 2, updatedReplicas: 2, availableReplicas: 2}"),
            Ok(()),
        );
    }

    /// TO7
    #[test]
    fn a_failed_job_fails_for_ever() {
        let job = |status: &str| {
            format!("{{apiVersion: batch/v1, kind: Job, metadata: {{name: a}}, status: {status}}}")
        };
        check(&job("{}"), Err("job \"a\" still running or failed"));
        check(&job("{succeeded: 1}"), Ok(()));
        check(&job("{succeeded: 2}, spec: {completions: 2}"), Ok(()));
        check(
            &job("{succeeded: 1}, spec: {completions: 2}"),
            Err("job \"a\" still running or failed"),
        );
        check(
            &job("{conditions: [{type: Failed, status: 'True', message: too late}]}"),
            Err("failed: job \"a\" has failed terminally: too late"),
        );
    }

    /// TO7
    #[test]
    fn other_kinds_are_healthy_once_they_exist() {
        check("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}", Ok(()));
        check(
            "{apiVersion: example.com/v1, kind: Pod, metadata: {name: a}}",
            Ok(()),
        );
    }

    /// TO7
    #[test]
    fn a_service_needs_an_address() {
        let service = |spec: &str| {
            format!("{{apiVersion: v1, kind: Service, metadata: {{name: a, namespace: ns}}, spec: {spec}}}")
        };
        check(&service("{type: ExternalName}"), Ok(()));
        check(&service("{clusterIP: None}"), Ok(()));
        check(
            &service("{}"),
            Err("service ns/a does not have cluster IP address"),
        );
        check(
            &service("{clusterIP: 10.0.0.1, type: LoadBalancer}"),
            Err("service ns/a does not have load balancer ingress IP address"),
        );
    }
}
