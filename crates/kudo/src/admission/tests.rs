//! Rows of changes and their outcomes.

use setpoint_kuttl::manifest;

use super::*;

const VERSION: &str = "
metadata: {name: v1}
spec:
  plans: {deploy: {}, update: {}, backup: {}, cleanup: {}}
  parameters:
  - {name: A}
  - {name: B, trigger: backup}
  - {name: FIXED, immutable: true, default: f}
  - {name: BROKEN, trigger: nope}
";

fn decode<T: serde::de::DeserializeOwned>(text: &str) -> T {
    serde_json::from_value(manifest::parse_value(text).unwrap()).unwrap()
}

fn instance(spec: &str) -> Instance {
    decode(&format!(
        "{{metadata: {{name: i, namespace: ns}}, spec: {{operatorVersion: {{name: v1}}, {spec}}}}}"
    ))
}

fn outcome(admitted: Result<(), String>, new: &Instance) -> String {
    let execution = &new.spec.plan_execution;
    match admitted {
        Ok(()) => format!("{} {}", execution.plan_name, execution.uid),
        Err(error) => error,
    }
}

/// Checks the plan and its UID after a change from one spec to another.
#[track_caller]
fn check(old: &str, new: &str, expected: &str) {
    let version: OperatorVersion = decode(VERSION);
    let (old, mut new) = (instance(old), instance(new));
    let admitted = admit_update(&old, &mut new, (&version, &version), "new".to_owned());
    assert_eq!(outcome(admitted, &new), expected);
}

/// The same, with a plan that has ended by the status of the old Instance and is still in its spec.
#[track_caller]
fn check_after(status: &str, new: &str, expected: &str) {
    let version: OperatorVersion = decode(VERSION);
    let (mut old, mut new) = (instance(RUNNING), instance(new));
    old.status = decode(&format!(
        "{{planStatus: {{deploy: {{name: deploy, uid: u, status: {status}}}}}}}"
    ));
    new.status = old.status.clone();
    let admitted = admit_update(&old, &mut new, (&version, &version), "new".to_owned());
    assert_eq!(outcome(admitted, &new), expected);
}

const RUNNING: &str = "planExecution: {planName: deploy, uid: u}";

/// TO7
#[test]
fn a_new_instance_is_deployed() {
    let version: OperatorVersion = decode(VERSION);
    let mut new = instance("parameters: {A: x}");
    let admitted = admit_create(&mut new, &version, "new".to_owned());
    assert_eq!(outcome(admitted, &new), "deploy new");
    assert_eq!(new.spec.parameters["FIXED"], "f");
    assert_eq!(new.metadata.finalizers.unwrap(), ["kudo.dev.instance.cleanup"]);
}

/// TO7
#[test]
fn an_operator_needs_a_deploy_plan() {
    let version: OperatorVersion = decode("{spec: {plans: {update: {}}}}");
    let mut new = instance("");
    let admitted = admit_create(&mut new, &version, "new".to_owned());
    let expected = "failed to create an Instance ns/i: couldn't find 'deploy' plan in the operatorVersion";
    assert_eq!(outcome(admitted, &new), expected);
}

/// TO7
#[test]
fn a_changed_parameter_starts_its_plan() {
    check("parameters: {A: x}", "parameters: {A: z}", "update new");
    check("", "parameters: {B: z}", "backup new");
    check("parameters: {B: z}", "", "backup new");
    check("parameters: {A: x}", "parameters: {A: x}", " ");
    check(
        "",
        "parameters: {BROKEN: z}",
        "failed to update Instance ns/i: param BROKEN defined trigger plan nope, but plan not defined in operatorversion",
    );
    check(
        "",
        "parameters: {C: z}",
        "failed to update Instance ns/i: failed to find parameter \"C\" in the OperatorVersion",
    );
}

/// TO7
#[test]
fn an_immutable_parameter_keeps_its_value() {
    check(
        "parameters: {FIXED: f}",
        "parameters: {FIXED: g}",
        "failed to check immutable parameters for Instance ns/i: parameter 'FIXED' is immutable but was changed from 'f' to 'g'",
    );
}

/// TO7
#[test]
fn one_plan_runs_at_a_time() {
    check(
        RUNNING,
        &format!("{RUNNING}, parameters: {{A: x}}"),
        "failed to update Instance ns/i: plan 'deploy' is scheduled (or running) and an update would trigger a different plan 'update'",
    );
    check(
        RUNNING,
        "planExecution: {planName: backup, uid: u}",
        "failed to update Instance ns/i: overriding currently scheduled (or running) plan 'deploy' with 'backup' is not supported",
    );
    check(
        RUNNING,
        "",
        "failed to update Instance ns/i: cancelling currently scheduled (or running) plan 'deploy' is not supported",
    );
}

/// TO7
#[test]
fn a_plan_is_started_directly() {
    check("", "planExecution: {planName: backup}", "backup new");
    check("", "planExecution: {planName: nope}", "plan nope does not exist");
    check(
        "",
        "planExecution: {planName: cleanup}",
        "failed to update Instance ns/i: only the controller schedules the 'cleanup' plan when the instance is deleted",
    );
    check(RUNNING, "planExecution: {planName: deploy, uid: v}", "deploy new");
}

/// TO7
#[test]
fn a_plan_that_has_ended_is_removed() {
    check(
        RUNNING,
        "planExecution: {planName: deploy, uid: u, status: COMPLETE}",
        " ",
    );
    check(
        RUNNING,
        "planExecution: {planName: deploy, uid: u, status: IN_PROGRESS}",
        "deploy u",
    );
}

/// TO7
#[test]
fn a_plan_that_has_ended_by_the_status_is_in_the_way_of_no_change() {
    let update = format!("{RUNNING}, parameters: {{A: x}}");
    check_after("COMPLETE", &update, "update new");
    check_after("FATAL_ERROR", &update, "update new");
    check_after(
        "IN_PROGRESS",
        &update,
        "failed to update Instance ns/i: plan 'deploy' is scheduled (or running) and an update would trigger a different plan 'update'",
    );
    check_after("COMPLETE", "planExecution: {planName: backup}", "backup new");
    check_after(
        "COMPLETE",
        "planExecution: {planName: deploy, uid: again}",
        "deploy new",
    );
    // The engine removes it with its status.
    let ended = "planExecution: {planName: deploy, uid: u, status: COMPLETE}";
    check_after("COMPLETE", ended, " ");
    // Another change leaves that to the engine.
    check_after("COMPLETE", RUNNING, "deploy u");
}

/// TO7
#[test]
fn an_upgrade_starts_the_upgrade_plan_or_the_next_best() {
    let old_version: OperatorVersion = decode(VERSION);
    let mut version: OperatorVersion = decode(VERSION);
    let upgrade = |version: &OperatorVersion, old: &str| {
        let old = instance(old);
        let mut new = old.clone();
        new.spec.operator_version.name = Some("v2".to_owned());
        let admitted = admit_update(&old, &mut new, (&old_version, version), "new".to_owned());
        outcome(admitted, &new)
    };
    assert_eq!(upgrade(&version, ""), "update new");
    version
        .spec
        .plans
        .insert("upgrade".to_owned(), Default::default());
    assert_eq!(upgrade(&version, ""), "upgrade new");
    assert_eq!(
        upgrade(&version, RUNNING),
        "failed to update Instance ns/i: upgrade to new OperatorVersion v2 while a plan 'deploy' is scheduled (or running) is not allowed"
    );
    version
        .spec
        .parameters
        .push(decode("{name: ADDED, immutable: true, default: x}"));
    assert_eq!(
        upgrade(&version, ""),
        "failed to check immutable parameters for Instance ns/i: parameter 'ADDED' was added in operator version v1, but no value was provided (default would be x)"
    );
}

/// TO7
#[test]
fn an_instance_that_is_being_deleted_is_only_cleaned_up() {
    let version: OperatorVersion = decode(VERSION);
    let deleting = |spec: &str| {
        let mut instance = instance(spec);
        instance.metadata.deletion_timestamp = decode("'2026-01-01T00:00:00Z'");
        instance
    };
    let update = |old: &str, new: &str| {
        let (old, mut new) = (deleting(old), deleting(new));
        let admitted = admit_update(&old, &mut new, (&version, &version), "new".to_owned());
        outcome(admitted, &new)
    };
    let cleanup = "planExecution: {planName: cleanup, uid: c}";
    assert_eq!(update(RUNNING, cleanup), "cleanup c");
    assert_eq!(
        update(cleanup, RUNNING),
        "failed to update Instance ns/i: 'cleanup' plan can not be cancelled or overridden by another plan since the instance is being deleted"
    );
    assert_eq!(
        update("", RUNNING),
        "failed to update Instance ns/i: only 'cleanup' plan can be scheduled when an instance is being deleted"
    );
}
