//! [`record`] and [`check`]: every situation of every world, one after the other.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::Decision;
use super::objects::Objects;
use super::situation::{Situation, World};
use super::trial::{self, BLOCKERS, Patience, Reaction, Trials};
use crate::time;
use crate::wire::Endpoint;

/// A situation in which the scheduler decided otherwise.
#[derive(Debug)]
pub struct Difference {
    pub id: String,
    pub expected: Decision,
    /// The decision, or why there is none.
    pub actual: Result<Decision, String>,
}

/// kube-scheduler breaks ties by the order of its nodes, which is mostly that of their creation. If it selects the same
/// node in this many random orders, the scores decide.
const ORDERS: u64 = 14;
/// Conditions are compared in this many orders.
const CONDITION_ORDERS: u64 = 2;

const RECORD: Patience = Patience {
    caches: Duration::from_millis(150),
    reaction: Duration::from_secs(20),
    none: Duration::from_secs(4),
    devices: Duration::from_secs(6),
};
const CHECK: Patience = Patience {
    caches: Duration::from_millis(25),
    reaction: Duration::from_secs(2),
    none: Duration::from_millis(300),
    devices: Duration::ZERO,
};

/// Records the decisions of the scheduler of a cluster in the situations whose id has the prefix.
pub fn record(endpoint: &Endpoint, worlds: &[World], prefix: &str) -> Result<BTreeMap<String, Decision>> {
    let mut decisions = BTreeMap::new();
    each_situation(endpoint, worlds, prefix, RECORD, |trials, situation| {
        let id = trials.world.id(situation);
        let decision = decide(trials, situation).with_context(|| id.clone())?;
        decisions.insert(id, decision);
        Ok(())
    })?;
    for order in 0..ORDERS {
        let worlds: Vec<World> = worlds.iter().map(|world| world.shuffled(order)).collect();
        each_situation(endpoint, &worlds, prefix, RECORD, |trials, situation| {
            let id = trials.world.id(situation);
            let decision = decisions.get_mut(&id).context("the first order has it")?;
            confirm(trials, situation, decision, order).with_context(|| id)
        })?;
    }
    Ok(decisions)
}

/// Compares the decisions of the scheduler of a cluster with recorded ones. Returns the number of situations and the
/// differences.
pub fn check(
    endpoint: &Endpoint,
    worlds: &[World],
    prefix: &str,
    decisions: &BTreeMap<String, Decision>,
) -> Result<(usize, Vec<Difference>)> {
    let mut count = 0;
    let mut differences = Vec::new();
    each_situation(endpoint, worlds, prefix, CHECK, |trials, situation| {
        let id = trials.world.id(situation);
        let expected = decisions
            .get(&id)
            .with_context(|| format!("{id} has no recorded decision"))?;
        count += 1;
        let actual = compare(trials, situation, expected).map_err(|error| format!("{error:#}"));
        if actual.as_ref() != Ok(expected) {
            differences.push(Difference {
                id,
                expected: expected.clone(),
                actual,
            });
        }
        Ok(())
    })?;
    Ok((count, differences))
}

/// Sets up each world, visits its situations and deletes it.
fn each_situation(
    endpoint: &Endpoint,
    worlds: &[World],
    prefix: &str,
    patience: Patience,
    mut visit: impl FnMut(&mut Trials<'_>, &Situation) -> Result<()>,
) -> Result<()> {
    let mut objects = Objects::new(endpoint.clone());
    create_blocker_objects(&mut objects)?;
    for world in worlds {
        let is_selected = |situation: &&Situation| world.id(situation).starts_with(prefix);
        let selected: Vec<&Situation> = world.situations.iter().filter(is_selected).collect();
        if selected.is_empty() {
            continue;
        }
        create_world(&mut objects, world).with_context(|| world.name.clone())?;
        let mut trials = Trials {
            objects: &mut objects,
            world,
            patience,
            count: 0,
            allocations: Value::Null,
        };
        let visited = wait_for_nodes(&mut trials).and_then(|()| {
            selected.into_iter().try_for_each(|situation| {
                visit(&mut trials, situation)?;
                restore_pods(&mut trials)
            })
        });
        delete_world(&mut objects, world)?;
        visited.with_context(|| world.name.clone())?;
    }
    Ok(())
}

/// The decision on a situation.
fn decide(trials: &mut Trials<'_>, situation: &Situation) -> Result<Decision> {
    let first = match trials.run(situation, is_final(situation))? {
        Reaction::Pending(decision) => return Ok(decision),
        Reaction::Bound(node) => node,
    };
    let (nodes, allocations) = eliminate(trials, situation, first.clone(), |_| true)?;
    Ok(Decision {
        nodes,
        allocations,
        chosen: Some(first),
        ..Decision::default()
    })
}

/// Compares a decision with that in another order of the nodes: a selected node that differs is removed, anything else
/// must be equal.
fn confirm(
    trials: &mut Trials<'_>,
    situation: &Situation,
    decision: &mut Decision,
    order: u64,
) -> Result<()> {
    if let Some(chosen) = &decision.chosen {
        let is_tied = decision.nodes.len() > 1
            && trials.run(situation, is_final(situation))? != Reaction::Bound(chosen.clone());
        if is_tied {
            decision.chosen = None;
        }
    } else if decision.nodes.is_empty() && order < CONDITION_ORDERS {
        let again = trials.run(situation, is_final(situation))?;
        ensure!(
            again == Reaction::Pending(decision.clone()),
            "the decision depends on the order of the nodes: {decision:?}, {again:?}"
        );
    }
    Ok(())
}

/// The decision on a situation, read until it is the expected one. Where kube-scheduler selected different nodes, the
/// selected node is not compared.
fn compare(trials: &mut Trials<'_>, situation: &Situation, expected: &Decision) -> Result<Decision> {
    let is_expected = |reaction: &Reaction| match reaction {
        Reaction::Bound(_) => true,
        Reaction::Pending(decision) => decision == expected,
    };
    let first = match trials.run(situation, is_expected)? {
        Reaction::Pending(decision) => return Ok(decision),
        Reaction::Bound(node) => node,
    };
    let (nodes, allocations) = eliminate(trials, situation, first.clone(), |nodes| {
        nodes.is_superset(&expected.nodes)
    })?;
    Ok(Decision {
        nodes,
        allocations,
        chosen: expected.chosen.is_some().then_some(first),
        ..Decision::default()
    })
}

/// The nodes on which the pod fits, and the allocations of its claims there: each selected node is blocked, until the pod is
/// pending. `may_end` is whether a pending pod is final once these nodes were selected.
fn eliminate(
    trials: &mut Trials<'_>,
    situation: &Situation,
    first: String,
    may_end: impl Fn(&BTreeSet<String>) -> bool,
) -> Result<(BTreeSet<String>, BTreeMap<String, Value>)> {
    let mut nodes = BTreeSet::new();
    let mut allocations = BTreeMap::new();
    let mut selected = Ok(Reaction::Bound(first));
    while let Ok(Reaction::Bound(node)) = &selected {
        let node = node.clone();
        if !nodes.insert(node.clone()) {
            selected = Err(anyhow::anyhow!("bound to {node}, where its host port is in use"));
            break;
        }
        let allocated = trials.allocations.take();
        if !allocated.is_null() {
            allocations.insert(node.clone(), allocated);
        }
        trials.block(&node)?;
        let is_final = |reaction: &Reaction| matches!(reaction, Reaction::Bound(_)) || may_end(&nodes);
        selected = trials.run(situation, is_final);
    }
    for node in &nodes {
        trials.unblock(node)?;
    }
    selected.map(|_| (nodes, allocations))
}

/// Whether a reaction is recorded. A pod whose devices never become ready may first have an allocation given up, and then
/// wait with another one: it is read until the time for a reaction is over.
fn is_final(situation: &Situation) -> impl Fn(&Reaction) -> bool {
    let waits = situation.device_conditions.as_ref().is_some_and(Vec::is_empty);
    move |reaction| matches!(reaction, Reaction::Bound(_)) || !waits && is_complete(reaction)
}

/// Victims are deleted after the node was nominated.
fn is_complete(reaction: &Reaction) -> bool {
    match reaction {
        Reaction::Bound(_) => true,
        Reaction::Pending(decision) => decision.nominated.is_none() || !decision.victims.is_empty(),
    }
}

fn create_blocker_objects(objects: &mut Objects) -> Result<()> {
    let class = json!({
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": BLOCKERS},
        "value": 1_000_000_000,
    });
    objects.create(&class, "")?;
    objects.create(&namespace(BLOCKERS), "")
}

fn create_world(objects: &mut Objects, world: &World) -> Result<()> {
    let namespaces = world
        .objects
        .iter()
        .filter(|object| object["kind"] == "Namespace");
    for object in namespaces {
        objects.create(object, "")?;
    }
    objects.create(&namespace(&world.name), "")?;
    for object in world
        .objects
        .iter()
        .filter(|object| object["kind"] != "Namespace")
    {
        objects.create(object, &world.name)?;
    }
    for node in &world.nodes {
        objects.create(&node.object(), "")?;
    }
    for pod in &world.pods {
        trial::create_pod(objects, pod, &world.name)?;
    }
    Ok(())
}

/// Waits until the scheduler knows the nodes. It reads them from one watch, so the last one that takes pods is enough; the
/// few after it follow at once.
fn wait_for_nodes(trials: &mut Trials<'_>) -> Result<()> {
    let mut nodes = trials.world.nodes.iter().rev();
    let last = nodes
        .find(|node| node.takes_pods())
        .context("a node takes pods")?;
    let on_last = json!({"key": "metadata.name", "operator": "In", "values": [last.name]});
    let affinity = json!({"nodeSelectorTerms": [{"matchFields": [on_last]}]});
    let situation: Situation = serde_json::from_value(json!({
        "id": "",
        "pod": {"spec": {
            "tolerations": [{"operator": "Exists"}],
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": affinity}},
        }},
    }))?;
    let is_bound = |reaction: &Reaction| matches!(reaction, Reaction::Bound(_));
    let patience = std::mem::replace(&mut trials.patience, RECORD);
    let reaction = trials.run(&situation, is_bound)?;
    trials.patience = patience;
    time::sleep(patience.caches);
    ensure!(
        is_bound(&reaction),
        "no pod fits the node {}: {reaction:?}",
        last.name
    );
    Ok(())
}

/// Creates pods of the world that were preempted again.
fn restore_pods(trials: &mut Trials<'_>) -> Result<()> {
    let namespace = trials.world.name.as_str();
    for pod in trials
        .objects
        .list(&format!("/api/v1/namespaces/{namespace}/pods"))?
    {
        let Some(form) = trials.world.pods.iter().find(|form| is_of_form(&pod, &form.name)) else {
            continue;
        };
        if !pod["metadata"]["deletionTimestamp"].is_null() {
            trials.objects.delete(&form.object(namespace), namespace)?;
            trial::create_pod(trials.objects, form, namespace)?;
        }
    }
    Ok(())
}

fn is_of_form(pod: &Value, name: &str) -> bool {
    pod["metadata"]["name"] == name
}

fn delete_world(objects: &mut Objects, world: &World) -> Result<()> {
    for pod in &world.pods {
        objects.delete(&pod.object(&world.name), &world.name)?;
    }
    for node in &world.nodes {
        objects.delete(&node.object(), "")?;
    }
    for object in world.objects.iter().rev() {
        if object["kind"] != "Namespace" {
            objects.delete(object, &world.name)?;
        }
    }
    Ok(())
}

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}
