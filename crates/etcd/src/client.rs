//! [`Client`]: calls to one of several members, with credentials.

use std::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    time::Duration,
};

use http::{HeaderName, HeaderValue};
use parking_lot::Mutex;
use prost::Message;
use setpoint_grpc::{Channel, Code, MessageSender, MessageStream, Metadata, Status};

use crate::{
    config::{Credentials, EtcdConfig},
    proto::{AuthenticateRequest, AuthenticateResponse, WatchRequest},
};

/// A client of the cluster.
#[derive(Debug)]
pub(crate) struct Client {
    channels: Vec<Channel>,
    /// Position of the member that is called next.
    current: AtomicUsize,
    /// Whether a member has served a call since the last warning. While none serves, every failed call moves on to the next
    /// member, and only the first of them is worth a warning.
    has_served: AtomicBool,
    credentials: Option<Credentials>,
    /// The token of the credentials.
    token: Mutex<Option<HeaderValue>>,
    pub(crate) timeout: Duration,
}

/// Makes a member reject a call while it knows of no leader, instead of waiting.
const REQUIRE_LEADER: &str = "hasleader";

impl Client {
    pub(crate) fn new(config: &EtcdConfig) -> Client {
        Client {
            channels: config.endpoints.iter().cloned().map(Channel::new).collect(),
            current: AtomicUsize::new(0),
            has_served: AtomicBool::new(true),
            credentials: config.credentials.clone(),
            token: Mutex::new(None),
            timeout: config.request_timeout,
        }
    }

    /// Calls a method that changes nothing, at another member if one does not respond.
    pub(crate) async fn read<Q: Message, A: Message + Default>(
        &self,
        method: &str,
        request: &Q,
        timeout: Duration,
    ) -> Result<A, Status> {
        self.call(method, request, timeout, |status| {
            status.code == Code::UNAVAILABLE || status.unsent
        })
        .await
    }

    /// Calls a method that may change something. It is sent once: another member is tried only while no connection could
    /// be made.
    pub(crate) async fn write<Q: Message, A: Message + Default>(
        &self,
        method: &str,
        request: &Q,
    ) -> Result<A, Status> {
        self.call(method, request, self.timeout, |status| status.unsent)
            .await
    }

    /// Opens a watch at the current member.
    pub(crate) async fn watch(
        &self,
        request: &WatchRequest,
    ) -> Result<(MessageSender, MessageStream), Status> {
        let position = self.current.load(Relaxed);
        let metadata = self.metadata(position).await?;
        let opening =
            self.channels[position].bidirectional_stream("etcdserverpb.Watch/Watch", request, metadata);
        let opened = match tokio::time::timeout(self.timeout, opening).await {
            Ok(opened) => opened,
            Err(_) => Err(Status::new(Code::DEADLINE_EXCEEDED, "context deadline exceeded")),
        };
        opened.inspect_err(|status| self.note_failure(position, status))
    }

    /// Calls another member from now on, as the last one failed.
    pub(crate) fn use_next(&self) {
        self.move_on(self.current.load(Relaxed));
    }

    async fn call<Q: Message, A: Message + Default>(
        &self,
        method: &str,
        request: &Q,
        timeout: Duration,
        may_repeat: impl Fn(&Status) -> bool,
    ) -> Result<A, Status> {
        let mut attempts = 0;
        let mut reauthenticated = false;
        loop {
            let position = self.current.load(Relaxed);
            let called = match self.metadata(position).await {
                Ok(metadata) => {
                    self.channels[position]
                        .unary(method, request, timeout, metadata)
                        .await
                }
                Err(status) => Err(status.into_unsent()),
            };
            let Err(status) = called else {
                self.has_served.store(true, Relaxed);
                return called;
            };
            self.note_failure(position, &status);
            attempts += 1;
            // A rejected token means that nothing was executed.
            if rejects_token(&status) && self.credentials.is_some() && !reauthenticated {
                reauthenticated = true;
                continue;
            }
            if attempts >= self.channels.len() || !may_repeat(&status) {
                return Err(status);
            }
        }
    }

    async fn metadata(&self, position: usize) -> Result<Metadata, Status> {
        let require_leader = (
            HeaderName::from_static(REQUIRE_LEADER),
            HeaderValue::from_static("true"),
        );
        let mut metadata = vec![require_leader];
        if let Some(token) = self.token(position).await? {
            metadata.push((HeaderName::from_static("token"), token));
        }
        Ok(metadata)
    }

    async fn token(&self, position: usize) -> Result<Option<HeaderValue>, Status> {
        let Some(Credentials { user, password }) = &self.credentials else {
            return Ok(None);
        };
        if let Some(token) = self.token.lock().clone() {
            return Ok(Some(token));
        }
        let request = AuthenticateRequest {
            name: user.clone(),
            password: password.clone(),
        };
        let method = "etcdserverpb.Auth/Authenticate";
        let response: AuthenticateResponse = self.channels[position]
            .unary(method, &request, self.timeout, Vec::new())
            .await?;
        let token = HeaderValue::from_str(&response.token)
            .map_err(|error| Status::new(Code::INTERNAL, error.to_string()))?;
        *self.token.lock() = Some(token.clone());
        Ok(Some(token))
    }

    fn note_failure(&self, position: usize, status: &Status) {
        match status.code {
            _ if rejects_token(status) => *self.token.lock() = None,
            Code::UNAVAILABLE | Code::DEADLINE_EXCEEDED => self.move_on(position),
            _ => {}
        }
    }

    /// Moves on from the member at `position`, unless another caller already has.
    fn move_on(&self, position: usize) {
        let next = (position + 1) % self.channels.len();
        let moved = self
            .current
            .compare_exchange(position, next, Relaxed, Relaxed)
            .is_ok();
        if !moved || next == position {
            return;
        }
        let (from, to) = (self.channels[position].endpoint(), self.channels[next].endpoint());
        match self.has_served.swap(false, Relaxed) {
            true => tracing::warn!(%from, %to, "calls of etcd go to another member"),
            false => tracing::debug!(%from, %to, "calls of etcd go to another member"),
        }
    }
}

/// Whether etcd has rejected the token of a call, so that another one has to be requested. A token of an older revision of
/// the users and roles is an invalid argument to etcd (upstream: `shouldRefreshToken`).
fn rejects_token(status: &Status) -> bool {
    const OLD_REVISION: &str = "etcdserver: revision of auth store is old";
    const NO_TOKEN: &str = "etcdserver: user name is empty";
    status.code == Code::UNAUTHENTICATED
        || status.code == Code::INVALID_ARGUMENT
            && [OLD_REVISION, NO_TOKEN].contains(&status.message.as_str())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tracing::{Level, subscriber, subscriber::Interest};

    use super::*;
    use crate::{
        config::TlsFiles,
        proto::{RangeRequest, RangeResponse},
    };

    #[track_caller]
    fn check(code: Code, message: &str, expected: bool) {
        assert_eq!(rejects_token(&Status::new(code, message)), expected);
    }

    #[test]
    fn a_token_that_etcd_does_not_know_or_that_is_too_old_is_replaced() {
        check(Code::UNAUTHENTICATED, "etcdserver: invalid auth token", true);
        let old = "etcdserver: revision of auth store is old";
        check(Code::INVALID_ARGUMENT, old, true);
        check(Code::INVALID_ARGUMENT, "etcdserver: user name is empty", true);
        check(Code::INVALID_ARGUMENT, "etcdserver: request is too large", false);
        check(Code::UNAVAILABLE, "etcdserver: no leader", false);
    }

    /// Counts the warnings that are logged.
    #[derive(Default)]
    struct Warnings(AtomicUsize);

    impl subscriber::Subscriber for Warnings {
        fn register_callsite(&self, _: &'static tracing::Metadata<'static>) -> Interest {
            Interest::sometimes()
        }

        fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
            *metadata.level() <= Level::WARN
        }

        fn event(&self, _: &tracing::Event<'_>) {
            self.0.fetch_add(1, Relaxed);
        }

        fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
            tracing::span::Id::from_u64(1)
        }

        fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
        fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
        fn enter(&self, _: &tracing::span::Id) {}
        fn exit(&self, _: &tracing::span::Id) {}
    }

    #[test]
    fn a_cluster_that_serves_no_call_is_one_warning_however_many_calls_fail() {
        let servers = ["http://127.0.0.1:1", "http://127.0.0.1:2"].map(str::to_owned);
        let client = Client::new(&EtcdConfig::new(&servers, &TlsFiles::default()).unwrap());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let request = RangeRequest::default();
        let call = || client.read::<_, RangeResponse>("etcdserverpb.KV/Range", &request, client.timeout);
        let warnings = Arc::new(Warnings::default());
        subscriber::with_default(warnings.clone(), || {
            for _ in 0..10 {
                assert_eq!(runtime.block_on(call()).unwrap_err().code, Code::UNAVAILABLE);
            }
            assert_eq!(warnings.0.load(Relaxed), 1);
            // The next outage is a warning again.
            client.has_served.store(true, Relaxed);
            runtime.block_on(call()).unwrap_err();
            assert_eq!(warnings.0.load(Relaxed), 2);
        });
    }
}
