//! Floods of connections and watches.

use std::thread;
use std::time::Duration;

use setpoint_client::kubeconfig::Identity;
use setpoint_client::{Http, Kubeconfig};
use setpoint_conformance::wire::Request;

use super::ALICES;
use super::attack::Attack;
use crate::objects::{self, JSON};
use crate::soak::ALICE;

const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
const HALF_BODIES: usize = 700;
const IDLE: usize = 5_000;
const WATCHES: usize = 10_000;
const UNREAD_WATCHES: usize = 200;
const UNREAD_BYTES: usize = 50_000;
const HTTP2_WATCHES: usize = 2_000;
/// How long the watches of HTTP/2 are open before they are reset.
const HTTP2_OPEN: Duration = Duration::from_millis(500);

pub(super) fn half_bodies(attack: &Attack) {
    attack.hold(HALF_BODIES, |connection| {
        let request = connection.to_bytes(&Request::new("POST", REVIEWS).body(JSON, vec![b'{'; 1000]));
        request[..request.len() - 999].to_vec()
    });
}

pub(super) fn idle(attack: &Attack) {
    attack.hold(IDLE, |_| Vec::new());
}

pub(super) fn watches(attack: &Attack) {
    attack.hold(WATCHES, |connection| connection.to_bytes(&watch()));
}

pub(super) fn unread_watches(attack: &Attack) {
    let value = "x".repeat(UNREAD_BYTES);
    thread::scope(|scope| {
        scope.spawn(|| attack.hold(UNREAD_WATCHES, |connection| connection.to_bytes(&watch())));
        scope.spawn(|| {
            attack.repeat(2, |thread, number| {
                let name = format!("unread-{thread}");
                let map = objects::config_map(&name, &format!("{number}{value}"), false);
                match number {
                    0 => objects::post(&objects::collection(ALICES), &map),
                    _ => Request::new("PUT", &objects::path(ALICES, &name)).body(JSON, map.to_string()),
                }
            });
        });
    });
}

/// Watches on one connection of HTTP/2, which are reset and opened again.
pub(super) fn http2_watches(attack: &Attack) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let (Ok(runtime), Ok(http)) = (runtime, client(attack)) else {
        return attack.count("no client");
    };
    let path = watch().path;
    runtime.block_on(async {
        while !attack.is_stopped() {
            let mut watches = tokio::task::JoinSet::new();
            for _ in 0..HTTP2_WATCHES {
                let (http, path) = (http.clone(), path.clone());
                watches.spawn(async move { http.get(&path).await });
                attack.count("opened");
            }
            // The clock of the runtime: a watch that ends early is an error, counted by its code.
            let _ = tokio::time::timeout(HTTP2_OPEN, async {
                while let Some(Ok(ended)) = watches.join_next().await {
                    attack.count(ended.map_or_else(|status| status.code.to_string(), |_| "ended".to_owned()));
                }
            })
            .await;
        }
    });
}

fn client(attack: &Attack) -> anyhow::Result<Http> {
    let mut connection = Kubeconfig::read(&attack.kubeconfig)?.connection(None)?;
    connection.identity = Identity::Token(ALICE.to_owned());
    Ok(Http::new(&connection)?)
}

fn watch() -> Request {
    Request::new("GET", &format!("{}?watch=true", objects::collection(ALICES)))
}
