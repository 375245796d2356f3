//! Messages of CRI v1 and of containerd's events service, with the fields that the agent uses.
//!
//! The field numbers are those of [`api.proto`](https://github.com/kubernetes/cri-api/blob/master/pkg/apis/runtime/v1/api.proto).
//! Unknown fields are skipped by both sides, so a newer runtime does no harm. Enumerations are numbers, named by the
//! constants of [`values`].

pub(crate) mod container;
pub(crate) mod event;
pub(crate) mod image;
pub(crate) mod node;
pub(crate) mod sandbox;

/// Numbers of the enumerations.
pub(crate) mod values {
    pub(crate) const NAMESPACE_POD: i32 = 0;
    pub(crate) const NAMESPACE_CONTAINER: i32 = 1;
    pub(crate) const NAMESPACE_NODE: i32 = 2;
    pub(crate) const NAMESPACE_TARGET: i32 = 3;
    pub(crate) const SANDBOX_READY: i32 = 0;
    pub(crate) const CONTAINER_CREATED: i32 = 0;
    pub(crate) const CONTAINER_RUNNING: i32 = 1;
    pub(crate) const CONTAINER_EXITED: i32 = 2;
    pub(crate) const PROFILE_RUNTIME_DEFAULT: i32 = 0;
    pub(crate) const PROFILE_UNCONFINED: i32 = 1;
    pub(crate) const PROFILE_LOCALHOST: i32 = 2;
    pub(crate) const GROUPS_STRICT: i32 = 1;
    pub(crate) const PROTOCOL_TCP: i32 = 0;
    pub(crate) const PROTOCOL_UDP: i32 = 1;
    pub(crate) const PROTOCOL_SCTP: i32 = 2;

    /// Names of signals, in the order of their numbers in CRI; the first one leaves the choice to the runtime.
    pub(crate) const SIGNALS: &[&str] = &[
        "",
        "SIGABRT",
        "SIGALRM",
        "SIGBUS",
        "SIGCHLD",
        "SIGCLD",
        "SIGCONT",
        "SIGFPE",
        "SIGHUP",
        "SIGILL",
        "SIGINT",
        "SIGIO",
        "SIGIOT",
        "SIGKILL",
        "SIGPIPE",
        "SIGPOLL",
        "SIGPROF",
        "SIGPWR",
        "SIGQUIT",
        "SIGSEGV",
        "SIGSTKFLT",
        "SIGSTOP",
        "SIGSYS",
        "SIGTERM",
        "SIGTRAP",
        "SIGTSTP",
        "SIGTTIN",
        "SIGTTOU",
        "SIGURG",
        "SIGUSR1",
        "SIGUSR2",
        "SIGVTALRM",
        "SIGWINCH",
        "SIGXCPU",
        "SIGXFSZ",
        "SIGRTMIN",
        "SIGRTMIN+1",
        "SIGRTMIN+2",
        "SIGRTMIN+3",
        "SIGRTMIN+4",
        "SIGRTMIN+5",
        "SIGRTMIN+6",
        "SIGRTMIN+7",
        "SIGRTMIN+8",
        "SIGRTMIN+9",
        "SIGRTMIN+10",
        "SIGRTMIN+11",
        "SIGRTMIN+12",
        "SIGRTMIN+13",
        "SIGRTMIN+14",
        "SIGRTMIN+15",
        "SIGRTMAX-14",
        "SIGRTMAX-13",
        "SIGRTMAX-12",
        "SIGRTMAX-11",
        "SIGRTMAX-10",
        "SIGRTMAX-9",
        "SIGRTMAX-8",
        "SIGRTMAX-7",
        "SIGRTMAX-6",
        "SIGRTMAX-5",
        "SIGRTMAX-4",
        "SIGRTMAX-3",
        "SIGRTMAX-2",
        "SIGRTMAX-1",
        "SIGRTMAX",
    ];
}

/// A response or request without fields that the agent reads.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Empty {}

/// An optional number.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Int64Value {
    #[prost(int64, tag = "1")]
    pub(crate) value: i64,
}

/// An optional unsigned number.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct UInt64Value {
    #[prost(uint64, tag = "1")]
    pub(crate) value: u64,
}
