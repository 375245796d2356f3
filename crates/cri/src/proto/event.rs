//! Messages of event streams: CRI's own, and containerd's.

use super::sandbox::PodSandboxStatus;

/// An event of CRI.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ContainerEventResponse {
    #[prost(string, tag = "1")]
    pub(crate) container_id: String,
    #[prost(message, optional, tag = "4")]
    pub(crate) pod_sandbox_status: Option<PodSandboxStatus>,
}

/// Request for containerd's events.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct SubscribeRequest {
    #[prost(string, repeated, tag = "1")]
    pub(crate) filters: Vec<String>,
}

/// An event of containerd.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Envelope {
    #[prost(string, tag = "2")]
    pub(crate) namespace: String,
    #[prost(string, tag = "3")]
    pub(crate) topic: String,
    #[prost(message, optional, tag = "4")]
    pub(crate) event: Option<Any>,
}

/// A message with its type.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Any {
    #[prost(string, tag = "1")]
    pub(crate) type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) value: Vec<u8>,
}

/// The events of containerd about a task, as far as they agree.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct TaskEvent {
    #[prost(string, tag = "1")]
    pub(crate) container_id: String,
    #[prost(string, tag = "2")]
    pub(crate) process_id: String,
}
