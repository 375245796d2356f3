//! Tests of queues.

use std::sync::Arc;

use setpoint_api::{Clock, SystemClock};

use super::*;
use crate::binding_context::Cause;
use crate::config::{BindingOptions, HookConfig};
use crate::hook::Hook;
use crate::rate_limit::TokenBucket;

fn hook(name: &str) -> Arc<Hook> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    Arc::new(Hook {
        name: name.to_owned(),
        path: name.into(),
        config: HookConfig::parse("configVersion: v1\nonStartup: 1\n", &clock).unwrap(),
        monitors: parking_lot::RwLock::default(),
        rate: TokenBucket::new(None, clock),
    })
}

fn task(hook: &Arc<Hook>, binding: &str, group: Option<&str>) -> Task {
    let options = BindingOptions {
        name: binding.to_owned(),
        allow_failure: false,
        queue: "main".to_owned(),
        group: group.map(str::to_owned),
        include_snapshots_from: Vec::new(),
    };
    let run = HookRun {
        binding_type: "schedule",
        binding: binding.to_owned(),
        contexts: vec![BindingContext::new(&options, Cause::Schedule)],
        allow_failure: false,
        monitors: Vec::new(),
        execute_on_synchronization: true,
    };
    Task::new(hook, TaskKind::HookRun(run), SystemClock::new().now())
}

/// Tasks are `hook:binding` or `hook:binding:group`; so are the contexts of the head after it was combined.
#[track_caller]
fn check(tasks: &[&str], expected_contexts: &[&str], expected_length: usize) {
    let queue = Queue::new("main");
    for text in tasks {
        let words: Vec<&str> = text.split(':').collect();
        queue.push(task(&hook(words[0]), words[1], words.get(2).copied()));
    }
    queue.combine();
    let run = queue.head_run().unwrap();
    let bindings: Vec<&str> = run
        .contexts
        .iter()
        .map(|context| context.binding.as_str())
        .collect();
    assert_eq!(
        (bindings.as_slice(), queue.len()),
        (expected_contexts, expected_length)
    );
}

#[tokio::test]
async fn adjacent_tasks_of_one_hook_are_combined() {
    check(&["a:1", "a:2", "a:3", "b:4", "a:5"], &["1", "2", "3"], 3);
    check(&["a:1", "b:2"], &["1"], 2);
}

#[tokio::test]
async fn adjacent_contexts_of_one_group_are_compacted_to_the_last() {
    check(
        &["a:1:g", "a:2:g", "a:3", "a:4:g", "a:5:h", "a:6:h"],
        &["2", "3", "4", "6"],
        1,
    );
}

#[tokio::test]
async fn a_failed_task_stays_at_the_head_and_takes_in_what_comes_behind_it() {
    let (queue, own) = (Queue::new("main"), hook("a"));
    queue.push(task(&own, "1", None));
    assert_eq!((queue.fail("x"), queue.fail("y")), (0, 1));
    queue.push(task(&own, "2", None));
    assert_eq!(
        queue.combine(),
        Some(CombineSummary {
            tasks: 2,
            contexts: 2
        })
    );
    assert_eq!(
        queue.head().await.describe(),
        "HookRun:schedule:a:1:2 contexts:failures 2:y"
    );
    queue.finish(vec![task(&own, "3", None), task(&own, "4", None)]);
    assert_eq!(queue.head_run().unwrap().binding, "3");
    assert_eq!(queue.len(), 2);
}

#[tokio::test]
async fn a_combined_run_may_fail_only_if_all_of_its_bindings_allow_it() {
    let (queue, own) = (Queue::new("main"), hook("a"));
    let allowed = |name: &str| {
        let mut task = task(&own, name, None);
        if let TaskKind::HookRun(run) = &mut task.kind {
            run.allow_failure = true;
        }
        task
    };
    queue.push(allowed("1"));
    queue.push(allowed("2"));
    queue.combine();
    assert!(queue.head_run().unwrap().allow_failure);
    queue.push(task(&own, "3", None));
    queue.combine();
    assert!(!queue.head_run().unwrap().allow_failure);
}
