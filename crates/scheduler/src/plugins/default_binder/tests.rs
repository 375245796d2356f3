//! Rows for responses to a binding.

use std::collections::VecDeque;
use std::future::{Future, ready};
use std::pin::Pin;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::json;
use setpoint_api::{Clock, Request, ResourceVersion, Response, ServeFuture, Verb};
use setpoint_runtime::Client;

use super::*;
use crate::fixtures::pod;
use crate::framework::CycleState;

/// A clock whose sleeps end at once.
#[derive(Debug)]
struct ElapsedClock;

impl Clock for ElapsedClock {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    fn sleep(&self, _: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + Sync>> {
        Box::pin(ready(()))
    }
}

/// The result of binding to the node `a`, if the posts have these results and a get returns a pod on `node`.
#[track_caller]
fn check(posts: &[Result<(), Status>], node: &str, expected: &str) {
    let posts = Mutex::new(posts.iter().cloned().collect::<VecDeque<_>>());
    let node = node.to_owned();
    let serve = move |request: Request| -> ServeFuture<'static> {
        let result = match request.verb {
            Verb::Get(..) => Ok(()),
            _ => posts.lock().pop_front().unwrap(),
        };
        let object = json!({"metadata": {"name": "p"}, "spec": {"nodeName": node}});
        let mut header = setpoint_api::Header::new(setpoint_api::Key::new("default", "p"));
        header.uid = "p".into();
        let stored = setpoint_api::Stored::new(header, object.to_string().into(), 1);
        Box::pin(ready(
            result.map(|()| Response::new(setpoint_api::Body::Object(Arc::new(stored)))),
        ))
    };
    let client = Client::new(Arc::new(serve), Arc::default());
    let request = BindRequest {
        cycle: Arc::new(CycleState::default()),
        pod: Arc::new(pod("p", "a")),
        node: "a".into(),
        observed: ResourceVersion(7),
        binding_client: client.clone(),
        events: setpoint_runtime::events::recorder(client.clone(), Arc::new(ElapsedClock)).0,
        client,
        clock: Arc::new(ElapsedClock),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let result = runtime.block_on(post_binding(&request));
    assert_eq!(
        format!("{result:?}")
            .split('(')
            .take(2)
            .collect::<Vec<_>>()
            .join(" "),
        expected
    );
}

#[test]
fn a_lost_response_is_resolved_by_posting_the_same_binding_again() {
    let lost = || Err(Status::unavailable("the response was cut off"));
    let conflict = || {
        Err(Status::conflict(
            &setpoint_api::GroupResource::new("", "pods"),
            "p",
            "it has a node",
        ))
    };
    check(&[Ok(())], "", "Ok ");
    check(&[lost(), Ok(())], "", "Ok ");
    check(&[lost(), conflict()], "a", "Ok ");
    check(&[lost(), conflict()], "b", "Err Superseded)");
    check(&[conflict()], "a", "Err Superseded)");
    let node_conflict = || {
        let status = conflict().unwrap_err();
        Err(status.with_cause(NODE_CHANGED, "another scheduler was there"))
    };
    check(&[node_conflict()], "", "Err NodeChanged)");
    check(&[lost(), node_conflict()], "a", "Ok ");
    let forever: Vec<_> = (0..=RETRY_DELAYS.len()).map(|_| lost()).collect();
    check(&forever, "", "Err Failed");
}
