//! Tests of the simulated runtime against the clock.

use std::time::Duration;

use serde_json::json;
use setpoint_container_runtime::{ContainerState, contract};
use setpoint_testkit::SteppedClock;

use super::*;
use crate::pod::bound_pod::{BoundPod, ContainerIndex, ContainerKind};
use crate::pod::setup::simulated as setup;

fn pod(annotations: serde_json::Value) -> BoundPod {
    let pod = json!({
        "metadata": {"namespace": "default", "name": "p", "uid": "u", "annotations": annotations},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
    });
    BoundPod::new(serde_json::from_value(pod).unwrap())
}

fn runtime(clock: &SteppedClock, simulation: Simulation) -> SimulatedRuntime {
    let machines = HashMap::from([("n".into(), Machine::new("n", 7))]);
    SimulatedRuntime::new(simulation, Arc::new(machines), Arc::new(clock.clone()))
}

async fn start(runtime: &SimulatedRuntime, pod: &BoundPod) -> Result<ContainerId, Error> {
    let config = setup::sandbox_config(pod, 0);
    let sandbox = runtime.run_sandbox(config.clone()).await?;
    let container = ContainerIndex {
        kind: ContainerKind::Regular,
        index: 0,
    };
    let container = setup::container_config(pod, container, 0);
    let id = runtime.create_container(&sandbox, container, &config).await?;
    runtime.start_container(&id).await?;
    Ok(id)
}

async fn state(runtime: &SimulatedRuntime, id: &ContainerId) -> ContainerState {
    runtime.container(id).await.unwrap().unwrap().state
}

#[tokio::test]
async fn fl8_a_container_exits_in_its_time_and_an_event_is_emitted() {
    let clock = SteppedClock::default();
    let runtime = runtime(&clock, Simulation::default());
    let mut events = runtime.subscribe();
    let pod = pod(json!({rules::ENDS_AFTER: "10s", "simulated.setpoint.dev/exit-code": "3"}));
    let id = start(&runtime, &pod).await.unwrap();
    assert!(matches!(
        state(&runtime, &id).await,
        ContainerState::Running { .. }
    ));
    let stop = CancellationToken::new();
    let stepped = async {
        while !clock.step(None) {
            tokio::task::yield_now().await;
        }
        let event = events.recv().await.unwrap();
        stop.cancel();
        event
    };
    let ((), event) = tokio::join!(runtime.run(stop.clone()), stepped);
    assert_eq!(event.pod_uid.as_deref(), Some("u"));
    match state(&runtime, &id).await {
        ContainerState::Exited(exit) => assert_eq!(exit.exit_code, 3),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_pod_takes_its_time_to_start_and_to_stop() {
    let clock = SteppedClock::default();
    let simulation = Simulation {
        starting: Duration::from_secs(3),
        stopping: Duration::from_secs(30),
        ..Simulation::default()
    };
    let runtime = runtime(&clock, simulation);
    let began = clock.now();
    let (pod, step) = (pod(json!({})), async { clock.step(None) });
    let (id, _) = tokio::join!(start(&runtime, &pod), step);
    assert_eq!(clock.now().duration_since(began).as_secs(), 3);
    let id = id.unwrap();
    let stopped = runtime.stop_container(&id, Duration::from_secs(5));
    let (stopped, _) = tokio::join!(stopped, async { clock.step(None) });
    stopped.unwrap();
    assert_eq!(clock.now().duration_since(began).as_secs(), 8);
    assert!(matches!(state(&runtime, &id).await, ContainerState::Exited(_)));
}

#[tokio::test]
async fn rules_let_the_creation_or_the_start_of_a_container_fail() {
    let runtime = runtime(&SteppedClock::default(), Simulation::default());
    for (rule, kind) in [
        ("create-error", ErrorKind::CreateContainer),
        ("start-error", ErrorKind::StartContainer),
    ] {
        let rule = format!("simulated.setpoint.dev/{rule}");
        let error = start(&runtime, &pod(json!({rule: "no"}))).await.unwrap_err();
        assert_eq!((error.kind, error.to_string().as_str()), (kind, "no"));
    }
}

#[tokio::test]
async fn an_adopted_pod_keeps_its_address_and_its_containers() {
    let runtime = runtime(&SteppedClock::default(), Simulation::default());
    let mut adopted = pod(json!({}));
    adopted.object.status = serde_json::from_value(json!({
        "phase": "Running",
        "podIP": "10.64.7.9",
        "startTime": "1970-01-01T00:00:05Z",
        "containerStatuses": [{
            "name": "c", "image": "i", "imageID": "", "ready": true, "restartCount": 2,
            "containerID": "simulated://u/c/2",
            "state": {"running": {"startedAt": "1970-01-01T00:00:07Z"}},
        }],
    }))
    .unwrap();
    runtime.adopt(&adopted);
    let sandboxes = runtime.list_sandboxes().await.unwrap();
    assert_eq!(sandboxes[0].addresses[0].to_string(), "10.64.7.9");
    let containers = runtime.list_containers().await.unwrap();
    assert_eq!((containers[0].id.0.as_str(), containers[0].attempt), ("u/c/2", 2));
    assert!(matches!(containers[0].state, ContainerState::Running { .. }));
}

#[tokio::test]
async fn the_simulated_runtime_keeps_the_contract_of_runtimes() {
    let clock = SteppedClock::default();
    let runtime = runtime(&clock, Simulation::default());
    let pod = pod(json!({}));
    let container = ContainerIndex {
        kind: ContainerKind::Regular,
        index: 0,
    };
    let running = setup::container_config(&pod, container, 0);
    let mut exiting = running.clone();
    exiting
        .annotations
        .insert(rules::ENDS_AFTER.to_owned(), "3s".to_owned());
    let wait = || {
        clock.set(clock.now() + jiff::SignedDuration::from_secs(1));
        Box::pin(async {}) as std::pin::Pin<Box<dyn Future<Output = ()> + Send>>
    };
    let contract = contract::Contract {
        runtime: &runtime,
        sandbox: setup::sandbox_config(&pod, 0),
        running,
        exiting: (exiting, 0),
        wait: &wait,
    };
    contract::check(&contract).await.unwrap();
}
